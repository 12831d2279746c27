//! `thalweg completions`: what a shell needs to complete the command.

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use thalweg_connectors::unbuffered_stdout;

use super::{Ending, Failure, arguments::Arguments, output};

/// Prints the script for a shell.
pub fn completions(shell: Shell) -> Result<Ending, Failure> {
    let mut text = Vec::new();
    generate(shell, &mut Arguments::command(), "thalweg", &mut text);
    Ok(output::ending(output::write(&mut unbuffered_stdout()?, &text)?))
}
