//! Lines taken together give what they give one by one, where `serde_json` reads each: the same rows, errors and counts.

use super::JsonDecoder;
use crate::{
    csv::tests::damage,
    format::reader::FormatReader,
    testing::{Memory, Random, host, read_all, table},
};

/// Columns of every kind; two differ only in case.
const COLUMNS: [(&str, &str); 14] = [
    ("i", "BIGINT"),
    ("n", "TINYINT"),
    ("u", "BIGINT UNSIGNED"),
    ("d", "DOUBLE"),
    ("f", "FLOAT"),
    ("s", "STRING"),
    ("S", "STRING"),
    ("a_key_of_more_than_sixteen_bytes", "STRING"),
    ("b", "BOOLEAN"),
    ("m", "DECIMAL"),
    ("x", "BYTES"),
    ("t", "TIMESTAMP"),
    ("z", "TIMESTAMP_LTZ"),
    ("y", "DATE"),
];

/// Values that lines in the usual form have, for columns of a kind.
fn usual(kind: &str) -> &'static [&'static str] {
    match kind {
        "BIGINT" => &["1", "-12345678", "123456789012", "0", "null", "-0", "9223372036854775807", "\"17\"", "1.0"],
        "TINYINT" => &["1", "-128", "127", "null", "\"5\""],
        "BIGINT UNSIGNED" => &["1", "18446744073709551615", "null"],
        "DOUBLE" => &["1.5", "-0.25", "123456.7890123", "1e3", "-0", "0", "12", "0.1", "1E-2", "\"NaN\"", "null"],
        "FLOAT" => &["1.5", "0.1", "-2", "\"-Infinity\"", "null"],
        "BOOLEAN" => &["true", "false", "null", "\"yes\""],
        "DECIMAL" => &["1.25", "-3", "0.005", "null", "\"7.5\""],
        "BYTES" => &["\"00ff\"", "\"\"", "null"],
        "TIMESTAMP" => &["\"2013-01-01T10:15:00Z\"", "\"2013-02-28 23:59:59.25\"", "\"2013-01-01\"", "null"],
        "TIMESTAMP_LTZ" => &["\"2013-01-01T10:15:00Z\"", "\"2013-07-01 10:15:00\"", "\"2013-11-03T01:30:00\"", "null"],
        "DATE" => &["\"2013-01-01\"", "\"1970-01-01\"", "null"],
        _ => &[
            "\"\"",
            "\"x\"",
            "\"a, b: {c}\"",
            "\"ä\"",
            "\"more than thirty-two bytes of text, really\"",
            "7",
            "true",
            "null",
        ],
    }
}

/// Values that are malformed, nested, escaped, out of range or of other types.
const UNUSUAL: [&str; 40] = [
    "\"a\\nb\"",
    "\"\\u00e4\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud800\"",
    "\"\\udc00x\"",
    "\"\\x\"",
    "\"\\",
    "\"",
    "{\"a\": [1]}",
    "[1,2]",
    "[]",
    "{}",
    "[1",
    "{\"a\":1",
    "1e400",
    "-1e400",
    "123456789012345678901234567890",
    "300",
    "01",
    "-01",
    "00.5",
    "1.",
    ".5",
    "+1",
    "-",
    "0x1",
    "1 2",
    "nul",
    "nulll",
    "True",
    "NaN",
    "\"x\"\"y\"",
    "\"x\"}\"y\"",
    "\"x\":\"y\"",
    "\"a\tb\"",
    " ",
    "",
    "\"2013-02-29\"",
    "2013-01-01",
    "1e",
];

fn any<'a>(random: &mut Random, texts: &[&'a str]) -> &'a str {
    texts[random.below(texts.len() as u64) as usize]
}

/// Lines with so many unusual things in a thousand members.
fn lines(random: &mut Random, oddness: u64) -> Vec<u8> {
    let (comma, colon) = if random.below(3) == 0 { (", ", ": ") } else { (",", ":") };
    let omits = random.below(3) == 0;
    let line_end = any(random, &["\n", "\n", "\r\n"]);
    let mut text = String::new();
    for _ in 0..random.below(250) {
        let mut members = Vec::new();
        for (name, kind) in COLUMNS {
            if omits && random.below(5) == 0 {
                continue;
            }
            let odd = random.below(1000) < oddness;
            let value = if odd { any(random, &UNUSUAL) } else { any(random, usual(kind)) };
            let key = match random.below(2000) {
                what if what >= oddness => format!("\"{name}\""),
                what => match what % 8 {
                    0 => format!("\"{}\"", name.to_uppercase()),
                    1 => format!(" \"{name}\""),
                    2 => format!("\"{name}\" "),
                    3 => format!("\"\\u{:04x}\"", u32::from(name.as_bytes()[0])),
                    4 => name.to_string(),
                    5 => format!("\"{name}"),
                    6 => format!("\"{name}\":\"{name}\""),
                    _ => "\"other\"".to_string(),
                },
            };
            members.push(format!("{key}{colon}{value}"));
        }
        if random.below(4) == 0 {
            members.push(format!("\"more\"{colon}{}", any(random, usual("STRING"))));
        }
        if random.below(1000) < oddness && !members.is_empty() {
            let (from, to) = (random.below(members.len() as u64), random.below(members.len() as u64));
            match random.below(3) {
                0 => members.swap(from as usize, to as usize),
                1 => members.push(members[from as usize].clone()),
                _ => members.push(String::new()),
            }
        }
        let mut line = format!("{{{}}}", members.join(comma));
        if random.below(1000) < oddness {
            match random.below(6) {
                0 => line.truncate(line.floor_char_boundary(random.below(line.len() as u64) as usize)),
                1 => line += any(random, &[" ", "x", "}", "\t", "\r", "{}", ","]),
                2 => line.insert_str(0, any(random, &[" ", "\u{feff}", "\t", "{", "\"", "[1]\n", "\n"])),
                3 => line.insert(1, ' '),
                4 => line.insert(line.len() - 1, ' '),
                _ => line = any(random, &["", "{}", "[]", "12", "null", "\"{}\"", "{\"i\"}", "{:}", "{,}"]).to_string(),
            }
        }
        text += &line;
        text += line_end;
    }
    if random.below(4) == 0 {
        text.truncate(text.trim_end().len());
    }
    text.into_bytes()
}

#[test]
fn lines_together_give_what_they_give_one_by_one() {
    let required = ["", " NOT NULL", " TIME"];
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let bad = ["skip", "fail"][usize::from(random.below(4) == 0)];
        let columns = COLUMNS.map(|(name, kind)| {
            let more =
                if random.below(30) == 0 { required[1 + usize::from(kind.starts_with("TIMESTAMP"))] } else { "" };
            // A key of no column may have any value.
            let name = if random.below(30) == 0 { "unknown" } else { name };
            format!("{name} {kind}{more}")
        });
        let table = table(&columns.join(","), &format!("format=json; bad.rows={bad}"));
        let oddness = [0, 1, 5, 100][random.below(4) as usize];
        let mut text = lines(&mut random, oddness);
        for _ in 0..[0, 0, 1, 5][random.below(4) as usize] {
            damage(&mut text, &mut random);
        }
        let decoder = || JsonDecoder::new(&table, "input").unwrap();
        let read = |decoder: JsonDecoder, most: u64, rows| {
            let mut lengths = Random::new(seed);
            let bytes = Memory::new(&text, move || 1 + lengths.below(most) as usize);
            read_all(&mut FormatReader::new(Box::new(bytes), Box::new(decoder), host()), rows)
        };
        let rows = [4096, 100, 3][random.below(3) as usize];
        let together = read(decoder(), [1 << 40, 5000][random.below(2) as usize], rows);
        let one_by_one = read(decoder().one_by_one(), 1 << 40, 4096);
        let first = together.iter().zip(&one_by_one).position(|(left, right)| left != right);
        let at = first.unwrap_or(together.len().min(one_by_one.len()));
        let (left, right) = (together.get(at), one_by_one.get(at));
        assert!(left == right, "seed {seed}, row {at}: {left:?} is {right:?} one by one");
    }
}
