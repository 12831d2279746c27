//! Aggregates over the rows around each row, at once.

use std::ops::Range;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_select::take::take;
use thalweg_core::{
    Batch, Error, Frontier, Held, Interval, KeyGroup, Operator, Output, Part, Port, Progress, PutOff, Result, Snapshot,
    State, Timestamp,
    operator::{MadeOf, Search},
};

use super::{
    super::{
        chunk::passed,
        entries::Entries,
        entry::{At, Entry},
        kept::hashes,
        order::By,
        over::{Over, Parts, VERSION},
        sweep::Sweep,
    },
    answers::Answers,
    changes::Changes,
    corrections::{Corrections, Said},
    op::{Op, Outbox},
    stale::StaleSpans,
    watched::Watched,
};

/// Appends to each row of the first input aggregates over the rows of all inputs, with the same key, around it: at once over those that
/// are there, and anew when one comes that changes them.
///
/// A few rows that come are looked at when they do, and many when nothing else has waited to be taken in for about as long as that takes.
/// Until then they are pending, thousands at most: who has more to do than time looks at many together, which costs less for each, and of what time has
/// passed meanwhile nothing has to be remembered; nor need rows be put in an order where nothing else is asked for. A row that is seen goes where it belongs among the rows of its key: those behind it,
/// which are few where rows are hardly out of order, are moved, and their running totals grow by what it adds. Which results it
/// changes is looked at later, when nothing comes for a while, when one of them becomes final, or for thousands of rows at once: a
/// result that several rows change is corrected once, and no row waits for its first answer meanwhile. Where rows of the first
/// input are results of another such operator, columns that only pass may be corrected: what they are now is kept with the results.
///
/// Shape:  a row of the first input → those of its columns that pass, the aggregates of all frames, and what becomes of it.
/// State:  rows that a later row may see, and rows whose results may change, with these: O(rows within the frames and the watermark's
///         delay).
/// Errors: what an expression or an aggregate gives for rows it cannot be computed for.
/// Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", definition 2. The paper answers
///         each row once, by what has come; corrections are ours.
pub struct EagerOver {
    /// The rows that are seen, and the next ones to look at.
    over: Over,
    answers: Answers,
    /// Rows that have come, and are not among those of their keys yet, nor among those that are sorted without an index, where they wait as
    /// well; and those that are to be answered.
    pending: Entries,
    unanswered: Entries,
    /// When results may have changed by rows that are among those of their keys, and for which it was not looked yet whose they are.
    stale_spans: StaleSpans,
    /// How far results are settled: nothing changes those before that.
    settled: Timestamp,
    /// How many rows have come since.
    come: usize,
    /// Rows whose results may have changed, which are looked at again, some at a time.
    stale: Vec<Entry>,
    /// How far behind a row those may be that see it.
    seen_from: (i64, Option<i64>),
    /// Whether time has moved on, and rows may be dropped.
    expires: bool,
    /// Whether none of the rows that are looked at next was answered before.
    are_new: bool,
    /// How many columns a result has: aggregates, and what is corrected of its row.
    columns: usize,
    /// What is said anew of the rows of the first input, if that can be.
    corrections: Option<Corrections>,
    outbox: Outbox,
    /// Where rows are whose results are remembered, if it is to be known how many are exact.
    watched: Watched,
}

/// Where so many rows wait at most, they need not: together they cost little less. (Behind others they wait, too: a page that was full may
/// be followed by one of a few rows.)
const FEW: usize = if cfg!(test) { 1 } else { 32 };

/// At most so many rows of an input, and of two if there is but one, are pending or wait for their first answer: the time that passes them
/// may come behind several batches, or behind a page, which has up to 32,768 rows of two words. Who answers rows before that looks for them by
/// key from then on, and corrects them.
const PENDING: usize = if cfg!(test) { 32 } else { 5 * 8192 };

/// At most so many rows that are not final wait for their first answer when time moves on.
const UNANSWERED: usize = if cfg!(test) { 24 } else { 10 * 4096 };

/// When so many rows have come, results that are final are settled: all of them at once, while none is there that may change.
const SETTLED: usize = if cfg!(test) { 48 } else { 4096 };

/// The same where some are, and few rows wait for their first answer, which come no faster than they are answered: those wait for no more than these.
const CORRECTED: usize = SETTLED / 4;

/// Where there are so many times as many new rows as others that may be seen, at least, all are sorted each time, in place of an index.
/// (Tests sort them whenever they can.)
const SEEN_AGAIN: usize = if cfg!(test) { 0 } else { 4 };

/// Rows that time may not have passed are counted anew where there are so many others for each, at most.
const COUNTED: usize = 4;

/// So many results are looked at again at a time: first answers wait for no more than these.
const SOME: usize = if cfg!(test) { 3 } else { 512 };

impl EagerOver {
    /// An operator without rows.
    ///
    /// Errors: as [`Over::new`].
    pub fn new(parts: Parts) -> Result<Self> {
        let frames = parts.frames.iter().map(|(frame, _)| frame.seen_from());
        // What lies between two frames is looked at as well: it does not change.
        let seen_from = frames.reduce(|(from, to), (other_from, other_to)| {
            (from.min(other_from), to.zip(other_to).map(|(to, other)| to.max(other)))
        });
        let aggregates: usize = parts.frames.iter().map(|(_, count)| count).sum();
        let corrections = parts.corrected.clone().map(|corrected| Corrections::new(corrected, aggregates));
        let corrected = corrections.as_ref().map_or(0, |corrections| corrections.columns().len());
        let (mut over, answers, outbox) = (Over::new(parts)?, Answers::default(), Outbox::default());
        // Rows that are answered when they come look for others by key. What results lack of rows that came too late is found there, too.
        over.sweep = over.sweep.filter(|_| corrections.is_none() && over.spoilt.is_none());
        over.may_be_light = false;
        if over.asked.can_sweep() && over.inputs.iter().all(|input| input.input.position.is_none()) {
            // What they add up to does not depend on their order, nor do results stand in one.
            over.sorter.leave_ties();
        }
        let seen_from = seen_from.unwrap_or((0, Some(0)));
        Ok(Self {
            over,
            answers,
            pending: Entries::default(),
            unanswered: Entries::default(),
            stale_spans: StaleSpans::default(),
            settled: Timestamp::MIN,
            come: 0,
            stale: Vec::new(),
            seen_from,
            expires: false,
            are_new: false,
            columns: aggregates + corrected,
            corrections,
            outbox,
            watched: Watched::default(),
        })
    }

    /// Has the rows that are final before a time, and are not answered, be answered without an index from now on if that costs less; whether
    /// they are. That is only as long as no result is there that may change, and not many rows wait for a first answer that is not final.
    fn sweeps(&mut self, end: i64) -> bool {
        let new = self.pending();
        let Self { over, answers, unanswered, stale, stale_spans, .. } = self;
        let Over { sweep, swept, .. } = over;
        let Some(sweep) = sweep else { return false };
        let are_many = unanswered.len() >= UNANSWERED && unanswered.count_from(end) >= UNANSWERED;
        let may_change = !stale_spans.is_empty() || !stale.is_empty() || answers.rows() > 0;
        if may_change || are_many {
            return false;
        }
        let old = if sweep.is_on() { sweep.passed() } else { over.lines.rows() };
        if old.saturating_mul(SEEN_AGAIN) > new {
            return false;
        }
        unanswered.leave_before(end, |leaving| leaving.put_behind(swept));
        sweep.choose(new, swept.len(), old)
    }

    /// How many rows have come that are not among those of their keys yet, nor known to be before the time that has passed.
    fn pending(&self) -> usize {
        self.pending.len() + self.over.sweep.as_ref().map_or(0, Sweep::waiting)
    }

    /// How many rows may be pending, or wait for their first answer.
    fn most_pending(&self) -> usize {
        PENDING * self.over.inputs.len().max(2)
    }

    /// Rows that may be seen are by key from now on.
    fn end_sweep(&mut self) -> Result<()> {
        let Over { sweep, due, reached, .. } = &mut self.over;
        let Some(sweep) = sweep.as_mut().filter(|sweep| sweep.is_on() || !sweep.rows().is_empty()) else {
            return Ok(());
        };
        sweep.give_waiting(reached.0, |entry| self.pending.put_rows(&[entry]));
        sweep.end(due);
        self.over.append()
    }

    /// Answers the rows that are next, as final, without an index; whether it could.
    fn sweep_up(&mut self) -> Result<bool> {
        let Self { over, pending, .. } = self;
        let Over { sweep, lines, due, kept, asked, chunk, swept, reached, .. } = over;
        let Some(sweep) = sweep else { return Ok(false) };
        if lines.rows() > 0 {
            lines.take_all(due);
        }
        sweep.put(due);
        sweep.put_some(|rows| {
            pending.leave_before(reached.0, |leaving| rows.put_leaving(leaving));
        });
        if swept.is_empty() && sweep.passed() <= COUNTED * sweep.waiting() {
            // Nobody looks at them, which would tell.
            sweep.count_waiting(reached.0);
        }
        over.is_swept = swept.is_empty() || sweep.look((swept, false), reached.0, lines.keys(), asked, kept, chunk)?;
        Ok(over.is_swept)
    }

    /// Puts those that are pending, and before this time, among the rows of their keys.
    fn insert(&mut self, end: Timestamp) -> Result<()> {
        self.end_sweep()?;
        let mut rows = match end {
            Timestamp::MAX => self.pending.take(),
            end => {
                let mut rows = Vec::new();
                self.pending.leave_before(end.0, |leaving| leaving.put_to(&mut rows));
                rows
            }
        };
        if rows.is_empty() {
            return Ok(());
        }
        let Self { over, answers, stale_spans, seen_from, .. } = self;
        let Over { due, kept, lines, sorter, asked, .. } = over;
        sorter.sort_rows(&mut rows, By::Key, |rows| hashes(kept, rows))?;
        let (mut between, mut places, mut others, mut taken) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        lines.prefetch_places(&rows);
        // Those that are none of these stand behind all rows of their keys, as most do.
        let (mut elsewhere, mut done) = (Vec::new(), 0);
        for same in rows.chunk_by(|a, b| a.key == b.key) {
            // Where rows come in order, none that was answered sees those that follow.
            if let Some(last) = answers.last(same[0].key) {
                let span = |row: &Entry| {
                    let from = row.time.saturating_add(seen_from.0);
                    (from, seen_from.1.map_or(last, |to| row.time.saturating_add(to).min(last)))
                };
                let spans = same.iter().map(span).take_while(|(from, _)| *from <= last);
                spans.for_each(|(from, to)| stale_spans.put(same[0].key, from, to));
            }
            let place = done..done + same.len();
            done = place.end;
            if lines.are_before(&same[0]) {
                continue;
            }
            elsewhere.push(place);
            if !asked.counts_times() && lines.find_places(same, &mut places) {
                between.extend_from_slice(same);
            } else {
                lines.take_back(same[0].key, same[0].time, &mut taken);
                others.extend_from_slice(same);
            }
        }
        if !elsewhere.is_empty() {
            let (mut gone, mut number) = (elsewhere.into_iter().flatten().peekable(), 0..);
            rows.retain(|_| number.next().is_none_or(|number| gone.next_if_eq(&number).is_none()));
        }
        lines.append(&rows, &asked.amounts(kept, &rows, 0..rows.len())?);
        lines.insert(&between, &places, &asked.amounts(kept, &between, 0..between.len())?);
        due.copy(&others);
        due.copy(&taken);
        over.append()
    }

    /// All rows that have come are seen, and answered next.
    fn answer_all(&mut self) -> Result<()> {
        self.insert(Timestamp::MAX)?;
        let unanswered = self.unanswered.take();
        self.are_new = self.over.ready.is_empty();
        self.find_next(unanswered)
    }

    /// Finds the results of rows before `end`, or all, that may have changed by the rows which have come, but for those that are looked at again
    /// already.
    fn mark(&mut self, end: Option<i64>, stale: &mut Vec<Entry>) {
        let Self { answers, stale_spans, .. } = self;
        stale_spans.take_before(end, |key, spans| answers.mark(key, spans, stale));
    }

    /// Results that time has passed are final: they are looked at next if there are none yet or they may have changed, and these others,
    /// and then what nobody needs is dropped.
    fn settle(&mut self, mut next: Vec<Entry>) -> Result<()> {
        self.settled = self.over.final_before();
        let end = self.settled.0;
        // As long as anything is there that time has passed, no rows are answered without an index.
        let come = std::mem::take(&mut self.come);
        self.answers.pass(come);
        self.over.sweep.iter().for_each(|_| self.over.lines.pass(come));
        self.expires = true;
        if next.is_empty() && self.sweeps(end) {
            if self.sweep_up()? {
                return Ok(());
            }
            // Numbers so large are found by key, and so are all that follow.
            self.end_sweep()?;
            self.over.sweep = None;
        }
        let Self { unanswered, over: Over { ready, swept, .. }, .. } = self;
        if !swept.is_empty() {
            ready.extend(swept.take());
        }
        unanswered.leave_before(end, |leaving| leaving.put_to(ready));
        // Later rows are seen by none of them, and are appended once rows of other inputs that are before them are there.
        self.insert(self.over.reached)?;
        self.mark(Some(end), &mut next);
        next.extend(self.stale.extract_if(.., |row| row.time < end));
        self.look_at(next)
    }

    /// How many rows there are that may be seen.
    fn seen(&self) -> usize {
        let swept = self.over.sweep.as_ref().map_or(0, |sweep| sweep.rows().len());
        self.over.lines.rows() + swept + self.pending.len()
    }

    /// Whether there is no row of which anything may come.
    fn is_empty(&self) -> bool {
        self.seen() + self.answers.rows() + self.unanswered.len() == 0
    }

    /// The results of these rows are looked at next, some of which may have been answered before.
    fn look_at(&mut self, some: Vec<Entry>) -> Result<()> {
        self.are_new = false;
        self.find_next(some)
    }

    fn find_next(&mut self, some: Vec<Entry>) -> Result<()> {
        let Over { kept, sorter, ready, is_swept, .. } = &mut self.over;
        *is_swept = false;
        ready.extend(some);
        sorter.sort_rows(ready, By::Time, |rows| hashes(kept, rows))
    }

    /// Looks on at what rows see, and has the results that are new go out; whether a batch of rows was finished.
    fn answer(&mut self) -> Result<bool> {
        let Some(computed) = self.over.look()? else { return Ok(false) };
        if self.over.is_swept {
            return self.answer_swept(computed).map(|()| true);
        }
        let ready = std::mem::take(&mut self.over.ready);
        let answered = self.answer_for(&ready[computed]);
        self.over.ready = ready;
        answered.map(|()| true)
    }

    /// Has the results of rows that were looked at go out, as far as they are new.
    fn answer_for(&mut self, bases: &[Entry]) -> Result<()> {
        let Self { over, answers, corrections, watched, are_new, .. } = self;
        if *are_new {
            answers.prefetch(bases);
        }
        let mut found = over.chunk.aggregates(bases, &over.asked, &over.past, &over.kept)?;
        let given = match *are_new {
            true => vec![None; bases.len()],
            false => answers.given(bases),
        };
        over.watch(bases, &given, &found, watched)?;
        over.chunk.go_on(bases.len());
        if let Some(corrections) = corrections {
            found.extend(corrections.latest(bases, &given, answers, &over.asked, &over.kept)?);
        }
        self.give(bases, &given, found)
    }

    /// Takes up what is said anew of rows that were answered; whether something was.
    fn correct(&mut self) -> Result<bool> {
        let Self { over, answers, corrections, .. } = self;
        let Some(corrections) = corrections else { return Ok(false) };
        let Some(Said { bases, given, columns }) = corrections.next(over, answers)? else { return Ok(false) };
        // Others answered for them.
        if bases.is_empty() {
            return Ok(true);
        }
        let found = (0..corrections.first()).map(|column| answers.gather(column, &given));
        let found = found.chain(columns.into_iter().map(Ok)).collect::<Result<Vec<_>>>()?;
        let given: Vec<Option<At>> = given.into_iter().map(Some).collect();
        self.give(&bases, &given, found)?;
        Ok(true)
    }

    /// Has what is new of some rows' results go out: this was given for them before, and these are found now, aggregates and columns
    /// that are corrected.
    fn give(&mut self, bases: &[Entry], given: &[Option<At>], found: Vec<ArrayRef>) -> Result<()> {
        // Nothing changes what is final when it is first given.
        let end = self.over.final_before().0;
        if self.answers.rows() == 0 && bases.iter().all(|base| base.time < end) {
            let places: Vec<At> = bases.iter().map(|entry| entry.at).collect();
            return self.give_once(|| bases.iter().map(|entry| entry.time).collect(), &places, found);
        }
        let Self { over, answers, corrections, outbox, watched, .. } = self;
        let changes = Changes::of(given, &found, answers)?;
        if changes.rows.is_empty() {
            return Ok(());
        }
        // What a row passes on goes out twice where it is corrected, and is looked up once.
        let (changed, of_rows) = changes.distinct();
        let places: Vec<At> = changed.iter().map(|row| bases[*row].at).collect();
        let times = || changed.iter().map(|row| bases[*row].time).collect();
        let mut columns = passed(times, &places, &over.asked, &over.kept, &over.output)?;
        if changed.len() < changes.rows.len() {
            columns = columns.iter().map(|column| take(column, &of_rows, None)).collect::<Result<_, _>>()?;
        }
        let corrected = corrections.as_ref().map_or(&[][..], Corrections::columns);
        let aggregates = found.len() - corrected.len();
        for (number, column) in corrected.iter().zip(aggregates..) {
            columns[*number] = changes.column(column, &found[column])?;
        }
        for (column, found) in found[..aggregates].iter().enumerate() {
            columns.push(changes.column(column, found)?);
        }
        let ops: Vec<Op> = changes.rows.iter().map(|(op, _)| *op).collect();
        outbox.put(columns, &ops, &over.output, over.batch_rows)?;
        let is_gone = |row: usize| given[row].is_none() && bases[row].time < end;
        for row in (0..bases.len()).filter(|row| is_gone(*row)) {
            watched.leave(bases[row].at);
            over.kept.release(bases[row].at);
        }
        let new: Vec<u32> = changes.given().filter(|row| !is_gone(*row)).map(|row| row as u32).collect();
        let given = match new.len() == bases.len() {
            true => found,
            false => {
                let new = UInt32Array::from(new.clone());
                found.iter().map(|column| take(column, &new, None)).collect::<Result<_, _>>()?
            }
        };
        let new: Vec<Entry> = new.iter().map(|row| bases[*row as usize]).collect();
        answers.put(&new, given);
        Ok(())
    }

    /// Has results go out that were found without an index: all are final, and none was given before.
    fn answer_swept(&mut self, rows: Range<usize>) -> Result<()> {
        let found = self.over.chunk.swept(rows.clone(), &self.over.asked)?;
        let bases = std::mem::take(&mut self.over.swept);
        let given = self.give_once(|| bases.times()[rows.clone()].to_vec(), &bases.at()[rows.clone()], found);
        self.over.swept = bases;
        given
    }

    /// Has the results go out of rows with these times, whose values lie in these places, which had none before, and which nothing changes any
    /// more.
    fn give_once(&mut self, times: impl Fn() -> Vec<i64>, places: &[At], mut found: Vec<ArrayRef>) -> Result<()> {
        let Self { over, corrections, outbox, watched, .. } = self;
        let mut columns = passed(times, places, &over.asked, &over.kept, &over.output)?;
        let corrected = corrections.as_ref().map_or(&[][..], Corrections::columns);
        let latest = found.split_off(found.len() - corrected.len());
        for (number, column) in corrected.iter().zip(latest) {
            columns[*number] = column;
        }
        columns.extend(found);
        outbox.put_new(columns, places.len(), &over.output, over.batch_rows)?;
        watched.leave_all(places);
        over.kept.release_runs(places);
        Ok(())
    }

    /// Drops what nobody sees, and what nothing changes, any more.
    fn expire(&mut self) -> Result<Interval> {
        let Self { over, answers, watched, .. } = self;
        let end = over.final_before();
        answers.expire(end.0, |at| {
            watched.leave(at);
            over.kept.release(at);
        });
        let lag = over.drop_unseen()?;
        let swept = over.sweep.as_ref().map(Sweep::rows);
        if over.lines.is_sparse(answers.rows() + over.past.keys() + swept.map_or(0, Entries::len)) {
            let mut is_wanted: Vec<bool> = (0..over.lines.keys() as u32).map(|key| over.past.has(key)).collect();
            let Self { pending, unanswered, stale, stale_spans, .. } = self;
            let kept = swept.into_iter().chain([&*pending, &*unanswered]).flat_map(Entries::keys);
            let in_rows = answers.iter().chain(stale.iter()).map(|entry| &entry.key);
            kept.chain(in_rows).for_each(|key| is_wanted[*key as usize] = true);
            over.faults.keys().chain(stale_spans.keys()).for_each(|key| is_wanted[key as usize] = true);
            let moved = over.lines.forget_keys(|key| is_wanted[key as usize]);
            over.past.renumber(&moved);
            over.faults.renumber(&moved);
            answers.renumber(&moved);
            stale_spans.renumber(&moved);
            stale.iter_mut().for_each(|entry| entry.key = moved[entry.key as usize]);
            [pending, unanswered].into_iter().for_each(|rows| rows.renumber(&moved));
            over.sweep.iter_mut().for_each(|sweep| sweep.renumber(&moved));
        }
        Ok(lag)
    }
}

impl Operator for EagerOver {
    fn searches(&self) -> Option<MadeOf> {
        Some(self.over.asked.made_of(self.over.of_results))
    }

    fn on_batch(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let batch = match self.corrections.as_mut().filter(|_| self.over.input_of[port] == 0) {
            Some(corrections) => corrections.put(batch)?,
            None => batch,
        };
        let arrived = self.over.arrive(port, batch, out)?;
        let Over { faults, asked, .. } = &mut self.over;
        if faults.take_new() {
            faults.check(self.answers.iter().copied().chain(self.unanswered.iter()), asked.computed())?;
        }
        if let Some(arrived) = arrived {
            let bases = arrived.rows().slice(arrived.bases.clone());
            faults.check(bases.entries(), asked.computed())?;
            arrived.piece(arrived.bases.clone()).into_iter().for_each(|bases| self.unanswered.put(bases));
            self.come += arrived.count();
            if arrived.is_seen && !arrived.wait_in(self.over.sweep.as_mut()) {
                arrived.piece(0..arrived.count()).into_iter().for_each(|rows| self.pending.put(rows));
            }
            self.over.tell_spoilt(self.settled, false, out);
        }
        // What is said anew of rows is said of answers.
        let is_corrected = self.corrections.as_ref().is_some_and(|corrections| !corrections.is_empty());
        if self.pending() >= self.most_pending() {
            let Over { sweep, reached, .. } = &mut self.over;
            sweep.iter_mut().for_each(|sweep| sweep.count_waiting(reached.0));
        }
        let waiting = self.pending().max(self.unanswered.len());
        if (1..=FEW).contains(&waiting) || is_corrected || waiting >= self.most_pending() {
            self.answer_all()?;
        }
        self.resume(out)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.over.reached = self.over.reached.max(frontier.combined().minus(Interval(self.over.allowed)));
        // What is settled for many rows at a time costs less for each.
        let waiting = self.pending().max(self.unanswered.len());
        let many = if self.answers.rows() > 0 && waiting < CORRECTED { CORRECTED } else { SETTLED };
        if self.come >= many || self.is_empty() || frontier.combined() == Timestamp::MAX {
            self.settle(Vec::new())?;
        }
        if self.unanswered.len() >= UNANSWERED {
            self.answer_all()?;
        }
        out.hold(self.settled);
        self.resume(out)
    }

    fn flush(&mut self, out: &mut Output) -> Result<Progress> {
        self.insert(Timestamp::MAX)?;
        let mut all = self.unanswered.take();
        all.append(&mut self.stale);
        self.mark(None, &mut all);
        self.settle(all)?;
        out.hold(self.settled);
        self.resume(out)
    }

    fn put_off(&self) -> PutOff {
        let is_settled = self.settled == self.over.final_before() || self.is_empty();
        match self.pending() + self.unanswered.len() {
            0 if !self.stale.is_empty() => PutOff::Now(0),
            0 if !is_settled => PutOff::Soon,
            0 if self.stale_spans.is_empty() => PutOff::Nothing,
            0 => PutOff::Later,
            rows => PutOff::Now(rows),
        }
    }

    fn catch_up(&mut self, out: &mut Output) -> Result<Progress> {
        if self.pending() > 0 || !self.unanswered.is_empty() {
            self.answer_all()?;
            return self.resume(out);
        }
        if self.put_off() == PutOff::Soon {
            self.settle(Vec::new())?;
            out.hold(self.settled);
            return self.resume(out);
        }
        if self.stale.is_empty() {
            let mut stale = std::mem::take(&mut self.stale);
            self.mark(None, &mut stale);
            self.stale = stale;
        }
        let some = self.stale.split_off(self.stale.len().saturating_sub(SOME));
        self.look_at(some)?;
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        loop {
            if !self.outbox.send(out)? {
                return Ok(Progress::More);
            }
            if self.over.done == self.over.next_rows() {
                if self.correct()? {
                    continue;
                }
                break;
            }
            let is_finished = self.answer()?;
            out.count_search(std::mem::take(&mut self.over.chunk.search));
            if !is_finished {
                return Ok(Progress::More);
            }
        }
        self.over.forget_next();
        if std::mem::take(&mut self.expires) {
            let lag = self.expire()?;
            out.count_search(Search { lag, ..Search::default() });
            self.over.tell_spoilt(self.settled, self.over.reached == Timestamp::MAX, out);
        }
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl EagerOver {
    /// What there is of each of so many key groups, of which each key has this place, or of a part of that: what is seen, and then what was
    /// given. Nothing is put off: it was flushed before.
    fn saved(&self, places: &[Option<usize>], count: usize, part: Option<Part>) -> Result<Vec<Snapshot>> {
        let mut saved = self.over.saved(self.answers.iter().copied(), places, count, part)?;
        if part == Some(Part::Seen) {
            return Ok(saved);
        }
        for (place, snapshot) in saved.iter_mut().enumerate() {
            let is_wanted = |key: u32| places[key as usize] == Some(place);
            if let Some(given) = self.answers.saved(is_wanted, self.columns)? {
                snapshot.rows(given);
            }
        }
        Ok(saved)
    }

    fn drop_placed(&mut self, places: &[Option<usize>]) -> Result<()> {
        let Self { over, answers, watched, .. } = self;
        answers.forget(
            |key| places[key as usize].is_some(),
            |at| {
                watched.leave(at);
                over.kept.release(at);
            },
        );
        over.drop_placed(places)
    }
}

impl State for EagerOver {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let mut saved = self.saved(&self.over.places(&[group])?, 1, None)?;
        saved.pop().ok_or_else(|| Error::bug("a key group was saved as nothing"))
    }

    fn save_part(&mut self, group: KeyGroup, part: Part) -> Result<Snapshot> {
        let mut saved = self.saved(&self.over.places(&[group])?, 1, Some(part))?;
        saved.pop().ok_or_else(|| Error::bug("a part of a key group was saved as nothing"))
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.read(VERSION)?;
        // Which of the results that were given a row changes is told by key.
        self.end_sweep()?;
        let bases = self.over.read(&mut snapshot, true)?;
        let given = match bases.is_empty() || self.columns == 0 {
            true => Vec::new(),
            false => snapshot.rows()?.columns().to_vec(),
        };
        let is_complete = given.iter().all(|column| column.len() == bases.len());
        if !is_complete || given.len() != self.columns && !bases.is_empty() {
            return Err(Error::environment("the results of aggregates over the rows around a row cannot be read"));
        }
        self.answers.put(&bases, given);
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        self.drop_placed(&self.over.places(&[group])?)
    }

    fn take(&mut self, groups: &[KeyGroup]) -> Result<Vec<Snapshot>> {
        let places = self.over.places(groups)?;
        let saved = self.saved(&places, groups.len(), None)?;
        self.drop_placed(&places)?;
        Ok(saved)
    }

    fn bytes(&self) -> usize {
        self.over.bytes()
            + self.answers.bytes()
            + self.watched.bytes()
            + self.corrections.as_ref().map_or(0, Corrections::bytes)
            + self.pending.bytes()
            + self.unanswered.bytes()
            + self.stale_spans.bytes()
            + self.stale.capacity() * size_of::<Entry>()
    }

    fn held(&self) -> Vec<Held> {
        match (self.seen(), self.answers.rows() + self.unanswered.len()) {
            (0, 0) => Vec::new(),
            (seen, given) => vec![
                Held::new(seen, ["row that may be seen", "rows that may be seen"]),
                Held::out(given, ["row whose result may change", "rows whose results may change"]),
            ],
        }
    }
}
