//! Replays what fuzzing of record bytes has found so far: `fuzz/corpus/records_*/*`.

use std::fs;
use std::path::Path;

#[path = "../fuzz/records_entry_points.rs"]
mod records_entry_points;

fn replay(name: &str, entry_point: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut inputs = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        entry_point(&fs::read(file.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is not empty", corpus.display());
}

#[test]
fn inputs_of_iteration_do_no_harm() {
    replay("records_iterate", records_entry_points::iterate);
}

#[test]
fn inputs_of_validation_do_no_harm() {
    replay("records_validate", records_entry_points::validated);
}

#[test]
fn inputs_of_decompression_do_no_harm() {
    replay("records_decompress", records_entry_points::decompressed);
}
