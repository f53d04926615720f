//! Builds what is measured and what measures, and runs the one against the other.

use std::process::Command;

/// `cargo xtask bench`: everything about `ottla dev`. With arguments: `ottla-benches` with these.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    cargo(&["build", "--release", "-p", "ottla-console", "-p", "ottla-benches"])?;
    let measure = ["run", "--quiet", "--release", "-p", "ottla-benches", "--"];
    if !arguments.is_empty() {
        return cargo(&[&measure[..], arguments].concat());
    }
    // Deleted logs go at once, as the floor's do: page cache that grows all the time is slower.
    let broker = ["target/release/ottla", "dev", "--data", "{dir}", "--port", "21592"];
    let settings = ["--override", "log.segment.delete.delay.ms=0"];
    cargo(&[&measure[..], &["all", "--address", "127.0.0.1:21592", "--"], &broker, &settings].concat())
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}
