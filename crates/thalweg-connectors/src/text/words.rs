//! Eight bytes looked at together.

/// The byte eight times.
pub(crate) const fn broadcast(byte: u8) -> u64 {
    u64::MAX / 255 * byte as u64
}

/// The highest bit of each byte that is zero, and no other bit.
pub(crate) const fn zeros(word: u64) -> u64 {
    const LOW: u64 = broadcast(0x7f);
    !(((word & LOW) + LOW) | word | LOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_found_whatever_stands_beside_them() {
        for (i, byte) in (0..8).flat_map(|i| (0..=255u8).map(move |byte| (i, byte))) {
            for others in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = [others; 8];
                bytes[i] = byte;
                let expected = bytes.map(|b| if b == 0 { 0x80 } else { 0 });
                assert_eq!(zeros(u64::from_le_bytes(bytes)).to_le_bytes(), expected, "{bytes:?}");
            }
        }
    }
}
