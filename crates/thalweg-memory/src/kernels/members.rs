//! Where the members of JSON lines end: 64 bytes looked at together.

#[cfg(target_arch = "x86_64")]
use super::masks::Avx2;
use super::masks::{Masks, Portable, parities};
use crate::simd::at_level;

at_level! {
    /// Writes down where members end, in ascending order, and says how many do: at commas and line ends that are not in strings.
    ///
    /// The text begins with a line. The look ends before the first thing that is unusual in lines of flat objects. Of what
    /// stands before the last end that was written down, this is true:
    ///
    /// * It has no backslash, and of control characters only line ends, with or without a carriage return, none of them in a string.
    /// * Between the ends of two members, and before that of the first, stands one colon that is not in a string.
    /// * Behind the closing quote of a string comes a colon, a comma, or else any one byte and the line's end.
    ///
    /// So a member whose key is a string up to its colon, and whose value begins and ends with a quote, has just one more string.
    /// `ends` has room for as many ends as the text has bytes.
    pub fn member_ends(text: &[u8], ends: &mut [u32]) -> usize = find, Portable, Avx2::new()
}

#[inline(always)]
fn find(masks: impl Masks, text: &[u8], ends: &mut [u32]) -> usize {
    assert!(ends.len() >= text.len() && u32::try_from(text.len()).is_ok(), "there is room for every end");
    let mut state = State::default();
    let mut found = 0;
    let (blocks, rest) = text.as_chunks::<64>();
    for (i, block) in blocks.iter().enumerate() {
        if !look(masks, block, u64::MAX, 64 * i, &mut state, ends, &mut found) {
            return found;
        }
    }
    if !rest.is_empty() {
        let mut block = [0; 64];
        block[..rest.len()].copy_from_slice(rest);
        look(masks, &block, (1 << rest.len()) - 1, 64 * blocks.len(), &mut state, ends, &mut found);
    }
    found
}

/// What a block must know of the bytes before it; masks of 64 bits, or the lowest one.
#[derive(Default)]
struct State {
    in_string: u64,
    in_value: u64,
    behind_close: u64,
    before_line_end: u64,
    behind_return: u64,
}

/// Looks at a block, of which only `valid` bytes are there, and says whether to go on.
#[inline(always)]
fn look(
    masks: impl Masks,
    block: &[u8; 64],
    valid: u64,
    base: usize,
    state: &mut State,
    ends: &mut [u32],
    found: &mut usize,
) -> bool {
    let quotes = masks.equal(block, b'"') & valid;
    let commas = masks.equal(block, b',');
    let colons = masks.equal(block, b':');
    let lines = masks.equal(block, b'\n');
    let mut special = (masks.equal(block, b'\\') | masks.less(block, b' ')) & !lines;
    let mut returns = 0;
    if special | state.behind_return != 0 {
        returns = masks.equal(block, b'\r');
        special = special & !returns | (returns << 1 | state.behind_return) & !lines;
    }
    // Each quote turns what follows inside out.
    let in_string = parities(quotes) ^ state.in_string;
    let closes = quotes & !in_string;
    let mut hits = (commas | lines) & !in_string & valid;
    let colons_outside = colons & !in_string & valid;
    // Each colon begins a value, each end a key; `in_value` is true from a colon on.
    let in_value = parities(hits | colons_outside) ^ state.in_value;
    let behind_close = closes << 1 | state.behind_close;
    let last = behind_close & !(colons | commas);
    let odd = special
        | (lines | returns) & in_string
        | colons_outside & !in_value
        | hits & in_value
        | (last << 1 | state.before_line_end) & !(lines | returns);
    let odd = odd & valid;
    *state = State {
        in_string: 0u64.wrapping_sub(in_string >> 63),
        in_value: 0u64.wrapping_sub(in_value >> 63),
        behind_close: closes >> 63,
        before_line_end: last >> 63,
        behind_return: returns >> 63,
    };
    // Only what stands before the first odd byte.
    hits &= (odd & odd.wrapping_neg()).wrapping_sub(1);
    while hits != 0 {
        ends[*found] = (base as u32) + hits.trailing_zeros();
        *found += 1;
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
    fn expected(text: &[u8]) -> Vec<u32> {
        let (mut ends, mut in_string, mut in_value) = (Vec::new(), false, false);
        // How many bytes there are behind a closing quote.
        let mut behind_close = None;
        for (i, byte) in text.iter().copied().enumerate() {
            let is_fine = match (behind_close, byte) {
                (Some(0), b':' | b',') => {
                    behind_close = None;
                    true
                }
                (Some(0), _) => {
                    behind_close = Some(1);
                    true
                }
                (Some(_), _) => {
                    behind_close = None;
                    matches!(byte, b'\n' | b'\r')
                }
                (None, _) => true,
            } && (i == 0 || text[i - 1] != b'\r' || byte == b'\n');
            let is_control = byte == b'\\' || byte < b' ' && !matches!(byte, b'\n' | b'\r');
            if !is_fine || is_control || in_string && matches!(byte, b'\n' | b'\r') {
                break;
            }
            match byte {
                b'"' => {
                    in_string = !in_string;
                    if !in_string {
                        behind_close = Some(0);
                    }
                }
                b':' if !in_string => {
                    if in_value {
                        break;
                    }
                    in_value = true;
                }
                b',' | b'\n' if !in_string => {
                    if !in_value {
                        break;
                    }
                    in_value = false;
                    ends.push(i as u32);
                }
                _ => {}
            }
        }
        ends
    }

    #[test]
    fn ends_are_those_found_byte_by_byte() {
        let mut found = 0;
        for seed in 0..6000 {
            let mut random = StdRng::seed_from_u64(seed);
            let pieces: [&[u8]; 17] = [
                b"{\"a\":1,",
                b"\"key\":\"a value, and: more\",",
                b"\"b\": null, ",
                b"\"x\":\"\"}\n{",
                b"\"c\":-1.5}\n",
                b"\"\":true,\"long key with spaces\":\"\xc3\xa4\",",
                b"{\"a\":\"x\"}\n",
                b"\"b\":\"x\"}\r\n{",
                b"\"z\":0123456789,",
                b"\"",
                b":",
                b",",
                b"\n",
                b"\\",
                b"\r",
                b"}",
                b"\"a\"",
            ];
            let most = [8, 9, 9, pieces.len()][random.random_range(0..4)];
            let mut text = Vec::new();
            for _ in 0..random.random_range(0..60) {
                text.extend_from_slice(pieces[random.random_range(0..most)]);
            }
            let expected = expected(&text);
            for level in Level::all() {
                let mut ends = vec![0; text.len()];
                let count = member_ends(level, &text, &mut ends);
                let shown = String::from_utf8_lossy(&text);
                assert_eq!(ends[..count], expected, "seed {seed}, {}: {shown:?}", level.name());
                found += count;
            }
        }
        assert!(found > 50_000, "{found} ends were found");
    }

    #[test]
    fn what_is_unusual_ends_the_look() {
        for (text, expected) in [
            (&b"{\"a\":1,\"b\":2}\n"[..], 2),
            (b"{\"a\":1}\n{}\n", 1),
            (b"{\"a\":1}\n\n", 1),
            (b"{\"a\":\"x\"\"y\"}\n", 0),
            (b"{\"a\":\"x\"}\"y\"}\n", 0),
            (b"{\"a\":\"x\":\"y\"}\n", 0),
            (b"{\"a\":{\"b\":1}}\n", 0),
            (b"{\"a\":[1,2]}\n", 1),
            (b"{\"a\":1,\"b\":\"\\n\"}\n", 1),
            (b"{\"a\":\"\n\"}", 0),
            (b"{\"a\":1}\r\n{\"a\":\"\"}\r\n", 2),
            (b"{\"a\":\r1}\n", 0),
            (b"{\"a\":\"1, 2: \"}\n", 1),
        ] {
            let mut ends = vec![0; text.len()];
            assert_eq!(member_ends(Level::best(), text, &mut ends), expected, "{:?}", String::from_utf8_lossy(text));
        }
    }
}
