//! Cases as text: streams with their rows, SQL, and what must come out.
//!
//! ```text
//! case late rows do not reopen a closed window
//! stream t (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
//! 0: 1 | 10                       partition 0 gives a row: its fields, separated by |; a bare number is seconds
//! 0: 13 | 20
//! 0: 2 | 30
//! 1: watermark 20                 partition 1 itself knows how far time has come
//! 1: idle
//! sql
//! SELECT window_start, sum(v) AS v FROM TUMBLE(t, ts, INTERVAL '10' SECOND) GROUP BY window_start
//! rows                            in this order; `rows in any order` where no order is promised; `rows folded` are
//!                                 those that the corrections of EMIT EAGER leave, without what becomes of them
//! 1970-01-01T00:00:00Z | 10
//! 1970-01-01T00:00:10Z | 20
//! late 1                          rows counted, where there are any: late, bad
//! ```
//!
//! `unbounded stream` declares a stream that is not known to end. Instead of rows, `error` is followed by the exact message, as
//! the command line shows it. Cases are separated by empty lines; `#` begins a comment. All combinations of batch sizes and
//! workers, some of them without incremental windows, half of them with state saved and loaded at random barriers, where key
//! groups change hands, at times all of them to fewer or more instances, must give the same, and so must a slack that is never used up; where the rows of instances come as they
//! arrive, or hardly wait for each other, the same rows.

use std::{collections::HashMap, fmt::Write, path::Path};

use rand::{SeedableRng, rngs::StdRng, seq::IndexedRandom};
use thalweg::{Engine, Query};

use crate::{
    fold::fold,
    script::{Item, Script, Scripts, instant},
    show, sim,
};

/// Batch sizes that every case is run with.
pub const BATCH_ROWS: [usize; 3] = [4096, 1, 7];
/// Numbers of workers that every case is run with.
pub const WORKERS: [usize; 4] = [1, 3, 8, 17];
/// What is placed together, of which every case is run with some.
pub const STRATEGIES: [&str; 3] = ["subquery-cluster", "query-cluster", "operator-cluster"];
/// In how many phases aggregates are computed.
pub const PHASES: [&str; 3] = ["auto", "two", "one"];

/// One case.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// The line on which it begins, counted from one.
    pub line: usize,
    declarations: String,
    scripts: HashMap<String, Script>,
    is_unbounded: bool,
    sql: String,
    /// Whether the rows' order is not promised.
    any_order: bool,
    /// Whether rows are looked at once corrections are put together.
    is_folded: bool,
    expected: Vec<String>,
    /// The lines before what is expected, word by word.
    head: Vec<String>,
}

/// Runs all cases of a file, in some ways or with `is_whole` in all; returns what went wrong, empty if nothing did. With `bless`, writes
/// what came out instead.
pub fn check_file(path: &Path, bless: bool, is_whole: bool) -> std::io::Result<(usize, String)> {
    let text = std::fs::read_to_string(path)?;
    let mut failures = String::new();
    let cases = match parse(&text) {
        Ok(cases) => cases,
        Err(message) => return Ok((0, format!("{}: {message}\n", path.display()))),
    };
    let mut blessed = leading_comment(&text);
    for case in &cases {
        let plain = variant(case, Merge::Ordered, (BATCH_ROWS[0], WORKERS[0], None));
        let Outcome { lines: golden, is_refused } = run(case, plain);
        if bless {
            write_case(&mut blessed, case, &golden);
        } else if golden != case.expected {
            report(&mut failures, path, case, plain, &case.expected, &golden);
            continue;
        }
        let any_order = sorted(golden.clone());
        // Nothing ran where the query was refused, so that there is nothing to vary.
        let variants = if is_whole { product(case) } else { matrix(case) };
        for variant in variants.into_iter().filter(|_| !is_refused) {
            let found = run(case, variant).lines;
            let (golden, found) = match !variant.merge.is_exact() && !case.is_ordered() {
                true => (&any_order, sorted(found)),
                false => (&golden, found),
            };
            if found != *golden {
                report(&mut failures, path, case, variant, golden, &found);
                break;
            }
        }
    }
    if bless {
        std::fs::write(path, blessed.trim_end().to_string() + "\n")?;
    }
    Ok((cases.len(), failures))
}

/// Runs all cases of a file that say nothing of EMIT with results that come out at once, in some ways; returns how many can be asked for
/// that, and what went wrong: rows that the corrections leave and that are not those of the case.
pub fn check_eager(path: &Path) -> std::io::Result<(usize, String)> {
    let (mut count, mut failures) = (0, String::new());
    let cases = parse(&std::fs::read_to_string(path)?).unwrap_or_default();
    let is_plain =
        |case: &&Case| !case.sql.contains("EMIT") && case.expected.first().is_none_or(|line| line != "error");
    for case in cases.iter().filter(is_plain) {
        let sql = format!("{} EMIT EAGER", case.sql.trim_end().trim_end_matches(';'));
        let eager = Case { sql, is_folded: true, ..case.clone() };
        let expected = sorted(case.expected.clone());
        for (batch_rows, workers, barriers) in [(4096, 1, None), (1, 3, Some(3)), (7, 8, None), (1, 1, Some(5))] {
            let variant = variant(case, Merge::Ordered, (batch_rows, workers, barriers));
            let Outcome { lines, is_refused } = run(&eager, variant);
            if is_refused {
                break;
            }
            count += usize::from(batch_rows == BATCH_ROWS[0]);
            let found = sorted(lines);
            if found != expected {
                report(&mut failures, path, &eager, variant, &expected, &found);
                break;
            }
        }
    }
    Ok((count, failures))
}

/// A way in which a case is run.
#[derive(Clone, Copy, Debug)]
struct Variant {
    batch_rows: usize,
    workers: usize,
    /// The seed of random barriers, at which state is saved and loaded, and key groups change hands.
    barriers: Option<u64>,
    /// In which order the rows of instances come, of which there are as many as workers.
    merge: Merge,
    /// What is placed together.
    strategy: &'static str,
    /// Whether aggregates are computed in two phases.
    phases: &'static str,
}

impl Variant {
    /// Whether what is around a row is found without looking at all rows of its window; not with some of the sizes.
    fn is_incremental(self) -> bool {
        !(self.batch_rows + self.workers).is_multiple_of(5)
    }

    /// In what joins look rows up.
    fn join_index(self) -> &'static str {
        ["auto", "skip-list"][(self.batch_rows + self.workers) / 2 % 2]
    }

    /// How rows get to the instances that have their keys.
    fn scatter(self) -> &'static str {
        ["auto", "selected"][(self.batch_rows + self.workers) % 2]
    }
}

/// A way to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merge {
    Ordered,
    /// A slack that nobody exceeds.
    LongSlack,
    /// A slack that whoever is not there at once exceeds.
    ShortSlack,
    Arrival,
}

impl Merge {
    /// Whether the rows have the order of one instance.
    fn is_exact(self) -> bool {
        matches!(self, Self::Ordered | Self::LongSlack)
    }

    fn settings(self) -> &'static str {
        match self {
            Self::Ordered => "SET 'merge' = 'ordered';",
            Self::LongSlack => "SET 'merge' = 'slack'; SET 'merge.slack' = '1 h';",
            Self::ShortSlack => "SET 'merge' = 'slack'; SET 'merge.slack' = '1 us';",
            Self::Arrival => "SET 'merge' = 'arrival';",
        }
    }
}

/// The rows in a batch, how many workers there are, and the seed of barriers.
type Sizes = (usize, usize, Option<u64>);

/// A way to run a case, which meets each strategy with some number of workers.
fn variant(case: &Case, merge: Merge, (batch_rows, workers, barriers): Sizes) -> Variant {
    let strategy = STRATEGIES[(case.line + workers / 4) % STRATEGIES.len()];
    let phases = PHASES[(case.line + workers) % PHASES.len()];
    Variant { batch_rows, workers, barriers, merge, strategy, phases }
}

/// All ways to run a case.
fn product(case: &Case) -> Vec<Variant> {
    let mut all = Vec::new();
    for merge in [Merge::Ordered, Merge::LongSlack, Merge::ShortSlack, Merge::Arrival] {
        for (batch_rows, workers) in BATCH_ROWS.into_iter().flat_map(|batch| WORKERS.map(|workers| (batch, workers))) {
            for (strategy, phases) in
                STRATEGIES.into_iter().flat_map(|strategy| PHASES.map(|phases| (strategy, phases)))
            {
                let variant = |barriers| Variant { batch_rows, workers, barriers, merge, strategy, phases };
                all.extend([None, Some((case.line * 31 + workers) as u64)].map(variant));
            }
        }
    }
    all.retain(|variant| variant.merge.is_exact() || case.is_divisible());
    all
}

/// So many of all ways are drawn for each case.
const DRAWN: usize = 2;

/// Some ways to run a case: each batch size with each number of workers, and each of both with and without barriers; each of the other
/// merges with some of them; and some that are drawn from all, so that the cases of a few files meet each value of each parameter with each of
/// each other. `THALWEG_SEED` draws others.
fn matrix(case: &Case) -> Vec<Variant> {
    let variant = |merge: Merge| move |sizes: Sizes| self::variant(case, merge, sizes);
    let each = |batch: usize| (0..WORKERS.len()).map(move |worker| (batch, worker));
    let pairs = (0..BATCH_ROWS.len()).flat_map(each);
    let ordered = pairs.map(|(batch, worker)| {
        let (rows, workers) = (BATCH_ROWS[batch], WORKERS[worker]);
        (rows, workers, ((batch + worker) % 2 == 1).then_some((rows * 31 + workers) as u64))
    });
    let arrival = [(4096, 2, None), (7, 2, Some(2)), (1, 5, None), (7, 5, Some(5))];
    let arrival = arrival.into_iter().filter(|_| case.is_divisible());
    let short_slack = [(4096, 3, Some(3)), (1, 8, None), (7, 2, None)];
    let short_slack = short_slack.into_iter().filter(|_| case.is_divisible());
    let long_slack = [(7, 3, None), (1, 5, Some(5))];
    // So many threads are much for a small case: a few of them will do.
    let many = (case.line % 32 == 1).then_some((7, 64, Some(64)));
    let exact = ordered.chain(many).map(variant(Merge::Ordered)).chain(long_slack.map(variant(Merge::LongSlack)));
    let mut some: Vec<Variant> =
        exact.chain(short_slack.map(variant(Merge::ShortSlack))).chain(arrival.map(variant(Merge::Arrival))).collect();
    let seed = std::env::var("THALWEG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0_u64);
    let mut random = StdRng::seed_from_u64(seed << 32 | case.line as u64);
    some.extend(product(case).sample(&mut random, DRAWN));
    some
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

impl Case {
    /// Whether the rows come in an order that the query asks for.
    fn is_ordered(&self) -> bool {
        let outermost = self.sql.chars().scan(0, |depth, c| {
            *depth += i32::from(c == '(') - i32::from(c == ')');
            Some(if *depth == 0 { c } else { ' ' })
        });
        // An order that a condition follows is that of a LAST JOIN.
        outermost.collect::<String>().rsplit_once("ORDER BY").is_some_and(|(_, rest)| !rest.contains(" ON "))
    }

    /// Whether the rows are the same if their order is not: a LIMIT passes the first.
    fn is_divisible(&self) -> bool {
        self.is_ordered() || !["LIMIT", "OFFSET"].iter().any(|word| self.sql.contains(word))
    }
}

/// What a case gives.
struct Outcome {
    /// Rows and counts; or the word `error`, and the error.
    lines: Vec<String>,
    /// Whether the query was refused before it ran.
    is_refused: bool,
}

fn run(case: &Case, variant: Variant) -> Outcome {
    let Variant { batch_rows, workers, barriers, merge, strategy, phases } = variant;
    let (incremental, scatter, index) = (variant.is_incremental(), variant.scatter(), variant.join_index());
    let mut scripts = Scripts::new(case.scripts.clone());
    if case.is_unbounded {
        scripts = scripts.unbounded();
    }
    if let Some(seed) = barriers {
        scripts = scripts.with_barriers(seed);
    }
    let mut engine = Engine::with_connectors(vec![std::sync::Arc::new(scripts)]);
    engine.reload_at_barriers();
    if let Some(seed) = barriers {
        engine.move_key_groups(sim::pick(seed));
    }
    // As little memory for rows on their way as so many instances need at the most.
    let memory = 96 * workers * workers;
    let settings = format!(
        "SET 'aggregate.phases' = '{phases}'; SET 'batch.rows' = '{batch_rows}'; SET 'parallelism' = '{workers}'; {}
         SET 'parallel.strategy' = '{strategy}'; SET 'exchange.memory' = '{memory} KiB';
         SET 'exchange.scatter' = '{scatter}'; SET 'over.incremental' = '{incremental}'; SET 'join.index' = '{index}'; {}",
        merge.settings(),
        case.declarations
    );
    if let Err(error) = engine.sql(&settings) {
        return Outcome { lines: vec![format!("error in the stream's declaration: {error}")], is_refused: true };
    }
    let query = engine.sql(&case.sql);
    let is_refused = query.is_err();
    let lines = match query.and_then(rows_of) {
        Ok((mut lines, counts)) => {
            if case.is_folded {
                lines = fold(lines).unwrap_or_else(|error| vec![format!("corrections are wrong: {error}")]);
            } else if case.any_order {
                lines.sort();
            }
            lines.extend(counts);
            lines
        }
        Err(error) => {
            let shown = thalweg::caret(&case.sql, &error);
            std::iter::once("error".to_string()).chain(shown.lines().map(|line| line.trim_end().to_string())).collect()
        }
    };
    Outcome { lines, is_refused }
}

fn rows_of(mut query: Query) -> thalweg::Result<(Vec<String>, Vec<String>)> {
    let mut lines = Vec::new();
    for batch in query.by_ref() {
        lines.extend(show::lines(&batch?)?);
    }
    let metrics = query.metrics();
    let counts = [("late", metrics.late_rows), ("bad", metrics.bad_rows)];
    let counted = counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what} {count}"));
    Ok((lines, counted.collect()))
}

fn report(out: &mut String, path: &Path, case: &Case, variant: Variant, expected: &[String], found: &[String]) {
    let block = |lines: &[String]| lines.iter().map(|line| format!("    {line}\n")).collect::<String>();
    let place = format!("{}:{}: {}", path.display(), case.line, case.name);
    writeln!(out, "{place}\n  with {variant:?}\n  expected\n{}  found\n{}", block(expected), block(found))
        .expect("a string takes all");
}

/// Reads all cases of a file.
fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    let mut section = "";
    let mut stream = String::new();
    for (number, line) in text.lines().enumerate() {
        let at = |message: String| format!("line {}: {message}", number + 1);
        if let Some(name) = line.strip_prefix("case ") {
            cases.push(Case { name: name.to_string(), line: number + 1, ..Case::default() });
            section = "case";
            cases.last_mut().expect("just pushed").head.push(line.to_string());
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        let word = line.split_whitespace().next().unwrap_or("");
        match (section, word) {
            ("case" | "stream", "stream" | "unbounded") => {
                let declared = line.trim_start_matches("unbounded ").trim_start_matches("stream ");
                case.is_unbounded |= word == "unbounded";
                stream = declared.split([' ', '(']).next().unwrap_or("").to_string();
                writeln!(case.declarations, "CREATE TABLE {declared} WITH ('connector' = 'script');")
                    .expect("a string");
                case.scripts.insert(stream.clone(), vec![Vec::new()]);
                section = "stream";
            }
            ("case" | "stream", "set") => {
                writeln!(case.declarations, "SET {};", &line[4..]).expect("a string takes all");
            }
            ("case" | "stream", "sql") => section = "sql",
            ("stream", _) if !word.is_empty() && !line.starts_with('#') => {
                let script = case.scripts.get_mut(&stream).ok_or_else(|| at("rows without a stream".into()))?;
                add_item(script, line).map_err(at)?;
            }
            ("sql", "rows" | "error") => {
                case.any_order = line.trim() == "rows in any order";
                case.is_folded = line.trim() == "rows folded";
                section = word;
                if word == "error" {
                    case.expected.push("error".to_string());
                }
                case.head.push(line.to_string());
                continue;
            }
            ("sql", _) => writeln!(case.sql, "{line}").expect("a string takes all"),
            ("rows" | "error", "") => section = "end",
            ("rows" | "error", _) => case.expected.push(line.trim_end().to_string()),
            _ => {}
        }
        if !matches!(section, "rows" | "error" | "end") {
            case.head.push(line.to_string());
        }
    }
    Ok(cases)
}

fn add_item(script: &mut Script, line: &str) -> Result<(), String> {
    let (partition, item) = line.split_once(':').ok_or("expected `partition: fields`")?;
    let partition: usize = partition.trim().parse().map_err(|_| format!("{partition:?} is no partition number"))?;
    while script.len() <= partition {
        script.push(Vec::new());
    }
    let item = item.trim();
    script[partition].push(match item.strip_prefix("watermark ") {
        Some(t) => Item::Watermark(instant(t.trim()).map_err(|error| error.to_string())?),
        None if item == "idle" => Item::Idle,
        None => Item::Row(item.split('|').map(|field| field.trim()).map(field).collect()),
    });
    Ok(())
}

/// `null` is null, and text in quotes may be empty or begin with a space.
fn field(text: &str) -> Option<String> {
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    (text != "null").then(|| quoted.unwrap_or(text).to_string())
}

fn leading_comment(text: &str) -> String {
    text.lines().take_while(|line| !line.starts_with("case ")).map(|line| format!("{line}\n")).collect()
}

fn write_case(out: &mut String, case: &Case, golden: &[String]) {
    let is_error = golden.first().is_some_and(|line| line == "error");
    let order = match (case.any_order, case.is_folded) {
        (true, _) => "rows in any order",
        (_, true) => "rows folded",
        _ => "rows",
    };
    let section = if is_error { "error" } else { order };
    let head =
        case.head.iter().filter(|line| !matches!(line.trim(), "rows" | "rows in any order" | "rows folded" | "error"));
    head.for_each(|line| writeln!(out, "{line}").expect("a string takes all"));
    writeln!(out, "{section}").expect("a string takes all");
    let lines = golden.iter().skip(usize::from(is_error));
    lines.for_each(|line| writeln!(out, "{line}").expect("a string takes all"));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_value_of_each_parameter_meets_each_of_each_other() {
        let values = |variant: &Variant| {
            let Variant { batch_rows, workers, barriers, merge, strategy, phases } = variant;
            let sizes = [batch_rows, workers].map(|size| size.to_string());
            let [merge, barriers] = [format!("{merge:?}"), barriers.is_some().to_string()];
            sizes.into_iter().chain([merge, barriers, strategy.to_string(), phases.to_string()]).collect::<Vec<_>>()
        };
        let pairs = |of: fn(&Case) -> Vec<Variant>| {
            // As many cases as a long file has.
            let cases = (1..=60).map(|number| Case { line: 12 * number, ..Case::default() });
            let variants = cases.flat_map(|case| of(&case)).map(|variant| values(&variant)).collect::<Vec<_>>();
            let mut pairs = BTreeSet::new();
            for variant in variants {
                for (one, other) in (0..variant.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
                    pairs.insert((one, other, variant[one].clone(), variant[other].clone()));
                }
            }
            pairs
        };
        let (all, met) = (pairs(product), pairs(matrix));
        let missed: Vec<_> = all.difference(&met).collect();
        assert!(all.len() > 100 && missed.is_empty(), "{missed:?}");
    }
}
