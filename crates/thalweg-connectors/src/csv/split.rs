//! Splits bytes into records and fields.
//!
//! A record without any quote is the rule: its fields lie between delimiters, and they are used where they lie. Only of a record
//! with a quote in it are the fields' characters copied, without the quotes. Both ways give the same fields; a test holds them
//! to it.

use super::Csv;
use crate::text::words::{broadcast, zeros};

/// Finds one record after another, and keeps the fields of the last one.
pub(super) struct Splitter {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    comment: Option<u8>,
    fields: Vec<Place>,
    unquoted: Vec<u8>,
    is_unquoted: bool,
}

/// Where a field's text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    start: usize,
    end: usize,
    is_quoted: bool,
}

/// What bytes begin with. Lengths are in bytes, line ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A record that has so many line ends.
    Record { length: usize, lines: u64 },
    /// A line with nothing on it.
    Blank { length: usize },
    /// A line that is to be skipped.
    Comment { length: usize },
    /// Perhaps a record, if more bytes come.
    Incomplete,
    /// A field, with this number, whose quote is not closed before the end.
    Unterminated { field: usize },
    /// A field, with this number, that goes on behind its closing quote; all up to there has this length.
    Stray { field: usize, length: usize },
    /// Nothing at all.
    End,
}

/// The fields of a record.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    bytes: &'a [u8],
    fields: &'a [Place],
}

impl Record<'_> {
    /// How many fields it has.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The text of a field, and whether it was quoted.
    #[inline]
    pub(super) fn field(&self, index: usize) -> (&[u8], bool) {
        let Place { start, end, is_quoted } = self.fields[index];
        (&self.bytes[start..end], is_quoted)
    }

    /// The fields as text.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.len()).map(|i| String::from_utf8_lossy(self.field(i).0).into_owned())
    }
}

impl Splitter {
    /// A splitter of a dialect.
    pub(super) fn new(csv: &Csv) -> Self {
        Self {
            delimiter: csv.delimiter,
            quote: csv.quote,
            escape: csv.escape,
            comment: csv.comment,
            fields: vec![],
            unquoted: vec![],
            is_unquoted: false,
        }
    }

    /// Looks at what the bytes begin with; `is_all` says that none come after them.
    pub(super) fn next(&mut self, bytes: &[u8], is_all: bool) -> Next {
        if bytes.is_empty() {
            return if is_all { Next::End } else { Next::Incomplete };
        }
        if self.comment == Some(bytes[0]) {
            return match line_length(bytes, is_all) {
                Some(length) => Next::Comment { length },
                None => Next::Incomplete,
            };
        }
        self.fields.clear();
        self.is_unquoted = false;
        match self.split_plain(bytes) {
            Plain::Line(end) => self.end_plain(bytes, end, end + 1),
            Plain::Open if is_all => self.end_plain(bytes, bytes.len(), bytes.len()),
            Plain::Open => Next::Incomplete,
            Plain::Quote => self.split_quoted(bytes, is_all),
        }
    }

    /// The record that was found at the beginning of `bytes`.
    pub(super) fn record<'a>(&'a self, bytes: &'a [u8]) -> Record<'a> {
        Record { bytes: if self.is_unquoted { &self.unquoted } else { bytes }, fields: &self.fields }
    }

    /// The last field that was begun, as far as it could be read.
    pub(super) fn last_text(&self) -> &[u8] {
        &self.unquoted[self.fields.last().map_or(0, |place| place.end)..]
    }

    /// Finds the delimiters up to the end of the line, eight bytes at a time.
    fn split_plain(&mut self, bytes: &[u8]) -> Plain {
        let quote = self.quote.unwrap_or(b'\n');
        let (delimiters, quotes) = (broadcast(self.delimiter), broadcast(quote));
        let (words, rest) = bytes.as_chunks::<8>();
        let mut start = 0;
        for (i, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            let mut hits = zeros(word ^ delimiters) | zeros(word ^ LINE_ENDS) | zeros(word ^ quotes);
            while hits != 0 {
                let at = 8 * i + (hits.trailing_zeros() / 8) as usize;
                match self.special(bytes[at], start, at) {
                    Some(end) => return end,
                    None => start = at + 1,
                }
                hits &= hits - 1;
            }
        }
        for (i, byte) in rest.iter().enumerate() {
            let at = 8 * words.len() + i;
            if *byte == self.delimiter || *byte == b'\n' || *byte == quote {
                match self.special(*byte, start, at) {
                    Some(end) => return end,
                    None => start = at + 1,
                }
            }
        }
        self.fields.push(Place { start, end: bytes.len(), is_quoted: false });
        Plain::Open
    }

    #[inline]
    fn special(&mut self, byte: u8, start: usize, at: usize) -> Option<Plain> {
        if byte != self.delimiter && byte != b'\n' {
            return Some(Plain::Quote);
        }
        self.fields.push(Place { start, end: at, is_quoted: false });
        (byte == b'\n').then_some(Plain::Line(at))
    }

    /// The last field of a record without quotes ends at `end`, but for a carriage return.
    fn end_plain(&mut self, bytes: &[u8], end: usize, length: usize) -> Next {
        let last = self.fields.last_mut().expect("a line has a field");
        if last.end > last.start && bytes[last.end - 1] == b'\r' {
            last.end -= 1;
        }
        match (self.fields.len(), self.fields[0].end) {
            (1, 0) => Next::Blank { length },
            _ => Next::Record { length, lines: u64::from(length > end) },
        }
    }

    /// Finds the fields of a record that has a quote somewhere.
    fn split_quoted(&mut self, bytes: &[u8], is_all: bool) -> Next {
        self.fields.clear();
        self.unquoted.clear();
        self.is_unquoted = true;
        let mut at = 0;
        loop {
            let start = self.unquoted.len();
            let is_quoted = self.quote.is_some() && bytes.get(at).copied() == self.quote;
            let closed = if is_quoted { self.quoted(bytes, at + 1) } else { self.unquoted(bytes, at) };
            let field = self.fields.len();
            at = match closed {
                Closed::At(end) if end < bytes.len() || is_all => end,
                Closed::Open if is_all => return Next::Unterminated { field },
                Closed::At(_) | Closed::Open => return Next::Incomplete,
                Closed::Behind(length) => return Next::Stray { field, length },
            };
            self.fields.push(Place { start, end: self.unquoted.len(), is_quoted });
            match bytes.get(at) {
                Some(byte) if *byte == self.delimiter => at += 1,
                end => return whole(&bytes[..at + usize::from(end.is_some())]),
            }
        }
    }

    /// Copies a field that does not begin with a quote.
    fn unquoted(&mut self, bytes: &[u8], at: usize) -> Closed {
        let end = memchr::memchr2(self.delimiter, b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
        let text = &bytes[at..end];
        let is_last = bytes.get(end) != Some(&self.delimiter);
        self.unquoted.extend_from_slice(text.strip_suffix(b"\r").filter(|_| is_last).unwrap_or(text));
        Closed::At(end)
    }

    /// Copies a field from behind its first quote.
    fn quoted(&mut self, bytes: &[u8], mut at: usize) -> Closed {
        let quote = self.quote.expect("a quote was found");
        let escape = self.escape.unwrap_or(quote);
        while let Some(length) = memchr::memchr2(quote, escape, &bytes[at..]) {
            self.unquoted.extend_from_slice(&bytes[at..at + length]);
            at += length + 1;
            let is_escape = bytes[at - 1] != quote;
            match bytes.get(at) {
                None if is_escape => return Closed::Open,
                Some(byte) if is_escape || *byte == quote => self.unquoted.push(*byte),
                // A carriage return belongs to the line end, which may be that of the file.
                Some(b'\r') if matches!(bytes.get(at + 1), None | Some(b'\n')) => return Closed::At(at + 1),
                Some(byte) if *byte != self.delimiter && *byte != b'\n' => return Closed::Behind(at),
                _ => return Closed::At(at),
            }
            at += 1;
        }
        self.unquoted.extend_from_slice(&bytes[at.min(bytes.len())..]);
        Closed::Open
    }
}

/// Where a field ends that goes through `split_quoted`.
enum Closed {
    /// Before the delimiter or line end here, or at the end of the bytes.
    At(usize),
    /// Not yet: a quote is open.
    Open,
    /// It should have ended here, behind its closing quote, but something else than a delimiter or a line end comes.
    Behind(usize),
}

fn whole(record: &[u8]) -> Next {
    Next::Record { length: record.len(), lines: memchr::memchr_iter(b'\n', record).count() as u64 }
}

/// How a record without quotes goes on.
enum Plain {
    /// It ends with the line end here.
    Line(usize),
    /// It has not ended.
    Open,
    /// It has a quote after all.
    Quote,
}

/// The length of the first line, with its end.
pub(super) fn line_length(bytes: &[u8], is_all: bool) -> Option<usize> {
    memchr::memchr(b'\n', bytes).map(|end| end + 1).or(is_all.then_some(bytes.len()))
}

const LINE_ENDS: u64 = broadcast(b'\n');

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = Vec<(String, bool)>;

    fn fields(splitter: &Splitter, bytes: &[u8]) -> Fields {
        let record = splitter.record(bytes);
        let field = |i| (String::from_utf8_lossy(record.field(i).0).into_owned(), record.field(i).1);
        (0..record.len()).map(field).collect()
    }

    fn split(text: &str) -> (Next, Fields) {
        let mut splitter = Splitter::new(&Csv::default());
        let next = splitter.next(text.as_bytes(), true);
        (next, fields(&splitter, text.as_bytes()))
    }

    fn own(fields: &[(&str, bool)]) -> Fields {
        fields.iter().map(|(text, is_quoted)| (text.to_string(), *is_quoted)).collect()
    }

    #[test]
    fn quotes_are_seen_and_taken_away() {
        let (next, fields) = split("a,\"b, \"\"c\"\"\",\"\",,\"two\nlines\"\r\nnext");
        assert_eq!(next, Next::Record { length: 30, lines: 2 });
        assert_eq!(fields, own(&[("a", false), ("b, \"c\"", true), ("", true), ("", false), ("two\nlines", true)]));
        assert_eq!(split("a\"b,c\r").1, own(&[("a\"b", false), ("c", false)]));
        assert_eq!(split("\"a\r\"\n").1, own(&[("a\r", true)]));
    }

    #[test]
    fn an_open_quote_at_the_end_is_unterminated() {
        assert_eq!(split("a,\"b\nc,d\n").0, Next::Unterminated { field: 1 });
        assert_eq!(split("a,\"b\"").0, Next::Record { length: 5, lines: 0 });
        let mut splitter = Splitter::new(&Csv::default());
        assert_eq!(splitter.next(b"a,\"b", false), Next::Incomplete);
        assert_eq!(splitter.next(b"a,\"b\"", false), Next::Incomplete);
        assert_eq!(splitter.next(b"a,\"b\"\n", false), Next::Record { length: 6, lines: 1 });
    }

    #[test]
    fn nothing_may_follow_a_closing_quote() {
        let stray = |text| match split(text).0 {
            Next::Stray { field, length } => (field, length),
            other => panic!("{other:?}"),
        };
        assert_eq!(stray("1,\"x\"y\n"), (1, 5));
        assert_eq!(stray("\"x\" ,1\n"), (0, 3));
        assert_eq!(stray("\"x\"\ry\n"), (0, 3));
        assert_eq!(stray("a,\"b\nc,\"d\"\n"), (1, 8));
        let mut splitter = Splitter::new(&Csv { escape: Some(b'\\'), ..Csv::default() });
        assert_eq!(splitter.next(b"\"a\\\"\"\"b\\\\\",c", true), Next::Record { length: 12, lines: 0 });
        assert_eq!(fields(&splitter, b"")[0].0, "a\"\"b\\");
    }

    /// What is written with quotes is read, wherever the bytes are cut off meanwhile.
    #[test]
    fn quoted_fields_come_back() {
        for seed in 0..2000 {
            let mut random = crate::testing::Random::new(seed);
            let letters = b"a,\"\r\n\xff ";
            let text = |random: &mut crate::testing::Random| -> Vec<u8> {
                (0..random.below(6)).map(|_| letters[random.below(7) as usize]).collect()
            };
            let texts: Vec<_> = (0..1 + random.below(4)).map(|_| text(&mut random)).collect();
            let quoted = texts.iter().map(|text| [b"\"", &doubled(text)[..], b"\""].concat());
            let mut line = quoted.collect::<Vec<_>>().join(&b',');
            line.extend_from_slice(if seed % 2 == 0 { b"\n" } else { b"\r\n" });
            let mut splitter = Splitter::new(&Csv::default());
            for end in 0..line.len() {
                assert_eq!(splitter.next(&line[..end], false), Next::Incomplete, "seed {seed}: {line:?}");
            }
            let lines = line.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(splitter.next(&line, false), Next::Record { length: line.len(), lines }, "seed {seed}");
            let record = splitter.record(&line);
            let found: Vec<_> = (0..record.len()).map(|i| record.field(i).0.to_vec()).collect();
            assert_eq!(found, texts, "seed {seed}: {line:?}");
        }
    }

    fn doubled(text: &[u8]) -> Vec<u8> {
        text.split(|byte| *byte == b'"').collect::<Vec<_>>().join(&b"\"\""[..])
    }

    #[test]
    fn blank_lines_and_comments_are_told_apart() {
        let mut splitter = Splitter::new(&Csv { comment: Some(b'#'), ..Csv::default() });
        assert_eq!(splitter.next(b"\r\na", false), Next::Blank { length: 2 });
        assert_eq!(splitter.next(b"# \"\na", false), Next::Comment { length: 4 });
        assert_eq!(splitter.next(b"", true), Next::End);
    }

    /// The plain way must find what the way with quotes finds, on any bytes without quotes.
    #[test]
    fn both_ways_find_the_same_fields() {
        for seed in 0..3000 {
            let mut random = crate::testing::Random::new(seed);
            let alphabet = b"a,b\r\n,\n\xef\xbb\xbf ";
            let bytes = (0..random.below(40)).map(|_| alphabet[random.below(11) as usize]).collect::<Vec<_>>();
            let mut splitter = Splitter::new(&Csv::default());
            let next = splitter.next(&bytes, true);
            let Next::Record { .. } = next else { continue };
            let plain = fields(&splitter, &bytes);
            assert_eq!(splitter.split_quoted(&bytes, true), next, "seed {seed}: {bytes:?}");
            assert_eq!(fields(&splitter, &bytes), plain, "seed {seed}: {bytes:?}");
        }
    }
}
