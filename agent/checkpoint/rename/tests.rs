use super::*;

fn check(name: &str, step: Option<u64>, is_temporary: bool) {
    let name = OsStr::new(name);
    assert_eq!((step_of(name), super::is_temporary(name)), (step, is_temporary), "{name:?}");
}

#[test]
fn the_last_number_before_the_extensions_is_the_step() {
    check("100", Some(100), false);
    check("step-100", Some(100), false);
    check("iter_0000100", Some(100), false);
    check("ckpt-100.pt", Some(100), false);
    check("epoch=3-step=1200.ckpt", Some(1200), false);
    check("epoch=3.5-step=1200.ckpt", Some(1200), false);
    check("step-10.tar.gz", Some(10), false);
    check("model.v2-step10.safetensors", Some(10), false);
    check("18446744073709551615", Some(u64::MAX), false);
}

#[test]
fn names_without_a_step_at_the_end_are_none() {
    for name in [
        "",
        "model.pt",
        "100-steps",
        "18446744073709551616",
        "video.mp4",
        "x.template",
        "x.tmpl",
        "log-9.txt",
        ".7",
    ] {
        check(name, None, false);
    }
}

#[test]
fn temporary_names_have_no_final_step() {
    for name in [
        "step-10.tmp",
        "step-10.pt.tmp123",
        "tmp-step-10",
        "tmp_10",
        "step-10.partial",
        "10.orbax-checkpoint-tmp-7",
        "step-10-unfinished",
        "step-10.pt.part",
        "step-10~",
        "a.incomplete",
        ".tmpXyZ10",
        "step-10.tmp7",
        "step-10_tmp",
        ".tmpXyZ10",
        "step-10.tmp7",
        "step-10_tmp",
    ] {
        check(name, None, true);
    }
    for (name, step) in
        [("tmp-step-10", Some(10)), ("10.orbax-checkpoint-tmp-7", Some(10)), ("a.tmp", None)]
    {
        assert_eq!(temporary_step_of(OsStr::new(name)), step, "{name}");
    }
}
