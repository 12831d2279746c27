//! What Ctrl-C does: the first ends a query cleanly, the second ends the process.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use thalweg::Control;
use thalweg_core::{Error, Result};

use super::screen::Screen;

/// The exit code of what was interrupted, as shells have it: 128 and the number of the signal.
pub const CODE: u8 = 130;

/// What follows within this time is the same interrupt: `timeout` and others send it to the process and to its group.
const SAME: Duration = Duration::from_millis(300);

/// Takes interrupts for as long as the process lives.
#[derive(Clone)]
pub struct Interrupt(Arc<Shared>);

struct Shared {
    running: Mutex<Option<Control>>,
    is_stopped: AtomicBool,
}

impl Interrupt {
    /// Takes interrupts from now on. Where no query runs they end the process: there is nothing to lose.
    ///
    /// Errors: `Error::Environment` if the system does not allow it.
    pub fn install(screen: &Arc<Screen>) -> Result<Self> {
        let shared = Arc::new(Shared { running: Mutex::new(None), is_stopped: AtomicBool::new(false) });
        let (interrupt, screen) = (Self(Arc::clone(&shared)), Arc::clone(screen));
        let mut first_at: Option<Instant> = None;
        let handler = move || {
            if first_at.get_or_insert_with(Instant::now).elapsed() < SAME && shared.is_stopped.load(Ordering::Acquire) {
                return;
            }
            let running = shared.running.lock().clone();
            let is_first = !shared.is_stopped.swap(true, Ordering::AcqRel);
            match running.filter(|_| is_first) {
                Some(query) => query.stop(),
                None => {
                    screen.leave();
                    process::exit(CODE.into());
                }
            }
        };
        ctrlc::set_handler(handler).map_err(|error| Error::environment(format!("cannot take interrupts: {error}")))?;
        Ok(interrupt)
    }

    /// Stops this query at the first interrupt, until what is returned is dropped.
    pub fn stops(&self, query: Control) -> Running<'_> {
        *self.0.running.lock() = Some(query);
        Running(self)
    }

    /// Whether there was an interrupt.
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }
}

/// While it lives, a query runs.
pub struct Running<'a>(&'a Interrupt);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.0.running.lock() = None;
    }
}
