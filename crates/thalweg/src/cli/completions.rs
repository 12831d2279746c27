//! `thalweg completions`: what a shell needs to complete the command.

use std::io;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use super::{Ending, Failure, arguments::Arguments, output};

/// Prints the script for a shell.
pub fn completions(shell: Shell) -> Result<Ending, Failure> {
    let mut text = Vec::new();
    generate(shell, &mut Arguments::command(), "thalweg", &mut text);
    Ok(output::ending(output::write(&mut io::stdout(), &text)?))
}
