//! The ConfigMaps that hold the state: what is in each.
//!
//! *Head* (`NAME-state`): the epoch, the number of the last commit, and the changes that are not yet in records. Writing it
//! is what makes a commit durable. *Records* (`NAME-state-rNN`, `-nNN`): everything else. *Parts* (`NAME-state-pE-C-I`):
//! changes of a commit that is too large for the head, which names how many there are.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::Message as _;

use super::log::{Changes, Records};
use super::state::StateError;

/// Version of the format. Raised when an older arbiter could not use it any more.
const VERSION: u64 = 1;
/// The label by which all of them are found, with what kind it is.
pub(super) const LABEL: &str = "sluice.dev/state";
/// The field with changes or records.
const CHANGES: &str = "changes";

/// What the head says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Epoch of the arbiter that wrote it.
    pub epoch: u64,
    /// Number of the commit, over all epochs.
    pub commit: u64,
    /// The arbiter's time. Unit: ms.
    pub last_now_ms: u64,
    /// Number of the next decision.
    pub next_sequence: u64,
    /// How many parts the changes of this commit are in; 0: they are in `changes`.
    pub parts: u64,
    /// Changes that are in no record yet.
    pub changes: Changes,
}

impl Head {
    /// As an object of this name and version.
    pub(super) fn to_object(&self, name: &str, version: Option<&str>) -> ConfigMap {
        let numbers = [
            ("version", VERSION),
            ("epoch", self.epoch),
            ("commit", self.commit),
            ("lastNowMs", self.last_now_ms),
            ("nextSequence", self.next_sequence),
            ("parts", self.parts),
        ];
        let numbers = numbers.iter().map(|(key, n)| ((*key).to_owned(), n.to_string()));
        let object = object(name, version, "head", self.changes.encode_to_vec());
        ConfigMap { data: Some(numbers.collect()), ..object }
    }

    /// From an object.
    ///
    /// # Errors
    /// It is none of ours, or of another version.
    pub(super) fn read(object: &ConfigMap) -> Result<Self, StateError> {
        let bad = |what: &str| StateError::Unreadable {
            object: name_of(object),
            why: format!("{what} is missing or makes no sense"),
        };
        let number = |key: &str| {
            let text = object.data.as_ref().and_then(|data| data.get(key));
            text.and_then(|text| text.parse::<u64>().ok()).ok_or_else(|| bad(key))
        };
        let version = number("version")?;
        if version != VERSION {
            return Err(StateError::Unreadable {
                object: name_of(object),
                why: format!("it has version {version}, and this arbiter reads version {VERSION}"),
            });
        }
        Ok(Self {
            epoch: number("epoch")?,
            commit: number("commit")?,
            last_now_ms: number("lastNowMs")?,
            next_sequence: number("nextSequence")?,
            parts: number("parts")?,
            changes: changes_in(object)?,
        })
    }
}

/// An object with changes or records. `kind`: `head`, `records` or `part`.
pub(super) fn object(name: &str, version: Option<&str>, kind: &str, bytes: Vec<u8>) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        resource_version: version.map(str::to_owned),
        labels: Some(BTreeMap::from([(LABEL.to_owned(), kind.to_owned())])),
        ..ObjectMeta::default()
    };
    let binary = BTreeMap::from([(CHANGES.to_owned(), ByteString(bytes))]);
    ConfigMap { metadata, binary_data: Some(binary), ..ConfigMap::default() }
}

/// The changes or records in an object.
///
/// # Errors
/// They cannot be read.
pub(super) fn changes_in(object: &ConfigMap) -> Result<Changes, StateError> {
    let bytes = object.binary_data.as_ref().and_then(|data| data.get(CHANGES));
    let bytes = bytes.map(|bytes| bytes.0.as_slice()).unwrap_or_default();
    Changes::decode(bytes)
        .map_err(|error| StateError::Unreadable { object: name_of(object), why: error.to_string() })
}

/// Records in an object.
///
/// # Errors
/// They cannot be read.
pub(super) fn records_in(object: &ConfigMap) -> Result<Records, StateError> {
    let changes = changes_in(object)?.changes;
    Ok(changes.into_iter().filter_map(|change| Some((change.key, change.value?))).collect())
}

pub(super) fn name_of(object: &ConfigMap) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::log::Change;
    use super::*;

    fn head() -> Head {
        let change = Change { key: "w/a".to_owned(), value: Some(vec![0, 255]) };
        Head {
            epoch: 3,
            commit: 70,
            last_now_ms: 1_700_000_000_000,
            next_sequence: 9,
            parts: 0,
            changes: Changes { changes: vec![change] },
        }
    }

    #[test]
    fn a_head_comes_back_the_same() {
        assert_eq!(Head::read(&head().to_object("s", Some("5"))), Ok(head()));
    }

    #[test]
    fn an_object_of_another_program_or_version_is_refused_with_its_name() {
        let mut object = head().to_object("s", None);
        object.data.as_mut().unwrap().insert("version".to_owned(), "2".to_owned());
        let why = Head::read(&object).unwrap_err().to_string();
        assert!(why.contains("\"s\"") && why.contains("version 2"), "{why}");
        object.data = None;
        let why = Head::read(&object).unwrap_err().to_string();
        assert!(why.contains("version is missing"), "{why}");
        let mut object = head().to_object("s", None);
        let torn = ByteString(vec![10, 200]);
        object.binary_data.as_mut().unwrap().insert(CHANGES.to_owned(), torn);
        assert!(matches!(Head::read(&object), Err(StateError::Unreadable { .. })));
    }
}
