//! Measures the engine: `cargo run --release -p benchmarks -- WORKLOAD`.
//!
//! Every figure comes with the read bandwidth of the machine, measured in the same run, and with its share of it. Rows are
//! counted at the sink; a measurement whose result is wrong is an error and prints nothing.
//!
//! * [`machine`]: bandwidth, time and CPU time, and [`counters`]: misses of caches
//! * [`measure`]: runs things several times, and writes down what they took
//! * [`chart`]: the measurements as a picture, and [`lines`]: those over a parameter
//! * [`stream`]: made-up streams, and [`shapes`]: the columns of their keys
//! * [`expected`]: what must come out of windows over them
//! * [`table`]: tables as text, and [`scratch`]: where their files are
//! * [`tasks`]: what each task of a query takes, and [`makespan`]: how long they would take on more cores
//! * [`live`]: rows that come at a fixed rate
//! * [`peers`]: what users would pick instead
//! * [`selection`] and the modules beside it: one workload each

mod adaptive;
mod calls;
mod chart;
mod counters;
mod expected;
mod ingest;
mod interval;
mod latency;
mod lines;
mod live;
mod machine;
mod makespan;
mod measure;
mod merging;
mod parallel;
mod peers;
mod scratch;
mod selection;
mod shapes;
mod shuffle;
mod simulated;
mod strategies;
mod stream;
mod table;
mod tasks;
mod window;

use std::{
    error::Error,
    fmt,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, ValueEnum};
use measure::{Measurement, Report};
use peers::Flink;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the engine.
#[derive(Parser)]
#[command(name = "benchmarks")]
struct Arguments {
    /// What to measure; all, if none is given.
    workloads: Vec<Workload>,
    /// Smaller inputs and fewer repetitions: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// Measures Apache Flink beside; needs a JDK, and fetches 141 MB into the user's cache directory the first time.
    #[arg(long)]
    peers: bool,
    /// Writes the measurements into this file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the measurements into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draws measurements as lines into this directory: the shuffle's by partitions, by buffers, by batches; simulations by cores; what adapts over time; interval joins by their parameters, and how long results take.
    #[arg(long, value_name = "DIRECTORY")]
    plots: Option<PathBuf>,
    /// Measures nothing, and reads what --json wrote. Several are given with commas.
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["workloads", "quick", "peers", "json"])]
    from: Vec<PathBuf>,
    #[command(flatten)]
    shuffle: shuffle::Options,
    /// Runs only the variants whose name contains this; ^ stands for where it begins, and $ for where it ends.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Workload {
    /// Rows that pass a predicate, 64-bit keys in memory (P18).
    Selection,
    /// Averages, distinct values and medians in windows over event time, 24-byte rows in memory.
    Window,
    /// Aggregates that are divided among 1 to 64 instances, in one phase and in two; not among all.
    Parallel,
    /// Call description records: a map, an aggregate and batches dealt in turn, in 1 to 64 instances (C8); not among all.
    Calls,
    /// A query of eight operators in StreamCloud's three strategies (C8); not among all.
    Strategies,
    /// The same on 1 to 64 cores: a simulation, of tasks that are measured; not among all.
    Simulated,
    /// A rate that goes up and down, and hot keys that change, with key groups that move and without (C9); not among all.
    Adaptive,
    /// Results of instances put in order, beside results as they arrive; not among all.
    Merging,
    /// Text into columns: CSV and JSON lines, 200 MB each in the directory for temporary files.
    Ingest,
    /// From the instant at which a row is due to its result, at 10 k, 100 k and 1 M rows/s, beside the jitter of an idle loop.
    Latency,
    /// For each row the sum over rows of another stream around its time: Key-OIJ, SplitJoin and Scale-OIJ on the latter's workloads (O7, O8); not among all.
    IntervalJoin,
    /// Rows scattered into the pages of partitions by every variant, beside the best that could be (S6); not among all.
    Shuffle,
}

impl Workload {
    /// Whether it runs only where it is named.
    fn is_special(self) -> bool {
        !matches!(self, Self::Selection | Self::Window | Self::Ingest | Self::Latency)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    scratch::remove_at_interrupt()?;
    // A file that cannot be written is found out before an hour of measurements.
    let create =
        |path: &PathBuf| File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()));
    let mut json = arguments.json.as_ref().map(create).transpose()?;
    let mut svg = arguments.svg.as_ref().map(create).transpose()?;
    let measurements = match &arguments.from[..] {
        [] => measure(arguments)?,
        files => read(files)?,
    };
    if let Some(file) = &mut json {
        for measurement in &measurements {
            writeln!(file, "{}", serde_json::to_string(measurement)?)?;
        }
    }
    if let Some(file) = &mut svg {
        file.write_all(chart::draw(&measurements)?.as_bytes())?;
    }
    if let Some(directory) = &arguments.plots {
        plot(directory, &measurements)?;
    }
    Ok(())
}

/// Runs the workloads.
fn measure(arguments: &Arguments) -> Result<Vec<Measurement>, Box<dyn Error>> {
    let flink = if arguments.peers { Some(Flink::prepare()?) } else { None };
    let mut report = Report::new(arguments.quick, &arguments.only)?;
    let all: Vec<_> = Workload::value_variants().iter().copied().filter(|one| !one.is_special()).collect();
    let chosen = if arguments.workloads.is_empty() { &all } else { &arguments.workloads };
    for workload in chosen {
        match workload {
            Workload::Selection => selection::run(&mut report)?,
            Workload::Window => window::run(&mut report)?,
            Workload::Parallel => parallel::run(&mut report)?,
            Workload::Calls => calls::run(&mut report)?,
            Workload::Strategies => strategies::run(&mut report)?,
            Workload::Simulated => simulated::run(&mut report)?,
            Workload::Adaptive => adaptive::run(&mut report)?,
            Workload::Merging => merging::run(&mut report)?,
            Workload::Ingest => ingest::run(&mut report)?,
            Workload::Latency => latency::run(&mut report)?,
            Workload::IntervalJoin => interval::run(&mut report)?,
            Workload::Shuffle => shuffle::run(&mut report, &arguments.shuffle)?,
        }
        if let (Some(flink), Some(name)) = (&flink, workload.to_possible_value()) {
            let more = match workload {
                Workload::Shuffle => shuffle::keyed::jobs(&arguments.shuffle, &report),
                Workload::IntervalJoin => interval::flink::jobs(),
                _ => vec![],
            };
            flink.run(&mut report, name.get_name(), more)?;
        }
    }
    if report.measurements().is_empty() {
        return Err(format!("no variant of these workloads contains \"{}\"", arguments.only).into());
    }
    Ok(report.into_measurements())
}

/// Reads measurements, an object a line.
fn read(files: &[PathBuf]) -> Result<Vec<Measurement>, Box<dyn Error>> {
    let mut measurements = Vec::new();
    for path in files {
        let wrong = |error: &dyn fmt::Display| format!("cannot read {}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        for line in text.lines() {
            measurements.push(serde_json::from_str(line).map_err(|error| wrong(&error))?);
        }
    }
    Ok(measurements)
}

/// Draws lines, a file for each parameter of which there are three values.
fn plot(directory: &Path, measurements: &[Measurement]) -> Result<(), Box<dyn Error>> {
    let mut pictures = shuffle::plot::pictures(measurements);
    pictures.extend(simulated::pictures(measurements));
    pictures.extend(interval::sweep::pictures(measurements));
    let others = [
        ("adaptive.svg", adaptive::plot::draw(measurements)?),
        ("interval-join.svg", interval::plot::draw(measurements)?),
        ("interval-join-hot-keys.svg", interval::balance::draw(measurements)?),
    ];
    if pictures.is_empty() && others.iter().all(|(_, text)| text.is_none()) {
        return Err("there are no lines to plot: they take three values of what they go along".into());
    }
    let drawn = pictures.into_iter().map(|(name, picture)| Ok((name, picture.draw()?)));
    let drawn = drawn.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let others = others.into_iter().filter_map(|(name, text)| Some((name, text?)));
    for (name, text) in drawn.into_iter().chain(others) {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
