//! Where rows come from and go to: the traits that connectors implement and the runtime drives.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::{Batch, Error, Interval, Progress, Result, Timestamp, near::near};

/// A kind of source, sink or both, named in `'connector' = …`.
pub trait Connector: Send + Sync {
    /// The name in `'connector' = …`.
    fn name(&self) -> &'static str;

    /// Checks the table's options as far as that can be done without looking at the world: when the table is declared.
    ///
    /// Errors: `Error::Query`, here and below; what is wrong with an option names it as `option 'key'`, so that its place in
    ///         `WITH (…)` can be found.
    fn check(&self, table: &TableDefinition) -> Result<()> {
        let _ = table;
        Ok(())
    }

    /// The columns found by looking at the data, for a table declared without any.
    fn infer(&self, table: &TableDefinition) -> Result<SchemaRef> {
        let hint = "declare the columns: CREATE TABLE t (name TYPE, …) WITH (…)";
        Err(Error::query(format!("table {:?}: connector '{}' cannot infer columns", table.name, self.name()))
            .with_hint(hint))
    }

    /// Checks the table's options and finds its partitions.
    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        Err(Error::query(format!("table {:?}: connector '{}' cannot be read from", table.name, self.name()))
            .with_hint("it is for INSERT INTO; docs/connectors.md lists the connectors that are read"))
    }

    /// Checks the table's options and opens the place that rows go to.
    fn sink(&self, table: &TableDefinition) -> Result<Box<dyn Sink>> {
        Err(Error::query(format!("table {:?}: connector '{}' cannot be written to", table.name, self.name()))
            .with_hint("it is for FROM; docs/connectors.md lists the connectors that are written to"))
    }
}

/// A table as it was declared: what a connector is told.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// The table's name.
    pub name: String,
    /// The columns that are read or written; computed columns are none of these. Empty while they are being inferred.
    pub columns: SchemaRef,
    /// `WITH (…)`.
    pub options: Options,
    /// The column that carries event time, if it is one of `columns`.
    pub time: Option<usize>,
}

/// A table's source: its partitions, each of which can be read on its own.
pub trait Source: Send {
    /// The partitions' names, sorted.
    fn partitions(&self) -> &[String];

    /// Whether the source ends by itself.
    fn is_bounded(&self) -> bool;

    /// Opens a partition at its beginning.
    fn open(&self, partition: usize, host: Host) -> Result<Box<dyn Reader>>;
}

/// What a reader has from the runtime that reads it.
#[derive(Clone)]
pub struct Host {
    /// To be called, from any thread, when a reader that had to wait can go on.
    pub wake: Wake,
    /// How many threads of its own the reader may keep busy. With one it has none, and works only while it is read.
    pub threads: usize,
}

/// Tells the runtime that a reader can go on.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Reads one partition, called by one thread at a time, without waiting for the world.
pub trait Reader: Send {
    /// At most `rows` of the next rows.
    fn read(&mut self, rows: usize) -> Result<Read>;

    /// How many rows were malformed and skipped so far.
    fn bad_rows(&self) -> u64 {
        0
    }
}

/// What a reader has.
#[derive(Debug)]
pub enum Read {
    /// Rows, at least one.
    Rows(RecordBatch),
    /// The source itself knows how far its event time has come.
    Watermark(Timestamp),
    /// The source itself knows that nothing is to be waited for.
    Idle,
    /// For tests: a barrier starts here.
    Barrier,
    /// Nothing now. Ask again at the instant, or when woken.
    Wait(Option<Instant>),
    /// Nothing yet, but threads of the reader are at work on it: the partition is not silent. Ask again when woken.
    Busy,
    /// Nothing any more.
    End,
}

/// A place that rows go to. Dropped without `finish`, it leaves nothing half done.
pub trait Sink: Send {
    /// Takes the selected rows. [`Progress::Finished`]: nobody wants more, as when a pipe's reader has gone.
    fn write(&mut self, batch: &Batch) -> Result<Progress>;

    /// Makes what was written visible, where that can be done before the end.
    fn flush(&mut self) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// The stream has ended or was stopped: what was written is complete.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The options of a table, `WITH ('key' = 'value', …)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Options from keys and values.
    pub fn new(entries: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(entries.into_iter().collect())
    }

    /// The same but for these keys.
    pub fn without(&self, keys: &[&str]) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(key, _)| !keys.contains(&key.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        )
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The value of a key that must be there.
    pub fn required(&self, key: &str) -> Result<&str> {
        self.get(key).ok_or_else(|| Error::query(format!("option '{key}' is missing")))
    }

    /// A number, a word or anything else that reads from text.
    pub fn parse<T: std::str::FromStr>(&self, key: &str, what: &str) -> Result<Option<T>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let value = text.trim().parse();
        value.map(Some).map_err(|_| Error::query(format!("option '{key}' is '{text}', expected {what}")))
    }

    /// A span of time such as `'5 s'`, `'200 ms'` or `'1 min'`.
    pub fn interval(&self, key: &str) -> Result<Option<Interval>> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let value = parse_interval(text);
        value.map(Some).ok_or_else(|| match is_too_long(text) {
            true => Error::query(format!("option '{key}' is '{text}': that is longer than 292,000 years")),
            false => Error::query(format!("option '{key}' is '{text}', expected a duration such as '5 s'")),
        })
    }

    /// Options of tables that are not the connector's, which does not see them.
    pub const OF_TABLES: [&str; 2] = ["lateness", "accuracy"];

    /// Refuses keys that are not among `known`; a known key that ends in `*` stands for all that begin like it.
    pub fn check(&self, known: &[&str]) -> Result<()> {
        let is_known =
            |key: &str| known.iter().any(|k| k.strip_suffix('*').map_or(*k == key, |prefix| key.starts_with(prefix)));
        match self.0.keys().find(|key| !is_known(key)) {
            None => Ok(()),
            Some(key) => {
                let of_tables: &[&str] = if known.contains(&"connector") { &Self::OF_TABLES } else { &[] };
                let known = || known.iter().chain(of_tables).copied();
                let all = known().map(|k| format!("'{k}'")).collect::<Vec<_>>().join(", ");
                let hint = near(key, known()).unwrap_or_else(|| format!("the options here are {all}"));
                Err(Error::query(format!("unknown option '{key}'")).with_hint(hint))
            }
        }
    }

    /// All keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

/// Reads a span of time as Flink writes them: a number and a unit, `5 s`, `200ms`, `1 min`, `2 hours`, `1 d`; or `0.5 s`, if that is so many
/// microseconds.
pub fn parse_interval(text: &str) -> Option<Interval> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1,
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" | "" => 1_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000,
        "h" | "hour" | "hours" => 3_600_000_000,
        "d" | "day" | "days" => 86_400_000_000,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let parts = 10_i128.checked_pow(part.len() as u32)?;
    let [whole, part] = [whole, part].map(|digits| digits.parse::<i64>().ok().map(i128::from));
    let micros = (whole?.checked_mul(parts)? + part?).checked_mul(unit)?;
    if micros % parts == 0 { i64::try_from(micros / parts).ok().map(Interval) } else { None }
}

/// Whether it would be a span of time if its number were smaller.
fn is_too_long(text: &str) -> bool {
    let rest = text.trim().trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < text.trim().len() && parse_interval(text).is_none() && parse_interval(&format!("1{rest}")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_flink_writes_them() {
        let micros = |text| parse_interval(text).map(|i| i.0);
        assert_eq!(micros("5 s"), Some(5_000_000));
        assert_eq!(micros("200ms"), Some(200_000));
        assert_eq!(micros("1500"), Some(1_500_000));
        assert_eq!(micros("2 hours"), Some(7_200_000_000));
        assert_eq!((micros("0.5 s"), micros("1.25 min")), (Some(500_000), Some(75_000_000)));
        assert_eq!(["5. s", ".5 s", "1.2.3 s", "0.0000001 s", "0.5 us"].map(micros), [None; 5]);
        assert_eq!((micros("s"), micros("-1 s"), micros("99999999999999 d")), (None, None, None));
        assert_eq!(
            ["s", "-1 s", "5 s", "5. s", "99999999999999 d"].map(is_too_long),
            [false, false, false, false, true]
        );
        let message =
            |text: &str| Options::new([("late".into(), text.into())]).interval("late").unwrap_err().to_string();
        assert_eq!(
            message("99999999999999 d"),
            "option 'late' is '99999999999999 d': that is longer than 292,000 years"
        );
        assert_eq!(message("5 x"), "option 'late' is '5 x', expected a duration such as '5 s'");
    }

    #[test]
    fn unknown_options_are_refused_with_the_known_ones() {
        let options = Options::new([("csv.headr".into(), "true".into())]);
        let error = options.check(&["path", "csv.header", "fields.*"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown option 'csv.headr'");
        assert_eq!(error.hint(), Some("did you mean \"csv.header\"?"));
        let far = Options::new([("colour".into(), "red".into())]).check(&["path", "fields.*"]).unwrap_err();
        assert_eq!(far.hint(), Some("the options here are 'path', 'fields.*'"));
        assert!(Options::new([("fields.a.kind".into(), "x".into())]).check(&["fields.*"]).is_ok());
    }
}
