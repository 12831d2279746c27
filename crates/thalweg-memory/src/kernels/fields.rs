//! Where the fields of delimited text end: 64 bytes looked at together.

#[cfg(target_arch = "x86_64")]
use super::masks::Avx2;
use super::masks::{Masks, Portable, parities};
use crate::simd::at_level;

/// The bytes that delimited text is taken apart at, beside the line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Stands between the fields of a line.
    pub delimiter: u8,
    /// Stands around a field in which delimiters and line ends are text.
    pub quote: Option<u8>,
    /// Gives the next byte another meaning; it is never looked behind.
    pub escape: Option<u8>,
}

/// What was found in text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How many fields end.
    pub ends: usize,
    /// Whether a quote stands among what was looked at.
    pub has_quotes: bool,
}

at_level! {
    /// Writes down where fields end, in ascending order: at delimiters and line ends that are not in quotes.
    ///
    /// The text begins with a field. The look ends before the first thing that is unusual: a quote that neither opens a field
    /// at its first byte nor closes it before its end (or a carriage return), a doubled one, or an escape. `ends` has room for
    /// as many ends as the text has bytes.
    pub fn field_ends(text: &[u8], marks: Marks, ends: &mut [u32]) -> Found = find, Portable, Avx2::new()
}

#[inline(always)]
fn find(masks: impl Masks, text: &[u8], marks: Marks, ends: &mut [u32]) -> Found {
    assert!(ends.len() >= text.len() && u32::try_from(text.len()).is_ok(), "there is room for every end");
    let mut state = State { inside: 0, behind_end: 1, behind_close: 0 };
    let mut found = Found::default();
    let (blocks, rest) = text.as_chunks::<64>();
    for (i, block) in blocks.iter().enumerate() {
        if !look(masks, &Block { bytes: block, valid: u64::MAX, base: 64 * i }, marks, &mut state, ends, &mut found) {
            return found;
        }
    }
    if !rest.is_empty() {
        let mut block = [0; 64];
        block[..rest.len()].copy_from_slice(rest);
        let block = Block { bytes: &block, valid: (1 << rest.len()) - 1, base: 64 * blocks.len() };
        look(masks, &block, marks, &mut state, ends, &mut found);
    }
    found
}

/// What a block must know of the bytes before it; masks of 64 bits, or the lowest one.
struct State {
    inside: u64,
    behind_end: u64,
    behind_close: u64,
}

/// Bytes from `base` on, of which only the `valid` ones are there.
struct Block<'a> {
    bytes: &'a [u8; 64],
    valid: u64,
    base: usize,
}

/// Looks at a block, and says whether to go on.
#[inline(always)]
fn look(
    masks: impl Masks,
    block: &Block<'_>,
    marks: Marks,
    state: &mut State,
    ends: &mut [u32],
    found: &mut Found,
) -> bool {
    let Block { bytes: block, valid, base } = *block;
    let mut hits = (masks.equal(block, marks.delimiter) | masks.equal(block, b'\n')) & valid;
    let mut odd = 0;
    if let Some(quote) = marks.quote {
        let quotes = masks.equal(block, quote) & valid;
        if quotes | state.inside | state.behind_close != 0 {
            // Each quote turns what follows inside out.
            let inside = parities(quotes) ^ state.inside;
            hits &= !inside;
            let (opens, closes) = (quotes & inside, quotes & !inside);
            let may_follow = hits | masks.equal(block, b'\r') | !valid;
            odd = opens & !(hits << 1 | state.behind_end) | (closes << 1 | state.behind_close) & !may_follow;
            found.has_quotes |= quotes != 0;
            (state.inside, state.behind_close) = (0u64.wrapping_sub(inside >> 63), closes >> 63);
        }
        state.behind_end = hits >> 63;
    }
    if let Some(escape) = marks.escape {
        odd |= masks.equal(block, escape) & valid;
    }
    // Only what stands before the first odd byte.
    hits &= (odd & odd.wrapping_neg()).wrapping_sub(1);
    while hits != 0 {
        ends[found.ends] = (base as u32) + hits.trailing_zeros();
        found.ends += 1;
        hits &= hits - 1;
    }
    odd == 0
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::simd::Level;

    /// Byte by byte.
    fn expected(text: &[u8], marks: Marks) -> (Vec<u32>, bool) {
        let (mut ends, mut has_quotes, mut inside) = (Vec::new(), false, false);
        for (i, byte) in text.iter().copied().enumerate() {
            let before = i.checked_sub(1).map(|i| text[i]);
            let closed = before.is_some() && before == marks.quote && !inside;
            let is_quote = Some(byte) == marks.quote;
            let is_end = !inside && (byte == marks.delimiter || byte == b'\n');
            let begins = i == 0 || ends.last() == Some(&(i as u32 - 1));
            let is_odd = closed && !is_end && byte != b'\r' || is_quote && !inside && !begins;
            if is_odd || Some(byte) == marks.escape {
                // What is odd may stand anywhere in its block of 64.
                has_quotes |= text[i..text.len().min(i / 64 * 64 + 64)].iter().any(|b| Some(*b) == marks.quote);
                break;
            }
            has_quotes |= is_quote;
            inside ^= is_quote;
            if is_end {
                ends.push(i as u32);
            }
        }
        (ends, has_quotes)
    }

    #[test]
    fn ends_are_those_found_byte_by_byte() {
        for seed in 0..4000 {
            let mut random = StdRng::seed_from_u64(seed);
            let quote = random.random_bool(0.8).then_some(b'"');
            let escape = random.random_bool(0.2).then_some(b'\\');
            let marks = Marks { delimiter: if random.random_bool(0.1) { 0 } else { b',' }, quote, escape };
            let pieces: [&[u8]; 12] =
                [b"abc", b",", b",", b"\n", b"\r\n", b"\"a,b\"", b"\"\n\"", b"", b"0123456789", b"\"", b"\\", b"\0"];
            let most = if random.random_bool(0.5) { 9 } else { pieces.len() };
            let mut text = Vec::new();
            for _ in 0..random.random_range(0..120) {
                text.extend_from_slice(pieces[random.random_range(0..most)]);
                if random.random_bool(0.7) {
                    text.push(if random.random_bool(0.8) { marks.delimiter } else { b'\n' });
                }
            }
            for level in Level::all() {
                let mut ends = vec![0; text.len()];
                let found = field_ends(level, &text, marks, &mut ends);
                let (expected, has_quotes) = expected(&text, marks);
                let shown = String::from_utf8_lossy(&text);
                assert_eq!(ends[..found.ends], expected, "seed {seed}, {}: {shown:?}", level.name());
                assert_eq!(found.has_quotes, has_quotes, "seed {seed}, {}: {shown:?}", level.name());
            }
        }
    }
}
