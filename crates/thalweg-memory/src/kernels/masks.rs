//! A bit for each of 64 bytes.

/// One bit for each byte: whether it is like that.
#[inline(always)]
pub(super) fn where_is(block: &[u8; 64], is: impl Fn(u8) -> bool) -> u64 {
    // Each byte has its own bit of eight, so that the product's highest byte, a sum of eight bytes, is all of them.
    let mut bits = [0; 64];
    for (i, byte) in block.iter().enumerate() {
        bits[i] = if is(*byte) { 1 << (i % 8) } else { 0 };
    }
    let (words, _) = bits.as_chunks::<8>();
    let sum = |word: &[u8; 8]| u64::from_le_bytes(*word).wrapping_mul(u64::MAX / 255) >> 56;
    words.iter().rev().fold(0, |mask, word| mask << 8 | sum(word))
}

/// For each bit, whether the number of bits up to it is odd.
#[inline(always)]
pub(super) fn parities(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
