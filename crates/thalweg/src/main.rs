//! The command `thalweg`: runs SQL over live streams.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
