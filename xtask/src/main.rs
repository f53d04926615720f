//! Housekeeping of the repository: `cargo xtask codegen | tidy | bench`.

mod tidy;

use std::process::ExitCode;

use xtask::codegen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["codegen", rest @ ..] => codegen::run(rest),
        ["tidy"] => tidy::run(),
        _ => Err("usage: cargo xtask codegen [--check] | tidy".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
