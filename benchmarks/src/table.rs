//! Tables as text: CSV and JSON lines, and what the sums of their columns must be.

use std::{
    fmt::Write as _,
    fs::File,
    io::{BufWriter, Read as _, Write as _},
    path::Path,
};

use chrono::{DateTime, Utc};
use flate2::read::GzDecoder;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// A text format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// With a header, nothing quoted.
    Csv,
    /// One object a line; what is null is written as such.
    JsonLines,
}

/// A type of columns, and how values are summed up to see that all were read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// BIGINT, by its sum.
    Whole,
    /// DOUBLE, by its sum; values are eighths, so that it is exact.
    Double,
    /// VARCHAR, by the number of characters.
    Text,
    /// TIMESTAMP_LTZ, by the sum of seconds since the epoch; values are eighths.
    Time,
}

impl Kind {
    fn sql(self) -> &'static str {
        match self {
            Self::Whole => "BIGINT",
            Self::Double => "DOUBLE",
            Self::Text => "VARCHAR",
            Self::Time => "TIMESTAMP_LTZ",
        }
    }

    fn sum(self, name: &str) -> String {
        match self {
            Self::Whole | Self::Double => format!("sum({name})"),
            Self::Text => format!("sum(char_length({name}))"),
            Self::Time => format!("sum(extract(EPOCH FROM {name}))"),
        }
    }
}

/// A table whose values are written as they are in CSV; an empty one is null.
pub struct Table {
    /// What it is.
    pub description: &'static str,
    columns: Vec<(String, Kind)>,
    /// Rows without a header.
    lines: String,
}

/// What was written of a table.
pub struct Written {
    /// Rows in all files.
    pub rows: u64,
    /// Bytes in all files.
    pub bytes: u64,
    /// The number of rows, and the sum of each column.
    pub sums: Vec<f64>,
}

impl Table {
    /// A year of departures from New York, 58 bytes a row.
    pub fn departures() -> Result<Self, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/departures.csv.gz");
        let told = |error| format!("cannot read {}: {error}", path.display());
        let mut text = String::new();
        GzDecoder::new(File::open(&path).map_err(told)?).read_to_string(&mut text).map_err(told)?;
        let (header, lines) = text.split_once('\n').ok_or("the departures have no header")?;
        let kind = |name: &str| match name {
            "sched_dep" => Kind::Time,
            "carrier" | "tailnum" | "origin" | "dest" => Kind::Text,
            _ => Kind::Whole,
        };
        Ok(Self {
            description: "examples/data/departures.csv.gz, 10 columns, repeated",
            columns: header.split(',').map(|name| (name.to_string(), kind(name))).collect(),
            lines: lines.to_string(),
        })
    }

    /// Made-up rows of 30 columns.
    pub fn wide() -> Self {
        const KINDS: [(&str, Kind, usize); 4] = [
            ("whole", Kind::Whole, 10),
            ("double", Kind::Double, 10),
            ("text", Kind::Text, 6),
            ("time", Kind::Time, 4),
        ];
        let columns: Vec<_> = KINDS
            .into_iter()
            .flat_map(|(name, kind, count)| (0..count).map(move |number| (format!("{name}_{number}"), kind)))
            .collect();
        let mut random = StdRng::seed_from_u64(30);
        let mut lines = String::new();
        for _ in 0..20_000 {
            for (number, (_, kind)) in columns.iter().enumerate() {
                let separator = if number == 0 { "" } else { "," };
                lines.push_str(separator);
                // One value in twenty is null, but the first, so that no line is blank.
                if number > 0 && random.random_ratio(1, 20) {
                    continue;
                }
                value(*kind, &mut random, &mut lines);
            }
            lines.push('\n');
        }
        Self {
            description: "10 BIGINT, 10 DOUBLE, 6 VARCHAR, 4 TIMESTAMP_LTZ, made up, 5 % null, repeated",
            columns,
            lines,
        }
    }

    /// `name TYPE, …`
    pub fn declaration(&self) -> String {
        self.columns.iter().map(|(name, kind)| format!("{name} {}", kind.sql())).collect::<Vec<_>>().join(", ")
    }

    /// The columns that [`Written::sums`] is about, as SQL.
    pub fn sums(&self) -> String {
        let sums = self.columns.iter().map(|(name, kind)| kind.sum(name));
        std::iter::once("count(*)".to_string())
            .chain(sums)
            .enumerate()
            .map(|(number, sum)| format!("CAST({sum} AS DOUBLE) AS sum_{number}"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Writes it to each of these files, repeated until they have so many bytes together.
    pub fn write(&self, format: Format, paths: &[impl AsRef<Path>], bytes: u64) -> Result<Written, String> {
        let (head, body) = match format {
            Format::Csv => {
                let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
                (names.join(",") + "\n", self.lines.clone())
            }
            Format::JsonLines => (String::new(), self.json()),
        };
        let times = bytes.div_ceil((body.len() * paths.len()) as u64);
        for path in paths {
            let told = |error| format!("cannot write {}: {error}", path.as_ref().display());
            let mut file = BufWriter::new(File::create(path).map_err(told)?);
            file.write_all(head.as_bytes()).map_err(told)?;
            for _ in 0..times {
                file.write_all(body.as_bytes()).map_err(told)?;
            }
            file.flush().map_err(told)?;
        }
        let written = times * paths.len() as u64;
        let sums = self.once();
        Ok(Written {
            rows: sums[0] as u64 * written,
            bytes: body.len() as u64 * written + (head.len() * paths.len()) as u64,
            sums: sums.into_iter().map(|sum| sum * written as f64).collect(),
        })
    }

    /// The number of rows and the sums of one repetition.
    fn once(&self) -> Vec<f64> {
        let mut sums = vec![0.0; 1 + self.columns.len()];
        for line in self.lines.lines() {
            sums[0] += 1.0;
            for (((_, kind), text), sum) in self.columns.iter().zip(line.split(',')).zip(&mut sums[1..]) {
                if text.is_empty() {
                    continue;
                }
                *sum += match kind {
                    Kind::Whole => text.parse::<i64>().expect("a whole number") as f64,
                    Kind::Double => text.parse().expect("a number"),
                    Kind::Text => text.chars().count() as f64,
                    Kind::Time => DateTime::parse_from_rfc3339(text).expect("a time").timestamp_micros() as f64 / 1e6,
                };
            }
        }
        sums
    }

    fn json(&self) -> String {
        let mut json = String::with_capacity(self.lines.len() * 3);
        for line in self.lines.lines() {
            for (number, ((name, kind), text)) in self.columns.iter().zip(line.split(',')).enumerate() {
                json.push_str(if number == 0 { "{" } else { "," });
                let quote = if matches!(kind, Kind::Text | Kind::Time) { "\"" } else { "" };
                let written = match text {
                    "" => write!(json, "\"{name}\":null"),
                    _ => write!(json, "\"{name}\":{quote}{text}{quote}"),
                };
                written.expect("a string takes all");
            }
            json.push_str("}\n");
        }
        json
    }
}

fn value(kind: Kind, random: &mut StdRng, line: &mut String) {
    let written = match kind {
        Kind::Whole => {
            let digits = random.random_range(1..12);
            write!(line, "{}", random.random_range(-(10i64.pow(digits))..10i64.pow(digits)))
        }
        Kind::Double => write!(line, "{}", f64::from(random.random_range(-8_000_000..8_000_000)) / 8.0),
        Kind::Text => {
            let length = random.random_range(1..24);
            (0..length).try_for_each(|_| line.write_char(char::from(random.random_range(b'a'..=b'z'))))
        }
        Kind::Time => {
            // In eighths of a second, over 60 years.
            let eighths: i64 = random.random_range(0..60 * 365 * 86_400 * 8);
            let time = DateTime::<Utc>::from_timestamp_millis(eighths * 125).expect("within the range of times");
            write!(line, "{}", time.format("%Y-%m-%dT%H:%M:%S%.3fZ"))
        }
    };
    written.expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_same() {
        let table = Table {
            description: "",
            columns: vec![("n".into(), Kind::Whole), ("s".into(), Kind::Text), ("t".into(), Kind::Time)],
            lines: "7,ab,1970-01-01T00:00:01.5Z\n-3,,\n".into(),
        };
        assert_eq!(table.once(), [2.0, 4.0, 2.0, 1.5]);
        assert_eq!(
            table.json(),
            "{\"n\":7,\"s\":\"ab\",\"t\":\"1970-01-01T00:00:01.5Z\"}\n{\"n\":-3,\"s\":null,\"t\":null}\n"
        );
    }
}
