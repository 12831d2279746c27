//! Reads rows from bytes: any transport's [`Bytes`] with any format's [`Decoder`].

use std::{collections::VecDeque, time::Instant};

use arrow_array::RecordBatch;
use thalweg_core::{
    Error, Result,
    connector::{Host, Read, Reader},
};

use super::{
    Decoded, Decoder,
    helper::DecodedRange,
    parallel::{Look, Parallel, Rest},
    window::{Bytes, Fill, Window},
};

/// How many times bytes are asked for in one turn.
const FILLS: usize = 256;

/// How many bytes a helper decodes at a time. More would use more memory and gain nothing.
const RANGE: usize = 1 << 20;

/// Decodes as many bytes as it takes for the rows that are wanted.
///
/// Rows before an error are delivered before it, so that how many rows are asked for at a time makes no difference.
///
/// It begins in sequence. When so many bytes as make a range came without a pause, and the host lets it have threads, ranges are
/// decoded in parallel from there on, until the input pauses. Neither short inputs nor slow ones start a thread.
pub(crate) struct FormatReader {
    bytes: Box<dyn Bytes>,
    window: Window,
    decoder: Box<dyn Decoder>,
    host: Host,
    range_bytes: usize,
    /// How many bytes came in sequence since the input paused.
    flow: usize,
    parallel: Option<Parallel>,
    /// Rows that helpers decoded.
    decoded: VecDeque<RecordBatch>,
    helped_bad_rows: u64,
    batch_rows: usize,
    /// Why the input ended behind the window.
    end_error: Option<Error>,
    error: Option<Error>,
}

impl FormatReader {
    /// A reader at the beginning of its bytes.
    pub(crate) fn new(bytes: Box<dyn Bytes>, decoder: Box<dyn Decoder>, host: Host) -> Self {
        Self {
            bytes,
            window: Window::new(),
            decoder,
            host,
            range_bytes: RANGE,
            flow: 0,
            parallel: None,
            decoded: VecDeque::new(),
            helped_bad_rows: 0,
            batch_rows: 1,
            end_error: None,
            error: None,
        }
    }

    /// Lets helpers decode so many bytes at a time.
    #[cfg(test)]
    pub(crate) fn with_ranges(self, range_bytes: usize) -> Self {
        Self { range_bytes, ..self }
    }

    /// Decodes until there are `rows` rows, an end, or nothing to decode; or so many bytes without an end that others have their
    /// turn, and the query can be stopped: malformed rows may be skipped for gigabytes.
    fn decode(&mut self, rows: usize) -> Result<Fill> {
        for _ in 0..FILLS {
            if !self.window.is_fresh() {
                match self.decoder.decode(&mut self.window, rows) {
                    Ok(Decoded::Full) => return Ok(Fill::Some(0)),
                    Ok(Decoded::Hungry) => {}
                    // Rows that cannot be read may come from a file that is corrupt, which is what has to be said then.
                    Err(error) => return Err(self.bytes.verify().err().unwrap_or(error)),
                }
            }
            if let Some(error) = self.end_error.take() {
                return Err(error);
            }
            if self.window.has_ended() {
                return Ok(Fill::End);
            }
            if self.host.threads > 1 && self.flow >= self.range_bytes && self.divide()? {
                return Ok(Fill::Some(0));
            }
            match self.window.fill(&mut *self.bytes)? {
                Fill::Some(count) => self.flow += count,
                Fill::Wait => {
                    self.flow = 0;
                    return Ok(Fill::Wait);
                }
                Fill::End => {}
            }
        }
        Ok(Fill::Some(0))
    }

    /// Goes on in parallel, if the decoder can be divided here.
    fn divide(&mut self) -> Result<bool> {
        self.parallel = Parallel::new(&*self.decoder, &self.window, self.range_bytes, &self.host)?;
        Ok(self.parallel.is_some())
    }

    /// Goes on in sequence, with the bytes from `window` on if the cut behind it was wrong.
    fn unite(&mut self, window: Option<Window>) {
        let Some(parallel) = self.parallel.take() else { return };
        let Rest { window, error } = parallel.give_up(window);
        (self.window, self.end_error, self.flow) = (window, error, 0);
    }

    /// Rows of the helpers; `None` if there are no helpers any more.
    fn read_parallel(&mut self, rows: usize) -> Option<Read> {
        for _ in 0..FILLS {
            if let Some(batch) = self.next_decoded(rows) {
                return Some(Read::Rows(batch));
            }
            let Some(parallel) = &mut self.parallel else { return None };
            match parallel.look(&mut *self.bytes, &*self.decoder, self.batch_rows) {
                Look::Decoded(range) => self.take_in(range),
                Look::Busy => return Some(Read::Busy),
                Look::Done => self.unite(None),
            }
        }
        Some(Read::Wait(Some(Instant::now())))
    }

    fn next_decoded(&mut self, rows: usize) -> Option<RecordBatch> {
        let batch = self.decoded.pop_front()?;
        if batch.num_rows() <= rows {
            return Some(batch);
        }
        self.decoded.push_front(batch.slice(rows, batch.num_rows() - rows));
        Some(batch.slice(0, rows))
    }

    fn take_in(&mut self, range: DecodedRange) {
        let DecodedRange { batches, error, bad_rows, window } = range;
        self.helped_bad_rows += bad_rows;
        self.decoded.extend(batches);
        if let Some(error) = error {
            self.parallel = None;
            // The rows before it come first.
            self.error = Some(self.bytes.verify().err().unwrap_or(error));
        } else if let Some(window) = self.parallel.as_mut().and_then(|parallel| parallel.is_whole(window)) {
            tracing::debug!("bytes were cut within a record that begins on line {}", window.line());
            self.unite(Some(window));
        }
    }

    /// Rows decoded on this thread.
    fn read_in_sequence(&mut self, rows: usize) -> Result<Read> {
        let fill = match self.error.take() {
            Some(error) => Err(error),
            None => self.decode(rows),
        };
        let rows = self.decoder.take()?;
        match fill {
            Err(error) if rows.num_rows() == 0 => {
                self.error = Some(error.clone());
                Err(error)
            }
            _ if rows.num_rows() > 0 => {
                self.error = fill.err();
                Ok(Read::Rows(rows))
            }
            Ok(Fill::Wait) => Ok(Read::Wait(None)),
            Ok(Fill::Some(_)) => Ok(Read::Wait(Some(Instant::now()))),
            _ => Ok(Read::End),
        }
    }
}

impl Reader for FormatReader {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let rows = rows.max(1);
        self.batch_rows = self.batch_rows.max(rows);
        match self.read_parallel(rows) {
            Some(read) => Ok(read),
            None => self.read_in_sequence(rows),
        }
    }

    fn bad_rows(&self) -> u64 {
        self.helped_bad_rows + self.decoder.bad_rows()
    }
}
