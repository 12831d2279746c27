//! Decodes consecutive ranges of an input on several threads, and hands them on in order.
//!
//! ```text
//!   input ──► gathered │ range │ range │ range │ range ──► rows
//!                      └─ helper, helper, … in turn ─┘
//! ```
//!
//! Whoever gathers guesses where a record ends, and cuts there. A helper whose range does not end with a record has found the
//! guess wrong: then all bytes from there on go back to be decoded in sequence. So every range begins where the sequence would
//! have come to, and rows, errors and counts are those of the sequence.

use thalweg_core::{Error, Result, connector::Host};

use super::{
    Decoder,
    helper::{AT_ONCE, DecodedRange, Helper, Range},
    window::{Bytes, Fill, RECORD_LIMIT, Window},
};

/// The input from the place on up to which it was decoded in sequence.
pub(super) struct Parallel {
    helpers: Vec<Helper>,
    given: usize,
    taken: usize,
    /// Bytes that no helper has, from the beginning of a record on this line.
    gathered: Vec<u8>,
    length: usize,
    line: u64,
    range_bytes: usize,
    /// How the input ended, if it did.
    end: Option<Result<()>>,
    spare: Vec<Vec<u8>>,
}

/// What a look at the helpers gave.
pub(super) enum Look {
    /// The next range.
    Decoded(DecodedRange),
    /// They are at work on it.
    Busy,
    /// They have nothing to do, and what is gathered makes no range now.
    Done,
}

/// Bytes that are to be decoded in sequence, and why the input ended behind them if that is an error.
pub(super) struct Rest {
    pub(super) window: Window,
    pub(super) error: Option<Error>,
}

/// What became of an attempt to gather a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gathered {
    Range,
    Nothing,
}

impl Parallel {
    /// Starts helpers that go on where `decoder` is now, at the beginning of the window; or does not if the decoder cannot be
    /// divided there.
    pub(super) fn new(decoder: &dyn Decoder, window: &Window, range_bytes: usize, host: &Host) -> Result<Option<Self>> {
        let mut helpers = Vec::new();
        for _ in 0..host.threads {
            let Some(decoder) = decoder.fork()? else { return Ok(None) };
            helpers.push(Helper::new(decoder, host.wake.clone())?);
        }
        let gathered = window.unread().to_vec();
        let (length, line) = (gathered.len(), window.line());
        Ok(Some(Self {
            helpers,
            given: 0,
            taken: 0,
            gathered,
            length,
            line,
            range_bytes,
            end: None,
            spare: Vec::new(),
        }))
    }

    /// Gives the helpers work, and looks whether the next range is decoded.
    pub(super) fn look(&mut self, bytes: &mut dyn Bytes, decoder: &dyn Decoder, batch_rows: usize) -> Look {
        loop {
            let has_room = self.in_flight() < AT_ONCE * self.helpers.len();
            let gathered = if has_room { self.gather(bytes, decoder, batch_rows) } else { Gathered::Nothing };
            if self.in_flight() == 0 {
                return Look::Done;
            }
            if let Some(range) = self.next_helper().take() {
                self.taken += 1;
                return Look::Decoded(range);
            }
            if gathered == Gathered::Nothing {
                return Look::Busy;
            }
        }
    }

    /// Takes back what is left of a decoded range; if that is nothing, its memory is used again.
    pub(super) fn is_whole(&mut self, window: Window) -> Option<Window> {
        // Behind the last range of an input that cannot be read on, a record may break off.
        let is_last = self.in_flight() == 0 && self.length == 0 && matches!(self.end, Some(Err(_)));
        if !window.unread().is_empty() && !is_last {
            return Some(window);
        }
        self.spare.push(window.into_memory());
        None
    }

    /// Ends the helpers. Gives all bytes from `window` on, whose unread ones come first.
    pub(super) fn give_up(mut self, window: Option<Window>) -> Rest {
        let mut line = self.line;
        let mut rest = Vec::new();
        if let Some(window) = window {
            line = window.line();
            rest.extend_from_slice(window.unread());
            while self.in_flight() > 0 {
                rest.extend_from_slice(self.next_helper().wait().window.all());
                self.taken += 1;
            }
        }
        rest.extend_from_slice(&self.gathered[..self.length]);
        let length = rest.len();
        let is_last = matches!(self.end, Some(Ok(())));
        Rest { window: Window::of(rest, length, line, is_last), error: self.end.and_then(Result::err) }
    }

    fn in_flight(&self) -> usize {
        self.given - self.taken
    }

    /// Who has the next range, since they are given in turn.
    fn next_helper(&mut self) -> &mut Helper {
        let count = self.helpers.len();
        &mut self.helpers[self.taken % count]
    }

    /// Gathers bytes for a range and gives it to a helper.
    fn gather(&mut self, bytes: &mut dyn Bytes, decoder: &dyn Decoder, batch_rows: usize) -> Gathered {
        let mut wanted = self.range_bytes;
        loop {
            while self.end.is_none() && self.length < wanted {
                if self.gathered.len() < wanted {
                    self.gathered.resize(wanted, 0);
                }
                match bytes.fill(&mut self.gathered[self.length..wanted]) {
                    Ok(Fill::Some(count)) => self.length += count,
                    // What is here is decoded in sequence when the helpers have done all that comes before.
                    Ok(Fill::Wait) => return Gathered::Nothing,
                    Ok(Fill::End) => self.end = Some(Ok(())),
                    Err(error) => self.end = Some(Err(error)),
                }
            }
            if self.length == 0 {
                return Gathered::Nothing;
            }
            let cut = if self.end.is_some() { Some(self.length) } else { decoder.cut(&self.gathered[..self.length]) };
            match cut {
                Some(cut) => {
                    self.give(cut, batch_rows);
                    return Gathered::Range;
                }
                None if self.length > RECORD_LIMIT => return Gathered::Nothing,
                // A record that did not fit is looked at again with twice as much, so that all looks together stay linear.
                None => wanted = 2 * self.length.max(self.range_bytes),
            }
        }
    }

    /// Gives the gathered bytes up to the cut to the helper whose turn it is.
    fn give(&mut self, cut: usize, batch_rows: usize) {
        let mut next = self.spare.pop().unwrap_or_default();
        let rest = &self.gathered[cut..self.length];
        if next.len() < rest.len().max(self.range_bytes) {
            next.resize(rest.len().max(self.range_bytes), 0);
        }
        next[..rest.len()].copy_from_slice(rest);
        let rest = rest.len();
        let range = std::mem::replace(&mut self.gathered, next);
        let lines = memchr::memchr_iter(b'\n', &range[..cut]).count();
        let is_last = rest == 0 && matches!(self.end, Some(Ok(())));
        let window = Window::of(range, cut, self.line, is_last);
        let helper = self.given % self.helpers.len();
        self.helpers[helper].give(Range { window, batch_rows: even(lines + 1, batch_rows) });
        (self.length, self.line, self.given) = (rest, self.line + lines as u64, self.given + 1);
    }
}

/// How many rows the batches have if so many rows are divided into as few batches as can be, all about as large.
fn even(rows: usize, most: usize) -> usize {
    rows.div_ceil(rows.div_ceil(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_a_range_are_about_as_large() {
        assert_eq!((even(1, 8192), even(8192, 8192), even(8193, 8192), even(20_000, 8192)), (1, 8192, 4097, 6667));
        assert_eq!((even(5, 1), even(7, 3)), (1, 3));
    }
}
