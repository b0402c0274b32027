use expect_test::expect;

use super::*;
use crate::paint::{good, resolve};

#[test]
fn columns_align_whatever_their_colours() {
    let rows = [
        vec!["a".to_owned(), good("Healthy"), "x".to_owned()],
        vec!["longer-name".to_owned(), "Unknown".to_owned(), String::new()],
    ];
    let text = columns(&["NAME", "HEALTH", "LAST"], &rows);
    expect![[r#"
        NAME          HEALTH    LAST
        a             Healthy   x
        longer-name   Unknown
    "#]]
    .assert_eq(&resolve(&text, false));
    assert_eq!(columns(&["NAME"], &[]), "");
}

#[test]
fn sheets_have_fields_and_sections() {
    let mut sheet = Sheet::new();
    sheet.field("Name", "a").field("Queue", "default").optional("Drain", None);
    sheet.section("Ranks").table(&["RANK", "NODE"], &[vec!["0".to_owned(), "n".to_owned()]]);
    sheet.section("Drains").table(&["ID"], &[]);
    sheet.section("More").field("Key", "value");
    expect![[r#"
        Name:   a
        Queue:  default

        Ranks
          RANK   NODE
          0      n

        Drains
          none

        More
          Key:  value
    "#]]
    .assert_eq(&resolve(&sheet.finish(), false));
}
