//! What may be asked of the command.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind, value_parser};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  thalweg run departures.sql                        run a script, rows as a table on a terminal
  thalweg run departures.sql --output csv > rows.csv
  thalweg run -c \"SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t (n, word)\"
  thalweg run tables.sql -c 'SELECT * FROM departures LIMIT 5'
  generate | thalweg run -c \"
      CREATE TABLE lines (word STRING) WITH ('connector' = 'stdin', 'format' = 'json');
      SELECT upper(word) AS word FROM lines\"
  thalweg explain departures.sql --dot | dot -Tsvg > plan.svg
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  thalweg explain departures.sql                    a tree of nodes for each query
  thalweg explain departures.sql --json             for programs
  thalweg explain departures.sql --dot | dot -Tsvg > plan.svg
  thalweg explain departures.sql --parallel         subqueries, instances and costs
  thalweg explain departures.sql --analyze --costs costs.json
  thalweg run departures.sql --costs costs.json     with instances in proportion to what was measured";

const CODES: &str = "\
Exit codes:
    0  all was done; also if the reader of the rows has left, as head does
    1  a query failed while it ran: a bad row, a full disk, too little memory
    2  the query or the arguments are wrong
   70  a mistake in Thalweg itself
  130  stopped by Ctrl-C

Environment:
  THALWEG_LOG  what is logged on standard error: error, warn (default), info, debug, trace, or thalweg_runtime=debug
  NO_COLOR     if set, no colours";

/// Runs SQL over live streams, with exact results in event time.
#[derive(Debug, Parser)]
#[command(
    name = "thalweg",
    version,
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{CODES}"),
    max_term_width = 110
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub task: Task,
}

/// What the command can do.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Runs SQL: each SELECT prints its rows, each INSERT fills its table.
    #[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{CODES}"))]
    Run(Run),
    /// Shows how queries would be run; with --analyze runs them, and shows how that went.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Prints the script that lets a shell complete this command.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// What to run, and how to show it.
#[derive(Args, Debug)]
pub struct Run {
    /// Where SQL comes from.
    #[command(flatten)]
    pub input: Input,
    /// How rows are written on standard output; by default a table on a terminal, else JSON lines.
    #[arg(long, short, value_enum)]
    pub output: Option<Format>,
    /// No status line and no summary on standard error.
    #[arg(long, short)]
    pub quiet: bool,
    /// How queries are divided.
    #[command(flatten)]
    pub parallel: Parallel,
}

/// How queries are divided into subqueries and instances.
#[derive(Args, Debug)]
pub struct Parallel {
    /// How many instances share the rows of what can be divided; by default as many as there are cores.
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub parallelism: Option<u16>,
    /// What is placed together; by default a node with a state and those without one behind it.
    #[arg(long, value_name = "STRATEGY", value_parser = ["subquery-cluster", "query-cluster", "operator-cluster"])]
    pub strategy: Option<String>,
    /// Measured costs of the queries, which then have instances in proportion. explain --analyze writes the file.
    #[arg(long, value_name = "FILE")]
    pub costs: Option<PathBuf>,
}

/// What to explain, and how.
#[derive(Args, Debug)]
pub struct Explain {
    /// Where SQL comes from.
    #[command(flatten)]
    pub input: Input,
    /// The parallel plan: subqueries, their instances, where rows come from, and what they cost.
    #[arg(long, long_help = PARALLEL)]
    pub parallel: bool,
    /// Runs each query to its end, or until Ctrl-C, and shows the parallel plan with what was measured; INSERT does insert.
    #[arg(long)]
    pub analyze: bool,
    /// How queries are divided.
    #[command(flatten)]
    pub placing: Parallel,
    /// Plans as JSON.
    #[arg(long)]
    pub json: bool,
    /// Plans as graphs in Graphviz's language.
    #[arg(long, conflicts_with = "json")]
    pub dot: bool,
}

/// What the columns of the parallel plan mean.
const PARALLEL: &str = "\
The parallel plan: subqueries, their instances, where rows come from, and what they cost.

  instances  how many share the rows
  workers    how many of the workers its work takes, where rows come as fast as workers and instances can take them
  rows       those that arrive, as a share of what all sources give
  ns/row     the time that a row which arrives takes in its nodes, and to be divided
             for those that follow: estimated, or measured by --analyze
  idle       the part of the instances' time that is unused where rows come as fast
             as the busiest can take them, if each had a processor of its own; with
             query-cluster, all instances of one number together";

/// Where SQL comes from: the file first, then the commands, each in its turn.
#[derive(Args, Debug)]
pub struct Input {
    /// A file of SQL. - is standard input, which is also read if nothing is given and it is not a terminal.
    #[arg(value_name = "FILE|-")]
    pub file: Option<String>,
    /// SQL to run, after that of the file.
    #[arg(long = "command", short, value_name = "SQL")]
    pub commands: Vec<String>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    Table,
    /// JSON lines: an object a row, ISO 8601 timestamps, null as null.
    Json,
    /// Comma-separated values after a line of column names; null is an empty field.
    Csv,
}

/// Ends the process: there is no SQL to run.
pub fn nothing_given(task: &str) -> ! {
    let mut command = Arguments::command();
    command.build();
    let task = command.find_subcommand_mut(task).expect("it was asked for, so it is there");
    task.error(ErrorKind::MissingRequiredArgument, "no SQL given: name a FILE, or - for standard input, or use -c SQL")
        .exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }
}
