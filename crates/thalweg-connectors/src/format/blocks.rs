//! Bytes that a thread of its own waits for, passed on through a queue of [`BLOCKS`] blocks: of what may be silent for long.

use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread,
};

use thalweg_core::{Error, Result, connector::Wake};

use super::window::{Bytes, Fill};

/// How many blocks may wait to be decoded.
const BLOCKS: usize = 4;

/// The largest block, in bytes.
const BLOCK: usize = 64 << 10;

/// The receiving end.
pub(crate) struct Blocks {
    receiver: Receiver<Result<Vec<u8>>>,
    block: Vec<u8>,
    used: usize,
}

impl Blocks {
    /// Starts the thread that opens an input, and reads it until its end, or until nobody wants more; `error` says what went wrong.
    pub fn new<R: Read>(
        open: impl FnOnce() -> Result<R> + Send + 'static,
        name: &str,
        error: impl Fn(&R, &io::Error) -> Error + Send + 'static,
        wake: Wake,
    ) -> Result<Self> {
        let (sender, receiver) = sync_channel(BLOCKS);
        let run = move || {
            match open() {
                Ok(input) => pass_on(input, error, sender, &wake),
                Err(error) => drop(sender.send(Err(error))),
            }
            wake();
        };
        let thread = thread::Builder::new().name("input".into());
        thread.spawn(run).map_err(|e| Error::environment(format!("cannot start the thread for {name}: {e}")))?;
        Ok(Self { receiver, block: vec![], used: 0 })
    }
}

/// Runs on the thread. The sender is gone when it returns, which is the end for the receiver.
fn pass_on<R: Read>(
    mut input: R,
    error: impl Fn(&R, &io::Error) -> Error,
    sender: SyncSender<Result<Vec<u8>>>,
    wake: &Wake,
) {
    loop {
        let mut block = vec![0; BLOCK];
        let block = match input.read(&mut block) {
            Ok(0) => return,
            Ok(count) => {
                block.truncate(count);
                Ok(block)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(found) => Err(error(&input, &found)),
        };
        let is_last = block.is_err();
        if sender.send(block).is_err() || is_last {
            return;
        }
        wake();
    }
}

impl Bytes for Blocks {
    fn fill(&mut self, free: &mut [u8]) -> Result<Fill> {
        if self.used == self.block.len() {
            self.block = match self.receiver.try_recv() {
                Ok(block) => block?,
                Err(TryRecvError::Empty) => return Ok(Fill::Wait),
                Err(TryRecvError::Disconnected) => return Ok(Fill::End),
            };
            self.used = 0;
        }
        let count = (&self.block[self.used..]).read(free).expect("memory can be read");
        self.used += count;
        Ok(Fill::Some(count))
    }
}
