//! Checks that the map still matches the land.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Crates that decide: given the same inputs they must do the same, so nothing in them may reach for the
/// network, a runtime or a random number.
const DECIDING: &[&str] = &["log", "replica", "controller", "group", "transaction"];

/// What a deciding crate must not depend on outside its tests.
const ACTING: &[&str] =
    &["tokio", "rustix", "nix", "libc", "socket2", "zookeeper-client", "rand", "fastrand"];

/// Every complaint there is; the tree is tidy if there is none.
pub fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent directory")?;
    let mut complaints = Vec::new();
    map_and_land(root, &mut complaints)?;
    deciders_only_decide(root, &mut complaints)?;
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// ARCHITECTURE.md has one table row per crate, and no other rows.
fn map_and_land(root: &Path, complaints: &mut Vec<String>) -> Result<(), String> {
    let map: BTreeSet<String> = rows(&read(&root.join("ARCHITECTURE.md"))?).collect();
    let land = crates(root)?;
    for missing in land.difference(&map) {
        complaints.push(format!("ARCHITECTURE.md has no row for crates/{missing}"));
    }
    for stale in map.difference(&land) {
        complaints.push(format!("ARCHITECTURE.md has a row for crates/{stale}, which does not exist"));
    }
    Ok(())
}

/// The names in rows that begin with ``| `crates/NAME` |``.
fn rows(map: &str) -> impl Iterator<Item = String> + '_ {
    map.lines().filter_map(|line| {
        let rest = line.strip_prefix("| `crates/")?;
        rest.split_once('`').map(|(name, _)| name.to_owned())
    })
}

fn deciders_only_decide(root: &Path, complaints: &mut Vec<String>) -> Result<(), String> {
    for name in crates(root)?.iter().filter(|name| DECIDING.contains(&name.as_str())) {
        let manifest = read(&root.join("crates").join(name).join("Cargo.toml"))?;
        for dependency in dependencies(&manifest).filter(|dependency| ACTING.contains(dependency)) {
            complaints.push(format!("crates/{name} decides, but depends on {dependency}"));
        }
    }
    Ok(())
}

/// The names in the `[dependencies]` section of a manifest.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    section
        .take_while(|line| !line.trim_start().starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty()))
}

fn crates(root: &Path) -> Result<BTreeSet<String>, String> {
    let directory = root.join("crates");
    let entries = fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let named = entries.filter_map(Result::ok).filter(|entry| entry.path().join("Cargo.toml").is_file());
    Ok(named.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crate_rows_count_as_the_map() {
        let map =
            "# Map\n| crate | what |\n| `crates/model` | names |\nSee `crates/log`.\n| `crates/log` | x |\n";
        assert_eq!(rows(map).collect::<Vec<_>>(), ["model", "log"]);
    }

    #[test]
    fn only_real_dependencies_are_looked_at() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nbytes.workspace = true\ntokio = \"1\"\n\n\
            [dev-dependencies]\nrand = \"1\"\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["bytes", "tokio"]);
    }
}
