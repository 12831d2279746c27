//! Behaviour: a synchronous state machine that knows nothing of threads, channels, clocks or checkpoints in flight.
//!
//! So the same operator runs on our runtime, inside a task of another engine, and in a simulator with a seed.

use crate::{Batch, Error, Interval, Result, State, Timestamp, told::Told};

/// The number of an operator's input or output.
pub type Port = usize;

/// What an operator does with rows and time.
///
/// The host calls `on_batch` and `on_time` in the order in which events arrive. A call that returns [`Progress::More`] is
/// continued by `resume` until it returns something else; no other call comes between.
///
/// ```
/// use thalweg_core::{Batch, Operator, Output, Port, Progress, Result};
///
/// /// Passes everything on.
/// struct Pass;
///
/// impl Operator for Pass {
///     fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
///         out.emit(batch)
///     }
/// }
/// ```
pub trait Operator: Send {
    /// Takes one batch that arrived on `port`.
    fn on_batch(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Progress>;

    /// Event time moved forward on at least one port.
    fn on_time(&mut self, _frontier: &Frontier, _out: &mut Output) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// Continues the call that last returned [`Progress::More`].
    fn resume(&mut self, _out: &mut Output) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// Puts out what is held back only because it is cheaper later: called before a barrier or idleness passes, behind which
    /// others do not wait for it.
    fn flush(&mut self, _out: &mut Output) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// What it does when there is nothing else to do.
    fn put_off(&self) -> PutOff {
        PutOff::Nothing
    }

    /// Does some of what was put off: nothing else was to be done. What is left waits for the next time.
    fn catch_up(&mut self, _out: &mut Output) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// Of which rows its results are made, if it looks for rows that belong to others, and counts them ([`Output::count_search`]).
    fn searches(&self) -> Option<MadeOf> {
        None
    }

    /// Whether it wants no row at all: its stream ends before it begins.
    fn wants_nothing(&self) -> bool {
        false
    }

    /// What outlives a batch, if anything.
    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }
}

/// How far a call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All is done that this event asked for.
    Done,
    /// The output budget is spent, or much was done and others may run; `resume` goes on.
    More,
    /// Nothing will be wanted any more: the sources may stop.
    Finished,
}

/// What an operator does when there is nothing else to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PutOff {
    /// Nothing.
    Nothing,
    /// What takes long, and is cheaper for much at a time: a while later, and not all of the time.
    Later,
    /// What takes no time, and is cheaper for much at a time: a while later.
    Soon,
    /// What has come, so many rows, which cost less together with those that come next; or, where these are none, the rest of what it has
    /// begun.
    Now(usize),
}

/// How far event time has come on each port.
///
/// The combined time is the minimum over the ports that are not idle, and never goes back: when an idle port wakes up, what
/// it brings from before that time is late.
#[derive(Clone, Debug)]
pub struct Frontier {
    ports: Vec<PortTime>,
    combined: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct PortTime {
    reached: Timestamp,
    is_idle: bool,
}

impl Frontier {
    /// The frontier of `ports` ports on which nothing has come yet.
    pub fn new(ports: usize) -> Self {
        assert!(ports > 0, "a frontier is over at least one port");
        Self { ports: vec![PortTime { reached: Timestamp::MIN, is_idle: false }; ports], combined: Timestamp::MIN }
    }

    /// How far time has come on one port.
    pub fn of(&self, port: Port) -> Timestamp {
        self.ports[port].reached
    }

    /// How far time has come on all ports that are not idle.
    pub fn combined(&self) -> Timestamp {
        self.combined
    }

    /// Whether nothing is to be waited for on any port, and yet something may come: each is idle or at its end, but not all
    /// are at their end.
    pub fn is_idle(&self) -> bool {
        self.ports.iter().all(|port| port.is_idle || port.is_over()) && !self.ports.iter().all(PortTime::is_over)
    }

    /// Whether nothing is to be waited for on this port.
    pub fn is_idle_on(&self, port: Port) -> bool {
        self.ports[port].is_idle
    }

    /// The port that holds the combined time back: the slowest that is not idle.
    pub fn slowest(&self) -> Option<Port> {
        (0..self.ports.len()).filter(|p| !self.ports[*p].is_idle).min_by_key(|p| self.ports[*p].reached)
    }

    /// Time has come to `t` on `port`, which is not idle any more; returns whether the combined time moved.
    pub fn advance(&mut self, port: Port, t: Timestamp) -> bool {
        self.ports[port].is_idle = false;
        self.ports[port].reached = self.ports[port].reached.max(t);
        self.recombine()
    }

    /// Nothing is to be waited for on `port`; returns whether the combined time moved.
    pub fn idle(&mut self, port: Port) -> bool {
        self.ports[port].is_idle = true;
        self.recombine()
    }

    /// Time has come to `t` in any case; returns whether that is news.
    pub fn raise(&mut self, t: Timestamp) -> bool {
        let is_news = t > self.combined;
        self.combined = self.combined.max(t);
        is_news
    }

    /// Something came on `port` again: what it brings is to be waited for.
    pub fn wake(&mut self, port: Port) {
        self.ports[port].is_idle = false;
    }

    fn recombine(&mut self) -> bool {
        // An idle port may still wake up: the stream is over only when every port is.
        let is_over = self.ports.iter().all(PortTime::is_over);
        let active = self.ports.iter().filter(|port| !port.is_idle && (is_over || !port.is_over()));
        let reached = active.map(|port| port.reached).min().filter(|t| *t > self.combined);
        self.combined = reached.unwrap_or(self.combined);
        reached.is_some()
    }
}

impl PortTime {
    fn is_over(&self) -> bool {
        self.reached == Timestamp::MAX
    }
}

/// Where an operator puts its rows, within a budget that was reserved before the call.
#[derive(Debug)]
pub struct Output {
    batches: Vec<(Port, Batch)>,
    room: usize,
    hold: Timestamp,
    late: u64,
    search: Search,
    told: Option<Told>,
    memory_limit: usize,
}

/// What an operator looked at to find the rows that belong to others: its index is the better, the fewer it looks at for each that it
/// finds.
///
/// Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", equation 1, whose effectiveness is
/// rows found over rows visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Rows that were looked at, each time they were.
    pub visited: u64,
    /// Rows that belong to another one, each time they do: the pairs of a join, the rows in windows.
    pub found: u64,
    /// How long, in event time, rows stayed after nobody could see them any more, at most.
    pub lag: Interval,
    /// The rows for which there are results; of pairs, those of the left side.
    pub bases: Came,
    /// The rows that are seen by others, which may be the same; of pairs, those of the right side.
    pub seen: Came,
    /// How many keys they had, where all rows of a key stay in what it comes to.
    pub keys: u64,
    /// How many results of aggregates were found in each [`Way`], by its number.
    pub ways: [u64; Way::ALL.len()],
}

/// How an aggregate over the rows around a row is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the difference of two running totals, over all rows that may be seen as they are sorted each time.
    Sorting,
    /// The same, where the totals are kept by key.
    RunningTotals,
    /// As a value of one of the rows.
    OneRow,
    /// From what the window of the row before had.
    Sliding,
    /// From states of blocks of rows.
    Blocks,
    /// From all rows of its window.
    AllRows,
    /// From all pairs of the row and one of its window.
    Pairs,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Sorting, Self::RunningTotals, Self::OneRow, Self::Sliding, Self::Blocks, Self::AllRows, Self::Pairs];

    /// What users see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sorting => "sorting",
            Self::RunningTotals => "running totals",
            Self::OneRow => "one row",
            Self::Sliding => "sliding",
            Self::Blocks => "blocks",
            Self::AllRows => "all rows",
            Self::Pairs => "pairs",
        }
    }
}

/// Rows that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// So many in time.
    pub in_time: u64,
    /// So many too late, and were left out.
    pub late: u64,
}

impl Came {
    /// The share of them that was too late.
    pub fn late_share(self) -> f64 {
        self.late as f64 / (self.late + self.in_time).max(1) as f64
    }
}

/// Of which rows a result is made, where rows belong to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeOf {
    /// A row of each side.
    Pair,
    /// A row, and those that were found for it.
    Around {
        /// Whether it is among these itself.
        has_itself: bool,
        /// How far apart in time they may be; `None` where all rows before it are among them, and one that comes too late is missing in all
        /// results from then on.
        reach: Option<Interval>,
        /// Whether these are results themselves, so that one that is not exact spoils all that are made of it.
        of_results: bool,
    },
}

impl Search {
    /// Rows of the left or the right side came.
    pub fn of_side(side: usize, came: Came) -> Self {
        match side {
            0 => Self { bases: came, ..Self::default() },
            _ => Self { seen: came, ..Self::default() },
        }
    }

    /// Adds what was looked at and found elsewhere; of both lags, and both numbers of keys, the larger one stays.
    pub fn add(&mut self, Self { visited, found, lag, bases, seen, keys, ways }: Self) {
        self.visited += visited;
        self.found += found;
        self.lag = self.lag.max(lag);
        self.keys = self.keys.max(keys);
        self.ways.iter_mut().zip(ways).for_each(|(results, more)| *results += more);
        for (came, more) in [(&mut self.bases, bases), (&mut self.seen, seen)] {
            came.in_time += more.in_time;
            came.late += more.late;
        }
    }
}

impl Output {
    /// An output that takes `room` rows before the operator should return [`Progress::More`].
    pub fn new(room: usize) -> Self {
        let (batches, search) = (Vec::new(), Search::default());
        Self { batches, room, hold: Timestamp::MAX, late: 0, search, told: None, memory_limit: usize::MAX }
    }

    /// The same with a limit on the memory that the operator's state may take.
    pub fn with_memory_limit(mut self, limit: Option<usize>) -> Self {
        self.memory_limit = limit.unwrap_or(usize::MAX);
        self
    }

    /// For an operator whose state may grow by much in one call: refuses more memory than it may take. The host looks after
    /// each call in any case.
    pub fn check_memory(&self, bytes: usize) -> Result<()> {
        if bytes <= self.memory_limit {
            return Ok(());
        }
        Err(memory_exceeded(bytes, self.memory_limit))
    }

    /// Puts out the rows of `batch`, if there are any.
    pub fn emit(&mut self, batch: Batch) -> Result<Progress> {
        self.emit_to(0, batch)
    }

    /// Puts out the rows of `batch` on one of several ports.
    pub fn emit_to(&mut self, port: Port, batch: Batch) -> Result<Progress> {
        self.room = self.room.saturating_sub(batch.len());
        if !batch.is_empty() {
            self.batches.push((port, batch));
        }
        Ok(Progress::Done)
    }

    /// How many rows still fit into the budget.
    pub fn room(&self) -> usize {
        self.room
    }

    /// A watermark passes at the minimum of the input's and `t`, from now on and until said otherwise.
    pub fn hold(&mut self, t: Timestamp) {
        self.hold = t;
    }

    /// Counts rows that came too late for at least one of their windows.
    pub fn count_late(&mut self, rows: usize) {
        self.late += rows as u64;
    }

    /// Counts what was looked at, and found.
    pub fn count_search(&mut self, search: Search) {
        self.search.add(search);
    }

    /// Says anew how many results are exact.
    pub fn tell(&mut self, told: Told) {
        self.told = Some(told);
    }

    /// For the host: takes what was put out, and makes room for `room` rows.
    pub fn take(&mut self, room: usize) -> Vec<(Port, Batch)> {
        self.room = room;
        std::mem::take(&mut self.batches)
    }

    /// For the host: how far a watermark may pass.
    pub fn held_at(&self) -> Timestamp {
        self.hold
    }

    /// For the host: how many rows came late since it last asked.
    pub fn take_late(&mut self) -> u64 {
        std::mem::take(&mut self.late)
    }

    /// For the host: how many results are exact, if that was said anew since it last asked.
    pub fn take_told(&mut self) -> Option<Told> {
        self.told.take()
    }

    /// For the host: what was looked at and found since it last asked.
    pub fn take_search(&mut self) -> Search {
        std::mem::take(&mut self.search)
    }
}

/// The error of a query whose states take more memory than they may.
pub fn memory_exceeded(bytes: usize, limit: usize) -> Error {
    let message = format!("the query's state takes {bytes} bytes, more than 'memory.limit' = {limit}");
    let hint = "use shorter windows, a smaller watermark delay, fewer keys or rows to sort, fewer instances, or SET a larger \
                'memory.limit'";
    Error::environment(message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_active_port_holds_time_back() {
        let mut frontier = Frontier::new(2);
        assert!(!frontier.advance(0, Timestamp(10)));
        assert!(frontier.advance(1, Timestamp(5)));
        assert_eq!((frontier.combined(), frontier.slowest()), (Timestamp(5), Some(1)));
    }

    #[test]
    fn an_idle_port_is_not_waited_for_and_time_never_goes_back() {
        let mut frontier = Frontier::new(2);
        frontier.advance(0, Timestamp(10));
        assert!(frontier.idle(1));
        assert_eq!(frontier.combined(), Timestamp(10));
        assert!(!frontier.advance(1, Timestamp(3)));
        assert_eq!((frontier.combined(), frontier.of(1)), (Timestamp(10), Timestamp(3)));
    }

    #[test]
    fn a_stream_is_over_only_when_every_port_is_even_if_the_others_are_idle() {
        let mut frontier = Frontier::new(2);
        frontier.advance(0, Timestamp(10));
        assert!(frontier.idle(1));
        assert!(!frontier.advance(0, Timestamp::MAX), "port 1 may wake up");
        assert!(frontier.is_idle());
        frontier.wake(1);
        assert!(frontier.advance(1, Timestamp(20)));
        assert_eq!(frontier.combined(), Timestamp(20));
        assert!(frontier.advance(1, Timestamp::MAX));
        assert!(!frontier.is_idle());
    }
}
