#![no_main]

#[path = "../records_entry_points.rs"]
mod records_entry_points;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| records_entry_points::iterate(bytes));
