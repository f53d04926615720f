//! Replays what fuzzing has found so far: `fuzz/corpus/<entry point>/*`.
//!
//! To hunt for more: `cargo +nightly fuzz run request`, in this crate's folder.

#[path = "../../fuzz/entry_points.rs"]
mod entry_points;

use std::fs;
use std::path::Path;

#[test]
fn nothing_that_fuzzing_found_gets_through() {
    for (name, entry_point) in [
        ("request", entry_points::request as fn(&[u8])),
        ("response", entry_points::response),
        ("data", entry_points::data),
    ] {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        let mut inputs = 0;
        for file in fs::read_dir(&corpus).unwrap() {
            entry_point(&fs::read(file.unwrap().path()).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{} is not empty", corpus.display());
    }
}
