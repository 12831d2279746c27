//! Joins rows with equal keys whose event times lie close to each other, at once.

use std::collections::{HashMap, HashSet};

use arrow_array::{Array, ArrayRef};
use arrow_schema::SchemaRef;
use thalweg_core::{
    Batch, Error, Frontier, Held, Interval, KeyGroup, KeyGroups, Operator, Output, Part, Port, Progress, Result,
    Snapshot, State, Timestamp,
    operator::{MadeOf, Search},
};
use thalweg_plan::node::{Distance, JoinKind};

use super::{
    super::{
        entry::{At, Entry, GUEST, Identity},
        index::{self, Found, Index, Lookup},
        input::{Input, OnTime, Taken},
        join::Parts,
        kept::Kept,
        lines::Lines,
        pairs::{self, Pairs},
        saved::{self, Saved, divided},
    },
    op::{Op, Outbox},
    watched::Partners,
};
use crate::aggregate::groups::KeyEncoder;

/// Joins each row of the left input with the rows of the right one that have equal keys and a time near its own: each pair comes out
/// when the later of both arrives.
///
/// A row that comes out without a partner does so at once, and is taken back when its first partner comes; that of a semi join comes
/// out then, and that of an anti join is taken back.
///
/// Where instances share a key, a full join looks at guests of both inputs: who answers for the left row of a pair puts it out, and who
/// answers for a row takes back that it has no partner.
///
/// Shape:  the columns of the left input, then, unless it is a semi or anti join, those of the right one, and what becomes of the row.
/// State:  rows that may find partners yet: O(rows within the distance and the watermark's delay).
/// Errors: what the condition gives for pairs it cannot be computed for.
/// Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", definition 2. The paper answers
///         each row once, by what has come; corrections are ours.
pub struct EagerJoin {
    kind: JoinKind,
    inputs: [Input; 2],
    /// Which of the inputs the rows of each port belong to.
    input_of: Vec<usize>,
    /// How far behind its left row a right row may lie.
    distance: Distance,
    pairs: Pairs,
    key_groups: KeyGroups,
    output: SchemaRef,
    batch_rows: usize,
    allowed: i64,
    reached: Timestamp,
    kept: Kept,
    /// The numbers of keys; their rows are in the indexes.
    keys: Lines,
    /// The rows of the left and of the right input that may find partners yet.
    indexes: [Box<dyn Index>; 2],
    /// Rows that have just come, all of one input.
    new: Vec<Entry>,
    /// What is looked for around each of them.
    lookups: Vec<Lookup>,
    found: Found,
    /// Which input they are of.
    side: usize,
    /// Those of them that have no partners whatever comes, because a part of their key is null.
    lonely: Vec<At>,
    /// How many of them are done, and how many rows were looked at for the next one.
    begun: (usize, usize),
    outbox: Outbox,
    /// How many results are exact, if that is to be known.
    told: Option<Partners>,
}

const VERSION: u16 = 1;

/// Which part a row has when it is saved.
const IS_THERE: i64 = 1;
const IS_MARKED: i64 = 2;
/// Another instance answered for it, and the one that loads it has it as a guest.
const IS_HANDED_OVER: i64 = 4;

/// What may come of a row that has just come.
#[derive(Clone, Copy)]
enum Candidate {
    /// It, and a row of the other input.
    Pair(Entry, Entry),
    /// All rows of the other input have been looked at.
    End(Entry),
}

/// Rows that come out: the left and the right one of each.
#[derive(Default)]
struct Joined {
    rows: [Vec<Option<At>>; 2],
    ops: Vec<Op>,
}

impl Joined {
    fn put(&mut self, op: Op, [left, right]: [Option<&Entry>; 2]) {
        self.rows[0].push(left.map(|entry| entry.at));
        self.rows[1].push(right.map(|entry| entry.at));
        self.ops.push(op);
    }
}

/// A row of an input alone.
fn alone(side: usize, row: &Entry) -> [Option<&Entry>; 2] {
    if side == 0 { [Some(row), None] } else { [None, Some(row)] }
}

impl EagerJoin {
    /// An operator without rows.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts { kind, inputs, input_of, types, key_types, distance, condition, output, .. } = parts;
        Ok(Self {
            kind,
            inputs,
            input_of,
            distance,
            pairs: Pairs { types, condition },
            key_groups: parts.key_groups,
            output,
            batch_rows: parts.batch_rows,
            allowed: parts.allowed.0,
            reached: Timestamp::MIN,
            kept: Kept::default(),
            keys: Lines::new(KeyEncoder::new(&key_types)?, 0, Vec::new()),
            indexes: [index::new(parts.index), index::new(parts.index)],
            new: Vec::new(),
            lookups: Vec::new(),
            found: Found::default(),
            side: 0,
            lonely: Vec::new(),
            begun: (0, 0),
            outbox: Outbox::default(),
            told: parts.tells_spoilt.then(|| Partners::new(kind, distance)),
        })
    }

    /// Rows of each input before these times find no partners any more.
    fn final_before(&self) -> [Timestamp; 2] {
        let Distance { from, to } = self.distance;
        [self.reached.minus(to), self.reached.plus(from)]
    }

    /// Whether a row of an input comes out as it is now, without a partner.
    fn is_alone(&self, side: usize, row: &Entry) -> bool {
        self.kind.comes_alone(side) && row.rank != GUEST && !self.kept.is_marked(row.at)
    }

    /// Whether something may come of a pair: it comes out, or a row of it that was alone is so no more.
    fn may_matter(&self, left: &Entry, right: &Entry) -> bool {
        left.rank != GUEST || right.rank != GUEST && !self.kept.is_marked(right.at)
    }

    /// Where the partners of a new row may be.
    fn around(&self, row: &Entry) -> Lookup {
        let Distance { from, to } = self.distance;
        let (first, last) =
            if self.side == 0 { (from.0, to.0) } else { (to.0.saturating_neg(), from.0.saturating_neg()) };
        Lookup { key: row.key, from: row.time.saturating_add(first), to: row.time.saturating_add(last) }
    }

    /// Finds what may come out next, about a batch of it.
    fn look(&mut self) -> Vec<Candidate> {
        let (first, skip) = self.begun;
        let lookups = &self.lookups[first..self.lookups.len().min(first + self.batch_rows)];
        self.found.clear();
        self.indexes[1 - self.side].find(lookups, skip, self.batch_rows, &mut self.found);
        let Found { rows, ends } = &self.found;
        let matters = |row: &Entry, other: &Entry| match self.side {
            0 => self.may_matter(row, other),
            _ => self.may_matter(other, row),
        };
        let put = |row: Entry, others: &[Entry], candidates: &mut Vec<Candidate>| {
            let others = others.iter().filter(|other| matters(&row, other));
            candidates.extend(others.map(|other| Candidate::Pair(row, *other)));
        };
        let (mut candidates, mut done) = (Vec::with_capacity(rows.len() + ends.len()), 0);
        for (row, end) in self.new[first..].iter().zip(ends) {
            put(*row, &rows[done..*end], &mut candidates);
            candidates.push(Candidate::End(*row));
            done = *end;
        }
        let next = first + ends.len();
        if let Some(row) = self.new.get(next) {
            put(*row, &rows[done..], &mut candidates);
        }
        let skip = if ends.is_empty() { skip } else { 0 };
        self.begun = (next, skip + rows.len() - done);
        candidates
    }

    /// The rows that come out of candidates, and how many of these are pairs.
    fn join(&mut self, candidates: &[Candidate]) -> Result<(Joined, Search)> {
        let side = self.side;
        let sides = |row: Entry, other: Entry| if side == 0 { [row, other] } else { [other, row] };
        let all = candidates.iter().filter_map(|candidate| match candidate {
            Candidate::Pair(row, other) => Some(sides(*row, *other).map(|entry| Some(entry.at))),
            Candidate::End(_) => None,
        });
        let (lefts, rights): (Vec<_>, Vec<_>) = all.map(|[left, right]| (left, right)).unzip();
        let mask = self.pairs.hold(&self.kept, [&lefts[..], &rights[..]])?;
        if let (Some(told), Some(mask)) = (&mut self.told, &mask) {
            told.ask([&lefts, &rights], mask.true_count());
        }
        let mut search = Search { visited: lefts.len() as u64, ..Search::default() };
        let (mut joined, mut pair) = (Joined::default(), 0);
        for candidate in candidates {
            match candidate {
                Candidate::Pair(row, other) => {
                    if pairs::holds(mask.as_ref(), pair) {
                        let [left, _] = sides(*row, *other);
                        search.found += u64::from(left.rank != GUEST);
                        self.meet(row, other, sides(*row, *other), &mut joined);
                    }
                    pair += 1;
                }
                Candidate::End(row) if self.is_alone(side, row) => joined.put(Op::Insert, alone(side, row)),
                Candidate::End(_) => {}
            }
        }
        Ok((joined, search))
    }

    /// A new row and one that was there are partners.
    fn meet(&mut self, row: &Entry, other: &Entry, [left, right]: [Entry; 2], joined: &mut Joined) {
        if self.is_alone(1 - self.side, other) {
            joined.put(Op::Delete, alone(1 - self.side, other));
        }
        match self.kind {
            _ if left.rank == GUEST => {}
            JoinKind::Semi if !self.kept.is_marked(left.at) => joined.put(Op::Insert, [Some(&left), None]),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => joined.put(Op::Insert, [Some(&left), Some(&right)]),
        }
        if let Some(told) = &mut self.told {
            told.meet([left.at, right.at]);
        }
        // A row is marked once it has a partner.
        self.kept.mark(row.at);
        self.kept.mark(other.at);
    }
}

impl EagerJoin {
    /// The numbers of rows' keys, and which rows have a key of which a part is null.
    fn number(&mut self, keys: &[ArrayRef], rows: usize) -> Result<(Vec<u32>, Vec<bool>)> {
        let encoded = self.keys.encoder().encode(keys, rows)?;
        let numbers = self.keys.number(&encoded, rows);
        let is_lonely = |row: usize| keys.iter().any(|key| key.is_null(row));
        Ok((numbers, (0..rows).map(is_lonely).collect()))
    }

    /// Says how many results are exact, if that is to be known; whether these are all.
    fn tell(&mut self, are_all: bool, out: &mut Output) {
        let told = self.told.as_mut().and_then(|told| told.tell(self.reached, are_all));
        told.into_iter().for_each(|told| out.tell(told));
    }

    /// Drops rows that find no partners any more; returns how long they were there for nobody.
    fn expire(&mut self) -> Interval {
        let ends = self.final_before();
        let Self { kept, keys, indexes, told, .. } = self;
        let mut lag = 0;
        for (index, end) in indexes.iter_mut().zip(ends) {
            // At the end of a stream time makes a leap.
            let counts = end.is_in_range();
            index.expire(end.0, &mut |row| {
                lag = if counts { lag.max(end.0.saturating_sub(row.time)) } else { lag };
                if let Some(told) = told.as_mut() {
                    told.leave(row.at);
                }
                kept.release(row.at);
            });
        }
        if keys.is_sparse(indexes.iter().map(|index| index.rows()).sum()) {
            let mut is_wanted = vec![false; keys.keys()];
            indexes.iter().flat_map(|index| index.iter()).for_each(|row| is_wanted[row.key as usize] = true);
            let moved = keys.forget_keys(|key| is_wanted[key as usize]);
            indexes.iter_mut().for_each(|index| index.renumber(&moved));
        }
        Interval(lag)
    }
}

impl Operator for EagerJoin {
    fn searches(&self) -> Option<MadeOf> {
        Some(match self.kind {
            JoinKind::Semi | JoinKind::Anti => {
                MadeOf::Around { has_itself: false, reach: Some(self.distance.reach()), of_results: true }
            }
            _ => MadeOf::Pair,
        })
    }

    fn on_batch(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        self.side = self.input_of[port];
        let input = &self.inputs[self.side];
        let all = batch.clone();
        let OnTime { batch, times, mut came } = input.on_time(batch, self.reached, self.allowed)?;
        if came.late > 0 && !self.kind.comes_alone(self.side) {
            came.late = input.late_with_keys(all.clone(), &batch);
        }
        if let Some(told) = &mut self.told {
            told.leave_out(self.side, input, &all, &batch)?;
        }
        out.count_late(came.late as usize);
        out.count_search(Search::of_side(self.side, came));
        if batch.is_empty() {
            return Ok(Progress::Done);
        }
        let (count, own) = (batch.len(), batch.own());
        let may_be_guests = self.kind == JoinKind::Full;
        let Taken { arrivals, keys, columns } = input.taken(&batch, times, &mut self.kept.spare)?;
        let (numbers, are_lonely) = self.number(&keys, count)?;
        let batch = self.kept.keep(columns, count);
        if let Some(told) = &mut self.told {
            told.come(self.side, &keys, &arrivals.times.values, own.clone(), At { batch, row: 0 })?;
        }
        for (row, is_lonely) in are_lonely.iter().enumerate() {
            let at = At { batch, row: row as u32 };
            let (time, position) = (arrivals.times.values[row], arrivals.positions[row]);
            let rank = if may_be_guests && !own.contains(&row) { GUEST } else { 0 };
            self.new.push(Entry { time, position, key: numbers[row], rank, at });
            if *is_lonely {
                self.lonely.push(at);
            }
        }
        self.lookups = self.new.iter().map(|row| self.around(row)).collect();
        let index = &mut self.indexes[self.side];
        match self.lonely.is_empty() {
            true => index.insert(&self.new),
            false => {
                let others = self.new.iter().zip(are_lonely).filter(|(_, is_lonely)| !is_lonely);
                index.insert(&others.map(|(row, _)| *row).collect::<Vec<_>>());
            }
        }
        self.tell(false, out);
        self.resume(out)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.reached = self.reached.max(frontier.combined().minus(Interval(self.allowed)));
        let [left, right] = self.final_before();
        out.hold(self.reached.min(left).min(right));
        let lag = self.expire();
        out.count_search(Search { lag, ..Search::default() });
        self.tell(frontier.combined() == Timestamp::MAX, out);
        Ok(Progress::Done)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        loop {
            if !self.outbox.send(out)? {
                return Ok(Progress::More);
            }
            let candidates = self.look();
            if candidates.is_empty() && self.begun.0 == self.new.len() {
                break;
            }
            let (joined, search) = self.join(&candidates)?;
            out.count_search(search);
            if joined.ops.is_empty() {
                // Much may have been looked at, and nothing found.
                return Ok(Progress::More);
            }
            let [lefts, rights] = &joined.rows;
            let width = self.output.fields().len() - 1;
            let columns = self.pairs.columns(&self.kept, [&lefts[..], &rights[..]], width)?;
            self.outbox.put(columns, &joined.ops, &self.output, self.batch_rows)?;
        }
        self.new.clear();
        self.lookups.clear();
        self.begun = (0, 0);
        if let Some(told) = &mut self.told {
            self.lonely.iter().for_each(|at| told.leave(*at));
        }
        self.kept.release_all(self.lonely.drain(..));
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl EagerJoin {
    /// What there is of each of so many key groups, of which each key has this place; or of a part of that.
    fn saved(&self, places: &[Option<usize>], count: usize, part: Option<Part>) -> Result<Vec<Snapshot>> {
        let saved = |side: usize| {
            let rows = self.indexes[side].iter().filter_map(|row| self.part(side, *row, part));
            divided(rows, places, count)
        };
        let [left, right] = [0, 1].map(saved);
        let saved = left.into_iter().zip(right).map(|(left, right)| {
            let mut snapshot = Snapshot::new(VERSION);
            snapshot.number(self.reached.0);
            for rows in [left, right] {
                saved::write(&rows, &self.keys, &self.kept, &mut snapshot)?;
            }
            Ok(snapshot)
        });
        saved.collect()
    }

    /// Rows of an input that are handed over: those that are here are guests no more, and others are put there.
    fn take_over(&mut self, side: usize, mut handed: HashMap<Identity, Entry>) {
        let Self { kept, indexes, .. } = self;
        let keys: HashSet<u32> = handed.keys().map(|(key, ..)| *key).collect();
        for key in keys {
            indexes[side].change(key, &mut |guest| {
                let Some(entry) = (guest.rank == GUEST).then(|| handed.remove(&guest.identity())).flatten() else {
                    return;
                };
                guest.rank = entry.rank;
                if kept.is_marked(entry.at) {
                    kept.mark(guest.at);
                }
                kept.release(entry.at);
            });
        }
        indexes[side].insert(&handed.into_values().collect::<Vec<_>>());
    }

    /// A row of an input with what is said of it, if it belongs to a part: those that are seen are guests if there may be any.
    fn part(&self, side: usize, row: Entry, part: Option<Part>) -> Option<(Entry, i64)> {
        let roles = IS_THERE | if self.kept.is_marked(row.at) { IS_MARKED } else { 0 };
        let is_full = self.kind == JoinKind::Full;
        let is_base = side == usize::from(self.kind == JoinKind::Right);
        match part {
            None => Some((row, roles)),
            Some(Part::Seen) if is_full => Some((Entry { rank: GUEST, ..row }, roles)),
            Some(Part::Waiting) if is_full => (row.rank != GUEST).then_some((row, roles | IS_HANDED_OVER)),
            Some(Part::Seen) => (!is_base).then_some((row, roles)),
            Some(Part::Waiting) => is_base.then_some((row, roles)),
        }
    }

    /// The place of each key's group among these.
    fn places(&self, groups: &[KeyGroup]) -> Result<Vec<Option<usize>>> {
        let by: Vec<usize> = (0..self.inputs[0].keys.len()).collect();
        self.keys.places(self.key_groups, &by, groups)
    }

    /// Drops all rows of keys that have a place.
    fn drop_placed(&mut self, places: &[Option<usize>]) {
        let Self { kept, indexes, told, .. } = self;
        for index in indexes {
            index.forget(&|key| places[key as usize].is_some(), &mut |row| {
                if let Some(told) = told.as_mut() {
                    told.leave(row.at);
                }
                kept.release(row.at);
            });
        }
    }
}

impl State for EagerJoin {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let mut saved = self.saved(&self.places(&[group])?, 1, None)?;
        saved.pop().ok_or_else(|| Error::bug("a key group was saved as nothing"))
    }

    fn save_part(&mut self, group: KeyGroup, part: Part) -> Result<Snapshot> {
        let mut saved = self.saved(&self.places(&[group])?, 1, Some(part))?;
        saved.pop().ok_or_else(|| Error::bug("a part of a key group was saved as nothing"))
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.read(VERSION)?;
        self.reached = self.reached.max(Timestamp(snapshot.number()?));
        let key_columns = self.inputs[0].keys.len();
        for side in 0..2 {
            let Some(saved) = Saved::read(&mut snapshot, key_columns)? else { continue };
            let (numbers, _) = self.number(saved.keys(), saved.len())?;
            let batch = self.kept.keep(saved.kept(), saved.len());
            let (mut handed, mut new) = (HashMap::new(), Vec::new());
            for (row, key) in numbers.into_iter().enumerate() {
                let (entry, roles) = (saved.entry(row, key, batch), saved.parts(row));
                if roles & IS_MARKED != 0 {
                    self.kept.mark(entry.at);
                }
                if roles & IS_HANDED_OVER != 0 {
                    handed.insert(entry.identity(), entry);
                } else {
                    new.push(entry);
                }
            }
            self.indexes[side].insert(&new);
            self.take_over(side, handed);
        }
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        self.drop_placed(&self.places(&[group])?);
        Ok(())
    }

    fn take(&mut self, groups: &[KeyGroup]) -> Result<Vec<Snapshot>> {
        let places = self.places(groups)?;
        let saved = self.saved(&places, groups.len(), None)?;
        self.drop_placed(&places);
        Ok(saved)
    }

    fn bytes(&self) -> usize {
        let indexes: usize = self.indexes.iter().map(|index| index.bytes()).sum();
        let new = (self.new.capacity() + self.found.rows.capacity()) * size_of::<Entry>();
        let lookups = self.lookups.capacity() * size_of::<Lookup>() + self.lonely.capacity() * size_of::<At>();
        let told = self.told.as_ref().map_or(0, Partners::bytes);
        self.kept.bytes() + self.keys.bytes() + indexes + new + lookups + told
    }

    fn held(&self) -> Vec<Held> {
        match self.indexes.iter().map(|index| index.rows()).sum() {
            0 => Vec::new(),
            rows => vec![Held::out(rows, ["row that may find partners", "rows that may find partners"])],
        }
    }
}
