use super::*;

#[test]
fn the_strip_shows_who_holds_what() {
    let device = |node: &str, id: &str| Device { node: node.to_owned(), id: id.to_owned() };
    let devices = [device("a", "a-0"), device("a", "a-1"), device("b", "b-0"), device("b", "b-1")];
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    let holders = BTreeMap::from([
        ("a-0".to_owned(), set(&["serve-2/1/0"])),
        ("b-0".to_owned(), set(&["finetune/2/1", "serve-1/1/0"])),
        ("b-1".to_owned(), set(&["finetune/2/1"])),
    ]);
    let plain = |devices: &[Device]| paint::resolve(&strip(devices, &holders), false);
    assert_eq!(plain(&devices), "a [S2 ..]  b [T1+S1 T1]");
    assert_eq!(plain(&[]), "");
}
