//! The binary `taffrail`: arguments, settings, telemetry, signals, and the composition of the roles.

mod broker;
mod cli;
mod commands_page;
mod console;
mod controller;
mod docs;
mod exit;
mod http;
mod metrics_page;
mod nodes;
mod options;
mod roles;
mod sockets;
mod stopping;
mod telemetry;
mod up;

use std::io::Write;
use std::process::ExitCode;

use crate::exit::Exit;
use crate::options::OptionsError;

fn main() -> ExitCode {
    let parsed = match cli::answer_shell() {
        Ok(true) => return Exit::Done.into(),
        Ok(false) => cli::parse(std::env::args_os().collect()),
        Err(error) => Err(error),
    };
    let exit = match parsed {
        Ok(cli) => cli.run(),
        Err(error) => {
            // Help and version are no mistakes, and go to standard output.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            Ok(exit)
        }
    };
    let exit = exit.unwrap_or_else(|error| {
        // The last words of a process that fails; nobody is left to tell if they cannot be written.
        let _ = writeln!(std::io::stderr(), "taffrail: {}", exit::told(&error));
        if error.is::<OptionsError>() { Exit::Usage } else { Exit::Failed }
    });
    exit.into()
}
