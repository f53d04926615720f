//! What the commands that run servers share: a runtime, signals, and a way to fail.

use std::fmt::Display;
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// A runtime for servers: a worker per core.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Resolves when the process is asked to end: SIGTERM, as the stop scripts send it, or SIGINT from a terminal.
pub async fn asked_to_stop() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Says on standard error why a command cannot go on.
pub fn fail(reason: impl Display) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::FAILURE
}
