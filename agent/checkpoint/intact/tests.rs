use std::io::Write;

use safetensors::tensor::{Dtype, TensorView};

use super::*;

fn file(content: &[u8]) -> (File, u64) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    (file, content.len() as u64)
}

fn safetensors_file() -> Vec<u8> {
    let (first, second) = ([1; 64], [2; 32]);
    let tensors = [
        ("a", TensorView::new(Dtype::F32, vec![4, 4], &first).unwrap()),
        ("b", TensorView::new(Dtype::U8, vec![32], &second).unwrap()),
    ];
    safetensors::serialize(tensors, None).unwrap()
}

#[test]
fn a_safetensors_file_cut_at_any_byte_is_noticed() {
    let whole = safetensors_file();
    let (mut whole_file, bytes) = file(&whole);
    assert_eq!(cut_safetensors(&mut whole_file, bytes).unwrap(), None);
    for length in 0..whole.len() {
        let (mut cut, bytes) = file(&whole[..length]);
        assert!(cut_safetensors(&mut cut, bytes).unwrap().is_some(), "{length}");
    }
}

#[test]
fn the_cause_names_the_numbers() {
    let whole = safetensors_file();
    let (mut cut, bytes) = file(&whole[..whole.len() - 1]);
    let expected = format!("its header asks for {} bytes, it has {}", whole.len(), whole.len() - 1);
    assert_eq!(cut_safetensors(&mut cut, bytes).unwrap(), Some(expected));
    let (mut absurd, bytes) = file(&[0xff; 64]);
    let expected = format!("its header alone has {} bytes, it has 64", u64::MAX);
    assert_eq!(cut_safetensors(&mut absurd, bytes).unwrap(), Some(expected));
}

#[test]
fn types_of_the_future_are_left_alone() {
    let header = br#"{"__metadata__":{"format":"pt"},"w":{"dtype":"F2_X","shape":[9],"data_offsets":[0,2]}}"#;
    let mut content = (header.len() as u64).to_le_bytes().to_vec();
    content.extend(header);
    content.extend([0, 0]);
    let (mut whole, bytes) = file(&content);
    assert_eq!(cut_safetensors(&mut whole, bytes).unwrap(), None);
}

#[test]
fn a_zip_file_without_its_end_is_noticed_and_others_are_not_judged() {
    let mut whole = b"PK\x03\x04 some data".to_vec();
    whole.extend(b"PK\x05\x06");
    whole.extend([0; 18]);
    for length in 0..=whole.len() {
        let (mut cut, bytes) = file(&whole[..length]);
        let is_noticed = cut_zip(&mut cut, bytes).unwrap().is_some();
        assert_eq!(is_noticed, (4..whole.len()).contains(&length), "{length}");
    }
    let (mut pickle, bytes) = file(b"\x80\x02}q\x00.");
    assert_eq!(cut_zip(&mut pickle, bytes).unwrap(), None);
}
