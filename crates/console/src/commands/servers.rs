//! What the commands that run servers share: a runtime, signals, and a way to fail.

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::logging;

/// Reads the options of a command, serves until it is asked to stop, and tells the shell how it went.
pub fn run<O: Parser, E: Display>(
    arguments: Vec<String>,
    serve: impl FnOnce(&O) -> Result<StopSignal, E>,
) -> ExitCode {
    let options = match O::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => return super::usage(&error),
    };
    logging::to_stdout();
    match serve(&options) {
        Ok(signal) => signal.exit_code(),
        Err(reason) => fail(reason),
    }
}

/// A runtime for servers: a worker per core.
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// What a process is asked to end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM, as the stop scripts send it.
    Terminate,
    /// SIGINT, as a terminal sends it at Ctrl-C.
    Interrupt,
}

impl StopSignal {
    /// What a shell reports of a process that ended by the signal, and what Kafka's own processes exit with.
    pub fn exit_code(self) -> ExitCode {
        match self {
            StopSignal::Terminate => ExitCode::from(143),
            StopSignal::Interrupt => ExitCode::from(130),
        }
    }
}

/// The process's stop signals, from its making on: none that comes later is missed.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub fn listen() -> std::io::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.terminate.recv() => StopSignal::Terminate,
            _ = self.interrupt.recv() => StopSignal::Interrupt,
        }
    }
}

/// Resolves when the process is asked to end.
pub async fn asked_to_stop() -> std::io::Result<StopSignal> {
    Ok(StopSignals::listen()?.next().await)
}

/// Says on standard error why a command cannot go on.
pub fn fail(reason: impl Display) -> ExitCode {
    eprintln!("{reason}");
    ExitCode::FAILURE
}
