//! Memory of columns that nobody keeps any more, for those to come.

use arrow_buffer::{Buffer, MutableBuffer};

/// Memory of columns that are kept no longer.
#[derive(Debug, Default)]
pub struct Spare {
    buffers: Vec<MutableBuffer>,
    bytes: usize,
}

/// So many columns' memory is kept at most.
const SPARE: usize = 32;

impl Spare {
    /// Memory that nobody else looks at stays for columns to come.
    pub fn put(&mut self, values: Buffer) {
        if self.buffers.len() < SPARE
            && let Ok(mut buffer) = values.into_mutable()
        {
            buffer.clear();
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }

    /// A copy of bytes.
    pub fn copy(&mut self, values: &[u8]) -> Buffer {
        // What is much larger would be kept for little.
        let fits = |buffer: &MutableBuffer| (values.len()..=4 * values.len().max(1024)).contains(&buffer.capacity());
        let Some(place) = self.buffers.iter().rposition(fits) else {
            // One that nobody needs makes room.
            self.drop_first();
            return Buffer::from(values);
        };
        let mut buffer = self.buffers.swap_remove(place);
        self.bytes -= buffer.capacity();
        buffer.extend_from_slice(values);
        buffer.into()
    }

    fn drop_first(&mut self) {
        if !self.buffers.is_empty() {
            self.bytes -= self.buffers.remove(0).capacity();
        }
    }

    /// How many bytes of memory there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(buffer: &Buffer) -> *const u8 {
        buffer.as_ptr()
    }

    #[test]
    fn memory_is_used_again_once_nobody_looks_at_it() {
        let mut spare = Spare::default();
        let [first, second] = [[1_u8; 2048], [2; 2048]];
        let kept = spare.copy(&first);
        let seen = kept.clone();
        spare.put(kept);
        assert_eq!(spare.bytes(), 0, "somebody looks at it");
        let place = memory(&seen);
        spare.put(seen);
        assert!(spare.bytes() >= 2048);
        let again = spare.copy(&second);
        assert_eq!((memory(&again), again.as_slice(), spare.bytes()), (place, &second[..], 0));
    }

    #[test]
    fn no_more_than_so_many_columns_wait_and_none_for_a_much_smaller_one() {
        let mut spare = Spare::default();
        (0..2 * SPARE).for_each(|_| spare.put(Buffer::from(vec![0_u8; 65_536])));
        assert_eq!(spare.buffers.len(), SPARE);
        assert_eq!(spare.copy(&[7; 16]).as_slice(), [7; 16]);
        assert_eq!(spare.buffers.len(), SPARE - 1, "one that did not fit makes room");
        assert_eq!(spare.bytes(), spare.buffers.iter().map(MutableBuffer::capacity).sum::<usize>());
    }
}
