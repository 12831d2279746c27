//! What users would pick instead, on the same machine in the same run: Apache Flink, as Java and as SQL.
//!
//! The jobs are in `benchmarks/peers/flink`. Each runs in a Java process of its own, so that its compiler sees one job only,
//! and is repeated there after a run that warms up. The process makes the rows, compares its results with what plain loops
//! give, and prints a line a run. Flink's jars come from Maven Central, each with the checksum that `jars.sha256` has for it.

use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    machine::cores,
    measure::{Case, Peak, PeakOf, Report, Taken, parameters},
    scratch::Scratch,
    selection,
};

const JARS: &str = include_str!("../peers/flink/jars.sha256");
const REPOSITORY: &str = "https://repo1.maven.org/maven2/";

/// The oldest Java that runs the jobs.
const JAVA: u32 = 17;
const INSTALL_JAVA: &str = "install a JDK, such as with `apt install openjdk-21-jdk-headless`, or set JAVA_HOME to one";

/// What Flink reaches of Java's own packages.
const OPENED: [&str; 11] = [
    "lang",
    "lang.reflect",
    "io",
    "net",
    "nio",
    "text",
    "time",
    "util",
    "util.concurrent",
    "util.concurrent.atomic",
    "util.concurrent.locks",
];

/// One of Flink's jobs, and the measurement of ours that it stands beside.
pub struct Job {
    /// The family of measurements.
    pub workload: &'static str,
    /// Which of the family.
    pub variant: String,
    /// What the Java program calls it.
    pub job: &'static str,
    /// More that the Java program asks for.
    pub numbers: Vec<usize>,
    /// What was asked.
    pub query: String,
    /// Of what.
    pub input: String,
    /// More of what is written down.
    pub parameters: Map<String, Value>,
    /// How many rows it makes.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Bytes that must be read for it.
    pub bytes_per_row: f64,
    /// The variant of ours.
    pub beside: String,
}

impl Job {
    /// A job on rows of event time, key and value.
    fn of_readings(
        (workload, variant, job): (&'static str, &str, &'static str),
        query: &str,
        million_rows: u64,
        bytes_per_row: f64,
        beside: &str,
    ) -> Self {
        Self {
            workload,
            variant: variant.into(),
            job,
            numbers: vec![],
            query: query.into(),
            input: "24-byte rows in order".into(),
            parameters: Map::new(),
            rows: million_rows * 1_000_000,
            row_bytes: 24,
            bytes_per_row,
            beside: beside.into(),
        }
    }
}

/// The jobs beside workloads whose questions are always the same.
fn jobs() -> Vec<Job> {
    let selection = selection::variant("10 %", cores());
    vec![
        Job::of_readings(
            ("selection", "Flink, chained Java, 10 %", "selection"),
            "filter(row -> row.key % 10 == 0)",
            200,
            8.0,
            &selection,
        ),
        Job::of_readings(
            ("selection", "Flink SQL, 10 %", "selection-sql"),
            "SELECT key FROM readings WHERE MOD(key, 10) = 0",
            40,
            8.0,
            &selection,
        ),
        Job::of_readings(
            ("window", "Flink, Java, average 10 k keys", "tumble"),
            "keyBy(key).window(TumblingEventTimeWindows.of(1 s)).aggregate(average)",
            20,
            24.0,
            "average 10 k keys, exact sums",
        ),
        Job::of_readings(
            ("window", "Flink SQL, average 10 k keys", "tumble-sql"),
            "SELECT key, AVG(value) FROM TABLE(TUMBLE(…, 1 s)) GROUP BY key, window_start, window_end",
            20,
            24.0,
            "average 10 k keys, exact sums",
        ),
        Job::of_readings(
            ("window", "Flink SQL, HOP of 60 panes, average 10 k keys", "hop-sql"),
            "SELECT key, AVG(value) FROM TABLE(HOP(…, 1 s, 60 s)) GROUP BY key, window_start, window_end",
            20,
            24.0,
            "HOP of 60 panes, average 10 k keys, out of order",
        ),
        Job::of_readings(
            ("window", "Flink SQL, count(DISTINCT value) 1 k keys", "distinct-sql"),
            "SELECT key, COUNT(DISTINCT value) FROM TABLE(TUMBLE(…, 1 s)) GROUP BY key, window_start, window_end",
            8,
            24.0,
            "count(DISTINCT value) 1 k keys, out of order",
        ),
    ]
}

/// Flink, ready to run.
pub struct Flink {
    java: PathBuf,
    class_path: String,
    sources: PathBuf,
    /// Holds the compiled jobs.
    _classes: Scratch,
}

impl Flink {
    /// Fetches what is not there yet, and compiles the jobs.
    ///
    /// Errors: there is no JDK, a jar cannot be fetched, or is not the one that is expected.
    pub fn prepare() -> Result<Self, String> {
        let (java, javac) = (tool("java"), tool("javac"));
        check_version(&javac)?;
        let mut entries = jars(&cache()?)?;
        let classes = Scratch::new("flink")?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/flink");
        let mut compile = Command::new(&javac);
        compile.args(["--release", &JAVA.to_string(), "-d"]).arg(classes.path());
        compile.arg("-cp").arg(join(&entries)?);
        compile.args(
            ["Bench", "Expected", "Joined", "Keyed", "Operators", "Plain", "Row", "Stream"]
                .map(|name| sources.join(format!("{name}.java"))),
        );
        output(&mut compile, INSTALL_JAVA)?;
        entries.push(classes.path().to_path_buf());
        Ok(Self { java, class_path: join(&entries)?, sources, _classes: classes })
    }

    /// Runs the jobs of a workload, beside what was measured of ours; `more` are those that the user's choices ask for.
    pub fn run(&self, report: &mut Report, workload: &str, more: Vec<Job>) -> Result<(), String> {
        for job in jobs().iter().chain(&more).filter(|job| job.workload == workload) {
            if report.wants(&job.variant) {
                self.measure(report, job).map_err(|error| format!("{}: {error}", job.variant))?;
            }
        }
        Ok(())
    }

    fn measure(&self, report: &mut Report, job: &Job) -> Result<(), String> {
        let rows = job.rows / if report.is_quick() { 10 } else { 1 };
        let runs = if report.is_quick() { 2 } else { 5 };
        let mut command = Command::new(&self.java);
        command.args(["-XX:+UseParallelGC", "-Xms3g", "-Xmx3g", "-XX:MaxDirectMemorySize=1g"]);
        command.args(OPENED.map(|package| format!("--add-opens=java.base/java.{package}=ALL-UNNAMED")));
        command.arg(format!("-Dlog4j2.configurationFile={}", self.sources.join("log4j2.properties").display()));
        command.args(["-cp", &self.class_path, "peers.Bench", job.job]);
        command.args([rows, runs, cores() as u64].map(|number| number.to_string()));
        command.args(job.numbers.iter().map(|number| number.to_string()));
        let (taken, peak) = taken(&output(&mut command, INSTALL_JAVA)?, rows, runs)?;
        let ours = report.measurements().iter().find(|m| m.workload == job.workload && m.variant == job.beside);
        // Java has not warmed up with so few rows: what it took then is no measure of it.
        let ours = ours.filter(|_| !report.is_quick());
        let beside = ours.map(|ours| (ours.variant.clone(), ours.cpu_s_per_mrows));
        let mut parameters = parameters([
            ("query", json!(job.query)),
            ("input", json!(format!("{}, made by the job, whose time for that is counted", job.input))),
            ("system", json!("Apache Flink 2.3.0 in one process, object reuse, no checkpoints")),
            ("workers", json!(cores())),
        ]);
        parameters.extend(job.parameters.clone());
        let case = Case {
            workload: job.workload,
            variant: job.variant.clone(),
            parameters,
            rows,
            bytes_per_row: job.bytes_per_row,
            workers: cores(),
            peak: peak.map(|reserved| -> PeakOf<'_> {
                let of_rows = rows * job.row_bytes as u64;
                Box::new(move || Peak { reserved, rows: of_rows, ..Peak::default() })
            }),
        };
        report.add_beside(case, &taken, beside);
        Ok(())
    }
}

/// Reads the lines `seconds cpu_seconds results peak_bytes`; the last is 0 where the system does not tell.
fn taken(output: &str, rows: u64, runs: u64) -> Result<(Taken, Option<u64>), String> {
    let (mut taken, mut peak) = (Taken::default(), None);
    for line in output.lines() {
        let numbers: Vec<f64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [seconds, cpu, results, bytes] = numbers[..] else {
            return Err(format!("the job printed \"{line}\", expected four numbers"));
        };
        peak = Some(bytes as u64).filter(|bytes| *bytes > 0).max(peak);
        taken.seconds.push(seconds);
        taken.cpu.push(cpu / (rows as f64 / 1e6));
        taken.checked += results as u64;
    }
    match taken.seconds.len() as u64 == runs {
        true => Ok((taken, peak)),
        false => Err(format!("the job ended after {} of {runs} runs", taken.seconds.len())),
    }
}

/// A tool of the JDK.
fn tool(name: &str) -> PathBuf {
    match env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin").join(name),
        None => name.into(),
    }
}

fn check_version(javac: &Path) -> Result<(), String> {
    let told = output(Command::new(javac).arg("-version"), INSTALL_JAVA)?;
    match version(&told) {
        Some(version) if version >= JAVA => Ok(()),
        _ => Err(format!("{} is \"{}\", expected Java {JAVA} or newer: {INSTALL_JAVA}", javac.display(), told.trim())),
    }
}

/// The first number in `javac 17.0.15`.
fn version(told: &str) -> Option<u32> {
    let version = told.trim().strip_prefix("javac ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// `$XDG_CACHE_HOME/thalweg/flink` or `~/.cache/thalweg/flink`.
fn cache() -> Result<PathBuf, String> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.ok_or("there is no place for Flink's jars: set XDG_CACHE_HOME to a directory")?;
    Ok(cache.join("thalweg/flink"))
}

/// The jars, fetched if they are not there, all of them checked.
fn jars(cache: &Path) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for line in JARS.lines() {
        let (sum, name) = line.split_once("  ").ok_or_else(|| format!("jars.sha256 has the line \"{line}\""))?;
        let path = cache.join(name);
        if !path.exists() {
            fetch(name, &path, sum)?;
        } else if checksum(&path)? != sum {
            return Err(format!("{} is not what it was: remove it, and it is fetched again", path.display()));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Fetches a jar beside its place, and moves it there once it is known to be the right one.
fn fetch(name: &str, path: &Path, sum: &str) -> Result<(), String> {
    let told = |error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(told)?;
    println!("fetching {name}");
    let part = path.with_extension("part");
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--show-error", "--location", "--retry", "3", "--output"]).arg(&part);
    output(curl.arg(format!("{REPOSITORY}{name}")), "install curl, and see that the network is there")?;
    let found = checksum(&part)?;
    if found != sum {
        return Err(format!("{REPOSITORY}{name} has the SHA-256 {found}, expected {sum}; it is in {}", part.display()));
    }
    fs::rename(&part, path).map_err(told)
}

fn checksum(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn join(paths: &[PathBuf]) -> Result<String, String> {
    let joined = env::join_paths(paths).map_err(|error| format!("Java cannot take the paths of the jars: {error}"))?;
    joined.into_string().map_err(|path| format!("Java cannot take the path {}", path.display()))
}

/// What a command prints; its errors pass through to the terminal.
fn output(command: &mut Command, hint: &str) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command.stderr(std::process::Stdio::inherit()).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("there is no {name}: {hint}"),
        _ => format!("cannot run {name}: {error}; {hint}"),
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name} failed with {}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_each_other() {
        assert_eq!(["javac 17.0.15", "javac 21\n", "javac 1.8.0_402"].map(version), [Some(17), Some(21), Some(1)]);
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn a_run_that_is_missing_or_garbled_is_no_figure() {
        let taken_of = |output| taken(output, 2_000_000, 2);
        let (taken, peak) = taken_of("2.0 3.0 10 7000\n4.0 5.0 10 6000\n").unwrap();
        assert_eq!((taken.seconds, taken.cpu, taken.checked), (vec![2.0, 4.0], vec![1.5, 2.5], 20));
        assert_eq!(peak, Some(7_000), "of all runs");
        assert_eq!(taken_of("2.0 3.0 10 0\n2.0 3.0 10 0\n").unwrap().1, None, "the system did not tell");
        assert_eq!(taken_of("2.0 3.0 10 0\n").err().unwrap(), "the job ended after 1 of 2 runs");
        assert!(taken_of("2.0 oops 10 0\n").err().unwrap().contains("expected four numbers"));
    }

    #[test]
    fn every_jar_has_a_checksum_and_a_place_below_the_cache() {
        for line in JARS.lines() {
            let (sum, name) = line.split_once("  ").unwrap();
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
            assert!(name.ends_with(".jar") && !name.starts_with('/') && !name.contains(".."), "{line}");
        }
    }
}
