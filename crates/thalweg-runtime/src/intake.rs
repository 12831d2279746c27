//! The pipes that end at a task, put together: time, barriers, and rows in order where order is asked for.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use thalweg_core::{Batch, Epoch, Event, Frontier, Held, Port, Result, Timestamp};
use thalweg_shuffle::gather::Ordered;

use crate::{
    clock::Linger,
    deal::InTurn,
    metrics::NodeCounters,
    pipe::{Envelope, Place},
    slack::{Slack, Waited},
};

/// So many bytes of rows may wait for those before them while who must send these is at work. (Tests have few rows.)
const AHEAD: usize = if cfg!(debug_assertions) { 1 << 10 } else { 8 << 20 };

/// The pipes that end at a task. An input that has delivered a barrier waits for the others.
pub struct Pipes {
    inputs: Vec<Input>,
    next: usize,
    ports: Vec<PortIntake>,
    /// What is behind the rows that are put in order, and when what caused it arrived.
    behind: VecDeque<(Port, Event, u64)>,
    /// Where what was taken last stands in the turn of the task.
    place: Place,
}

/// What is known of a port over all pipes that deliver to it.
struct PortIntake {
    time: PortFrontier,
    /// What puts the rows of the pipes in order, if they are.
    gather: Option<Gather>,
}

struct Gather {
    rows: Ordered,
    /// How long rows wait for a sender that says nothing, if not for ever.
    slack: Option<Slack>,
    counters: Arc<NodeCounters>,
}

/// How far time has come on a port.
struct PortFrontier {
    frontier: Frontier,
    /// How far it has come in any case: an instance that shares the rows had come so far.
    floor: Timestamp,
    /// If those who deliver share the rows of the same senders: which of them have said that nothing is to be waited for.
    team: Option<Vec<bool>>,
}

/// A pipe that ends at a task.
pub struct Inlet {
    /// The port that it delivers to.
    pub port: Port,
    /// Where the events come out.
    pub receiver: InTurn,
    /// Whether who sends shares the rows of the same senders with the others that deliver to the port.
    pub is_of_team: bool,
}

struct Input {
    port: Port,
    /// Which of the pipes that deliver to the port.
    place: usize,
    receiver: InTurn,
    /// The barrier at which it waits for the others.
    at_barrier: Option<Epoch>,
    is_over: bool,
}

/// What a task took in.
pub enum Taken {
    /// Events for the chain's first operator, and when what caused them arrived. None, where what was taken says nothing new.
    Events(Vec<(Port, Event)>, u64),
    /// Nothing until woken, or until the instant.
    Nothing(Option<Instant>),
    /// Nothing any more.
    End,
}

impl Taken {
    const NOTHING_NEW: Self = Self::Events(Vec::new(), 0);
}

impl Pipes {
    /// Pipes that deliver to ports. A port whose pipes' rows are put in order, up to `batch_rows` at a time, has counters for what waits;
    /// rows wait no longer than `slack` for a pipe that says nothing, or for ever.
    pub fn new(
        inlets: Vec<Inlet>,
        ports: Vec<Option<Arc<NodeCounters>>>,
        batch_rows: usize,
        slack: Option<Linger>,
    ) -> Self {
        let port = |(port, counters): (Port, Option<Arc<NodeCounters>>)| {
            let pipes = inlets.iter().filter(|inlet| inlet.port == port).count().max(1);
            let is_team = inlets.iter().any(|inlet| inlet.port == port && inlet.is_of_team);
            let time = PortFrontier {
                frontier: Frontier::new(pipes),
                floor: Timestamp::MIN,
                team: is_team.then(|| vec![false; pipes]),
            };
            let gather = counters.map(|counters| Gather {
                rows: Ordered::new(pipes, batch_rows),
                slack: slack.clone().map(|most| Slack::new(pipes, most, &counters.label)),
                counters,
            });
            PortIntake { time, gather }
        };
        let ports: Vec<PortIntake> = ports.into_iter().enumerate().map(port).collect();
        let mut places = vec![0; ports.len()];
        let input = |Inlet { port, receiver, .. }| {
            places[port] += 1;
            Input { port, place: places[port] - 1, receiver, at_barrier: None, is_over: false }
        };
        Self {
            inputs: inlets.into_iter().map(input).collect(),
            next: 0,
            ports,
            behind: VecDeque::new(),
            place: Place::Within,
        }
    }

    /// No pipes: nothing comes.
    pub fn none() -> Self {
        Self::new(Vec::new(), Vec::new(), 1, None)
    }

    /// When what caused the oldest event that waits arrived; if there is none, somebody has something to say all the same.
    pub fn oldest(&self) -> u64 {
        let arrived = self.inputs.iter().filter_map(|input| input.receiver.next_arrived());
        let gathers = self.ports.iter().filter_map(|port| port.gather.as_ref()?.rows.oldest());
        arrived.chain(gathers).min().unwrap_or(0)
    }

    /// Where what was taken last stands in the turn of the task, if it has turns.
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// Takes the next events.
    pub fn take(&mut self) -> Result<Taken> {
        if let Some((port, batch, arrived)) = self.gathered()? {
            return Ok(Taken::Events(vec![(port, Event::Batch(batch))], arrived));
        }
        // All rows that are before it have left.
        if let Some((port, event, arrived)) = self.behind.pop_front() {
            return Ok(Taken::Events(vec![(port, event)], arrived));
        }
        let waiting = self.inputs.iter().find_map(|input| input.at_barrier);
        if let Some(epoch) = waiting.filter(|_| self.inputs.iter().all(|i| i.is_over || i.at_barrier.is_some())) {
            // Rows that wait for a sender which has come less far stay, and are state of who takes them. There are none as a rule, since
            // senders have had the same watermarks; only where a source was idle, one may have heard first of it, and another first
            // of the next watermark.
            self.inputs.iter_mut().for_each(|input| input.at_barrier = None);
            return Ok(Taken::Events(vec![(0, Event::Barrier(epoch))], 0));
        }
        self.place = Place::Within;
        let held_back = self.held_back();
        for _ in 0..self.inputs.len() {
            let number = self.next;
            self.next = (self.next + 1) % self.inputs.len();
            let input = &mut self.inputs[number];
            if input.is_over || input.at_barrier.is_some() || held_back.get(number).is_some_and(|is_held| *is_held) {
                continue;
            }
            if let Some(envelope) = input.receiver.pop() {
                return self.receive(number, envelope);
            }
            if input.receiver.is_closed() {
                // Closed without an end: the query was stopped, and nothing is flushed. Rows that wait for others stay.
                input.is_over = true;
                return Ok(Taken::NOTHING_NEW);
            }
        }
        if self.inputs.iter().all(|input| input.is_over) {
            return Ok(Taken::End);
        }
        let (is_news, due) = self.wait();
        Ok(if is_news { Taken::NOTHING_NEW } else { Taken::Nothing(due) })
    }

    /// Which inputs are not read on, as many rows of theirs wait for rows of others that are being made now; none if empty. Who has nothing
    /// to do until somebody else goes on may be waiting for what is held back: then all are read, however many rows wait.
    fn held_back(&self) -> Vec<bool> {
        let mut held_back = Vec::new();
        for (port, PortIntake { time, gather }) in self.ports.iter().enumerate() {
            // With a slack rows do not wait for long.
            let Some(Gather { rows, slack: None, .. }) = gather else { continue };
            if rows.bytes() <= AHEAD {
                continue;
            }
            let awaited: Vec<usize> = rows.awaited(|place| time.promised(place)).collect();
            let mine = || self.inputs.iter().enumerate().filter(|(_, input)| input.port == port);
            let speaks = |input: &Input| input.receiver.next_arrived().is_some() || input.receiver.is_at_work();
            let comes = |input: &Input| !input.is_over && input.at_barrier.is_none() && speaks(input);
            let mut waited_for = mine().filter(|(_, input)| awaited.contains(&input.place)).peekable();
            if waited_for.peek().is_some() && waited_for.all(|(_, input)| comes(input)) {
                held_back.resize(self.inputs.len(), false);
                let others = mine().filter(|(_, input)| !awaited.contains(&input.place));
                others.for_each(|(number, _)| held_back[number] = true);
            }
        }
        held_back
    }

    /// Takes the next rows, from a pipe on which nothing is before them: neither time nor a barrier passes.
    pub fn take_rows(&mut self) -> Result<Option<(Port, Batch, u64)>> {
        for _ in 0..self.inputs.len() {
            let number = self.next;
            self.next = (self.next + 1) % self.inputs.len();
            let Input { receiver, at_barrier, is_over, .. } = &mut self.inputs[number];
            let may_speak = !*is_over && at_barrier.is_none();
            if may_speak
                && receiver.has_rows()
                && let Some(envelope) = receiver.pop()
                && let Taken::Events(events, arrived) = self.receive(number, envelope)?
                && let Some((port, Event::Batch(batch))) = events.into_iter().next()
            {
                return Ok(Some((port, batch, arrived)));
            }
        }
        Ok(None)
    }

    /// Nothing is there to be read: passes over those for whom rows have waited long enough. Returns whether there were any, and when
    /// rows will have waited long enough for the next.
    fn wait(&mut self) -> (bool, Option<Instant>) {
        let (mut is_news, mut first) = (false, None::<Instant>);
        for (port, PortIntake { time, gather }) in self.ports.iter_mut().enumerate() {
            let Some(Gather { rows, slack: Some(slack), .. }) = gather else { continue };
            // Who stands at a barrier is not listened to, and who has left will say nothing.
            let may_speak = |place: &usize| {
                let mut inputs = self.inputs.iter().filter(|input| (input.port, input.place) == (port, *place));
                inputs.any(|input| input.at_barrier.is_none() && !input.is_over)
            };
            let awaited: Vec<usize> = rows.awaited(|place| time.promised(place)).filter(may_speak).collect();
            let Waited { enough, due } = slack.wait(&awaited);
            for place in enough {
                slack.pass_over(place);
                rows.pass_over(place);
                is_news = true;
            }
            first = [first, due].into_iter().flatten().min();
        }
        (is_news, first)
    }

    /// How far time has come by port.
    pub fn reached(&self) -> Vec<Timestamp> {
        self.ports.iter().map(|port| port.time.combined()).collect()
    }

    /// Time has come so far by port in any case; returns what there is to tell of it.
    pub fn raise(&mut self, level: &[Timestamp]) -> Vec<(Port, Event)> {
        let mut events = Vec::new();
        for (port, (PortIntake { time, .. }, level)) in self.ports.iter_mut().zip(level).enumerate() {
            if time.raise(*level) {
                events.push((port, Event::Watermark(*level)));
                events.extend(time.is_idle().then_some((port, Event::Idle)));
            }
        }
        events
    }

    /// Notes how many rows still wait for others, when the query is stopped before its end.
    pub fn note_held(&mut self) {
        for Gather { rows, counters, .. } in self.ports.iter().filter_map(|port| port.gather.as_ref()) {
            if rows.rows() > 0 {
                let names = ["row that waits for those before it", "rows that wait for those before them"];
                *counters.held.lock() = vec![Held::new(rows.rows(), names)];
            }
        }
    }

    /// The next rows that are in order.
    fn gathered(&mut self) -> Result<Option<(Port, Batch, u64)>> {
        for (port, PortIntake { time, gather }) in self.ports.iter_mut().enumerate() {
            let Some(gather) = gather else { continue };
            if let Some((batch, arrived)) = gather.rows.next(|place| time.promised(place))? {
                gather.counters.state_bytes.store(gather.rows.bytes(), Relaxed);
                gather.counters.rows_out.fetch_add(batch.len() as u64, Relaxed);
                gather.counters.out_of_order_rows.store(gather.rows.out_of_order(), Relaxed);
                return Ok(Some((port, batch, arrived)));
            }
        }
        Ok(None)
    }

    /// Combines the pipes of a port: time on it is the slowest pipe's.
    fn receive(&mut self, number: usize, envelope: Envelope) -> Result<Taken> {
        let Input { port, place, .. } = self.inputs[number];
        let PortIntake { time, gather } = &mut self.ports[port];
        let was_idle = time.is_idle();
        let arrived = envelope.arrived;
        self.place = envelope.place.clone();
        let event = envelope.open()?;
        if let Some(gather) = gather
            && !matches!(event, Event::Barrier(_))
        {
            gather.hear(place);
        }
        let moved = match event {
            Event::Batch(batch) => {
                time.wake(place);
                let Some(gather) = gather else { return Ok(Taken::Events(vec![(port, Event::Batch(batch))], arrived)) };
                gather.rows.put(place, batch, arrived)?;
                gather.counters.state_bytes.store(gather.rows.bytes(), Relaxed);
                return Ok(Taken::NOTHING_NEW);
            }
            Event::Barrier(epoch) => {
                self.inputs[number].at_barrier = Some(epoch);
                return Ok(Taken::NOTHING_NEW);
            }
            Event::Watermark(t) => {
                self.inputs[number].is_over = t == Timestamp::MAX;
                time.advance(place, t)
            }
            Event::Idle => time.idle(place),
        };
        let moved = moved.then(|| (port, Event::Watermark(time.combined())));
        let idle = (time.is_idle() && !was_idle).then_some((port, Event::Idle));
        let events = moved.into_iter().chain(idle);
        if gather.is_none() {
            return Ok(Taken::Events(events.collect(), arrived));
        }
        // Rows may leave now, and do so before time passes.
        self.behind.extend(events.map(|(port, event)| (port, event, arrived)));
        Ok(Taken::NOTHING_NEW)
    }
}

impl Gather {
    /// A pipe has said something of rows or time: it is waited for.
    fn hear(&mut self, place: usize) {
        self.rows.hear(place);
        if let Some(slack) = &mut self.slack {
            slack.hear(place);
        }
    }
}

impl PortFrontier {
    fn combined(&self) -> Timestamp {
        self.frontier.combined().max(self.floor)
    }

    /// Time has come so far in any case; returns whether that is news.
    fn raise(&mut self, level: Timestamp) -> bool {
        let is_news = level > self.combined();
        self.floor = self.floor.max(level);
        is_news
    }

    fn is_idle(&self) -> bool {
        self.frontier.is_idle()
    }

    /// Up to which time all has come from a pipe, or nothing is to be waited for.
    fn promised(&self, place: usize) -> Timestamp {
        if self.frontier.is_idle_on(place) { Timestamp::MAX } else { self.frontier.of(place) }
    }

    /// Nothing is to be waited for on a pipe; returns whether time moved.
    ///
    /// Of a team, all are waited for until all of them are idle and have come equally far: what one of them has heard the others
    /// will hear, and what they make of it comes at the same time.
    fn idle(&mut self, place: usize) -> bool {
        let before = self.combined();
        let Some(is_idle) = &mut self.team else {
            self.frontier.idle(place);
            return self.combined() > before;
        };
        is_idle[place] = true;
        let reached = self.frontier.of(place);
        let pipes = 0..is_idle.len();
        if !pipes.clone().all(|pipe| is_idle[pipe] && self.frontier.of(pipe) == reached) {
            return false;
        }
        for pipe in pipes {
            self.frontier.idle(pipe);
        }
        self.combined() > before
    }

    /// Something came on a pipe.
    fn wake(&mut self, place: usize) {
        match &mut self.team {
            None => self.frontier.wake(place),
            Some(is_idle) => {
                is_idle[place] = false;
                (0..is_idle.len()).for_each(|pipe| self.frontier.wake(pipe));
            }
        }
    }

    /// Time has come to `t` on a pipe; returns whether the combined time moved.
    fn advance(&mut self, place: usize, t: Timestamp) -> bool {
        let before = self.combined();
        self.wake(place);
        self.frontier.advance(place, t);
        self.combined() > before
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
    use thalweg_core::{Positions, Window};

    use super::*;
    use crate::{
        clock::Clock,
        metrics::Counters,
        pipe::{CAPACITY, Sender, Work, pipe},
    };

    #[test]
    fn a_team_is_waited_for_until_all_of_it_is_idle() {
        let mut port = PortFrontier { frontier: Frontier::new(2), floor: Timestamp::MIN, team: Some(vec![false; 2]) };
        assert!(!port.idle(0));
        assert!(!port.advance(1, Timestamp(10)), "the other one may have rows from before");
        assert!(!port.is_idle());
        assert!(!port.idle(1));
        assert!(!port.is_idle(), "one has come further, so the other will");
        assert!(port.advance(0, Timestamp(10)));
        assert!(!port.idle(0), "it is the last to say so, and time stays");
        assert!(port.is_idle());
        assert!(!port.advance(1, Timestamp(20)), "what one of them has heard the other will hear");
        assert!(port.advance(0, Timestamp(15)));
        assert_eq!(port.combined(), Timestamp(15));
        assert!(port.advance(0, Timestamp::MAX));
        assert_eq!(port.combined(), Timestamp(20));
        port.idle(1);
        assert!(!port.is_idle(), "one has heard of the end, so the other will");
        assert_eq!(port.combined(), Timestamp(20));
        assert!(port.advance(1, Timestamp::MAX));
    }

    /// Rows of the window that ends at `end`, with these keys.
    fn rows(end: i64, keys: &[u8]) -> Event {
        let window = Window { start: Timestamp(0), end: Timestamp(end) };
        let places = BinaryArray::from_iter_values(keys.iter().map(|key| [*key]));
        let column = Arc::new(Int64Array::from_iter_values(keys.iter().map(|key| end * 100 + i64::from(*key))));
        let batch = Batch::new(RecordBatch::try_from_iter([("n", column as ArrayRef)]).unwrap());
        Event::Batch(batch.with_positions(Arc::new(Positions::new(window, Timestamp(end), places))))
    }

    /// The instances of a divided aggregate, as senders of one port, and who takes their rows in order.
    fn team(senders: usize) -> (Vec<Sender>, Pipes, Arc<NodeCounters>) {
        team_with(senders, None)
    }

    fn team_with(senders: usize, slack: Option<Linger>) -> (Vec<Sender>, Pipes, Arc<NodeCounters>) {
        let counters = Counters::default().node("Gather");
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..senders).map(|_| pipe(CAPACITY)).unzip();
        let inlet = |receiver| Inlet { port: 0, receiver: InTurn::new(vec![receiver]), is_of_team: true };
        let inlets = receivers.into_iter().map(inlet).collect();
        (senders, Pipes::new(inlets, vec![Some(Arc::clone(&counters))], 100, slack), counters)
    }

    fn send(sender: &mut Sender, events: impl IntoIterator<Item = Event>) {
        let mut events: VecDeque<_> = events.into_iter().map(|event| Envelope::new(event, 1)).collect();
        sender.push_all(&mut events);
        assert!(events.is_empty(), "the pipe is large enough");
    }

    /// All that is there, as words.
    fn taken(pipes: &mut Pipes) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            match pipes.take().unwrap() {
                Taken::Events(events, _) => words.extend(events.into_iter().map(|(_, event)| match event {
                    Event::Batch(batch) => {
                        format!("{:?}", batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                    }
                    Event::Watermark(t) => format!("watermark {}", t.0),
                    Event::Idle => "idle".to_string(),
                    Event::Barrier(epoch) => format!("barrier {}", epoch.0),
                })),
                Taken::Nothing(_) => return words,
                Taken::End => {
                    words.push("end".to_string());
                    return words;
                }
            }
        }
    }

    fn watermark(t: i64) -> Event {
        Event::Watermark(Timestamp(t))
    }

    #[test]
    fn rows_come_in_order_and_before_the_watermark_that_follows_them() {
        let (mut senders, mut pipes, counters) = team(2);
        send(&mut senders[0], [rows(10, &[1, 4]), rows(20, &[2]), watermark(20)]);
        assert_eq!(taken(&mut pipes), [""; 0], "the other one may have rows of the first window");
        assert!(counters.state_bytes.load(Relaxed) > 0, "what waits is counted");
        send(&mut senders[1], [rows(10, &[0, 2]), watermark(12)]);
        assert_eq!(taken(&mut pipes), ["[1000, 1001, 1002]", "[1004]", "watermark 12"]);
        send(&mut senders[1], [rows(20, &[1]), watermark(20)]);
        assert_eq!(taken(&mut pipes), ["[2001]", "[2002]", "watermark 20"]);
        assert_eq!((counters.state_bytes.load(Relaxed), counters.rows_out.load(Relaxed)), (0, 6));
    }

    #[test]
    fn a_sender_that_is_far_ahead_is_read_on() {
        let (mut senders, mut pipes, _) = team(2);
        for end in 1..100 {
            send(&mut senders[0], [rows(end, &[0]), watermark(end)]);
            assert_eq!(taken(&mut pipes), [""; 0]);
        }
        send(&mut senders[1], [watermark(99)]);
        let words = taken(&mut pipes);
        assert_eq!((words.len(), words[1].as_str()), (2, "watermark 99"));
    }

    #[test]
    fn who_is_far_ahead_is_not_read_on_while_the_one_that_is_behind_is_at_work() {
        let (mut senders, mut pipes, counters) = team(2);
        let work = Work::of([&senders[1]].into_iter(), [].into_iter());
        let mut waiting: VecDeque<_> = (1..100).map(|end| Envelope::new(rows(end, &[0]), 1)).collect();
        let begun = work.begin();
        let mut send_on = |senders: &mut [Sender], pipes: &mut Pipes| {
            for _ in 0..100 {
                senders[0].push_all(&mut waiting);
                assert_eq!(taken(pipes), [""; 0]);
            }
            waiting.len()
        };
        let left = send_on(&mut senders, &mut pipes);
        assert!(left > 50, "it waits for room");
        assert!(counters.state_bytes.load(Relaxed) < 3 * AHEAD);
        // Something came for the one that is behind while it was at work on what came before.
        work.begin();
        work.rest(begun);
        assert_eq!(send_on(&mut senders, &mut pipes), left);
        // What it has it gives first.
        send(&mut senders[1], [rows(1, &[1]), rows(2, &[1]), watermark(3)]);
        work.rest(work.begin());
        assert_eq!(taken(&mut pipes).last().map(String::as_str), Some("[300]"));
        // There is room for more of it, and it has nothing to do, perhaps because of what is held back.
        work.rest(work.begin());
        assert_eq!(send_on(&mut senders, &mut pipes), 0);
    }

    #[test]
    fn what_waits_for_a_sender_that_has_come_less_far_waits_behind_a_barrier_too() {
        let (mut senders, mut pipes, _) = team(2);
        let barrier = || Event::Barrier(Epoch(1));
        send(&mut senders[0], [rows(10, &[1]), watermark(10), barrier(), rows(20, &[0]), watermark(20)]);
        assert_eq!(taken(&mut pipes), [""; 0]);
        // It has heard of less: the source that it waits for is idle for the other.
        send(&mut senders[1], [watermark(5), barrier()]);
        assert_eq!(taken(&mut pipes), ["watermark 5", "barrier 1"]);
        send(&mut senders[1], [rows(10, &[0]), watermark(20)]);
        assert_eq!(taken(&mut pipes), ["[1000]", "[1001, 2000]", "watermark 20"]);
    }

    #[test]
    fn nothing_is_waited_for_where_all_are_idle() {
        let (mut senders, mut pipes, _) = team(2);
        send(&mut senders[0], [watermark(5), rows(10, &[1]), Event::Idle]);
        assert_eq!(taken(&mut pipes), [""; 0]);
        send(&mut senders[1], [watermark(5), Event::Idle]);
        assert_eq!(taken(&mut pipes), ["watermark 5", "[1001]", "idle"]);
        send(&mut senders[0], [rows(20, &[1])]);
        assert_eq!(taken(&mut pipes), [""; 0], "what one of them has heard the other will hear");
    }

    /// What is there when so many milliseconds of a slack of 10 have passed since the beginning.
    fn taken_at(ms: u64, clock: &(Clock, Instant), pipes: &mut Pipes) -> Vec<String> {
        clock.0.move_to(clock.1 + Duration::from_millis(ms));
        taken(pipes)
    }

    fn team_with_slack(senders: usize) -> (Vec<Sender>, Pipes, Arc<NodeCounters>, (Clock, Instant)) {
        let clock = Clock::simulated();
        let most = Linger { most: Duration::from_millis(10), clock: clock.clone() };
        let (senders, pipes, counters) = team_with(senders, Some(most));
        let began = clock.now();
        (senders, pipes, counters, (clock, began))
    }

    /// When it wants to be woken, where nothing is there, in milliseconds.
    fn due(clock: &(Clock, Instant), pipes: &mut Pipes) -> Option<u128> {
        let Taken::Nothing(due) = pipes.take().unwrap() else { panic!("nothing is there") };
        due.map(|due| due.duration_since(clock.1).as_millis())
    }

    #[test]
    fn rows_wait_no_longer_than_the_slack_and_time_waits_on() {
        let (mut senders, mut pipes, counters, clock) = team_with_slack(2);
        assert_eq!(taken_at(100, &clock, &mut pipes), [""; 0]);
        assert_eq!(due(&clock, &mut pipes), None, "no rows wait");
        send(&mut senders[0], [rows(10, &[1, 4]), watermark(10)]);
        assert_eq!(taken_at(200, &clock, &mut pipes), [""; 0]);
        assert_eq!(due(&clock, &mut pipes), Some(210));
        assert_eq!(taken_at(210, &clock, &mut pipes), ["[1001, 1004]"], "the watermark waits for the other one");
        assert_eq!(counters.state_bytes.load(Relaxed), 0);
        // While it is silent, rows do not wait at all.
        send(&mut senders[0], [rows(20, &[5]), watermark(20)]);
        assert_eq!(taken(&mut pipes), ["[2005]"]);
        // What it brings after all comes before the watermark, and is counted where it belongs before what has left.
        send(&mut senders[1], [rows(10, &[2]), rows(20, &[7])]);
        assert_eq!(taken(&mut pipes), ["[1002]", "[2007]"]);
        assert_eq!(counters.out_of_order_rows.load(Relaxed), 1);
        send(&mut senders[0], [rows(30, &[0]), watermark(30)]);
        assert_eq!(taken(&mut pipes), [""; 0], "it was heard, and is waited for again");
        send(&mut senders[1], [watermark(30)]);
        assert_eq!(taken(&mut pipes), ["[3000]", "watermark 30"]);
        assert_eq!((counters.out_of_order_rows.load(Relaxed), counters.rows_out.load(Relaxed)), (1, 6));
    }

    #[test]
    fn who_says_anything_in_time_is_waited_for() {
        let (mut senders, mut pipes, counters, clock) = team_with_slack(2);
        send(&mut senders[0], [rows(50, &[1]), watermark(50)]);
        for tenth in 0..20 {
            assert_eq!(taken_at(9 * tenth, &clock, &mut pipes).len(), usize::from(tenth > 0));
            send(&mut senders[1], [watermark(tenth as i64)]);
        }
        // A task that did not run for long takes first what has come.
        send(&mut senders[1], [rows(50, &[0]), watermark(50)]);
        assert_eq!(taken_at(10_000, &clock, &mut pipes), ["watermark 19", "[5000]", "[5001]", "watermark 50"]);
        assert_eq!(counters.out_of_order_rows.load(Relaxed), 0);
    }

    #[test]
    fn who_stands_at_a_barrier_is_not_silent_and_who_was_passed_over_stays_so_behind_it() {
        let (mut senders, mut pipes, counters, clock) = team_with_slack(3);
        let barrier = || Event::Barrier(Epoch(1));
        send(&mut senders[0], [rows(10, &[1]), watermark(10), barrier()]);
        send(&mut senders[1], [watermark(5), barrier(), rows(10, &[0]), watermark(10)]);
        assert_eq!(taken(&mut pipes), [""; 0]);
        assert_eq!(taken_at(10, &clock, &mut pipes), [""; 0], "what the second one has said is not taken yet");
        assert_eq!(due(&clock, &mut pipes), None);
        // The third one says nothing but that the epoch ends.
        send(&mut senders[2], [barrier()]);
        assert_eq!(taken(&mut pipes), ["barrier 1", "[1000]", "[1001]"]);
        send(&mut senders[0], [rows(20, &[2])]);
        send(&mut senders[1], [watermark(20)]);
        assert_eq!(taken(&mut pipes), ["[2002]"]);
        send(&mut senders[2], [rows(10, &[3]), watermark(20)]);
        assert_eq!(taken(&mut pipes), ["[1003]", "watermark 10"]);
        assert_eq!(counters.out_of_order_rows.load(Relaxed), 1);
    }

    #[test]
    fn who_is_stopped_with_slack_leaves_open_what_is_open_too() {
        let (mut senders, mut pipes, counters, clock) = team_with_slack(2);
        send(&mut senders[0], [rows(10, &[1])]);
        assert_eq!(taken(&mut pipes), [""; 0]);
        drop(senders.pop());
        assert_eq!(taken_at(1000, &clock, &mut pipes), [""; 0], "who has left is not silent");
        drop(senders);
        assert_eq!(taken(&mut pipes), ["end"]);
        pipes.note_held();
        assert_eq!(counters.held.lock()[0].to_string(), "1 row that waits for those before it");
    }

    #[test]
    fn who_is_stopped_leaves_open_what_is_open() {
        let (mut senders, mut pipes, counters) = team(2);
        send(&mut senders[0], [rows(10, &[1]), watermark(10), rows(20, &[1, 2])]);
        send(&mut senders[1], [watermark(10)]);
        drop(senders);
        assert_eq!(taken(&mut pipes), ["[1001]", "watermark 10", "end"]);
        pipes.note_held();
        assert_eq!(counters.held.lock()[0].to_string(), "2 rows that wait for those before them");
    }
}
