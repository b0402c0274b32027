//! What is declared about checkpoints, and how far they were checked.

use sluice_core::checkpoint::{CheckpointFormat, CheckpointRules, Grade};

use super::{WireError, pb};

impl From<CheckpointFormat> for pb::CheckpointFormat {
    fn from(format: CheckpointFormat) -> Self {
        match format {
            CheckpointFormat::Auto => Self::Unspecified,
            CheckpointFormat::HuggingFace => Self::HuggingFace,
            CheckpointFormat::Rename => Self::Rename,
            CheckpointFormat::TorchDistributed => Self::TorchDistributed,
            CheckpointFormat::Megatron => Self::Megatron,
            CheckpointFormat::DeepSpeed => Self::DeepSpeed,
            CheckpointFormat::Orbax => Self::Orbax,
            CheckpointFormat::Lightning => Self::Lightning,
            CheckpointFormat::Generic => Self::Generic,
        }
    }
}

/// A checkpoint format from its number; unspecified means [`CheckpointFormat::Auto`].
///
/// # Errors
/// Where the number names no format.
pub fn format(value: i32) -> Result<CheckpointFormat, WireError> {
    let known = CheckpointFormat::ALL.into_iter();
    let found = known.map(|format| (i32::from(pb::CheckpointFormat::from(format)), format));
    let mut found = found.filter(|(number, _)| *number == value);
    let expected = "UNSPECIFIED (0) to GENERIC (8)";
    let format = found.next().map(|(_, format)| format);
    format.ok_or_else(|| WireError::new("checkpoint_format", value, expected))
}

impl From<&CheckpointRules> for pb::CheckpointRules {
    fn from(rules: &CheckpointRules) -> Self {
        let CheckpointRules { glob, marker, remote_dir } = rules.clone();
        Self { glob, marker, remote_dir }
    }
}

/// The rules declared for checkpoints of `format`; absent means none.
///
/// # Errors
/// Where one of them cannot be used.
pub fn rules(
    rules: Option<&pb::CheckpointRules>,
    format: CheckpointFormat,
) -> Result<CheckpointRules, WireError> {
    let pb::CheckpointRules { glob, marker, remote_dir } = rules.cloned().unwrap_or_default();
    let rules = CheckpointRules { glob, marker, remote_dir };
    let wrong = rules.check(format).err();
    match wrong {
        None => Ok(rules),
        Some(wrong) => {
            Err(WireError::new(wrong.field, wrong.value, wrong.expected).within("checkpoint_rules"))
        }
    }
}

impl From<Grade> for pb::CheckpointGrade {
    fn from(grade: Grade) -> Self {
        match grade {
            Grade::Claimed => Self::Claimed,
            Grade::LocalComplete => Self::LocalComplete,
            Grade::GangComplete => Self::GangComplete,
            Grade::RemoteVerified => Self::RemoteVerified,
        }
    }
}

impl From<pb::CheckpointGrade> for Grade {
    /// Earlier versions said nothing, and meant what one agent saw.
    fn from(grade: pb::CheckpointGrade) -> Self {
        match grade {
            pb::CheckpointGrade::Claimed => Self::Claimed,
            pb::CheckpointGrade::Unspecified | pb::CheckpointGrade::LocalComplete => {
                Self::LocalComplete
            }
            pb::CheckpointGrade::GangComplete => Self::GangComplete,
            pb::CheckpointGrade::RemoteVerified => Self::RemoteVerified,
        }
    }
}
