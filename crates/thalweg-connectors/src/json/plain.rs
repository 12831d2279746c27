//! Walks over the usual kind of object fast: no escapes, nothing nested.
//!
//! Whatever is unusual, malformed input first of all, is left to [`walk`](super::object::walk), which starts again and decides.
//! So this way only has to be right where it goes to the end; a test holds it to the other one.

use super::object::Members;
use crate::text::words::{broadcast, zeros};

/// How far the walk came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// To the end.
    All,
    /// The members stopped it.
    Stopped,
    /// There is something unusual; some members may have been taken already.
    Unusual,
}

/// Walks over the one object in `line`.
pub(super) fn walk_plain(line: &[u8], members: &mut dyn Members) -> Walked {
    try_walk(line, members).unwrap_or(Walked::Unusual)
}

fn try_walk(line: &[u8], members: &mut dyn Members) -> Option<Walked> {
    let mut at = spaces(line, 0);
    if *line.get(at)? != b'{' {
        return None;
    }
    loop {
        let start = spaces(line, at + 1);
        let (key, end) = key(line, start, members)?;
        at = spaces(line, end);
        if *line.get(at)? != b':' {
            return None;
        }
        let start = spaces(line, at + 1);
        let end = value(line, start)?;
        if let Some(number) = key
            && members.take(number, &line[start..end]).is_err()
        {
            return Some(Walked::Stopped);
        }
        at = spaces(line, end);
        match line.get(at)? {
            b',' => {}
            b'}' if at + 1 == line.len() => return Some(Walked::All),
            _ => return None,
        }
    }
}

/// The number of a key, if it is wanted, and the end of it.
fn key(line: &[u8], start: usize, members: &mut dyn Members) -> Option<(Option<usize>, usize)> {
    if *line.get(start)? == b'"'
        && let Some((number, length)) = members.guess(&line[start + 1..])
    {
        return Some((Some(number), start + 1 + length));
    }
    let end = string(line, start)?;
    let key = std::str::from_utf8(&line[start + 1..end - 1]).ok()?;
    Some((members.find(key), end))
}

fn spaces(line: &[u8], mut at: usize) -> usize {
    while line.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// The end of a string without escapes.
fn string(line: &[u8], start: usize) -> Option<usize> {
    if *line.get(start)? != b'"' {
        return None;
    }
    let end = start + 1 + special(&line[start + 1..])?;
    (line[end] == b'"').then_some(end + 1)
}

/// The first quote, backslash or control character.
fn special(text: &[u8]) -> Option<usize> {
    const QUOTES: u64 = broadcast(b'"');
    const BACKSLASHES: u64 = broadcast(b'\\');
    const CONTROLS: u64 = broadcast(0xe0);
    let (words, rest) = text.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let hits = zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES) | zeros(word & CONTROLS);
        if hits != 0 {
            return Some(8 * i + (hits.trailing_zeros() / 8) as usize);
        }
    }
    let is_special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < b' ';
    rest.iter().position(is_special).map(|at| 8 * words.len() + at)
}

/// The end of a value that is not nested.
fn value(line: &[u8], start: usize) -> Option<usize> {
    let word = |word: &[u8]| line[start..].starts_with(word).then_some(start + word.len());
    match line.get(start)? {
        b'"' => string(line, start),
        b'n' => word(b"null"),
        b't' => word(b"true"),
        b'f' => word(b"false"),
        _ => number(line, start),
    }
}

/// The end of a number without an exponent.
fn number(line: &[u8], start: usize) -> Option<usize> {
    let digits = |from: usize| from + line[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = start + usize::from(line[start] == b'-');
    let mut end = digits(whole);
    if end == whole || (line[whole] == b'0' && end > whole + 1) {
        return None;
    }
    if line.get(end) == Some(&b'.') {
        let fraction = end + 1;
        end = digits(fraction);
        if end == fraction {
            return None;
        }
    }
    // An exponent is left to the other way.
    (!matches!(line.get(end), Some(b'e' | b'E'))).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json::object::walk, testing::Random};

    /// Writes down what it is given, keys and values.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Members for Notes {
        fn find(&mut self, key: &str) -> Option<usize> {
            self.0.push(key.into());
            Some(0)
        }

        fn take(&mut self, _: usize, json: &[u8]) -> Result<(), ()> {
            self.0.push(String::from_utf8_lossy(json).into());
            Ok(())
        }
    }

    #[test]
    fn where_it_goes_to_the_end_it_is_right() {
        let mut ends = 0;
        for seed in 0..20_000 {
            let mut random = Random::new(seed);
            let pieces =
                ["\"a\"", ":", ",", "1", "-0.5", "0", "\"x\"", "null", " ", "}", "{", "e", "\\", "\"a\":1,", "true"];
            let mut line = "{\"k\":1,".to_string();
            for _ in 0..random.below(6) {
                line += pieces[random.below(pieces.len() as u64) as usize];
            }
            line += if random.below(2) == 0 { "\"z\":2}" } else { "}" };
            let (mut plain, mut full) = (Notes::default(), Notes::default());
            if walk_plain(line.as_bytes(), &mut plain) == Walked::All {
                walk(line.as_bytes(), &mut full).unwrap_or_else(|error| panic!("seed {seed}: {line}: {error}"));
                assert_eq!(plain.0, full.0, "seed {seed}: {line}");
                ends += 1;
            }
        }
        assert!(ends > 1000, "it went to the end {ends} times");
    }

    #[test]
    fn the_usual_goes_to_the_end() {
        let usual = b"{\"a\": 1, \"b\": \"\xc3\xa4\", \"c\":-1.5,\"d\":null}";
        assert_eq!(walk_plain(usual, &mut Notes::default()), Walked::All);
        for unusual in
            ["{}", "{\"a\":[]}", "{\"a\":1e3}", "{\"a\":\"\\n\"}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":1}x", ""]
        {
            assert_eq!(walk_plain(unusual.as_bytes(), &mut Notes::default()), Walked::Unusual, "{unusual}");
        }
    }
}
