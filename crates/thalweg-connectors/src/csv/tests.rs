use thalweg_core::connector::Read;

use crate::{
    csv::{Csv, CsvDecoder},
    format::reader::FormatReader,
    testing::{Memory, Random, host, read_all, read_text, reader, table},
};

fn check(columns: &str, options: &str, text: &str, expected: &[&str]) {
    assert_eq!(
        read_text(columns, &format!("format=csv; {options}"), text),
        expected,
        "{}",
        text.chars().take(200).collect::<String>()
    );
}

#[test]
fn every_type_reads() {
    check(
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT",
        "",
        "true,1,2,3,4\nF, -1 ,,,\n",
        &["true 1 2 3 4", "false -1 null null null"],
    );
    check(
        "f FLOAT, d DOUBLE, n DECIMAL",
        "",
        "0.1,1e3,2.345\nNaN,-Infinity,\n",
        &["0.1 1000.0 2.35", "NaN -Infinity null"],
    );
    check(
        "b BYTES, s STRING, u BIGINT UNSIGNED",
        "",
        "00fF,ä,18446744073709551615\n",
        &["00ff ä 18446744073709551615"],
    );
    check("d DATE, t TIME", "", "2013-02-28,10:15\n", &["2013-02-28 10:15:00"]);
    check(
        "t TIMESTAMP, z TIMESTAMP_LTZ",
        "",
        "2013-01-01 10:15:00,2013-01-01 10:15:00\n2013-01-01T10:15:00+02:00,2013-07-01T10:15:00Z\n",
        &["2013-01-01T10:15:00Z 2013-01-01T10:15:00-05:00", "2013-01-01T08:15:00Z 2013-07-01T06:15:00-04:00"],
    );
}

#[test]
fn headers_are_found_by_their_names() {
    check("b BIGINT, a STRING", "", "A, B ,c\nx,1,y\n", &["1 x"]);
    check("aB BIGINT, Ab STRING", "", "x,Ab,aB\n0,foo,1\n", &["1 foo"]);
    check("a BIGINT, b STRING", "", "1,x\n", &["1 x"]);
    check("a STRING, b STRING", "csv.header=false", "a,b\n", &["a b"]);
    check("column0 STRING, column1 STRING", "", "1,\n2,x\n", &["1 null", "2 x"]);
    check("a BIGINT", "csv.header=true", "b,c\n1,2\n", &["error: column \"a\" is not in the header of input"]);
    check("a BIGINT, d BIGINT", "", "a,b\n1,2\n", &["error: column \"d\" is not in the header of input"]);
}

#[test]
fn a_value_that_is_called_like_a_column_makes_no_header() {
    check("a STRING, b STRING", "", "x,a\nb,y\n", &["x a", "b y"]);
    check("a STRING, b STRING, c BIGINT", "", "a,b,3\n", &["a b 3"]);
    check("a STRING, b STRING, c BIGINT", "", "a,x,\n", &["a x null"]);
    // All columns are named, or what stands there cannot be a row, or most names of text are there.
    check("a STRING, b STRING", "", "b,a\nx,y\n", &["y x"]);
    check("a STRING, b BIGINT", "", "a,c\nx,1\n", &["error: column \"b\" is not in the header of input"]);
    check("a STRING", "", "c,a\nx,1\n", &["1"]);
    let missing = ["error: column \"c\" is not in the header of input"];
    check("a STRING, b STRING, c STRING", "", "a,b,d\nx,y,z\n", &missing);
}

#[test]
fn what_follows_an_open_quote_is_read_as_soon_as_that_is_known() {
    let text = "a,b\n1,\"open\n2,\"two\nlines\"\n3,\"x\"y\n4,z\n";
    check("a BIGINT, b STRING", "bad.rows=skip", text, &["2 two\nlines", "4 z", "bad: 2"]);
}

#[test]
fn nulls_are_told_from_empty_strings() {
    check("a STRING, b BIGINT", "", "a,b\n,\n\"\",\"\"\n", &["null null", " null"]);
    check("a STRING, b BIGINT", "csv.null=NA", "a,b\n,\nNA,NA\n\"NA\",\"NA\"\n", &[" null", "null null", "NA null"]);
    check("a STRING", "", "a\n\nx\n", &["null", "x"]);
    check("a STRING, b STRING", "", "a,b\n\nx,y\n\r\n", &["x y"]);
}

#[test]
fn dialects_are_read() {
    check(
        "a STRING, b BIGINT",
        "csv.delimiter=\\t; csv.comment=#; csv.quote='",
        "# c\n'x\ty'\t1\n#\nz\t2",
        &["x\ty 1", "z 2"],
    );
    check("a STRING, b BIGINT", "csv.escape=\\", "\"a\\\"b\",1\n", &["a\"b 1"]);
    check("a STRING, b BIGINT", "csv.quote=", "\"a,1\n", &["\"a 1"]);
    check("a BIGINT, b BIGINT", "", "\u{feff}a,b\r\n1,2\r\n3,4", &["1 2", "3 4"]);
    check("a BIGINT", "", "", &[]);
}

#[test]
fn messages_say_file_line_column_and_value() {
    let checks = [
        ("a,b\n1,x\nabc,y\n", "input line 3: column \"a\" (field 1): \"abc\" is not a value of type TINYINT"),
        (
            "b,a\n\"two\nlines\",1\nx,300\n",
            "input line 4: column \"a\" (field 2): \"300\" is out of the range of TINYINT",
        ),
        ("a,b\n1\n", "input line 2: 1 field, expected 2"),
        ("a,b\n1,\"x\n\n", "input line 2: column \"b\" (field 2): a quote is opened and not closed before the end"),
        (
            "a,b,c\n1,\"x\"y,\n",
            "input line 2: column \"b\" (field 2): text follows the closing quote of \"x\"; a quote inside of quotes is doubled",
        ),
        (
            "a,b,c\n1,x,\"y\" \n",
            "input line 2: field 3: text follows the closing quote of \"y\"; a quote inside of quotes is doubled",
        ),
        ("a,b\n,x\n", "input line 2: column \"a\" (field 1): null, but the column is declared NOT NULL"),
    ];
    for (text, message) in checks {
        let lines = read_text("a TINYINT NOT NULL, b STRING", "format=csv", text);
        assert_eq!(lines.last().unwrap(), &format!("error: {message}"), "{text:?}");
    }
    let bytes = read_text("a BIGINT, b STRING", "format=csv", b"1,\xff\n");
    assert_eq!(bytes, ["error: input line 1: column \"b\" (field 2): \"\u{fffd}\" is not valid UTF-8"]);
    let late = read_text("t TIMESTAMP TIME", "format=csv", "t\n+200000-01-01\n");
    assert_eq!(
        late,
        ["error: input line 2: column \"t\" (field 1): \"+200000-01-01\" is out of the range of event time"]
    );
    let none = read_text("t TIMESTAMP TIME, a BIGINT", "format=csv", "t,a\n,1\n");
    assert_eq!(none, ["error: input line 2: column \"t\" (field 1): null, but event time is needed in every row"]);
}

#[test]
fn bad_rows_are_skipped_whole_and_counted() {
    let text = "a,b\n1,x\n2\nthree,y\n4,\u{e4}\n5,z\n6,\"open\n7,w\n";
    check("a BIGINT, b STRING", "bad.rows=skip", text, &["1 x", "4 \u{e4}", "5 z", "7 w", "bad: 3"]);
}

#[test]
fn a_record_that_is_too_long_is_malformed() {
    let long = "x".repeat(17 << 20);
    let text = format!("a,b\n{long},1\ny,2\n\"{long}\n\n,3\nz,4\n");
    // The second one ends with its first line.
    let expected = ["y 2", "null 3", "z 4", "bad: 2"];
    check("a STRING, b BIGINT", "bad.rows=skip", &text, &expected);
    check(
        "a STRING, b BIGINT",
        "",
        &text,
        &["error: input line 2: the record is longer than 16 MiB; is a quote not closed?"],
    );
}

#[test]
fn a_file_of_bad_rows_lets_others_have_their_turn() {
    let bytes = Memory::new(b"x\n".repeat(1000).as_slice(), || 2);
    let mut reader = reader(&table("a BIGINT", "format=csv; bad.rows=skip; csv.header=false"), bytes);
    let turns = (0..100).take_while(|_| matches!(reader.read(10), Ok(Read::Wait(Some(_))))).count();
    assert_eq!((turns, reader.bad_rows()), (3, 1000));
}

#[test]
fn options_are_checked() {
    let wrong = |options: &str| Csv::new(&table("a BIGINT", options).options).unwrap_err().to_string();
    assert_eq!(wrong("csv.header=maybe"), "option 'csv.header' is 'maybe', expected 'auto', 'true' or 'false'");
    assert_eq!(wrong("csv.delimiter=||"), "option 'csv.delimiter' is '||', expected one ASCII character");
    assert_eq!(wrong("csv.delimiter="), "option 'csv.delimiter' is empty, expected one character");
    assert_eq!(wrong("csv.quote=,"), "option 'csv.delimiter' is the same character as another option of csv");
}

const COLUMNS: &str = "a BIGINT, b STRING, c DOUBLE, d TIMESTAMP, e BOOLEAN";

/// A file with headers, quotes, nulls and, where the seed wants it, damage.
fn file(random: &mut Random) -> Vec<u8> {
    let mut text = b"a,b,c,d,e\n".to_vec();
    for _ in 0..random.below(30) {
        let fields: [&[&str]; 5] = [
            &["1", "-22", "", "9223372036854775807"],
            &["x", "\"quoted, \"\"twice\"\"\"", "", "\"\"", "\"two\nlines\r\n\"", "ä"],
            &["1.5", "", "nan", "1e300", "0.30000000000000004"],
            &["2013-01-01T10:15:00Z", "2013-01-01", "", "2013-01-01 10:15:00.5+02:00"],
            &["true", "false", ""],
        ];
        let row = fields.map(|choices| choices[random.below(choices.len() as u64) as usize]).join(",");
        text.extend_from_slice(row.as_bytes());
        text.extend_from_slice(if random.below(4) == 0 { b"\r\n" } else { b"\n" });
    }
    for _ in 0..random.below(4) {
        damage(&mut text, random);
    }
    text
}

/// Changes, adds or removes a byte.
pub(crate) fn damage(text: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(text.len() as u64 + 1) as usize;
    let byte = b"\",\n\r\\{}[]:#\xff\x00 9-"[random.below(16) as usize];
    match random.below(3) {
        0 => text.insert(at, byte),
        1 if at < text.len() => drop(text.remove(at)),
        _ if at < text.len() => text[at] = byte,
        _ => {}
    }
}

/// However bytes arrive and rows are asked for, the rows, the errors and the counts are the same.
#[test]
fn batches_and_blocks_make_no_difference() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let text = file(&mut random);
        for options in ["format=csv; csv.comment=#", "format=csv; bad.rows=skip; csv.escape=\\"] {
            let table = table(COLUMNS, options);
            let whole = read_all(&mut *reader(&table, Memory::new(&text, || usize::MAX)), 4096);
            for rows in [1, 7, 4096] {
                let mut lengths = Random::new(seed);
                let most = 1 + seed % 50;
                let pieces = Memory::new(&text, move || 1 + lengths.below(most) as usize);
                let again = read_all(&mut *reader(&table, pieces), rows);
                assert_eq!(again, whole, "seed {seed}, {rows} rows at once: {:?}", String::from_utf8_lossy(&text));
            }
        }
    }
}

#[test]
fn no_bytes_make_it_panic() {
    for seed in 0..4000 {
        let mut random = Random::new(seed);
        let bytes = (0..random.below(200)).map(|_| match random.below(3) {
            0 => random.next() as u8,
            1 => b",\"\n\r"[random.below(4) as usize],
            _ => b"0123456789-.:TZe+ nul"[random.below(21) as usize],
        });
        let bytes = bytes.collect::<Vec<_>>();
        for options in
            ["format=csv", "format=csv; bad.rows=skip", "format=csv; bad.rows=skip; csv.header=true; csv.escape=\\"]
        {
            read_text("a STRING, b DECIMAL, c DATE, d TIME", options, &bytes);
            read_text("a TIMESTAMP_LTZ", options, &bytes);
            read_text("a BYTES, b FLOAT", options, &bytes);
        }
        for is_all in [true, false] {
            super::infer(&Csv::default(), &bytes, is_all).unwrap();
        }
    }
}

/// Records taken together give what they give one by one, whatever is in them.
#[test]
fn blocks_give_what_records_give_one_by_one() {
    let columns = "i BIGINT, s STRING, t TIMESTAMP TIME, d DOUBLE, n TINYINT NOT NULL, b BOOLEAN, f FLOAT, m DECIMAL, x BYTES, \
                   y DATE, z TIME, w STRING";
    let usual = [
        ["1", "-12345678", "1234567890123", "", "007"],
        ["a", "", "\"\"", "\"q,\n\"", "a text that is longer than sixteen bytes"],
        ["2013-01-01T10:15:00Z", "2013-01-01 10:15:00.25", "2013-01-02T23:59:59", "2013-01-02 00:00", "2014-02-28"],
        ["1.5", "-0.25", "12", "123456.7890123", "\"7.5\""],
        ["1", "-7", "100", "\"5\"", " 6 "],
        ["true", "f", "", "1", "FALSE"],
        ["1.5", "0", "", "1e3", "-2.25"],
        ["1.5", "0", "", "12.345", "-2"],
        ["00ff", "", "ab", "\"0a\"", "12"],
        ["2013-01-01", "", "2013-12-31", "1970-01-01", "2014-02-28"],
        ["10:15", "", "10:15:30.5", "00:00:00", "23:59:59"],
        ["last", "", "\"\"", "\"two\r\nlines\"", "a"],
    ];
    let unusual =
        ["x", "\"a\"\"b\"", "a\"b", "ä", "\"x\"y", "300", "1e400", "1,2", "a\nb", "\u{feff}", "NA", "\"NA\"", "\r", ""];
    let options = [
        "",
        "; csv.null=NA",
        "; csv.comment=#",
        "; csv.escape=\\",
        "; csv.quote=",
        "; csv.header=false",
        "; csv.delimiter=;",
    ];
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let option = options[random.below(options.len() as u64) as usize];
        let bad = ["skip", "fail"][usize::from(random.below(4) == 0)];
        let table = table(columns, &format!("format=csv; bad.rows={bad}{option}"));
        let (delimiter, oddness) =
            (if option.ends_with(';') { ";" } else { "," }, [0, 3, 50][random.below(3) as usize]);
        let mut text = String::new();
        for _ in 0..random.below(400) {
            let mut fields = usual.map(|texts| texts[random.below(5) as usize]);
            if random.below(1000) < oddness {
                fields[random.below(12) as usize] = unusual[random.below(unusual.len() as u64) as usize];
            }
            text += &fields.join(delimiter);
            text += ["\n", "\r\n", "\n\n", "\n#\n"]
                [if oddness == 0 { 0 } else { (random.below(40) as usize).saturating_sub(36) }];
        }
        let csv = Csv::new(&table.options).unwrap();
        let read = |decoder: CsvDecoder, rows| {
            let bytes = Memory::new(text.as_bytes(), || usize::MAX);
            read_all(&mut FormatReader::new(Box::new(bytes), Box::new(decoder), host()), rows)
        };
        let decoder = || CsvDecoder::new(&csv, &table, "input").unwrap();
        let together = read(decoder(), [4096, 100, 3][random.below(3) as usize]);
        let one_by_one = read(decoder().one_by_one(), 4096);
        assert!(together == one_by_one, "seed {seed}, {option:?}: {}", first_difference(&together, &one_by_one));
    }
}

fn first_difference(left: &[String], right: &[String]) -> String {
    let at = left.iter().zip(right).position(|(left, right)| left != right).unwrap_or(left.len().min(right.len()));
    format!("row {at} is {:?} and {:?}", left.get(at), right.get(at))
}
