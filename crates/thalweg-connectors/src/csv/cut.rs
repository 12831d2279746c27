//! Where bytes can be cut between two records.

use super::Csv;

/// Where the last complete record of `bytes` ends, which begin with a record.
///
/// A quote opens a field only where a field begins, as when records are split. What is malformed, or looks like a quoted field
/// in a comment, may be misjudged: whoever decodes what was cut finds that out.
pub(super) fn cut(csv: &Csv, bytes: &[u8]) -> Option<usize> {
    let end_of_line = |bytes: &[u8]| memchr::memrchr(b'\n', bytes).map(|end| end + 1);
    let Some(quote) = csv.quote else { return end_of_line(bytes) };
    let escape = csv.escape.unwrap_or(quote);
    let (mut from, mut at, mut last) = (0, 0, None);
    // From `from` on, no field is quoted.
    while let Some(length) = memchr::memchr(quote, &bytes[at..]) {
        let open = at + length;
        at = open + 1;
        let begins = open == 0 || bytes[open - 1] == csv.delimiter || bytes[open - 1] == b'\n';
        if !begins {
            continue;
        }
        last = end_of_line(&bytes[from..open]).map(|length| from + length).or(last);
        let Some(close) = closing(bytes, at, quote, escape) else { return last };
        (from, at) = (close + 1, close + 1);
    }
    end_of_line(&bytes[from..]).map(|length| from + length).or(last)
}

/// Where the quote is that closes a field.
fn closing(bytes: &[u8], mut at: usize, quote: u8, escape: u8) -> Option<usize> {
    loop {
        let found = at + memchr::memchr2(quote, escape, bytes.get(at..)?)?;
        // Of a doubled quote and of an escaped character, both are passed over.
        if bytes[found] == quote && bytes.get(found + 1) != Some(&quote) {
            return Some(found);
        }
        at = found + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        csv::split::{Next, Splitter},
        testing::Random,
    };

    #[test]
    fn line_ends_in_quotes_do_not_cut() {
        let at = |text: &str| cut(&Csv::default(), text.as_bytes());
        assert_eq!(at("a,b\nc,d"), Some(4));
        assert_eq!(at("a,\"b\nc\",d"), None);
        assert_eq!(at("a,b\n\"c\n\"\"\n\",d\ne"), Some(14));
        assert_eq!(at("a,b\n\"c\n"), Some(4));
        assert_eq!(at("5\",b\n6\",\"x\n"), Some(5));
        assert_eq!(at("\"a\"\n"), Some(4));
        let escaped = Csv { escape: Some(b'\\'), ..Csv::default() };
        assert_eq!(cut(&escaped, b"a\n\"b\\\"\n\"\nc"), Some(9));
        assert_eq!(cut(&Csv { quote: None, ..Csv::default() }, b"\"a\n\"b"), Some(3));
    }

    /// Where all records are well formed, the cut is exactly where the splitter has come to.
    #[test]
    fn well_formed_bytes_are_cut_where_records_end() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let mut text = Vec::new();
            for _ in 0..random.below(8) {
                for field in 0..1 + random.below(3) {
                    let pieces = ["a", "1.5", "", "\"x\"", "\"\"", "\"l1\nl2\"", "\"a,\"\"b\"\"\n\"", "5\"", "a\"\"b"];
                    text.extend_from_slice(if field > 0 { b"," } else { b"" });
                    text.extend_from_slice(pieces[random.below(pieces.len() as u64) as usize].as_bytes());
                }
                text.extend_from_slice(if random.below(2) == 0 { b"\n" } else { b"\r\n" });
            }
            text.truncate(text.len() - random.below(4).min(text.len() as u64) as usize);
            let (mut splitter, mut end) = (Splitter::new(&Csv::default()), 0);
            while let Next::Record { length, .. } | Next::Blank { length } = splitter.next(&text[end..], false) {
                end += length;
            }
            let expected = (end > 0).then_some(end);
            assert_eq!(cut(&Csv::default(), &text), expected, "seed {seed}: {:?}", String::from_utf8_lossy(&text));
        }
    }
}
