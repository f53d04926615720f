//! What the console tools share: a small runtime, and a way to show results.

use std::io::{self, Write};
use std::process::ExitCode;

use super::servers::fail;

/// Why a tool gives up; its text is all that is shown.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs a tool to its end on this thread: no tool is busy enough to earn a second one.
pub fn run(tool: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(error),
    };
    let outcome = runtime.block_on(tool);
    // What still runs, such as a look-up of a host name, is of no use to anyone.
    runtime.shutdown_background();
    outcome.unwrap_or_else(fail)
}

/// Shows results on standard output. A reader that has seen enough (`| head -1`) is not a failure.
pub fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// As [`print`], for what need not be text.
pub fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
