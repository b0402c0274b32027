use super::fixture::{generation, shape, table};
use super::*;

fn check(name: &str, topology: &str) -> Result<Extent, String> {
    let wanted = table().request(name, topology, Notation::NodeSelector);
    wanted.map(|wanted| wanted.extent).map_err(|error| error.to_string())
}

/// P1 of the facts, and P4: how much each takes.
#[test]
fn legal_shapes_of_ironwood_are_accepted() {
    let parts = ["2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"];
    for (part, topology) in parts.iter().enumerate() {
        assert_eq!(check("tpu7x", topology), Ok(Extent::Part(part)));
    }
    let wholes = [
        ("4x4x8", 2),
        ("4x4x12", 3),
        ("4x8x8", 4),
        ("8x8x8", 8),
        ("4x8x32", 16),
        ("16x24x24", 144),
    ];
    for (topology, cubes) in wholes {
        assert_eq!(check("tpu7x", topology), Ok(Extent::Cubes(cubes)));
    }
}

/// P2 and P3.
#[test]
fn illegal_shapes_of_ironwood_are_refused() {
    let texts =
        ["4x4x4x4", "4x4xa", "4x4x4x", "4x4x", "0x4x4", "", "4", "04x4x4", "-4x4x4", "4x1000"];
    for text in texts {
        let error = table().request("tpu7x", text, Notation::NodeSelector);
        assert!(matches!(error, Err(RequestError::Shape(_))), "{text}: {error:?}");
    }
    let shapes = [
        "4x4", "3x4x4", "8x4x4", "4x8x4", "2x4x2", "4x2x2", "1x2x2", "2x2x8", "4x4x6", "2x2x3",
        "16x24x28",
    ];
    for text in shapes {
        let error = table().request("tpu7x", text, Notation::NodeSelector);
        assert!(matches!(error, Err(RequestError::Illegal(_))), "{text}: {error:?}");
    }
}

#[test]
fn an_illegal_shape_is_told_with_what_is_legal_and_nearest() {
    let legal =
        "2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4, and multiples of 4 in ascending order up to 9216 chips";
    let cases = [
        ("2x4x2", "sides ascend; write 2x2x4", "2x2x4"),
        ("8x4x4", "sides ascend; write 4x4x8", "4x4x8"),
        ("4x4x6", "beyond a cube every side is a multiple of 4", "4x4x4 (smaller), 4x4x8 (larger)"),
        ("2x2x8", "beyond a cube every side is a multiple of 4", "2x2x4 (smaller), 4x4x8 (larger)"),
        (
            "3x4x4",
            "it is not a shape into which a cube or grid is cut",
            "2x4x4 (smaller), 4x4x4 (larger)",
        ),
        ("4x4", "it has 2 dimensions instead of 3", "2x2x1 (smaller), 2x4x4 (larger)"),
        (
            "16x24x28",
            "its 10752 chips are more than the 9216 of the largest slice",
            "16x24x24 (smaller)",
        ),
    ];
    for (asked, why, nearest) in cases {
        let expected = format!(
            "tpu7x has no slice of the shape {asked}: {why}; legal: {legal}; nearest: {nearest}"
        );
        assert_eq!(check("tpu7x", asked), Err(expected));
    }
}

#[test]
fn grids_have_listed_shapes_only() {
    assert_eq!(check("tpu-v6e-slice", "4x8"), Ok(Extent::Part(4)));
    let legal = "1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16";
    let cases = [
        ("8x4", "sides ascend; write 4x8", "4x8"),
        (
            "4x16",
            "it is not a shape into which a cube or grid is cut",
            "4x8 (smaller), 8x16 (larger)",
        ),
        ("16x32", "its 512 chips are more than the 256 of the largest slice", "16x16 (smaller)"),
        ("2x2x2", "it has 3 dimensions instead of 2", "2x2 (smaller)"),
    ];
    for (asked, why, nearest) in cases {
        let expected = format!(
            "v6e has no slice of the shape {asked}: {why}; legal: {legal}; nearest: {nearest}"
        );
        assert_eq!(check("v6e", asked), Err(expected));
    }
}

#[test]
fn older_cubes_take_sides_in_any_order_and_newer_have_their_own_limit() {
    let wanted = table().request("v4", "8x4x4", Notation::NodeSelector).expect("legal");
    assert_eq!((wanted.shape, wanted.extent), (shape("4x4x8"), Extent::Cubes(2)));
    assert_eq!(check("tpu-v5p-slice", "16x16x24"), Ok(Extent::Cubes(96)));
    assert!(check("v5p", "16x20x20").is_err_and(|e| e.contains("more than the 6144")));
}

/// P8.
#[test]
fn slices_of_generations_without_dynamic_slicing_are_refused_at_once() {
    let error = table().request("tpu-v5p-slice", "4x4x4", Notation::SliceAnnotation);
    let dynamic = vec!["tpu7x".to_owned()];
    assert_eq!(error, Err(RequestError::NotDynamic { generation: "v5p".to_owned(), dynamic }));
    let error = table().request("nvidia-l4", "4x4x4", Notation::SliceAnnotation);
    assert_eq!(
        error.map_err(|e| e.to_string()),
        Err("there is no TPU generation \"nvidia-l4\"; known are v4, v5p, v6e, tpu7x".to_owned())
    );
    let wanted = table().request("Ironwood", "4x4x4", Notation::SliceAnnotation);
    assert_eq!(wanted.map(|w| w.generation), Ok("tpu7x".to_owned()));
}

/// P4 and P5.
#[test]
fn pods_have_to_fill_a_slice() {
    let v7x = generation("tpu7x");
    for (topology, pods, chips) in [
        ("4x4x8", 32, 4),
        ("4x8x8", 64, 4),
        ("8x8x8", 128, 4),
        ("2x2x2", 2, 4),
        ("4x4x12", 48, 4),
        ("4x4x12", 96, 2),
        ("4x4x8", 128, 1),
    ] {
        assert_eq!(v7x.check_pods(shape(topology), pods, chips), Ok(()), "{topology} {pods}");
    }
    let error = v7x.check_pods(shape("2x2x2"), 3, 4).map_err(|e| e.to_string());
    let expected = "3 pods of 4 chips do not fill 2x2x2 with its 8 chips; use 2 pods";
    assert_eq!(error, Err(expected.to_owned()));
    assert!(v7x.check_pods(shape("4x4x8"), 16, 4).is_err());
    assert!(v7x.check_pods(shape("2x2x2"), 1, 8).is_err());
    assert!(v7x.check_pods(shape("2x2x2"), 1, 0).is_err());
}

/// P6.
#[test]
fn accelerator_types_count_cores() {
    let v7x = generation("tpu7x");
    let types = ["2x2x2", "4x4x4", "4x4x8"].map(|text| v7x.accelerator_type(shape(text)));
    assert_eq!(types, ["tpu7x-16", "tpu7x-128", "tpu7x-256"]);
}

#[test]
fn parts_of_a_cube_are_meshes_and_whole_cubes_are_tori() {
    let (v7x, v6e) = (generation("tpu7x"), generation("v6e"));
    assert_eq!(v7x.rings(shape("2x4x4")), [false; 3]);
    assert_eq!(v7x.rings(shape("4x4x8")), [true; 3]);
    assert_eq!(v6e.rings(shape("8x16")), [false, true]);
    let twistable = ["4x4x8", "4x8x8", "8x8x16", "12x24x24"];
    assert!(twistable.iter().all(|text| v7x.is_twistable(shape(text))));
    assert!(
        !["4x4x4", "8x8x8", "2x2x4", "4x8x16"].iter().any(|text| v7x.is_twistable(shape(text)))
    );
    assert!(!v6e.is_twistable(shape("8x16")));
}

#[test]
fn a_table_that_contradicts_itself_is_refused() {
    let broken = Generation { shapes: vec![shape("4x4x4"), shape("2x2x1")], ..generation("tpu7x") };
    let error = Table::new(vec![broken]).map_err(|e| e.to_string());
    let expected = "generation \"tpu7x\": shapes or hosts do not ascend in chips";
    assert_eq!(error, Err(expected.to_owned()));
    let flat = Generation { fabric: Fabric::Grid, ..generation("tpu7x") };
    assert!(Table::new(vec![flat]).is_err());
}
