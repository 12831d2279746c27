//! Who sleeps and who wakes: a task that found nothing to do must not fall asleep over what came meanwhile.
//!
//! ```text
//!              wake: put it into the queue
//!   asleep ─────────────────────────────────► woken
//!      ▲                                        │ run
//!      │ sleep                                  ▼
//!      └──────────────────────────────────── awake ───► awake and woken: it does not fall asleep, and runs once more
//!                                                 wake
//! ```
//!
//! Who wakes has first put something where the task will look; who runs looks after it has said so. Each says it in one step that
//! reads and writes (an atomic read-modify-write), so that of the two one is first, and the other sees all that came before it. A
//! plain load and a plain store would not do: each could miss the other. `loom/` holds the model of this.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Acquire};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Acquire};

const ASLEEP: u8 = 0;
const WOKEN: u8 = 1;
const AWAKE: u8 = 2;

/// What one task and those who wake it tell each other. The task is in at most one place at a time: asleep, in the queue, or on a
/// worker.
#[derive(Debug)]
pub struct Alarm(AtomicU8);

impl Alarm {
    /// The alarm of a task that is awake.
    pub fn awake() -> Self {
        Self(AtomicU8::new(AWAKE))
    }

    /// There is something for the task to do; returns whether the caller has to put it into the queue.
    pub fn wake(&self) -> bool {
        self.0.fetch_or(WOKEN, AcqRel) == ASLEEP
    }

    /// The task was taken from the queue, and will look what there is to do.
    pub fn run(&self) {
        self.0.swap(AWAKE, AcqRel);
    }

    /// The task has found nothing to do; returns whether it is asleep now. Otherwise it was woken meanwhile, and the caller has to
    /// put it into the queue.
    pub fn sleep(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, AcqRel, Acquire).is_ok()
    }
}
