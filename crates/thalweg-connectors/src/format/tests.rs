//! Ranges decoded in parallel give what the sequence gives.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use thalweg_core::{
    Error, Result,
    connector::{Host, Read, Reader, TableDefinition},
};

use super::{
    Decoded, Decoder, Format,
    helper::{Helper, Range},
    reader::FormatReader,
    window::{Bytes, Fill, Window},
};
use crate::testing::{Random, host, read_all, table};

/// Bytes that come a few at a time, sometimes not at once, and perhaps with an error behind them.
struct Trickle {
    bytes: Vec<u8>,
    read: usize,
    most: u64,
    random: Random,
    pauses: bool,
    breaks: bool,
}

impl Trickle {
    fn new(bytes: &[u8], seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (most, pauses, breaks) = (1 + random.below(200), random.below(3) == 0, random.below(8) == 0);
        Self { bytes: bytes.to_vec(), read: 0, most, random, pauses, breaks }
    }
}

impl Bytes for Trickle {
    fn fill(&mut self, free: &mut [u8]) -> Result<Fill> {
        if self.pauses && self.random.below(8) == 0 {
            return Ok(Fill::Wait);
        }
        let most = 1 + self.random.below(self.most) as usize;
        let count = (self.bytes.len() - self.read).min(most).min(free.len());
        free[..count].copy_from_slice(&self.bytes[self.read..self.read + count]);
        self.read += count;
        match count {
            0 if self.breaks => Err(Error::environment("the disk is gone")),
            0 => Ok(Fill::End),
            count => Ok(Fill::Some(count)),
        }
    }
}

fn reader(table: &TableDefinition, bytes: Trickle, host: Host) -> FormatReader {
    let decoder = Format::new(&table.options, None).unwrap().decoder(table, "input").unwrap();
    FormatReader::new(Box::new(bytes), decoder, host)
}

/// Reads random texts both ways; gives how many ranges helpers decoded.
fn check(columns: &str, options: &[&str], texts: impl Fn(&mut Random) -> Vec<u8>) -> usize {
    let ranges = Arc::new(AtomicUsize::new(0));
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let text = texts(&mut random);
        let table = table(columns, options[random.below(options.len() as u64) as usize]);
        let one = read_all(&mut reader(&table, Trickle::new(&text, seed), host()), 1 + random.below(9) as usize);
        let counter = Arc::clone(&ranges);
        let wake = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let host = Host { wake, threads: 2 + random.below(2) as usize };
        let many = reader(&table, Trickle::new(&text, seed), host).with_ranges(1 + random.below(90) as usize);
        let many = read_all(&mut { many }, 1 + random.below(9) as usize);
        assert_eq!(many, one, "seed {seed}, {:?}: {}", table.options, String::from_utf8_lossy(&text));
    }
    ranges.load(Ordering::Relaxed)
}

fn lines(random: &mut Random, line: impl Fn(&mut Random) -> String) -> Vec<u8> {
    let mut text = if random.below(4) == 0 { "\u{feff}".to_string() } else { String::new() };
    for _ in 0..random.below(60) {
        text += &line(random);
        text += if random.below(4) == 0 { "\r\n" } else { "\n" };
    }
    let missing = random.below(3).min(text.len() as u64) as usize;
    let mut text = text.into_bytes();
    text.truncate(text.len() - missing);
    text
}

fn pick<'a>(random: &mut Random, pieces: &[&'a str]) -> &'a str {
    pieces[random.below(pieces.len() as u64) as usize]
}

#[test]
fn csv_is_the_same_in_parallel() {
    let options = [
        "format=csv; bad.rows=skip",
        "format=csv",
        "format=csv; bad.rows=skip; csv.header=false",
        "format=csv; csv.header=false",
        "format=csv; bad.rows=skip; csv.comment=#; csv.escape=\\",
        "format=csv; bad.rows=skip; csv.quote=",
    ];
    let usual = ["x", "", "two words", "\"q\"", "\"a,b\"", "\"l1\nl2\"", "\"say \"\"so\"\"\n\"", "\"\"", "ä"];
    let unusual = ["5\"", "a\"\"b", "\"x\"y", "\"open", "\"\\\"\n\"", "\"l1\r\nl2\"\r"];
    let ranges = check("a BIGINT, b STRING, c DOUBLE", &options, |random| {
        let is_wild = random.below(3) == 0;
        lines(random, |random| match random.below(40) {
            0 => String::new(),
            1 => "a,b,c".into(),
            2 if is_wild => "# it's \"so\",\"".into(),
            3 if is_wild => "x,y,z".into(),
            4 if is_wild => "1,2".into(),
            _ => {
                let text = if is_wild && random.below(9) == 0 { pick(random, &unusual) } else { pick(random, &usual) };
                format!("{},{text},{}.5", random.below(1000), random.below(100))
            }
        })
    });
    assert!(ranges > 10_000, "helpers decoded {ranges} ranges");
}

#[test]
fn json_lines_are_the_same_in_parallel() {
    let options = ["format=json; bad.rows=skip", "format=json; bad.rows=skip", "format=json"];
    let ranges = check("a BIGINT, b STRING", &options, |random| {
        lines(random, |random| match random.below(60) {
            0 => String::new(),
            1 => "{\"a\":1,}".into(),
            2 => "{\"a\":\"x\"}".into(),
            _ => {
                let text = pick(random, &["x", "", "\\n", "\\\"", "{", "ä"]);
                format!("{{\"a\":{},\"b\":\"{text}\"}}", random.below(1000))
            }
        })
    });
    assert!(ranges > 10_000, "helpers decoded {ranges} ranges");
}

/// Begins to read as many lines in parallel, and comes back with rows of a helper on hand.
fn begun() -> (FormatReader, Arc<dyn Fn() + Send + Sync>) {
    let table = table("a BIGINT", "format=csv; csv.header=false");
    let text = "1234567\n".repeat(10_000);
    let bytes = Trickle { pauses: false, breaks: false, most: 1000, ..Trickle::new(text.as_bytes(), 1) };
    let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(|| {});
    let mut reader = reader(&table, bytes, Host { wake: Arc::clone(&wake), threads: 3 }).with_ranges(100);
    while !matches!(reader.read(5).unwrap(), Read::Busy) {}
    (reader, wake)
}

#[test]
fn a_reader_that_is_dropped_leaves_no_thread() {
    let (reader, wake) = begun();
    assert!(Arc::strong_count(&wake) > 3, "each thread has one");
    drop(reader);
    assert_eq!(Arc::strong_count(&wake), 1, "no thread has one");
}

#[test]
fn no_more_rows_come_than_are_asked_for_and_all_do() {
    let (mut reader, _) = begun();
    let (mut rows, mut most) = (0, 1);
    loop {
        match reader.read(most).unwrap() {
            Read::Rows(batch) => {
                assert!(batch.num_rows() <= most);
                (rows, most) = (rows + batch.num_rows(), most % 7 + 1);
            }
            Read::End => break,
            _ => std::thread::yield_now(),
        }
    }
    assert!((9_000..10_000).contains(&rows), "{rows} rows behind those that were read before");
}

struct Broken;

impl Decoder for Broken {
    fn decode(&mut self, _: &mut Window, _: usize) -> Result<Decoded> {
        panic!("the decoder broke")
    }

    fn take(&mut self) -> Result<arrow_array::RecordBatch> {
        Ok(arrow_array::RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty())))
    }

    fn bad_rows(&self) -> u64 {
        0
    }

    fn fork(&self) -> Result<Option<Box<dyn Decoder>>> {
        Ok(Some(Box::new(Broken)))
    }

    fn cut(&self, bytes: &[u8]) -> Option<usize> {
        Some(bytes.len())
    }
}

#[test]
fn a_panic_of_a_helper_goes_to_the_thread_that_reads() {
    let (waker, woken) = std::sync::mpsc::channel();
    let wake = Arc::new(move || waker.send(()).unwrap_or_default());
    let mut helper = Helper::new(Box::new(Broken), wake).unwrap();
    helper.give(Range { window: Window::of(b"1\n".to_vec(), 2, 1, true), batch_rows: 1 });
    woken.recv().unwrap();
    let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| helper.take().is_none()));
    let panic = taken.expect_err("the panic is passed on");
    assert_eq!(panic.downcast_ref(), Some(&"the decoder broke"));
}
