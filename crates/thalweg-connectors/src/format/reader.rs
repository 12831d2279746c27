//! Reads rows from bytes: any transport's [`Bytes`] with any format's [`Decoder`].

use std::time::Instant;

use thalweg_core::{
    Error, Result,
    connector::{Read, Reader},
};

use super::{
    Decoded, Decoder,
    window::{Bytes, Fill, Window},
};

/// How many times bytes are asked for in one turn.
const FILLS: usize = 256;

/// Decodes as many bytes as it takes for the rows that are wanted.
///
/// Rows before an error are delivered before it, so that how many rows are asked for at a time makes no difference.
pub(crate) struct FormatReader {
    bytes: Box<dyn Bytes>,
    window: Window,
    decoder: Box<dyn Decoder>,
    error: Option<Error>,
}

impl FormatReader {
    /// A reader at the beginning of its bytes.
    pub(crate) fn new(bytes: Box<dyn Bytes>, decoder: Box<dyn Decoder>) -> Self {
        Self { bytes, window: Window::new(), decoder, error: None }
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
            if self.window.has_ended() {
                return Ok(Fill::End);
            }
            if self.window.fill(&mut *self.bytes)? == Fill::Wait {
                return Ok(Fill::Wait);
            }
        }
        Ok(Fill::Some(0))
    }
}

impl Reader for FormatReader {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let fill = match self.error.take() {
            Some(error) => Err(error),
            None => self.decode(rows.max(1)),
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

    fn bad_rows(&self) -> u64 {
        self.decoder.bad_rows()
    }
}
