//! Against `java.util.Properties` itself: what it read and wrote is kept in `golden/`.

use ottla_properties::{Malformed, escape_key, escape_value, parse, store};
use proptest::prelude::*;

/// The rows of a golden file: name, input, answer.
fn rows(file: &str) -> impl Iterator<Item = (&str, Vec<u8>, &str)> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split(" | ");
        let mut cell = || cells.next().expect("three cells in each row");
        (cell(), bytes(cell()), cell())
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim_matches('-').as_bytes();
    let digit = |d: u8| char::from(d).to_digit(16).expect("hexadecimal") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn text(hex: &str) -> String {
    String::from_utf8(bytes(hex)).expect("golden entries are UTF-8")
}

#[test]
fn files_are_read_as_java_reads_them() {
    let mut seen = 0;
    for (case, input, answer) in rows(include_str!("golden/load.txt")) {
        let ours = parse(&input).map(|properties| {
            properties.entries().iter().map(|e| (e.key.clone(), e.value.clone())).collect::<Vec<_>>()
        });
        match answer {
            "error" => assert!(ours.is_err(), "{case}: read as {ours:?}"),
            "nothing" => assert_eq!(ours, Ok(vec![]), "{case}"),
            entries => {
                let java: Vec<_> = entries
                    .split(' ')
                    .map(|entry| entry.split_once('=').map(|(k, v)| (text(k), text(v))).expect("key=value"))
                    .collect();
                assert_eq!(ours, Ok(java), "{case}");
            }
        }
        seen += 1;
    }
    assert!(seen > 80);
}

#[test]
fn entries_are_written_as_java_writes_them() {
    for (case, input, line) in rows(include_str!("golden/store.txt")) {
        let word = String::from_utf8(input).expect("golden words are UTF-8");
        assert_eq!(format!("{}={}", escape_key(&word), escape_value(&word)), text(line), "{case}");
    }
}

#[test]
fn half_a_surrogate_pair_is_refused_with_its_line() {
    // The one file Java reads and we do not: its string could not even be printed.
    let error = parse(b"a=b\n\nc=\\\n  \\uD83Dx\n").expect_err("no text can hold it");
    assert_eq!((error.line, error.reason), (3, Malformed::UnpairedSurrogate(0xd83d)));
}

#[test]
fn entries_know_the_line_they_start_on() {
    let file = b"# comment\r\n\r\na=1,\\\r\n  2\r\n\\\nb=3\rc=4\n\n\n!\nd=5\\\n";
    let lines: Vec<_> = parse(file)
        .expect("well-formed")
        .entries()
        .iter()
        .map(|e| (e.key.clone(), e.value.clone(), e.line))
        .collect();
    let entry = |key: &str, value: &str, line| (key.to_owned(), value.to_owned(), line);
    assert_eq!(lines, [entry("a", "1,2", 3), entry("b", "3", 6), entry("c", "4", 7), entry("d", "5", 11)]);
}

#[test]
fn the_last_of_several_entries_counts() {
    let properties = parse(b"a=1\nb=2\na=3\n").expect("well-formed");
    assert_eq!(properties.get("a"), Some("3"));
    assert_eq!(properties.entry("a").map(|entry| entry.line), Some(3));
    assert_eq!(properties.get("c"), None);
    assert_eq!(properties.entries().len(), 3, "and the overridden one is still to be seen");
}

#[test]
fn meta_properties_look_like_kafkas() {
    let written = store("", 1_700_000_000_000, [("version", "0"), ("cluster.id", "vPeOCWypqUOSepEvx0cbog")]);
    assert_eq!(written, "#\n#Tue Nov 14 22:13:20 UTC 2023\nversion=0\ncluster.id=vPeOCWypqUOSepEvx0cbog\n");
}

proptest! {
    #[test]
    fn what_is_stored_is_read_back(entries: Vec<(String, String)>, comment: String, now in 0i64..1 << 48) {
        let written = store(&comment, now, entries.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        // The comment is free text; only entries must survive, whatever it holds.
        let read = parse(written.as_bytes()).expect("our own file");
        let read: Vec<_> = read.entries().iter().map(|e| (e.key.clone(), e.value.clone())).collect();
        prop_assert_eq!(read, entries);
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_lose_its_line(file: Vec<u8>) {
        let line_ends = file.iter().filter(|&&b| b == b'\n' || b == b'\r').count();
        match parse(&file) {
            Ok(properties) => {
                let lines: Vec<_> = properties.entries().iter().map(|e| e.line).collect();
                prop_assert!(lines.is_sorted());
                prop_assert!(lines.iter().all(|&line| line >= 1 && line <= line_ends + 1));
            }
            Err(error) => prop_assert!(error.line >= 1 && error.line <= line_ends + 1),
        }
    }
}
