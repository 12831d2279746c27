//! A thread that decodes ranges of bytes for a reader.
//!
//! ```text
//!            ranges                        decoded
//!   reader ───────────► thread (decoder) ───────────► reader
//!            AT_ONCE                       AT_ONCE
//! ```

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread::{self, JoinHandle},
};

use arrow_array::RecordBatch;
use thalweg_core::{Error, Result, connector::Wake};

use super::{Decoded, Decoder, window::Window};

/// How many ranges a helper may have, decoded or not.
pub(super) const AT_ONCE: usize = 2;

/// Bytes that begin with a record.
pub(super) struct Range {
    /// The bytes, in a window of their own.
    pub(super) window: Window,
    /// How many rows a batch has at most.
    pub(super) batch_rows: usize,
}

/// What was in a range.
pub(super) struct DecodedRange {
    /// The rows, up to the error if there is one.
    pub(super) batches: Vec<RecordBatch>,
    /// Why the rest was not decoded.
    pub(super) error: Option<Error>,
    /// How many rows were malformed and skipped.
    pub(super) bad_rows: u64,
    /// The bytes; what is unread is no complete record.
    pub(super) window: Window,
}

/// The reader's side of a thread. Dropped, it waits for the thread, which ends after the range that it is at.
pub(super) struct Helper {
    ranges: Option<SyncSender<Range>>,
    decoded: Option<Receiver<DecodedRange>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts a thread that wakes the reader whenever a range is decoded.
    pub(super) fn new(mut decoder: Box<dyn Decoder>, wake: Wake) -> Result<Self> {
        let (ranges, todo) = sync_channel::<Range>(AT_ONCE);
        let (done, decoded) = sync_channel(AT_ONCE);
        let mut work = {
            let wake = wake.clone();
            move || {
                for range in &todo {
                    if done.send(decode(&mut *decoder, range)).is_err() {
                        return;
                    }
                    wake();
                }
            }
        };
        let run = move || {
            let end = catch_unwind(AssertUnwindSafe(&mut work));
            // The reader finds out by the queue's end, which comes first.
            drop(work);
            if let Err(panic) = end {
                wake();
                resume_unwind(panic);
            }
        };
        let thread = thread::Builder::new().name("decoder".into()).spawn(run);
        let thread = thread.map_err(|e| Error::environment(format!("cannot start a thread for decoding: {e}")))?;
        Ok(Self { ranges: Some(ranges), decoded: Some(decoded), thread: Some(thread) })
    }

    /// Gives the thread a range; it has less than [`AT_ONCE`].
    pub(super) fn give(&mut self, range: Range) {
        let ranges = self.ranges.as_ref().expect("it is not being dropped");
        // A thread that has ended had a panic, which `take` passes on.
        ranges.try_send(range).unwrap_or_default();
    }

    /// The first range that was given and not taken yet, if it is decoded.
    pub(super) fn take(&mut self) -> Option<DecodedRange> {
        match self.decoded.as_ref().expect("it is not being dropped").try_recv() {
            Ok(range) => Some(range),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => self.pass_panic_on(),
        }
    }

    /// The same, and waits for it.
    pub(super) fn wait(&mut self) -> DecodedRange {
        match self.decoded.as_ref().expect("it is not being dropped").recv() {
            Ok(range) => range,
            Err(_) => self.pass_panic_on(),
        }
    }

    fn pass_panic_on(&mut self) -> ! {
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => resume_unwind(panic),
            _ => unreachable!("the thread lasts as long as it is given ranges, and a panic is passed on once"),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.ranges = None;
        self.decoded = None;
        // Whoever wakes a task may be the last to hold it, and let go of the reader: on the thread itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id()) {
            // A panic of the thread was shown where it happened, and nobody wants its rows any more.
            thread.join().unwrap_or_default();
        }
    }
}

fn decode(decoder: &mut dyn Decoder, Range { mut window, batch_rows }: Range) -> DecodedRange {
    let (mut batches, bad_rows) = (Vec::new(), decoder.bad_rows());
    let error = loop {
        let decoded = decoder.decode(&mut window, batch_rows);
        let rows = match decoder.take() {
            Ok(rows) => rows,
            Err(error) => break Some(error),
        };
        if rows.num_rows() > 0 {
            batches.push(rows);
        }
        match decoded {
            Ok(Decoded::Full) => {}
            Ok(Decoded::Hungry) => break None,
            Err(error) => break Some(error),
        }
    };
    DecodedRange { batches, error, bad_rows: decoder.bad_rows() - bad_rows, window }
}
