//! Workers that run tasks when there is something to do, and sleep when there is not.
//!
//! Where the machine has several NUMA nodes, each worker stays on one, and so does each task, as long as workers there keep up: a worker
//! that has nothing to do takes a task of another node.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Instant,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{alarm::Alarm, nodes::Nodes};

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
    nodes: Arc<Nodes>,
    threads: Vec<JoinHandle<()>>,
}

/// A task that can be woken from any thread.
#[derive(Clone)]
pub struct TaskRef(Weak<Task>);

struct Task {
    alarm: Alarm,
    body: Mutex<Option<Box<dyn Run>>>,
    queue: Arc<Queue>,
    /// Whose workers run it first.
    node: usize,
    /// The earliest timer that will wake the task. A later one is set only once that one went off, so there is never more
    /// than a few per task.
    timer: Mutex<Option<Instant>>,
}

struct Queue {
    inner: Mutex<Inner>,
    /// Where the workers of each node sleep.
    changed: Vec<Condvar>,
}

#[derive(Default)]
struct Inner {
    /// By node.
    ready: Vec<BinaryHeap<Reverse<Ready>>>,
    /// How many workers of each node sleep and were not called yet.
    sleeping: Vec<usize>,
    /// How many were called, and do not run yet.
    called: Vec<usize>,
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
    /// A pool of so many workers, which share the nodes.
    pub fn new(workers: usize, nodes: Nodes) -> std::io::Result<Self> {
        let inner = Inner {
            ready: (0..nodes.count()).map(|_| BinaryHeap::new()).collect(),
            sleeping: vec![0; nodes.count()],
            called: vec![0; nodes.count()],
            ..Inner::default()
        };
        let changed = (0..nodes.count()).map(|_| Condvar::new()).collect();
        let queue = Arc::new(Queue { inner: Mutex::new(inner), changed });
        let mut pool = Self { queue, nodes: Arc::new(nodes), threads: Vec::new() };
        for number in 0..workers {
            let (queue, nodes) = (Arc::clone(&pool.queue), Arc::clone(&pool.nodes));
            let node = nodes.of(number, workers);
            let thread = std::thread::Builder::new().name(format!("worker {number}"));
            let work = move || {
                if let Err(error) = nodes.stay(node) {
                    tracing::warn!("a worker may run far from its memory: {error}");
                }
                queue.work(node);
            };
            pool.threads.push(thread.spawn(work)?);
        }
        Ok(pool)
    }

    /// A place for a task, one of so many that are alike, which can be woken from now on and runs once it is started.
    pub fn reserve(&self, number: usize, all: usize) -> TaskRef {
        let task = Arc::new(Task {
            node: self.nodes.of(number, all),
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
        let mut ready: Vec<Ready> =
            inner.ready.iter_mut().flat_map(BinaryHeap::drain).map(|Reverse(ready)| ready).collect();
        if ready.is_empty() {
            return Stepped::Waits(inner.timers.peek().map(|Reverse(Timer(at, ..))| *at));
        }
        ready.sort_by_key(|ready| ready.number);
        let numbers: Vec<u64> = ready.iter().map(|ready| ready.number).collect();
        let Ready { task, .. } = ready.remove(choose(&numbers));
        ready.into_iter().for_each(|ready| inner.ready[ready.task.node].push(Reverse(ready)));
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
        for changed in &self.queue.changed {
            changed.notify_all();
        }
        for thread in self.threads.drain(..) {
            // A worker catches the panics of its tasks, so it ends in order.
            thread.join().expect("a worker ends without a panic");
        }
        let mut inner = self.queue.inner.lock();
        let ready: Vec<_> = inner.ready.iter_mut().map(std::mem::take).collect();
        let others = (std::mem::take(&mut inner.tasks), std::mem::take(&mut inner.timers));
        // A task that is dropped wakes others, for which the lock is taken.
        drop(inner);
        drop((ready, others));
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
        // Nobody would take it out again, and it keeps the queue that it is in.
        if inner.is_closed {
            return;
        }
        inner.pushed += 1;
        let number = inner.pushed;
        let node = task.node;
        inner.ready[node].push(Reverse(Ready { oldest, number, task }));
        self.wake_one(inner, node);
    }

    /// Wakes a worker that sleeps, of this node if there is one.
    fn wake_one(&self, mut inner: MutexGuard<'_, Inner>, node: usize) {
        let sleeps = |node: &usize| inner.sleeping[*node] > 0;
        let Some(node) = Some(node).filter(sleeps).or_else(|| (0..self.changed.len()).find(sleeps)) else { return };
        inner.sleeping[node] -= 1;
        inner.called[node] += 1;
        drop(inner);
        self.changed[node].notify_one();
    }

    fn work(&self, node: usize) {
        while let Some(task) = self.next(node) {
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

    /// The next task that is ready, for a worker of this node; sleeps while there is none.
    fn next(&self, node: usize) -> Option<Arc<Task>> {
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
            let nodes = inner.ready.len();
            let ready = (node..node + nodes).find_map(|from| inner.ready[from % nodes].pop());
            if let Some(Reverse(Ready { task, .. })) = ready {
                task.alarm.run();
                return Some(task);
            }
            inner.sleeping[node] += 1;
            match inner.timers.peek().map(|Reverse(Timer(at, ..))| *at) {
                Some(at) => drop(self.changed[node].wait_until(&mut inner, at)),
                None => self.changed[node].wait(&mut inner),
            }
            // Some wake by themselves.
            match inner.called[node] {
                0 => inner.sleeping[node] -= 1,
                _ => inner.called[node] -= 1,
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
                    self.wake_one(inner, task.node);
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
        let pool = Pool::new(3, Nodes::one()).unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let task = pool.reserve(0, 1);
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
        let pool = Pool::new(1, Nodes::one()).unwrap();
        let (busy, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        pool.start(&pool.reserve(0, 1), Box::new(Busy(Arc::clone(&busy))));
        while busy.load(Ordering::SeqCst) != 1 {
            std::thread::yield_now();
        }
        for age in [5, 3, u64::MAX, 9, 4] {
            pool.start(&pool.reserve(0, 1), Box::new(Aged(Arc::clone(&ran), age)));
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
        let pool = Pool::new(1, Nodes::one()).unwrap();
        let state = Arc::new(AtomicUsize::new(0));
        let at = Instant::now() + std::time::Duration::from_millis(5);
        let task = pool.reserve(0, 1);
        pool.start(&task, Box::new(Timed(Arc::clone(&state), at)));
        while state.load(Ordering::SeqCst) != 2 {
            std::thread::yield_now();
        }
        assert!(Instant::now() >= at);
    }

    /// Wakes another task when it is dropped, as who leaves a pipe does.
    struct Leaves(Option<TaskRef>, #[allow(dead_code, reason = "it is counted")] Arc<()>);

    impl Run for Leaves {
        fn run(&mut self) -> Turn {
            Turn::Wait(None)
        }
    }

    impl Drop for Leaves {
        fn drop(&mut self) {
            self.0.iter().for_each(TaskRef::wake);
        }
    }

    #[test]
    fn nothing_is_left_of_a_pool_that_is_dropped() {
        let alive = Arc::new(());
        let pool = Pool::new(1, Nodes::one()).unwrap();
        let [first, second] = [0, 1].map(|number| pool.reserve(number, 2));
        pool.start(&second, Box::new(Leaves(Some(first.clone()), Arc::clone(&alive))));
        pool.start(&first, Box::new(Leaves(Some(second), Arc::clone(&alive))));
        while pool.queue.inner.lock().sleeping[0] == 0 {
            std::thread::yield_now();
        }
        drop(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    /// Notes on which thread it ran, and its number.
    struct Place(Arc<Mutex<Vec<(String, usize)>>>, usize);

    impl Run for Place {
        fn run(&mut self) -> Turn {
            let thread = std::thread::current().name().unwrap_or_default().to_string();
            self.0.lock().push((thread, self.1));
            Turn::Done
        }
    }

    #[test]
    fn a_worker_runs_the_tasks_of_its_node_and_then_those_of_others() {
        let pool = Pool::new(2, Nodes::made_up(2)).unwrap();
        let busy = [0, 1].map(|_| Arc::new(AtomicUsize::new(0)));
        for (node, busy) in busy.iter().enumerate() {
            pool.start(&pool.reserve(node, 2), Box::new(Busy(Arc::clone(busy))));
        }
        while busy.iter().any(|busy| busy.load(Ordering::SeqCst) != 1) {
            std::thread::yield_now();
        }
        let ran = Arc::new(Mutex::new(Vec::new()));
        for number in 0..6 {
            pool.start(&pool.reserve(number % 2, 2), Box::new(Place(Arc::clone(&ran), number)));
        }
        // One worker is held up. The other takes all: those of its node, then the rest.
        busy[0].store(2, Ordering::SeqCst);
        while ran.lock().len() < 6 {
            std::thread::yield_now();
        }
        busy[1].store(2, Ordering::SeqCst);
        let worker = ran.lock()[0].0.clone();
        let order = if worker == "worker 0" { [0, 2, 4, 1, 3, 5] } else { [1, 3, 5, 0, 2, 4] };
        assert_eq!(*ran.lock(), order.map(|number| (worker.clone(), number)));
    }

    #[test]
    fn all_who_sleep_are_called_where_there_is_work_for_them() {
        let pool = Pool::new(4, Nodes::made_up(2)).unwrap();
        for _ in 0..200 {
            let busy: Vec<_> = (0..4).map(|_| Arc::new(AtomicUsize::new(0))).collect();
            busy.iter().for_each(|busy| pool.start(&pool.reserve(0, 2), Box::new(Busy(Arc::clone(busy)))));
            // All run at the same time, though all are of one node.
            while busy.iter().any(|busy| busy.load(Ordering::SeqCst) != 1) {
                std::thread::yield_now();
            }
            busy.iter().for_each(|busy| busy.store(2, Ordering::SeqCst));
        }
    }
}
