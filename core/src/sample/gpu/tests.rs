use super::{PciAddress, nvml_code};

#[test]
fn all_spellings_of_an_address_are_one_address() {
    let address = |text: &str| text.parse::<PciAddress>().map(|a| a.to_string());
    for text in [
        "PCI:0000:d8:00",
        "PCI:0000:d8:00.0",
        "00000000:D8:00.0",
        "0000:d8:00.0",
        "0000:d8:00",
        "d8:00.0",
    ] {
        assert_eq!(address(text), Ok("0000:d8:00.0".to_owned()), "{text}");
    }
    assert_eq!(address("PCI:0009:01:00"), Ok("0009:01:00.0".to_owned()));
    assert_eq!(address("10000:e1:00.0"), Ok("10000:e1:00.0".to_owned()));
    assert_eq!(address("0000:3b:1f.7"), Ok("0000:3b:1f.7".to_owned()));
    assert_eq!(
        "0000:d8:00.0".parse(),
        Ok(PciAddress { domain: 0, bus: 0xd8, device: 0, function: 0 })
    );
}

#[test]
fn what_is_no_address_is_refused_with_its_text() {
    for text in [
        "",
        "PCI:",
        "d8",
        "0000:d8:20.0",
        "0000:d8:00.8",
        "0000:d8:00.",
        "000000000:d8:00.0",
        "0000:1d8:00.0",
        "0:0000:d8:00.0",
        "0000:+8:00.0",
        "0000:d8:00.0 ",
        "0000:dü:00",
    ] {
        let error = text.parse::<PciAddress>().unwrap_err();
        let expected = format!("PCI address {text:?} is not of the form 0000:d8:00.0");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn functions_of_one_board_are_the_same_device() {
    let address = |text: &str| text.parse::<PciAddress>().unwrap();
    assert!(address("0000:d8:00.0").is_same_device(&address("0000:d8:00.1")));
    assert!(!address("0000:d8:00.0").is_same_device(&address("0001:d8:00.0")));
}

#[test]
fn codes_have_their_names() {
    let names = [0, 3, 9, 15, 16, 18, 25, 28, 29, 30, 999].map(nvml_code);
    let expected = [
        Some("success"),
        Some("not supported"),
        Some("driver not loaded"),
        Some("GPU is lost"),
        Some("reset required"),
        Some("library and driver version mismatch"),
        Some("argument version mismatch"),
        Some("GPU not found"),
        Some("invalid state"),
        None,
        Some("unknown error"),
    ];
    assert_eq!(names, expected);
}
