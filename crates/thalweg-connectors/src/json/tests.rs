use crate::{
    csv::tests::damage,
    testing::{Memory, Random, read_all, read_text, reader, table},
};

fn check(columns: &str, options: &str, text: &str, expected: &[&str]) {
    assert_eq!(read_text(columns, &format!("format=json; {options}"), text), expected, "{text:?}");
}

#[test]
fn every_type_reads() {
    let text =
        r#"{"b":true,"i":-1,"d":1.5,"s":"ä\n\u0041","n":2.345,"x":"00ff","t":"2013-01-01T10:15:00Z","y":"2013-01-01"}"#;
    check(
        "b BOOLEAN, i INT, d DOUBLE, s STRING, n DECIMAL, x BYTES, t TIMESTAMP, y DATE",
        "",
        text,
        &["true -1 1.5 ä\nA 2.35 00ff 2013-01-01T10:15:00Z 2013-01-01"],
    );
    check(
        "u BIGINT UNSIGNED, f FLOAT, t TIME",
        "",
        r#"{"u":18446744073709551615,"f":"NaN","t":"10:15"}"#,
        &["18446744073709551615 NaN 10:15:00"],
    );
}

#[test]
fn keys_match_exactly_or_else_in_any_case() {
    check(
        "a BIGINT, B BIGINT",
        "",
        "{\"b\":2,\"A\":1,\"c\":{\"x\":[]}}\n{}\n\n{\"a\":null,\"B\":3}",
        &["1 2", "null null", "null 3"],
    );
    check(
        "a BIGINT",
        "",
        "{\"a\":1,\"A\":2}\n{\"A\":1,\"a\":2}\n{\"a\":1,\"a\":2}\n{\"\\u0061\":5}",
        &["1", "2", "2", "5"],
    );
    let escaped = "{\"a\\\"b\":1,\"c\":2}\n{\"a\"b\":3}";
    check("a\"b BIGINT, c BIGINT", "bad.rows=skip", escaped, &["1 2", "bad: 1"]);
    check("a BIGINT, A BIGINT", "", "{\"a\":1,\"A\":2}", &["1 2"]);
}

#[test]
fn values_are_read_as_their_text() {
    check(
        "s STRING",
        "",
        "{\"s\":1.10}\n{\"s\":true}\n{\"s\":{\"a\": [1]}}\n{\"s\":\"\"}",
        &["1.10", "true", "{\"a\": [1]}", ""],
    );
    check("i BIGINT", "", "{\"i\":\"12\"}\n{\"i\":1.0}", &["12", "1"]);
}

#[test]
fn messages_say_line_column_and_value() {
    let checks = [
        ("{\"a\":1}\n{\"a\":\"x\"}", "input line 2: column \"a\": \"x\" is not a value of type TINYINT"),
        ("{\"a\":300}", "input line 1: column \"a\": \"300\" is out of the range of TINYINT"),
        ("{\"a\":[1]}", "input line 1: column \"a\": \"[1]\" is not a value of type TINYINT"),
        ("\n\n{}", "input line 3: column \"a\": null, but the column is declared NOT NULL"),
        ("{\"a\":1,}", "input line 1: not a JSON object, at character 8: trailing comma"),
        ("{\"a\":1} {\"a\":2}", "input line 1: not a JSON object, at character 9: trailing characters"),
        ("{\"a\":\"\\ud800\"}", "input line 1: column \"a\": \"\\\\ud800\" is not valid UTF-8"),
    ];
    for (text, message) in checks {
        let lines = read_text("a TINYINT NOT NULL, s STRING", "format=json", text);
        assert_eq!(lines.last().unwrap(), &format!("error: {message}"), "{text}");
    }
    let late = read_text("t TIMESTAMP TIME", "format=json", "{\"t\":\"+200000-01-01\"}");
    assert_eq!(late, ["error: input line 1: column \"t\": \"+200000-01-01\" is out of the range of event time"]);
}

#[test]
fn bad_rows_are_skipped_whole_and_counted() {
    let long = "x".repeat(17 << 20);
    let text = format!("{{\"a\":1,\"b\":2}}\nnonsense\n{{\"a\":3,\"b\":\"x\"}}\n{long}\n{{\"a\":4}}\n{long}");
    check("a BIGINT, b BIGINT", "bad.rows=skip", &text, &["1 2", "4 null", "bad: 4"]);
}

const COLUMNS: &str = "a BIGINT, b STRING, c DOUBLE, d TIMESTAMP, e BOOLEAN";

/// A file of objects and, where the seed wants it, damage.
fn file(random: &mut Random) -> Vec<u8> {
    let mut text = vec![];
    for _ in 0..random.below(20) {
        let members: [&[&str]; 6] = [
            &["\"a\":1", "\"A\":-22", "\"a\":null", "\"a\": 9223372036854775807"],
            &["\"b\":\"x\"", "\"b\":\"\\\"\\n\\u00e4\"", "\"b\":{\"x\":[1,2]}", "\"b\":7"],
            &["\"c\":1.5", "\"c\":\"NaN\"", "\"c\":1e300"],
            &["\"d\":\"2013-01-01T10:15:00Z\"", "\"d\":\"2013-01-01\"", "\"d\":null"],
            &["\"e\":true", "\"e\":false"],
            &["\"other\":[{}]", "\"a\":2", "\"x\":null"],
        ];
        let row = members.map(|choices| choices[random.below(choices.len() as u64) as usize]).join(",");
        text.extend_from_slice(format!("{{{row}}}\n").as_bytes());
    }
    for _ in 0..random.below(4) {
        damage(&mut text, random);
    }
    text
}

/// However bytes arrive and rows are asked for, the rows, the errors and the counts are the same.
#[test]
fn batches_and_blocks_make_no_difference() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let text = file(&mut random);
        for options in ["format=json", "format=json; bad.rows=skip"] {
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
            1 => b"{}\":,[]\n"[random.below(8) as usize],
            _ => b"abcd0123456789\\untrue"[random.below(21) as usize],
        });
        let bytes = bytes.collect::<Vec<_>>();
        for options in ["format=json", "format=json; bad.rows=skip"] {
            read_text("a STRING, b DECIMAL, c DATE, d BYTES", options, &bytes);
        }
        super::infer(&bytes, true);
        super::infer(&bytes, false);
    }
}
