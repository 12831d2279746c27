use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process,
    sync::atomic::*,
};

use thalweg_core::{Batch, Progress, connector::Read};

use super::*;
use crate::testing::{host, read_all, table};

/// A directory of a test's own, gone when the test has ended.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("thalweg-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(&self.0).unwrap().map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn read(columns: &str, options: &str) -> Vec<String> {
    let source = File.source(&table(columns, options)).unwrap();
    assert!(source.is_bounded());
    let mut lines = vec![];
    for (i, name) in source.partitions().iter().enumerate() {
        let name = Path::new(name).file_name().unwrap().to_str().unwrap();
        let mut reader = source.open(i, host()).unwrap();
        lines.extend(read_all(&mut *reader, 4096).into_iter().map(|line| format!("{name}: {line}")));
    }
    lines
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn files_are_partitions_sorted_by_name() {
    let directory = Directory::new();
    directory.write("b.csv", "a\n2\n");
    directory.write("a.csv", "a\n1\n");
    directory.write(".hidden.csv", "a\n3\n");
    fs::create_dir(directory.path("c.csv")).unwrap();
    let expected = ["a.csv: 1", "b.csv: 2"];
    assert_eq!(read("a BIGINT", &format!("path={}", directory.path(""))), expected);
    assert_eq!(read("a BIGINT", &format!("path={}", directory.path("*.csv"))), expected);
    assert_eq!(read("a BIGINT", &format!("path=file://{}", directory.path("b.csv"))), ["b.csv: 2"]);
}

#[test]
fn nothing_to_read_is_an_error_that_says_where() {
    let directory = Directory::new();
    let error =
        |path: &str| File.source(&table("a BIGINT", &format!("path={path}; format=csv"))).err().unwrap().to_string();
    let (none, pattern) = (directory.path("none.csv"), directory.path("*.csv"));
    assert_eq!(error(&none), format!("cannot read '{none}': No such file or directory (os error 2)"));
    assert_eq!(error(&pattern), format!("no file matches '{pattern}'"));
    assert_eq!(error(&directory.path("")), format!("there is no file in '{}'", directory.path("")));
    let nameless = directory.write("rows", "");
    let error = File.source(&table("a BIGINT", &format!("path={nameless}"))).err().unwrap().to_string();
    assert_eq!(error, "option 'format' is missing, expected 'csv' or 'json'");
    let error = File.source(&table("a BIGINT", &format!("path={nameless}; format=json; csv.header=true")));
    assert_eq!(error.err().unwrap().to_string(), "unknown option 'csv.header'");
}

#[test]
fn links_among_directories_lead_to_each_file_once() {
    let directory = Directory::new();
    directory.write("a.csv", "a\n1\n");
    std::os::unix::fs::symlink(directory.path(""), directory.path("loop")).unwrap();
    std::os::unix::fs::symlink("a.csv", directory.path("b.csv")).unwrap();
    assert_eq!(read("a BIGINT", &format!("path={}", directory.path("**/*.csv"))), ["a.csv: 1", "b.csv: 1"]);
}

#[test]
fn text_of_other_kinds_is_named() {
    let directory = Directory::new();
    for (bytes, what) in [
        (&b"\xff\xfea\0\n\0"[..], "is text in UTF-16, expected UTF-8"),
        (b"\xfe\xff\0a\0\n", "is text in UTF-16, expected UTF-8"),
        (b"a,b\r1,x\r2,y\r", "end with CR, expected LF or CRLF"),
    ] {
        let path = directory.write("a.csv", bytes);
        let source = File.source(&table("a BIGINT", &format!("path={path}"))).unwrap();
        let error = source.open(0, host()).err().unwrap();
        assert!(error.message().contains(&path) && error.message().ends_with(what), "{error}");
    }
    let path = directory.write("a.csv", "a\r");
    assert_eq!(read("a BIGINT", &format!("path={path}")), [""; 0]);
}

#[test]
fn compression_is_seen_in_the_first_bytes() {
    let directory = Directory::new();
    let members = [gzip("a\n1\n"), gzip("2\n")].concat();
    let path = directory.write("a.csv.gz", members);
    assert_eq!(read("a BIGINT", &format!("path={path}")), ["a.csv.gz: 1", "a.csv.gz: 2"]);
    let path = directory.write("plain.csv", zstd::encode_all(&b"a\n3\n"[..], 0).unwrap());
    assert_eq!(read("a BIGINT", &format!("path={path}")), ["plain.csv: 3"]);
    let path = directory.write("empty.json.zst", "");
    assert_eq!(read("a BIGINT", &format!("path={path}")), [""; 0]);
    let path = directory.write("tabs.tsv", "a\tb\n1\tx\n");
    assert_eq!(read("a BIGINT, b STRING", &format!("path={path}")), ["tabs.tsv: 1 x"]);
}

#[test]
fn a_file_that_is_cut_off_gives_its_rows_and_then_says_where() {
    let directory = Directory::new();
    let rows: String = (0..50_000).map(|i| format!("{i},{}\n", i * 7919 % 10_007)).collect();
    for (name, bytes, kind) in
        [("a.csv.gz", gzip(&rows), "gzip"), ("a.csv.zst", zstd::encode_all(rows.as_bytes(), 0).unwrap(), "zstd")]
    {
        let half = bytes.len() / 2;
        let path = directory.write(name, &bytes[..half]);
        let lines = read("a BIGINT, b BIGINT", &format!("path={path}"));
        let error = format!("{name}: error: {path} is truncated: its {kind} data breaks off at byte {half}");
        assert_eq!(lines.last().unwrap(), &error);
        assert!(lines.len() > 1000, "{} rows of {name} could be read", lines.len());
        assert!(
            lines
                .iter()
                .zip(rows.lines())
                .take(lines.len() - 1)
                .all(|(line, row)| line.ends_with(&row.replace(',', " ")))
        );
    }
}

/// What is wrong with the file is said, not what is wrong with the rows that come out of it.
#[test]
fn a_file_that_is_corrupt_is_said_to_be_and_not_its_rows() {
    let directory = Directory::new();
    let rows: String = (0..50_000).map(|i| format!("{i},{}\n", i * 7919 % 10_007)).collect();
    let mut zstd = zstd::Encoder::new(vec![], 0).unwrap();
    zstd.include_checksum(true).unwrap();
    zstd.write_all(rows.as_bytes()).unwrap();
    for (name, bytes) in [("a.csv.gz", gzip(&rows)), ("a.csv.zst", zstd.finish().unwrap())] {
        // The checksum stands at the end; the gzip file has a length behind it.
        for at in (0..40).map(|i| bytes.len() * i / 40).chain([bytes.len() - 1, bytes.len() - 4, bytes.len() - 5]) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x55;
            let path = directory.write(name, bytes);
            for options in ["", "; bad.rows=skip"] {
                let source = File.source(&table("a BIGINT, b BIGINT", &format!("path={path}{options}"))).unwrap();
                let error = match source.open(0, host()) {
                    Err(error) => error.to_string(),
                    Ok(mut reader) => loop {
                        match reader.read(4096) {
                            Ok(Read::Rows(_)) => {}
                            Ok(other) => break format!("{other:?}"),
                            Err(error) => break error.to_string(),
                        }
                    },
                };
                // The header of a gzip file has bytes that do not matter, such as its time.
                let is_harmless = name == "a.csv.gz" && (4..10).contains(&at);
                let is_told = ["corrupt", "truncated", "not gzip", "not zstd"].iter().any(|word| error.contains(word));
                assert!(is_told && error.contains(&path) || is_harmless, "byte {at}: {error}");
            }
        }
    }
    let path = directory.write("plain.csv", "a\n1\n");
    let source = File.source(&table("a BIGINT", &format!("path={path}; compression=gzip"))).unwrap();
    assert_eq!(source.open(0, host()).err().unwrap().to_string(), format!("{path} is not gzip data"));
    let path = directory.write("plain.csv.gz", "a\n1\n");
    assert_eq!(read("a BIGINT", &format!("path={path}")), ["plain.csv.gz: 1"]);
}

#[test]
fn columns_are_found_in_the_first_file_with_rows() {
    let directory = Directory::new();
    directory.write("a.csv", "");
    directory.write("b.csv", "n,t\n1,2013-01-01T00:00:00Z\n");
    let mut undeclared = table("x BIGINT", &format!("path={}", directory.path("*.csv")));
    let columns = File.infer(&undeclared).unwrap();
    assert_eq!(columns.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["n", "t"]);
    undeclared.columns = columns;
    let source = File.source(&undeclared).unwrap();
    let rows = read_all(&mut *source.open(1, host()).unwrap(), 10);
    assert_eq!(rows, ["1 2013-01-01T00:00:00Z"]);
    let empty = table("x BIGINT", &format!("path={}", directory.path("a.csv")));
    assert!(File.infer(&empty).unwrap_err().message().contains("there is no row in"));
    let array = table("x BIGINT", &format!("path={}", directory.write("a.json", "[{\"a\":1}]")));
    assert!(File.infer(&array).unwrap_err().message().contains("there is no JSON object on a line in"));
    let pipe = File.infer(&table("x BIGINT", "path=/dev/null; format=csv")).unwrap_err();
    assert_eq!(pipe.message(), "table \"t\": /dev/null is read once, so that no columns can be found in it");
}

const COLUMNS: &str =
    "a BIGINT, b STRING, c DOUBLE, d TIMESTAMP, e BOOLEAN, f BYTES, g DECIMAL, h TIME, i DATE, z TIMESTAMP_LTZ";

/// Rows of every kind of value, and of none.
fn batch() -> Batch {
    let text = "1,\"x, \"\"y\"\"\n\",0.1,2013-01-01T10:15:00.5Z,true,00ff,-0.05,10:15:30,2013-02-28,2013-07-01T10:15:00Z\n\
                ,,,,,,,,,\n-5,\"\",NaN,+99999-12-31,false,,1,00:00,-0001-01-01,2013-11-03T01:30:00-05:00\n";
    let table = table(COLUMNS, "format=csv");
    let memory = crate::testing::Memory::new(text.as_bytes(), || usize::MAX);
    match crate::testing::reader(&table, memory).read(100).unwrap() {
        Read::Rows(rows) => Batch::new(rows),
        other => panic!("rows, not {other:?}"),
    }
}

#[test]
fn what_a_sink_writes_a_source_reads() {
    let directory = Directory::new();
    let expected = crate::text::write::tests::rows(batch().columns());
    assert_eq!(expected.len(), 3);
    for name in ["a.csv", "a.csv.gz", "a.jsonl", "a.json.zst"] {
        let table = table(COLUMNS, &format!("path={}", directory.path(name)));
        let mut sink = File.sink(&table).unwrap();
        assert_eq!(sink.write(&batch()).unwrap(), Progress::Done);
        assert_eq!(directory.names().iter().filter(|name| !name.starts_with('.')).count(), 0, "nothing to see yet");
        sink.finish().unwrap();
        assert_eq!(directory.names(), [name]);
        let source = File.source(&table).unwrap();
        assert_eq!(read_all(&mut *source.open(0, host()).unwrap(), 2), expected, "{name}");
        fs::remove_file(directory.path(name)).unwrap();
    }
}

#[test]
fn a_sink_that_is_dropped_leaves_nothing() {
    let directory = Directory::new();
    let table = table(COLUMNS, &format!("path={}", directory.path("a.csv.gz")));
    let mut sink = File.sink(&table).unwrap();
    sink.write(&batch()).unwrap();
    drop(sink);
    assert_eq!(directory.names(), [""; 0]);
    let mut empty = File.sink(&table).unwrap();
    empty.finish().unwrap();
    drop(empty);
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(directory.path("a.csv.gz")).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "a,b,c,d,e,f,g,h,i,z\n");
}

#[test]
fn a_file_that_is_there_is_replaced_only_on_demand() {
    let directory = Directory::new();
    let path = directory.write("a.csv", "old");
    let error = File.sink(&table("a BIGINT", &format!("path={path}"))).err().unwrap();
    assert_eq!(error.message(), format!("the file {path} exists already"));
    assert_eq!(error.hint(), Some("'overwrite' = 'true' replaces it when the query has ended"));
    let mut sink = File.sink(&table("a BIGINT", &format!("path={path}; overwrite=true"))).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    sink.finish().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "a\n");
    let error = File.sink(&table("a BIGINT", "path=/dev/null; format=csv; overwrite=true")).err().unwrap();
    assert_eq!(error.message(), "/dev/null is not a regular file");
    let missing = directory.path("none/a.csv");
    let error = File.sink(&table("a BIGINT", &format!("path={missing}"))).err().unwrap();
    assert_eq!(error.message(), format!("cannot write {missing}: No such file or directory (os error 2)"));
}

#[test]
fn a_year_of_departures_is_read_to_the_row() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/departures.csv.gz");
    let mut departures = table("x BIGINT", &format!("path={path}"));
    departures.columns = File.infer(&departures).unwrap();
    let columns = departures.columns.fields().iter().map(|f| thalweg_core::types::sql_name(f.data_type()));
    let types = columns.collect::<Vec<_>>().join(" ");
    assert_eq!(types, "TIMESTAMP STRING BIGINT STRING STRING STRING BIGINT BIGINT BIGINT BIGINT");
    departures.time = Some(0);
    let mut reader = File.source(&departures).unwrap().open(0, host()).unwrap();
    let (mut rows, mut missing) = (0, 0);
    while let Read::Rows(batch) = reader.read(8192).unwrap() {
        rows += batch.num_rows();
        missing += batch.column(6).null_count();
    }
    assert_eq!((rows, missing, reader.bad_rows()), (336_776, 8_255, 0));
}

#[test]
fn weather_has_the_types_that_it_has() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/weather.csv.gz");
    let weather = table("observed TIMESTAMP TIME, visib DOUBLE", &format!("path={path}"));
    let mut reader = File.source(&weather).unwrap().open(0, host()).unwrap();
    assert_eq!(read_all(&mut *reader, 4096)[0], "2013-01-01T06:00:00Z 10.0");
}

#[test]
#[cfg(unix)]
fn who_reads_a_named_pipe_waits_without_keeping_others_from_their_work() {
    let directory = Directory::new();
    let path = directory.path("pipe.csv");
    assert!(process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let source = File.source(&table("a BIGINT", &format!("path={path}"))).unwrap();
    let (waker, woken) = std::sync::mpsc::channel();
    let wake = std::sync::Arc::new(move || waker.send(()).unwrap_or_default());
    let mut reader = source.open(0, Host { wake, threads: 1 }).unwrap();
    let mut next = || loop {
        match reader.read(10).unwrap() {
            Read::Wait(None) if woken.recv_timeout(std::time::Duration::from_secs(60)).is_err() => {
                panic!("it is not woken")
            }
            Read::Wait(None) => {}
            Read::Rows(rows) => break rows.num_rows(),
            Read::End => break 0,
            other => panic!("{other:?}"),
        }
    };
    // Nobody writes yet, and then says nothing for a while.
    let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
    writer.write_all(b"a\n1\n2\n").unwrap();
    assert_eq!(next(), 2);
    writer.write_all(b"3\n").unwrap();
    assert_eq!(next(), 1);
    drop(writer);
    assert_eq!(next(), 0);
}

#[test]
#[cfg(unix)]
fn each_named_pipe_that_a_pattern_means_is_a_partition() {
    let directory = Directory::new();
    let pipes = ["1", "2"].map(|name| directory.path(&format!("pipe_{name}.csv")));
    assert!(process::Command::new("mkfifo").args(&pipes).status().unwrap().success());
    let pattern = directory.path("pipe_*.csv");
    let source = File.source(&table("a BIGINT", &format!("path={pattern}"))).unwrap();
    assert_eq!(source.partitions(), &pipes[..]);
}
