//! Schemas in, message code out: `crates/protocol/schemas/*.schema` become `crates/protocol/src/messages/*.rs`.

mod field;
mod messages;
pub mod schema;
mod structure;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use schema::Schema;

const SCHEMAS: &str = "crates/protocol/schemas";
const MESSAGES: &str = "crates/protocol/src/messages";

/// Writes the message code, or with `--check` only says whether the committed code is what the schemas ask for.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let messages = repository().join(MESSAGES);
    match arguments {
        [] => write(&messages, &generate()?),
        ["--check"] => check(),
        _ => Err("usage: cargo xtask codegen [--check]".to_owned()),
    }
}

/// Fails with the names of generated files that differ from what the schemas ask for.
pub fn check() -> Result<(), String> {
    let wanted = generate()?;
    let found = read_folder(&repository().join(MESSAGES), "rs")?;
    let stale: Vec<&str> = wanted
        .iter()
        .filter(|(name, text)| found.get(*name) != Some(text))
        .map(|(name, _)| name)
        .chain(found.keys().filter(|name| !wanted.contains_key(*name)))
        .map(String::as_str)
        .collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("{MESSAGES} is stale, run `cargo xtask codegen`: {}", stale.join(", ")))
}

/// Every schema of the repository by the stem of its file, such as `metadata`.
pub fn schemas() -> Result<BTreeMap<String, Schema>, String> {
    let texts = read_folder(&repository().join(SCHEMAS), "schema")?;
    let mut schemas = BTreeMap::new();
    for (name, text) in texts {
        let schema = schema::parse(&format!("{SCHEMAS}/{name}"), &text).map_err(|error| error.to_string())?;
        let stem = name.trim_end_matches(".schema").to_owned();
        schemas.insert(stem, schema);
    }
    Ok(schemas)
}

/// The formatted code by file name.
fn generate() -> Result<BTreeMap<String, String>, String> {
    let schemas = schemas()?;
    let mut files: BTreeMap<String, String> =
        schemas.iter().map(|(stem, schema)| (format!("{stem}.rs"), messages::module(stem, schema))).collect();
    files.insert("mod.rs".to_owned(), messages::table(&schemas)?);
    format(files)
}

/// Formats the files in a folder of their own, with one run of rustfmt that follows `mod.rs` to the others.
fn format(files: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let folder = repository().join(format!("target/codegen-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let formatted = write(&folder, &files).and_then(|()| {
        let rustfmt = Command::new("rustfmt")
            .args(["--edition", "2024", "--config-path"])
            .arg(repository().join("rustfmt.toml"))
            .arg(folder.join("mod.rs"))
            .output()
            .map_err(|error| format!("rustfmt: {error}"))?;
        if !rustfmt.status.success() {
            return Err(format!("rustfmt: {}", String::from_utf8_lossy(&rustfmt.stderr)));
        }
        read_folder(&folder, "rs")
    });
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    formatted
}

/// Makes the folder hold these files and no other Rust ones; a file that is right already keeps its time.
fn write(folder: &Path, files: &BTreeMap<String, String>) -> Result<(), String> {
    let found = read_folder(folder, "rs")?;
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    for name in found.keys().filter(|name| !files.contains_key(*name)) {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(|error| failed(&path, error))?;
    }
    for (name, text) in files.iter().filter(|(name, text)| found.get(*name) != Some(text)) {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn read_folder(folder: &Path, extension: &str) -> Result<BTreeMap<String, String>, String> {
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        if path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        files.insert(name.to_owned(), fs::read_to_string(&path).map_err(|error| failed(&path, error))?);
    }
    Ok(files)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository").to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_messages_are_what_the_schemas_ask_for() {
        if let Err(stale) = super::check() {
            panic!("{stale}");
        }
    }
}
