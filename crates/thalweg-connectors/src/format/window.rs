//! The part of a stream of bytes that is being decoded.
//!
//! ```text
//!        start          end
//!   ┌──────┬──────────────┬───────┐
//!   │ read │    unread    │ free  │   grows only while one record does not fit, up to RECORD_LIMIT
//!   └──────┴──────────────┴───────┘
//! ```

use thalweg_core::Result;

/// The longest record, in bytes; a longer one is malformed.
pub(crate) const RECORD_LIMIT: usize = 16 << 20;

/// How many bytes are asked for at once.
const BLOCK: usize = 256 << 10;

/// Bytes as they come from a file, a pipe or the network.
pub(crate) trait Bytes: Send {
    /// Puts the next bytes at the beginning of `free`, which has room, without waiting for the world.
    fn fill(&mut self, free: &mut [u8]) -> Result<Fill>;

    /// Whether the bytes given so far are what was once written, as far as that can be found out: an error if they are not.
    /// No bytes are asked for afterwards.
    fn verify(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What came of a [`fill`](Bytes::fill).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// So many bytes, at least one.
    Some(usize),
    /// None now; somebody will wake the reader.
    Wait,
    /// None any more.
    End,
}

/// Unread bytes, and where they are.
pub(crate) struct Window {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    line: u64,
    has_ended: bool,
    is_fresh: bool,
}

impl Window {
    /// A window at the beginning of a stream.
    pub(crate) fn new() -> Self {
        Self { bytes: vec![], start: 0, end: 0, line: 1, has_ended: false, is_fresh: true }
    }

    /// A window on bytes that begin with a record, on this line; `is_last` says that none come after them.
    pub(crate) fn of(bytes: Vec<u8>, length: usize, line: u64, is_last: bool) -> Self {
        assert!(length <= bytes.len(), "the bytes are there");
        Self { bytes, start: 0, end: length, line, has_ended: is_last, is_fresh: false }
    }

    /// All bytes of a window that was made `of` them, read or not.
    pub(crate) fn all(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// The memory, for other bytes.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes that were not consumed yet.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The line, counted from one, on which the unread bytes begin.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Whether no bytes come after the unread ones.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Consumes bytes that hold so many line ends.
    pub(crate) fn consume(&mut self, bytes: usize, lines: u64) {
        self.start += bytes;
        self.line += lines;
        assert!(self.start <= self.end, "only what is there is consumed");
    }

    /// Gets more bytes behind the unread ones, and drops a byte order mark at the very beginning.
    pub(crate) fn fill(&mut self, source: &mut dyn Bytes) -> Result<Fill> {
        let unread = self.end - self.start;
        // A record that did not fit is looked at again with twice as much, so that all looks together stay linear.
        let room = unread + BLOCK.max(unread);
        if self.bytes.len() < room {
            let mut larger = vec![0; room];
            larger[..unread].copy_from_slice(self.unread());
            self.bytes = larger;
        } else {
            self.bytes.copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, unread);
        let fill = source.fill(&mut self.bytes[unread..room])?;
        match fill {
            Fill::Some(count) => self.end += count,
            Fill::Wait => {}
            Fill::End => self.has_ended = true,
        }
        self.skip_mark();
        Ok(fill)
    }

    fn skip_mark(&mut self) {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let unread = &self.bytes[self.start..self.end];
        if self.is_fresh && (unread.len() >= MARK.len() || self.has_ended) {
            self.is_fresh = false;
            self.start += if unread.starts_with(MARK) { MARK.len() } else { 0 };
        }
    }

    /// Whether the beginning is not known well enough to be decoded.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh
    }
}
