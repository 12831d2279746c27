//! Aggregates over the rows around each row, at once.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_ord::ord::make_comparator;
use arrow_schema::SortOptions;
use arrow_select::{interleave::interleave, take::take};
use thalweg_core::{
    Batch, Error, Frontier, Held, Interval, KeyGroup, Operator, Output, Port, Progress, Result, Snapshot, State,
    operator::Search,
};

use super::{
    super::{
        chunk::passed,
        entry::{At, Entry},
        kept::hashes,
        order::By,
        over::{Over, Parts, VERSION},
    },
    answers::Answers,
    op::{Op, Outbox},
};

/// Appends to each row of the first input aggregates over the rows of all inputs, with the same key, around it: at once over those that
/// are there, and anew when one comes that changes them.
///
/// A row that is seen goes where it belongs among the rows of its key: those behind it, which are few where rows are hardly out of
/// order, are taken back and put behind it again, so that running totals stay true. Rows whose results may have changed by a batch are
/// looked at once for all of it, and corrected where they did.
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
    /// How far behind a row those may be that see it.
    seen_from: (i64, Option<i64>),
    /// How many aggregates there are.
    aggregates: usize,
    outbox: Outbox,
}

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
        let aggregates = parts.frames.iter().map(|(_, count)| count).sum();
        let (over, answers, outbox) = (Over::new(parts)?, Answers::default(), Outbox::default());
        Ok(Self { over, answers, seen_from: seen_from.unwrap_or((0, Some(0))), aggregates, outbox })
    }

    /// Puts rows among those of their keys, and finds those whose results they may change.
    fn insert(&mut self, rows: Vec<Entry>) -> Result<()> {
        let Self { over, answers, seen_from, .. } = self;
        let Over { due, kept, lines, sorter, ready, .. } = over;
        *due = rows;
        sorter.sort(due, By::Key, |rows| hashes(kept, rows))?;
        let mut taken = Vec::new();
        for same in due.chunk_by(|a, b| a.key == b.key) {
            answers.find(same[0].key, same.iter().map(|entry| entry.time), *seen_from, ready);
            lines.take_back(same[0].key, same[0].time, &mut taken);
        }
        due.append(&mut taken);
        over.append()
    }

    /// Looks on at what rows see, and has the results that are new go out; whether a batch of rows was finished.
    fn answer(&mut self) -> Result<bool> {
        let Some(computed) = self.over.look()? else { return Ok(false) };
        let Self { over, answers, outbox, .. } = self;
        let found = over.chunk.aggregates(&over.ready[computed.clone()], &over.asked, &over.past, &over.kept)?;
        let bases = &over.ready[computed];
        let changes = Changes::of(bases, &found, answers)?;
        if changes.rows.is_empty() {
            return Ok(true);
        }
        let rows: Vec<Entry> = changes.rows.iter().map(|(_, row)| bases[*row]).collect();
        let places: Vec<At> = rows.iter().map(|entry| entry.at).collect();
        let mut columns = passed(&rows, &places, &over.asked, &over.kept, &over.output)?;
        for (column, found) in found.iter().enumerate() {
            columns.push(changes.column(column, found)?);
        }
        let ops: Vec<Op> = changes.rows.iter().map(|(op, _)| *op).collect();
        outbox.put(columns, &ops, &over.output, over.batch_rows)?;
        let new: Vec<u32> = changes.given().map(|row| row as u32).collect();
        let given = match new.len() == bases.len() {
            true => found,
            false => {
                let new = UInt32Array::from(new.clone());
                found.iter().map(|column| take(column, &new, None)).collect::<Result<_, _>>()?
            }
        };
        let new: Vec<Entry> = new.iter().map(|row| bases[*row as usize]).collect();
        answers.put(&new, given);
        Ok(true)
    }

    /// Drops what nobody sees, and what nothing changes, any more.
    fn expire(&mut self) -> Result<Interval> {
        let Self { over, answers, .. } = self;
        let end = over.final_before();
        answers.expire(end.0, |at| over.kept.release(at));
        let lag = over.drop_unseen()?;
        if over.lines.is_sparse(answers.rows() + over.past.keys()) {
            let mut is_wanted: Vec<bool> = (0..over.lines.keys() as u32).map(|key| over.past.has(key)).collect();
            answers.iter().for_each(|entry| is_wanted[entry.key as usize] = true);
            let moved = over.lines.forget_keys(|key| is_wanted[key as usize]);
            over.past.renumber(&moved);
            answers.renumber(&moved);
        }
        Ok(lag)
    }
}

/// What is new of some rows' results.
struct Changes {
    /// What becomes of which row, in the order of rows.
    rows: Vec<(Op, usize)>,
    /// Of rows that had a result before, the aggregates, and which of these are whose.
    before: Vec<ArrayRef>,
    before_of: Vec<Option<usize>>,
}

impl Changes {
    /// What is new where these aggregates were found.
    fn of(bases: &[Entry], found: &[ArrayRef], answers: &mut Answers) -> Result<Self> {
        let given: Vec<Option<At>> = bases.iter().map(|base| answers.given(base)).collect();
        let some: Vec<At> = given.iter().flatten().copied().collect();
        let mut numbers = 0..;
        let before_of: Vec<Option<usize>> = given.iter().map(|given| given.and_then(|_| numbers.next())).collect();
        let mut before = Vec::new();
        if !some.is_empty() {
            before = (0..found.len()).map(|column| answers.gather(column, &some)).collect::<Result<_>>()?;
        }
        let compared =
            before.iter().zip(found).map(|(before, found)| make_comparator(before, found, SortOptions::default()));
        let compared = compared.collect::<Result<Vec<_>, _>>()?;
        let mut rows = Vec::new();
        for (row, before) in before_of.iter().enumerate() {
            match before {
                None => rows.push((Op::Insert, row)),
                Some(before) if compared.iter().any(|compare| compare(*before, row).is_ne()) => {
                    rows.extend([(Op::Before, row), (Op::After, row)]);
                }
                Some(_) => {}
            }
        }
        Ok(Self { rows, before, before_of })
    }

    /// The rows that are given a result which they did not have.
    fn given(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().filter(|(op, _)| *op != Op::Before).map(|(_, row)| *row)
    }

    /// One of the aggregates, of each row that goes out.
    fn column(&self, column: usize, found: &ArrayRef) -> Result<ArrayRef> {
        let Some(before) = self.before.get(column) else { return Ok(found.clone()) };
        let place = |(op, row): &(Op, usize)| match op {
            Op::Before => self.before_of[*row].map(|before| (0, before)),
            _ => Some((1, *row)),
        };
        let places = self.rows.iter().map(place).collect::<Option<Vec<_>>>();
        let places = places.ok_or_else(|| Error::bug("a row is corrected that had no result"))?;
        Ok(interleave(&[before.as_ref(), found.as_ref()], &places)?)
    }
}

impl Operator for EagerOver {
    fn searches(&self) -> bool {
        true
    }

    fn on_batch(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let Some(arrived) = self.over.arrive(port, batch, out)? else { return Ok(Progress::Done) };
        let rows: Vec<Entry> = arrived.rows().entries().collect();
        // Rows that came together see each other from the first.
        if !arrived.bases.is_empty() {
            self.over.ready.extend(&rows);
        }
        if arrived.is_seen {
            self.insert(rows)?;
        }
        let Over { ready, kept, sorter, .. } = &mut self.over;
        sorter.sort(ready, By::Time, |rows| hashes(kept, rows))?;
        self.resume(out)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.over.reached = self.over.reached.max(frontier.combined().minus(Interval(self.over.allowed)));
        out.hold(self.over.final_before());
        let lag = self.expire()?;
        out.count_search(Search { lag, ..Search::default() });
        Ok(Progress::Done)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        loop {
            if !self.outbox.send(out)? {
                return Ok(Progress::More);
            }
            if self.over.done == self.over.ready.len() {
                break;
            }
            let is_finished = self.answer()?;
            out.count_search(std::mem::take(&mut self.over.chunk.search));
            if !is_finished {
                return Ok(Progress::More);
            }
        }
        self.over.ready.clear();
        self.over.done = 0;
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl EagerOver {
    /// What there is of each of so many key groups, of which each key has this place: what is seen, and then what was given.
    fn saved(&self, places: &[Option<usize>], count: usize) -> Result<Vec<Snapshot>> {
        let mut saved = self.over.saved(self.answers.iter(), places, count, None)?;
        for (place, snapshot) in saved.iter_mut().enumerate() {
            let is_wanted = |key: u32| places[key as usize] == Some(place);
            if let Some(given) = self.answers.saved(is_wanted, self.aggregates)? {
                snapshot.rows(given);
            }
        }
        Ok(saved)
    }

    fn drop_placed(&mut self, places: &[Option<usize>]) -> Result<()> {
        let Self { over, answers, .. } = self;
        answers.forget(|key| places[key as usize].is_some(), |at| over.kept.release(at));
        over.drop_placed(places)
    }
}

impl State for EagerOver {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let mut saved = self.saved(&self.over.places(&[group])?, 1)?;
        saved.pop().ok_or_else(|| Error::bug("a key group was saved as nothing"))
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.read(VERSION)?;
        let bases = self.over.read(&mut snapshot, true)?;
        let given = match bases.is_empty() || self.aggregates == 0 {
            true => Vec::new(),
            false => snapshot.rows()?.columns().to_vec(),
        };
        let is_complete = given.iter().all(|column| column.len() == bases.len());
        if !is_complete || given.len() != self.aggregates && !bases.is_empty() {
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
        let saved = self.saved(&places, groups.len())?;
        self.drop_placed(&places)?;
        Ok(saved)
    }

    fn bytes(&self) -> usize {
        self.over.bytes() + self.answers.bytes()
    }

    fn held(&self) -> Vec<Held> {
        match (self.over.lines.rows(), self.answers.rows()) {
            (0, 0) => Vec::new(),
            (seen, given) => vec![
                Held::new(seen, ["row that may be seen", "rows that may be seen"]),
                Held::new(given, ["row whose result may change", "rows whose results may change"]),
            ],
        }
    }
}
