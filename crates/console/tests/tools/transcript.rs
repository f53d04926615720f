//! Transcripts: command lines, and what they print.

use std::fmt::Write;
use std::path::Path;

use crate::cluster::Cluster;

/// Runs the command lines of a transcript against a new cluster, and compares what they print.
pub fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tools/transcripts/{name}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap();
    let cluster = Cluster::start();
    let mut happened = String::new();
    for line in expected.lines() {
        if line.starts_with('#') {
            let _ = writeln!(happened, "{line}");
        } else if let Some(command) = line.strip_prefix("$ ") {
            run(&cluster, command, &mut happened);
        }
    }
    if std::env::var_os("WRITE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, &happened).unwrap();
    }
    assert_eq!(happened, expected, "{}", path.display());
}

/// `tool word 'word with blanks' <<< 'input\n'`
fn run(cluster: &Cluster, command: &str, happened: &mut String) {
    let (line, input) = command.split_once(" <<< ").unwrap_or((command, ""));
    let words = words(line);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let input = input.trim_matches('\'').replace("\\n", "\n").replace("\\t", "\t");
    let output = cluster.run(&words, &input);
    let stdout = mask(&String::from_utf8(output.stdout).unwrap(), cluster);
    let stderr = mask(&String::from_utf8(output.stderr).unwrap(), cluster);
    let _ = writeln!(happened, "$ {command}");
    happened.push_str(&stdout);
    if !stdout.is_empty() && !stdout.ends_with('\n') {
        happened.push_str("[no newline]\n");
    }
    if let Some(first) = stderr.lines().next() {
        let _ = writeln!(happened, "! {first}");
    }
    match output.status.code() {
        Some(0) => {}
        Some(status) => {
            let _ = writeln!(happened, "[exit status {status}]");
        }
        None => panic!("{command} was killed: {:?}", output.status),
    }
}

fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// What is different in each run.
fn mask(text: &str, cluster: &Cluster) -> String {
    let mut text = text
        .replace(cluster.broker(), "$BROKER")
        .replace(cluster.zookeeper(), "$ZOOKEEPER")
        .replace(cluster.data().to_str().unwrap(), "$DATA");
    for (before, kind) in [
        ("TopicId: ", "id"),
        ("cluster ", "id"),
        ("\"id\":\"", "id"),
        ("CreateTime: ", "number"),
        ("CreateTime:", "number"),
        ("crc: ", "number"),
        ("producerId: ", "number"),
        ("\"timestamp\":\"", "number"),
        ("Zxid = 0x", "number"),
        ("ctime = ", "date"),
        ("mtime = ", "date"),
    ] {
        text = mask_after(&text, before, kind);
    }
    text
}

fn mask_after(text: &str, before: &str, kind: &str) -> String {
    let mut pieces = text.split(before);
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let belongs = |letter: char| match kind {
            "number" => letter.is_ascii_hexdigit(),
            "date" => letter != '\n',
            _ => letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'),
        };
        let end = piece.find(|letter| !belongs(letter)).unwrap_or(piece.len());
        masked.push_str(before);
        // A number that is not there, as -1, stays as it is.
        if end > 0 && (kind != "id" || end == 22) {
            let _ = write!(masked, "({kind})");
            masked.push_str(&piece[end..]);
        } else {
            masked.push_str(piece);
        }
    }
    masked
}
