//! What is stored, as changes of records: bytes by key.

use std::collections::BTreeMap;

use prost::Message as _;

/// One record that is set or removed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Change {
    /// Which: `w/NAME` a workload, `d/ID` a drain, `n/NUMBER` a decision, `t/NAME` a text.
    #[prost(string, tag = "1")]
    pub key: String,
    /// What it is now; `None`: it is removed.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub value: Option<Vec<u8>>,
}

/// Changes, oldest first.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Changes {
    /// The changes.
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<Change>,
}

/// All records, by key.
pub(super) type Records = BTreeMap<String, Vec<u8>>;

/// Decisions that lie in one object. At some 300 bytes each this is 80 kB.
const DECISIONS_PER_BUCKET: u64 = 256;
/// Objects with decisions; the oldest is used again.
const DECISION_BUCKETS: u64 = 16;
/// Most decisions kept.
pub(crate) const DECISIONS_MAX: u64 = DECISIONS_PER_BUCKET * (DECISION_BUCKETS - 1);
/// Objects over which all other records are spread. 50,000 workloads of 700 bytes are 550 kB in each.
const BUCKETS: u64 = 64;

/// The key of decision `number`: in the order of numbers.
pub(crate) fn decision_key(number: u64) -> String {
    format!("n/{number:020}")
}

fn decision_number(key: &str) -> Option<u64> {
    key.strip_prefix("n/")?.parse().ok()
}

/// The object in which the record `key` lies: the last part of its name.
pub(super) fn bucket_of(key: &str) -> String {
    match decision_number(key) {
        Some(number) => format!("n{:02}", number / DECISIONS_PER_BUCKET % DECISION_BUCKETS),
        None => format!("r{:02}", fnv(key) % BUCKETS),
    }
}

/// Makes `change` in the records of its bucket.
pub(super) fn apply(records: &mut Records, change: Change) {
    let Change { key, value } = change;
    // A bucket that is used again has lost what was in it before.
    if let Some(number) = decision_number(&key) {
        let first = decision_key(number / DECISIONS_PER_BUCKET * DECISIONS_PER_BUCKET);
        *records = records.split_off(&first);
    }
    match value {
        Some(value) => drop(records.insert(key, value)),
        None => drop(records.remove(&key)),
    }
}

/// Records as bytes.
pub(super) fn encode(records: &Records) -> Vec<u8> {
    let change =
        |(key, value): (&String, &Vec<u8>)| Change { key: key.clone(), value: Some(value.clone()) };
    Changes { changes: records.iter().map(change).collect() }.encode_to_vec()
}

/// FNV-1a, which is the same in every version: where a record lies must not depend on who looks.
fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Change {
        Change { key: key.to_owned(), value: Some(value.into()) }
    }

    #[test]
    fn records_lie_where_they_always_lay() {
        let keys = ["w/team/train", "d/drain-1", "t/frozen"];
        assert_eq!(keys.map(bucket_of), ["r31", "r08", "r62"]);
    }

    #[test]
    fn changes_come_back_the_same_and_the_last_one_counts() {
        let mut records = Records::new();
        let removed = Change { key: "w/b".to_owned(), value: None };
        for change in [set("w/a", "1"), set("w/b", "2"), set("w/a", "3"), removed] {
            apply(&mut records, change);
        }
        let expected = Records::from([("w/a".to_owned(), b"3".to_vec())]);
        assert_eq!(records, expected);
        let read = Changes::decode(encode(&records).as_slice()).unwrap();
        assert_eq!(read.changes, [set("w/a", "3")]);
    }

    #[test]
    fn a_bucket_of_decisions_that_is_used_again_is_emptied_first() {
        let round = DECISIONS_PER_BUCKET * DECISION_BUCKETS;
        assert_eq!(bucket_of(&decision_key(5)), bucket_of(&decision_key(5 + round)));
        let mut records = Records::new();
        for number in [5, 6, 5 + round, 5 + round, 6 + round] {
            apply(&mut records, set(&decision_key(number), "x"));
        }
        let left: Vec<&String> = records.keys().collect();
        assert_eq!(left, [&decision_key(5 + round), &decision_key(6 + round)]);
    }
}
