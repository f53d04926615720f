//! The `ottla` program: the broker, the development ZooKeeper, both at once, and every console tool.
//!
//! One binary in the manner of busybox: `ottla kafka-topics --list` and a link named `kafka-topics` to the binary
//! do the same. The scripts in `bin/` only find the binary and name the tool.

mod commands;
mod logging;

use std::path::Path;
use std::process::ExitCode;

use commands::COMMANDS;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The allocator's arenas sit in huge pages where the system gives them, and an idle broker then holds 10 MB for 2 MB in
    // use. A system that cannot be asked for small pages is no reason not to run.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let mut arguments: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let called_as = arguments.first().map_or("", String::as_str);
    let called_as = Path::new(called_as).file_stem().and_then(|name| name.to_str()).unwrap_or("");
    let by_link = COMMANDS.iter().find(|command| command.name == called_as);
    if by_link.is_none() && !arguments.is_empty() {
        arguments.remove(0);
    }
    let name = arguments.first().map_or("", String::as_str);
    match by_link.or_else(|| COMMANDS.iter().find(|command| command.name == name)) {
        Some(command) => (command.run)(arguments),
        None => usage(name),
    }
}

fn usage(asked: &str) -> ExitCode {
    let wanted = matches!(asked, "help" | "--help" | "-h");
    if matches!(asked, "version" | "--version" | "-V") {
        println!("ottla {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let mut text = String::new();
    if !wanted && !asked.is_empty() {
        text.push_str(&format!("ottla: there is no command \"{}\"\n\n", asked.escape_debug()));
    }
    text.push_str("USAGE: ottla COMMAND [OPTION]...\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:26} {}\n", command.name, command.about));
    }
    text.push_str("\nottla COMMAND --help tells the options of a command.\n");
    if wanted {
        print!("{text}");
        ExitCode::SUCCESS
    } else {
        eprint!("{text}");
        ExitCode::FAILURE
    }
}
