//! One instance of a subquery: events come in from pipes or a source, go through the chain, and out to pipes or a sink.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use thalweg_core::{
    Epoch, Error, Event, Port, Progress, PutOff, Result, Timestamp, connector::Sink, operator::memory_exceeded,
};

use crate::{
    adapt::{member::Member, planner::Planner},
    backlog::Backlog,
    chain::Chain,
    clock::Linger,
    deal::Dealer,
    exchange::Scatter,
    intake::{Pipes, Taken},
    lull::Lull,
    metrics::{Counters, TaskCounters},
    pipe::{Envelope, Place, Sender, Work},
    pool::{Run, TaskRef, Turn},
    source::{SourceReader, Step},
};

/// How many events a task takes in one turn before others have theirs.
pub const TURN: usize = 16;

/// So long what has arrived is worked on when a query is stopped. It is a moment, unless a row has very many partners.
const GRACE: Duration = Duration::from_secs(2);

/// What all tasks of a query share.
pub struct Shared {
    /// What is counted.
    pub counters: Arc<Counters>,
    /// How much memory the states may take.
    pub memory_limit: Option<usize>,
    /// Asked to stop: sources end, and what has arrived is finished if it can be soon.
    pub is_stopping: AtomicBool,
    /// The first error; every task gives up then.
    pub error: Mutex<Option<Error>>,
    /// Counts epochs, and says which key groups change hands in one.
    pub planner: Planner,
    is_failed: AtomicBool,
    running: AtomicUsize,
    ended: (Mutex<bool>, Condvar),
    tasks: Mutex<Vec<TaskRef>>,
}

impl Shared {
    /// What `tasks` tasks will share.
    pub fn new(tasks: usize, memory_limit: Option<usize>, counters: Arc<Counters>, planner: Planner) -> Self {
        Self {
            counters,
            memory_limit,
            planner,
            is_stopping: AtomicBool::new(false),
            error: Mutex::new(None),
            is_failed: AtomicBool::new(false),
            running: AtomicUsize::new(tasks),
            ended: (Mutex::new(tasks == 0), Condvar::new()),
            tasks: Mutex::new(Vec::new()),
        }
    }

    /// Makes a task known, so that it is woken when the query stops.
    pub fn register(&self, task: TaskRef) {
        self.tasks.lock().push(task);
    }

    /// Ends the query with an error; the first one counts.
    pub fn fail(&self, error: Error) {
        self.error.lock().get_or_insert(error);
        self.is_failed.store(true, Release);
        self.wake_all();
    }

    /// Asks the sources to end. Nothing is flushed: what is still open stays open.
    pub fn stop(&self) {
        self.is_stopping.store(true, Release);
        self.wake_all();
    }

    /// Asks the sources for a barrier.
    pub fn request_barrier(&self) {
        self.planner.request();
        self.wake_all();
    }

    /// Looks at the loads of instances if it is time to, and asks the sources for a barrier where key groups should change hands.
    fn adapt(&self) {
        if self.planner.look() {
            self.wake_all();
        }
    }

    /// Nobody runs its tasks any more: to whoever waits, they have ended.
    pub fn give_up(&self) {
        *self.ended.0.lock() = true;
        self.ended.1.notify_all();
    }

    /// Whether every task has ended.
    pub fn is_ended(&self) -> bool {
        *self.ended.0.lock()
    }

    /// Waits until every task has ended.
    pub fn wait(&self) {
        let mut is_ended = self.ended.0.lock();
        while !*is_ended {
            self.ended.1.wait(&mut is_ended);
        }
    }

    fn wake_all(&self) {
        let tasks = self.tasks.lock().clone();
        tasks.iter().for_each(TaskRef::wake);
    }

    fn task_ended(&self) {
        if self.running.fetch_sub(1, AcqRel) == 1 {
            self.counters.end();
            *self.ended.0.lock() = true;
            self.ended.1.notify_all();
        }
    }
}

/// After a turn of a team's member that took longer, loads are looked at.
const LONG_TURN: Duration = Duration::from_millis(5);

/// One instance of a subquery.
pub struct Task {
    /// The source or sink of the subquery, if it has one: where a panic came from that no operator caused.
    pub label: String,
    /// How long it was at work, where that is measured.
    pub counters: Option<Arc<TaskCounters>>,
    /// What its tasks share.
    pub shared: Arc<Shared>,
    /// Where events come from.
    pub intake: Intake,
    /// Its part in who has which key group, if its rows are divided by keys.
    pub member: Option<Member>,
    /// What is done with them.
    pub chain: Chain,
    /// Where they go.
    pub outlet: Outlet,
    /// When what the chain works on arrived.
    pub arrived: u64,
    /// Where it stands in the task's turn.
    pub place: Place,
    /// Whether it has something to do, for those who take from it.
    pub work: Arc<Work>,
    /// Whether nothing is left to be done but to pass on what was put out.
    pub is_ending: bool,
    /// How many events it takes in one turn.
    pub most: usize,
    /// How long what the chain put off waits for more.
    pub delay: Linger,
    /// When there was first nothing else to do since something was put off that takes no time.
    pub idle_since: Option<Instant>,
    /// When there is time for what takes long.
    pub backlog: Backlog,
    /// How long nothing has come while rows waited for others.
    pub lull: Lull,
    /// Whether others have a turn before what the chain put off is done.
    pub gives_way: bool,
    /// When it found that the query is stopped.
    pub stopping_since: Option<Instant>,
}

/// Where a task's events come from.
pub enum Intake {
    /// From partitions of a source, and the epoch that they are in.
    Source(SourceReader, u64),
    /// From other tasks.
    Pipes(Pipes),
}

/// Where a task's events go.
pub enum Outlet {
    /// To tasks, or to the query's handle, which gets rows only.
    Pipes {
        /// Where the rows go as they are.
        pipes: Vec<Out>,
        /// Where they are divided by keys.
        exchanges: Vec<Scatter>,
        /// Where they are dealt in turn.
        dealers: Vec<Dealer>,
        /// Whether these rows are the query's result.
        is_result: bool,
    },
    /// To a sink.
    Sink {
        /// The sink.
        sink: Box<dyn Sink>,
        /// The node's name.
        label: String,
        /// Whether rows were written since the last flush.
        is_dirty: bool,
    },
}

/// A pipe that begins at a task.
pub struct Out {
    /// The output of the last operator whose batches it takes.
    port: Port,
    sender: Sender,
    turns: Turns,
    /// What does not fit into it yet.
    waiting: VecDeque<Envelope>,
}

/// What becomes of a task's turns at the other end of a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// There are none.
    #[default]
    None,
    /// They are the turns of who takes.
    Stay,
    /// Who takes does so from several tasks in turn.
    End,
}

impl Out {
    /// A pipe for the batches of one output.
    pub fn new(port: Port, sender: Sender, turns: Turns) -> Self {
        Self { port, sender, turns, waiting: VecDeque::new() }
    }

    /// The end of the pipe.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }
}

impl Run for Task {
    fn oldest(&self) -> u64 {
        match &self.intake {
            _ if self.chain.is_busy() => self.arrived,
            // A source has nothing that waits.
            Intake::Source(..) => u64::MAX,
            Intake::Pipes(_) if self.gives_way => u64::MAX,
            Intake::Pipes(pipes) => pipes.oldest(),
        }
    }

    fn run(&mut self) -> Turn {
        if self.shared.is_failed.load(Acquire) {
            return self.end();
        }
        let begun = self.work.begin();
        let began = self.member.as_ref().map(Member::begin);
        let started = self.counters.as_ref().map(|_| Instant::now());
        let turn = catch_unwind(AssertUnwindSafe(|| self.turn()));
        if let (Some(counters), Some(started)) = (&self.counters, started) {
            counters.worked(started.elapsed());
        }
        if let (Some(member), Some(began)) = (&self.member, began) {
            // Sources look between two batches; while turns are long they may have no room for one.
            if member.end(began) > LONG_TURN {
                self.shared.adapt();
            }
        }
        let error = match turn {
            Ok(Ok(Turn::Done)) => return self.end(),
            Ok(Ok(turn)) => {
                if let Turn::Wait(_) = turn {
                    self.work.rest(begun);
                }
                return turn;
            }
            Ok(Err(error)) => error,
            Err(panic) => {
                let node = self.chain.running().unwrap_or(&self.label);
                Error::bug(format!("{node} failed unexpectedly: {}", message_of(panic.as_ref())))
                    .with_hint("this is a fault of the engine, not of the query: please report it")
            }
        };
        if self.outlet.fail_in_turn(&error, self.arrived) {
            self.is_ending = true;
            return Turn::Again;
        }
        self.shared.fail(error);
        self.end()
    }
}

impl Task {
    fn end(&mut self) -> Turn {
        if self.shared.is_stopping.load(Acquire) {
            self.chain.note_held();
            if let Intake::Pipes(pipes) = &mut self.intake {
                pipes.note_held();
            }
        }
        // Leave the pipes before the end is known, so that who waits for it finds them closed.
        self.intake = Intake::Pipes(Pipes::none());
        self.member = None;
        self.outlet = Outlet::none();
        self.shared.task_ended();
        Turn::Done
    }

    fn turn(&mut self) -> Result<Turn> {
        // What a source has read is older than what others will read: it goes first, until it is done, and then others may read.
        let is_finishing = matches!(self.intake, Intake::Source(..)) && self.chain.is_busy();
        for _ in 0..self.most {
            if self.is_ending {
                self.outlet.close();
            }
            if !self.outlet.flush()? {
                return Ok(Turn::Wait(None));
            }
            if self.is_ending {
                return self.outlet.finish().map(|()| Turn::Done);
            }
            let is_idle = self.chain.advance()?;
            let is_long = !is_idle && !self.chain.has_put_out();
            self.is_ending = self.put_out()?;
            if self.is_ending && !is_idle && self.shared.is_stopping.load(Acquire) {
                // Those who took the rows have left.
                self.shared.counters.cut_short();
            }
            if is_idle && matches!(std::mem::take(&mut self.place), Place::Last) {
                self.is_ending |= self.outlet.end_turn(self.arrived)?;
            }
            if !is_idle && !self.is_waited_for(is_long) {
                self.shared.counters.cut_short();
                self.is_ending = true;
            }
            self.check_memory()?;
            if is_idle && is_finishing && !self.is_ending {
                break;
            }
            if is_idle
                && !self.is_ending
                && let Some(turn) = self.take_in()?
            {
                return Ok(turn);
            }
            if is_long && !self.is_ending {
                break;
            }
        }
        Ok(Turn::Again)
    }

    /// Whether what the chain works on is finished. Who stops a query waits neither for all that comes at the end of its input, nor for
    /// what takes long and brings out nothing, nor for long.
    fn is_waited_for(&mut self, is_long: bool) -> bool {
        if !self.shared.is_stopping.load(Acquire) {
            return true;
        }
        let now = self.delay.clock.now();
        let since = *self.stopping_since.get_or_insert(now);
        !(is_long || self.chain.is_at_end() || now - since > GRACE)
    }

    /// Hands the next events to the chain; or says how the turn ends.
    fn take_in(&mut self) -> Result<Option<Turn>> {
        self.backlog.end(|| self.delay.clock.now());
        if let Intake::Source(..) = self.intake {
            self.shared.adapt();
        }
        let taken = match &mut self.intake {
            Intake::Source(..) if self.shared.is_stopping.load(Acquire) => Taken::End,
            Intake::Source(_, epoch) if *epoch < self.shared.planner.epoch() => {
                *epoch += 1;
                Taken::Events(vec![(0, Event::Barrier(Epoch(*epoch)))], self.arrived)
            }
            Intake::Source(reader, _) => match reader.step()? {
                Step::Events(events, arrived) => {
                    Taken::Events(events.into_iter().map(|event| (0, event)).collect(), arrived)
                }
                Step::Barrier => {
                    self.shared.request_barrier();
                    Taken::Events(Vec::new(), self.arrived)
                }
                Step::Wait(until) => Taken::Nothing(until),
                Step::End => Taken::End,
            },
            Intake::Pipes(pipes) => match &mut self.member {
                Some(member) => member.take(pipes, &mut self.chain)?,
                None => pipes.take()?,
            },
        };
        match taken {
            Taken::Events(events, arrived) => {
                self.lull.end(|| self.delay.clock.now());
                (self.arrived, self.gives_way) = (arrived, false);
                if let Intake::Pipes(pipes) = &self.intake {
                    self.place = pipes.place();
                }
                // The chain works on a stack: the last delivered is the first done.
                events.into_iter().rev().for_each(|(port, event)| self.chain.deliver(port, event));
                Ok(None)
            }
            // Those who took the rows have left, and nothing may come for long that would find it out. Whoever waits for the end of a
            // query without looking at its rows has not left.
            Taken::Nothing(_) if !self.outlet.is_result() && self.outlet.is_unwanted() => {
                self.is_ending = true;
                Ok(None)
            }
            Taken::Nothing(until) => {
                let due = self.outlet.nothing_comes()?;
                let late = self.put_off_until();
                if late.is_some_and(|due| due <= self.delay.clock.now()) {
                    // Others first: they may have something to do, or something for this task.
                    if !std::mem::replace(&mut self.gives_way, true) {
                        return Ok(Some(Turn::Again));
                    }
                    (self.gives_way, self.lull) = (false, Lull::default());
                    match self.chain.put_off() {
                        PutOff::Later => self.backlog.begin(self.delay.clock.now()),
                        // The rest of what was begun.
                        PutOff::Now(0) => self.backlog.go_on(self.delay.clock.now()),
                        PutOff::Soon => self.idle_since = None,
                        PutOff::Now(_) | PutOff::Nothing => {}
                    }
                    self.chain.catch_up();
                    return Ok(None);
                }
                Ok(Some(Turn::Wait([until, due, late].into_iter().flatten().min())))
            }
            Taken::End => {
                self.is_ending = true;
                Ok(None)
            }
        }
    }

    /// When there is nothing else to do: until when that waits which the chain has put off.
    fn put_off_until(&mut self) -> Option<Instant> {
        let now = || self.delay.clock.now();
        match self.chain.put_off() {
            PutOff::Nothing => {
                (self.idle_since, self.lull) = (None, Lull::default());
                self.backlog.forget();
                None
            }
            PutOff::Later => Some(self.backlog.until(self.delay.most, now())),
            PutOff::Soon => Some(*self.idle_since.get_or_insert_with(now) + self.delay.most),
            PutOff::Now(rows) => Some(self.lull.until(rows, now())),
        }
    }

    /// Takes what the chain gave to the outlet; returns whether that was the end, or nobody wants more.
    fn put_out(&mut self) -> Result<bool> {
        for (port, event) in self.chain.take_out() {
            let is_end = matches!(event, Event::Watermark(Timestamp::MAX));
            let is_unwanted = self.outlet.put(port, event, (self.arrived, &self.place), &self.shared.counters)?;
            if is_end || is_unwanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_memory(&self) -> Result<()> {
        let Some(limit) = self.shared.memory_limit else { return Ok(()) };
        let (bytes, largest) = self.shared.counters.state();
        if bytes <= limit {
            return Ok(());
        }
        Err(memory_exceeded(bytes, limit).in_node(largest))
    }
}

impl Outlet {
    /// Nothing goes anywhere.
    pub fn none() -> Self {
        Self::Pipes { pipes: Vec::new(), exchanges: Vec::new(), dealers: Vec::new(), is_result: false }
    }

    /// Pushes what did not fit; returns whether all of it fits now, or there is nobody left to wait for.
    fn flush(&mut self) -> Result<bool> {
        let Self::Pipes { pipes, exchanges, dealers, .. } = self else { return Ok(true) };
        let mut is_flushed = true;
        for Out { sender, waiting, .. } in pipes.iter_mut() {
            sender.push_all(waiting);
            if sender.is_closed() {
                waiting.clear();
            }
            is_flushed &= waiting.is_empty();
        }
        for exchange in exchanges {
            is_flushed &= exchange.flush()?;
        }
        for dealer in dealers {
            is_flushed &= dealer.flush();
        }
        Ok(is_flushed)
    }

    /// Nothing will be put out any more: what was travels, however little it is.
    fn close(&mut self) {
        if let Self::Pipes { exchanges, .. } = self {
            exchanges.iter_mut().for_each(Scatter::close);
        }
    }

    /// Tells those who take from this task in turn that its turn is over; returns whether nobody wants more.
    fn end_turn(&mut self, arrived: u64) -> Result<bool> {
        if let Self::Pipes { pipes, .. } = self {
            let with_turns = pipes.iter_mut().filter(|out| out.turns != Turns::None);
            with_turns.for_each(|out| out.waiting.push_back(Envelope::end(Place::Last, arrived)));
        }
        self.flush()?;
        Ok(self.is_unwanted())
    }

    /// Whether the query's handle takes from this task.
    fn is_result(&self) -> bool {
        matches!(self, Self::Pipes { is_result: true, .. })
    }

    /// Whether all who took from this task have left.
    fn is_unwanted(&self) -> bool {
        let Self::Pipes { pipes, exchanges, dealers, .. } = self else { return false };
        pipes.iter().all(|out| out.sender.is_closed())
            && exchanges.iter().all(Scatter::is_closed)
            && dealers.iter().all(Dealer::is_closed)
    }

    /// Lets an error have its turn, so that who wants no more before it never sees it; returns whether all who take from this task
    /// have turns.
    fn fail_in_turn(&mut self, error: &Error, arrived: u64) -> bool {
        let Self::Pipes { pipes, exchanges, dealers, .. } = self else { return false };
        let has_turns = exchanges.is_empty() && pipes.iter().all(|out| out.turns != Turns::None);
        if !has_turns || (pipes.is_empty() && dealers.is_empty()) {
            return false;
        }
        for out in pipes {
            out.waiting.push_back(Envelope::end(Place::Failed(error.clone()), arrived));
        }
        dealers.iter_mut().for_each(|dealer| dealer.fail(error.clone(), arrived));
        true
    }

    /// Puts an event out, which stands there in the task's turn; returns whether nobody wants more.
    fn put(&mut self, port: Port, event: Event, (arrived, place): (u64, &Place), counters: &Counters) -> Result<bool> {
        match self {
            Self::Pipes { pipes, exchanges, dealers, is_result } => {
                if *is_result {
                    let Event::Batch(batch) = &event else { return Ok(false) };
                    counters.emitted(batch.len(), arrived);
                }
                let is_for_all = !matches!(event, Event::Batch(_));
                let is_aside = matches!(place, Place::Aside);
                for out in pipes.iter_mut().filter(|out| is_for_all || out.port == port) {
                    let place = match out.turns {
                        Turns::End if is_aside => continue,
                        Turns::Stay if is_aside => Place::Aside,
                        _ => Place::Within,
                    };
                    out.waiting.push_back(Envelope::new(event.clone(), arrived).at(place));
                }
                for exchange in exchanges.iter_mut().filter(|exchange| is_for_all || exchange.port() == port) {
                    exchange.put(Envelope::new(event.clone(), arrived))?;
                }
                for dealer in dealers.iter_mut().filter(|dealer| is_for_all || dealer.port() == port) {
                    dealer.put(event.clone(), arrived);
                }
                self.flush()?;
                Ok(self.is_unwanted())
            }
            Self::Sink { sink, label, is_dirty } => {
                let Event::Batch(batch) = event else { return Ok(false) };
                let progress = sink.write(&batch).map_err(|error| error.in_node(&*label))?;
                *is_dirty = true;
                counters.emitted(batch.len(), arrived);
                Ok(progress == Progress::Finished)
            }
        }
    }

    /// Makes what was written visible while nothing more comes; or says when it will have to be.
    fn nothing_comes(&mut self) -> Result<Option<Instant>> {
        match self {
            Self::Sink { sink, label, is_dirty } => {
                if std::mem::take(is_dirty) {
                    sink.flush().map_err(|error| error.in_node(&*label))?;
                }
                Ok(None)
            }
            Self::Pipes { exchanges, .. } => {
                let due = exchanges.iter_mut().map(Scatter::nothing_comes).collect::<Result<Vec<_>>>()?;
                Ok(due.into_iter().flatten().min())
            }
        }
    }

    /// What was put out is all there is.
    fn finish(&mut self) -> Result<()> {
        match self {
            Self::Sink { sink, label, .. } => sink.finish().map_err(|error| error.in_node(&*label)),
            Self::Pipes { .. } => Ok(()),
        }
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_string())
}
