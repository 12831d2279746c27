//! Workers that run tasks when there is something to do, and sleep when there is not.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Instant,
};

use parking_lot::{Condvar, Mutex};

use crate::alarm::Alarm;

/// Something that can be run in short turns.
pub trait Run: Send {
    /// Does some work.
    fn run(&mut self) -> Turn;

    /// When what it would work on arrived: of several tasks that are ready, the one with the oldest work runs first, since its
    /// output is due first.
    fn oldest(&self) -> u64 {
        0
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do: run again when others had their turn.
    Again,
    /// Nothing to do until woken, or until the instant.
    Wait(Option<Instant>),
    /// Nothing to do any more.
    Done,
}

/// What a step without workers did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// A task had a turn.
    Ran,
    /// None is ready; the first of those that wait for a time waits for this one.
    Waits(Option<Instant>),
}

/// Threads that run tasks. Dropped, they finish their turns and end.
pub struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// A task that can be woken from any thread.
#[derive(Clone)]
pub struct TaskRef(Weak<Task>);

struct Task {
    alarm: Alarm,
    body: Mutex<Option<Box<dyn Run>>>,
    queue: Arc<Queue>,
    /// The earliest timer that will wake the task. A later one is set only once that one went off, so there is never more
    /// than a few per task.
    timer: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Queue {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    ready: BinaryHeap<Reverse<Ready>>,
    pushed: u64,
    timers: BinaryHeap<Reverse<Timer>>,
    tasks: Vec<Arc<Task>>,
    timers_set: u64,
    is_closed: bool,
}

/// A task that is ready: ordered by the age of its work, then by turn.
struct Ready {
    oldest: u64,
    number: u64,
    task: Arc<Task>,
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        (self.oldest, self.number) == (other.oldest, other.number)
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.oldest, self.number).cmp(&(other.oldest, other.number))
    }
}

/// Ordered by instant, then by number: which task it wakes does not matter for the order.
struct Timer(Instant, u64, TaskRef);

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl Pool {
    /// A pool of so many workers.
    pub fn new(workers: usize) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let mut pool = Self { queue, threads: Vec::new() };
        for number in 0..workers {
            let queue = Arc::clone(&pool.queue);
            let thread = std::thread::Builder::new().name(format!("worker {number}"));
            pool.threads.push(thread.spawn(move || queue.work())?);
        }
        Ok(pool)
    }

    /// A place for a task, which can be woken from now on and runs once it is started.
    pub fn reserve(&self) -> TaskRef {
        let task = Arc::new(Task {
            alarm: Alarm::awake(),
            body: Mutex::new(None),
            queue: Arc::clone(&self.queue),
            timer: Mutex::new(None),
        });
        let reference = TaskRef(Arc::downgrade(&task));
        self.queue.inner.lock().tasks.push(task);
        reference
    }

    /// Without workers: wakes the tasks whose time has come, and runs a turn of the ready task that is chosen, by its place among
    /// the numbers of all, which say in which order they became ready.
    pub fn step(&self, now: Instant, choose: impl FnOnce(&[u64]) -> usize) -> Stepped {
        loop {
            let mut inner = self.queue.inner.lock();
            let is_due = inner.timers.peek().is_some_and(|Reverse(Timer(at, ..))| *at <= now);
            let Some(Reverse(Timer(.., task))) = is_due.then(|| inner.timers.pop()).flatten() else { break };
            drop(inner);
            task.timer_went_off();
        }
        let mut inner = self.queue.inner.lock();
        let mut ready: Vec<Ready> = std::mem::take(&mut inner.ready).into_iter().map(|Reverse(ready)| ready).collect();
        if ready.is_empty() {
            return Stepped::Waits(inner.timers.peek().map(|Reverse(Timer(at, ..))| *at));
        }
        ready.sort_by_key(|ready| ready.number);
        let numbers: Vec<u64> = ready.iter().map(|ready| ready.number).collect();
        let Ready { task, .. } = ready.remove(choose(&numbers));
        inner.ready.extend(ready.into_iter().map(Reverse));
        drop(inner);
        task.alarm.run();
        self.queue.run(task);
        Stepped::Ran
    }

    /// Starts the task in its place.
    pub fn start(&self, place: &TaskRef, body: Box<dyn Run>) {
        let task = place.0.upgrade().expect("a reserved task stays until it is done");
        *task.body.lock() = Some(body);
        self.queue.push(task);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.inner.lock().is_closed = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A worker catches the panics of its tasks, so it ends in order.
            thread.join().expect("a worker ends without a panic");
        }
        let tasks = std::mem::take(&mut *self.queue.inner.lock());
        drop(tasks);
    }
}

impl TaskRef {
    /// Makes the task run, soon or once more.
    pub fn wake(&self) {
        let Some(task) = self.0.upgrade() else { return };
        if task.alarm.wake() {
            let queue = Arc::clone(&task.queue);
            queue.push(task);
        }
    }
}

impl TaskRef {
    fn timer_went_off(&self) {
        if let Some(task) = self.0.upgrade() {
            *task.timer.lock() = None;
            self.wake();
        }
    }
}

impl Task {
    /// Whether a timer has to be set so that the task is woken at the instant or before.
    fn earlier_timer(&self, at: Instant) -> bool {
        let mut timer = self.timer.lock();
        let is_earlier = timer.is_none_or(|set| at < set);
        if is_earlier {
            *timer = Some(at);
        }
        is_earlier
    }
}

impl Queue {
    fn push(&self, task: Arc<Task>) {
        // Nobody works on a task that is queued; where somebody just ends a turn, it waits behind none.
        let oldest = task.body.try_lock().and_then(|body| body.as_ref().map(|body| body.oldest())).unwrap_or(0);
        let mut inner = self.inner.lock();
        inner.pushed += 1;
        let number = inner.pushed;
        inner.ready.push(Reverse(Ready { oldest, number, task }));
        drop(inner);
        self.changed.notify_one();
    }

    fn work(&self) {
        while let Some(task) = self.next() {
            self.run(task);
        }
    }

    fn run(&self, task: Arc<Task>) {
        let turn = match &mut *task.body.lock() {
            Some(body) => body.run(),
            None => Turn::Done,
        };
        self.after(task, turn);
    }

    /// The next task that is ready; sleeps while there is none.
    fn next(&self) -> Option<Arc<Task>> {
        let mut inner = self.inner.lock();
        loop {
            if inner.is_closed {
                return None;
            }
            let now = Instant::now();
            let due = inner.timers.peek().is_some_and(|Reverse(Timer(at, ..))| *at <= now);
            if due && let Some(Reverse(Timer(.., task))) = inner.timers.pop() {
                // Waking takes the lock.
                parking_lot::MutexGuard::unlocked(&mut inner, || task.timer_went_off());
                continue;
            }
            if let Some(Reverse(Ready { task, .. })) = inner.ready.pop() {
                task.alarm.run();
                return Some(task);
            }
            match inner.timers.peek().map(|Reverse(Timer(at, ..))| *at) {
                Some(at) => drop(self.changed.wait_until(&mut inner, at)),
                None => self.changed.wait(&mut inner),
            }
        }
    }

    fn after(&self, task: Arc<Task>, turn: Turn) {
        match turn {
            Turn::Done => {
                *task.body.lock() = None;
                self.inner.lock().tasks.retain(|other| !Arc::ptr_eq(other, &task));
            }
            Turn::Again => self.push(task),
            Turn::Wait(until) => {
                if let Some(at) = until
                    && task.earlier_timer(at)
                {
                    let mut inner = self.inner.lock();
                    inner.timers_set += 1;
                    let timer = Timer(at, inner.timers_set, TaskRef(Arc::downgrade(&task)));
                    inner.timers.push(Reverse(timer));
                    self.changed.notify_one();
                }
                if !task.alarm.sleep() {
                    self.push(task);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Count(Arc<AtomicUsize>, usize);

    impl Run for Count {
        fn run(&mut self) -> Turn {
            let runs = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            if runs == self.1 { Turn::Done } else { Turn::Wait(None) }
        }
    }

    #[test]
    fn a_task_runs_once_per_wake_and_none_is_lost() {
        let pool = Pool::new(3).unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let task = pool.reserve();
        task.wake();
        pool.start(&task, Box::new(Count(Arc::clone(&runs), 1000)));
        while runs.load(Ordering::SeqCst) < 1000 {
            let before = runs.load(Ordering::SeqCst);
            task.wake();
            while runs.load(Ordering::SeqCst) == before {
                std::thread::yield_now();
            }
        }
        task.wake();
        drop(pool);
        assert_eq!(runs.load(Ordering::SeqCst), 1000);
    }

    /// Notes its number once, when it runs.
    struct Aged(Arc<Mutex<Vec<u64>>>, u64);

    impl Run for Aged {
        fn run(&mut self) -> Turn {
            self.0.lock().push(self.1);
            Turn::Done
        }

        fn oldest(&self) -> u64 {
            self.1
        }
    }

    /// Keeps the worker busy until it is let go.
    struct Busy(Arc<AtomicUsize>);

    impl Run for Busy {
        fn run(&mut self) -> Turn {
            self.0.store(1, Ordering::SeqCst);
            while self.0.load(Ordering::SeqCst) != 2 {
                std::thread::yield_now();
            }
            Turn::Done
        }
    }

    #[test]
    fn the_oldest_work_is_done_first() {
        let pool = Pool::new(1).unwrap();
        let (busy, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        pool.start(&pool.reserve(), Box::new(Busy(Arc::clone(&busy))));
        while busy.load(Ordering::SeqCst) != 1 {
            std::thread::yield_now();
        }
        for age in [5, 3, u64::MAX, 9, 4] {
            pool.start(&pool.reserve(), Box::new(Aged(Arc::clone(&ran), age)));
        }
        busy.store(2, Ordering::SeqCst);
        while ran.lock().len() < 5 {
            std::thread::yield_now();
        }
        assert_eq!(*ran.lock(), [3, 4, 5, 9, u64::MAX]);
    }

    struct Timed(Arc<AtomicUsize>, Instant);

    impl Run for Timed {
        fn run(&mut self) -> Turn {
            self.0.store(if Instant::now() >= self.1 { 2 } else { 1 }, Ordering::SeqCst);
            if Instant::now() >= self.1 { Turn::Done } else { Turn::Wait(Some(self.1)) }
        }
    }

    #[test]
    fn a_timer_wakes_a_task() {
        let pool = Pool::new(1).unwrap();
        let state = Arc::new(AtomicUsize::new(0));
        let at = Instant::now() + std::time::Duration::from_millis(5);
        let task = pool.reserve();
        pool.start(&task, Box::new(Timed(Arc::clone(&state), at)));
        while state.load(Ordering::SeqCst) != 2 {
            std::thread::yield_now();
        }
        assert!(Instant::now() >= at);
    }
}
