//! One volume read by several nodes: only who sees all of them can tell a volume that is shared out from a machine that is
//! at its limit, and say who takes most.

use super::{Finding, MIB_BYTES, Mib};

/// Below this a node does not count as a reader. Unit: bytes a second.
const READER_BYTES_PER_SECOND: u64 = MIB_BYTES;

/// One node and what it takes of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The node.
    pub node: String,
    /// Reads and writes. Unit: bytes a second.
    pub bytes_per_second: u64,
    /// Its agent finds that the volume gives no more.
    pub is_at_volume_limit: bool,
}

/// What all nodes together take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Together. Unit: bytes a second.
    pub bytes_per_second: u64,
    /// Nodes that read anything worth mentioning.
    pub active_readers: u64,
    /// Who takes most and that the volume is shared out; `None` where it is not.
    pub finding: Option<Finding>,
}

/// Sums what `readers` take of one volume.
///
/// A volume is shared out if at least two read it and at least one finds that it gives no more. Of nodes that take the same
/// the first by name is named.
#[must_use]
pub fn share(readers: &[Reader]) -> Share {
    let sum = readers.iter().map(|reader| reader.bytes_per_second).fold(0, u64::saturating_add);
    let active = readers.iter().filter(|reader| reader.bytes_per_second >= READER_BYTES_PER_SECOND);
    let active_readers = u64::try_from(active.count()).unwrap_or(u64::MAX);
    let is_shared_out =
        active_readers >= 2 && readers.iter().any(|reader| reader.is_at_volume_limit);
    let most = readers.iter().max_by(|a, b| {
        a.bytes_per_second.cmp(&b.bytes_per_second).then_with(|| b.node.cmp(&a.node))
    });
    let finding = most.filter(|_| is_shared_out).map(|most| {
        let percent = u128::from(most.bytes_per_second) * 100 / u128::from(sum.max(1));
        Finding::VolumeSharedOut {
            readers: active_readers,
            rate: Mib(sum / MIB_BYTES),
            node: most.node.clone(),
            percent: u64::try_from(percent).unwrap_or(100),
        }
    });
    Share { bytes_per_second: sum, active_readers, finding }
}

#[cfg(test)]
mod tests {
    use super::{Finding, Mib, Reader, Share, share};

    fn reader(node: &str, mib: u64, is_at_volume_limit: bool) -> Reader {
        Reader { node: node.to_owned(), bytes_per_second: mib << 20, is_at_volume_limit }
    }

    #[test]
    fn volume_that_several_nodes_use_up_is_shared_out_and_names_who_takes_most() {
        let readers = [reader("a", 600, true), reader("b", 1_500, false), reader("c", 300, true)];
        let finding = Finding::VolumeSharedOut {
            readers: 3,
            rate: Mib(2_400),
            node: "b".to_owned(),
            percent: 62,
        };
        let expected =
            Share { bytes_per_second: 2_400 << 20, active_readers: 3, finding: Some(finding) };
        assert_eq!(share(&readers), expected);
    }

    #[test]
    fn one_reader_or_nobody_at_a_limit_shares_nothing_out() {
        let alone = [reader("a", 2_400, true), reader("b", 0, false)];
        assert_eq!((share(&alone).active_readers, share(&alone).finding), (1, None));
        let easy = [reader("a", 100, false), reader("b", 100, false)];
        assert_eq!((share(&easy).active_readers, share(&easy).finding), (2, None));
        assert_eq!(share(&[]), Share::default());
    }

    #[test]
    fn of_equals_the_first_by_name_is_named_in_any_order() {
        for nodes in [["a", "b"], ["b", "a"]] {
            let readers = nodes.map(|node| reader(node, 150, true));
            let Some(Finding::VolumeSharedOut { node, percent, .. }) = share(&readers).finding
            else {
                panic!("{readers:?}");
            };
            assert_eq!((node.as_str(), percent), ("a", 50));
        }
        let huge = Reader { bytes_per_second: u64::MAX, ..reader("a", 1, true) };
        assert_eq!(share(&[huge.clone(), huge]).bytes_per_second, u64::MAX);
    }
}
