//! Joins rows with equal keys whose event times lie close to each other.

mod state;

use std::{collections::VecDeque, sync::Arc};

use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use thalweg_core::{
    Batch, Frontier, Interval, KeyGroups, Operator, Output, Port, Positions, Progress, Result, State, Timestamp,
    operator::{MadeOf, Search},
};
use thalweg_plan::{
    node::{Distance, JoinKind},
    settings::JoinIndex,
};

use super::{
    due::Due,
    entry::{Arrived, At, Entry, GUEST},
    input::{Input, OnTime, Taken},
    kept::{Kept, hashes},
    lines::Lines,
    order::{By, Sorter},
    pairs::{self, Condition, Pairs},
    places::{of_content, ordered},
    spoilt::{OfJoin, Seen},
    waiting::{STEPS, Waiting, next},
};
use crate::aggregate::groups::KeyEncoder;

/// Joins each row of the *base* input with the rows of the other one, its *members*, that have equal keys and a time near its own. The
/// base is the left input, and that of a right join the right one.
///
/// Rows wait, in no order, until the watermark has passed them; a base row waits until it has passed the last member that may belong to
/// it. Pairs come in the order of their base row's time and position, and those of one base row in that of their members.
///
/// Where instances share a key, a full join looks at guests of both inputs: a base row that is a guest may be the partner of a member that
/// is none. A member that is a guest is marked from the beginning, as if it had a partner, since another instance knows whether it has.
///
/// Shape:  the columns of the left input, then, unless it is a semi or anti join, those of the right one.
/// State:  members that a later base row may see, and rows that wait: O(rows within the distance and the watermark's delay).
/// Errors: what the condition gives for pairs it cannot be computed for.
/// Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", definition 2.
pub struct IntervalJoin {
    kind: JoinKind,
    inputs: [Input; 2],
    /// Which of the inputs the rows of each port belong to.
    input_of: Vec<usize>,
    /// Which input has the base rows.
    base: usize,
    /// How far behind its base row a member may lie.
    distance: Distance,
    pairs: Pairs,
    key_groups: KeyGroups,
    has_positions: bool,
    output: SchemaRef,
    batch_rows: usize,
    allowed: i64,
    reached: Timestamp,
    goes_to: Timestamp,
    kept: Kept,
    lines: Lines,
    /// For each key whether a part of it is null, so that its rows have no partner.
    has_null: Vec<bool>,
    members: Waiting,
    bases: Waiting,
    due: Due,
    final_bases: Due,
    /// Those of either in order.
    sorted: Vec<Entry>,
    /// Base rows that are joined next, in the order of time.
    ready: VecDeque<Entry>,
    /// How many members of the first of them were looked at; and of those of which it was asked how many are its partners, and how many these are.
    begun: (usize, [u32; 2]),
    /// Of a full join: all members, in the order of time, until no base row can see them.
    leaving: VecDeque<Entry>,
    sorter: Sorter,
    /// How many rows were looked at since this was last told.
    visited: u64,
    /// Which results lack rows that came too late, if that is asked for.
    spoilt: Option<OfJoin>,
}

/// How an [`IntervalJoin`] is made.
pub struct Parts {
    /// Which rows come out.
    pub kind: JoinKind,
    /// The left and the right input.
    pub inputs: [Input; 2],
    /// Which of them the rows of each port belong to.
    pub input_of: Vec<usize>,
    /// The types of their columns.
    pub types: [Vec<DataType>; 2],
    /// The types of the keys.
    pub key_types: Vec<DataType>,
    /// How far behind its left row a right row may lie.
    pub distance: Distance,
    /// What else must be true of a pair.
    pub condition: Option<Condition>,
    /// The output columns.
    pub output: SchemaRef,
    /// How many rows an emitted batch has at most.
    pub batch_rows: usize,
    /// Into how many groups keys are divided.
    pub key_groups: KeyGroups,
    /// Whether rows say where they stand among those of all instances.
    pub has_positions: bool,
    /// How far behind the watermark rows still count.
    pub allowed: Interval,
    /// In what rows are looked up where pairs come out at once.
    pub index: JoinIndex,
    /// Whether it is to be known how many results lack rows that came too late.
    pub tells_spoilt: bool,
}

const VERSION: u16 = 1;

/// After so many pairs that were looked at others may run. (Tests have few.)
const TURN: usize = if cfg!(test) { 128 } else { 1 << 20 };

/// A row that may come out: a base row with one of its members, or a row without a partner.
#[derive(Clone, Copy)]
enum Candidate {
    Pair(Entry, Entry),
    /// All members of a base row have been looked at.
    End(Entry),
    /// A member that no base row can see any more.
    Left(Entry),
}

/// Rows that come out.
#[derive(Default)]
struct Joined {
    rows: Vec<[Option<Entry>; 2]>,
    /// How many candidates are pairs.
    pairs: u64,
    /// Base rows that have met all their members, and how many partners each has, of how many of which that was asked; if somebody wants to
    /// know.
    ended: Vec<(Entry, [u32; 2])>,
    /// The same of members that no base row can see any more.
    left: Vec<(Entry, [u32; 2])>,
    /// Rows that are wanted once less.
    gone: Vec<At>,
}

impl Joined {
    fn put(&mut self, base: Option<&Entry>, member: Option<&Entry>) {
        self.rows.push([base.copied(), member.copied()]);
    }
}

impl IntervalJoin {
    /// An operator without rows.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts { kind, inputs, input_of, types, key_types, distance, condition, output, .. } = parts;
        let base = usize::from(kind == JoinKind::Right);
        let distance = if base == 0 { distance } else { distance.mirrored() };
        Ok(Self {
            kind,
            inputs,
            input_of,
            base,
            distance,
            pairs: Pairs { types, condition },
            key_groups: parts.key_groups,
            has_positions: parts.has_positions,
            output,
            batch_rows: parts.batch_rows,
            allowed: parts.allowed.0,
            reached: Timestamp::MIN,
            goes_to: Timestamp::MIN,
            kept: Kept::default(),
            lines: Lines::new(KeyEncoder::new(&key_types)?, 0, vec![true]),
            has_null: Vec::new(),
            members: Waiting::default(),
            bases: Waiting::default(),
            due: Due::default(),
            final_bases: Due::default(),
            sorted: Vec::new(),
            ready: VecDeque::new(),
            begun: (0, [0; 2]),
            leaving: VecDeque::new(),
            sorter: Sorter::default(),
            visited: 0,
            spoilt: parts.tells_spoilt.then(|| OfJoin::new(kind, distance)),
        })
    }

    /// Base rows before this time have met all their members.
    fn final_before(&self) -> Timestamp {
        self.reached.minus(Interval(self.distance.to.0.max(0)))
    }

    fn is_full(&self) -> bool {
        self.kind == JoinKind::Full
    }

    /// Time goes on, where it leaps not all the way.
    fn advance(&mut self) -> Result<()> {
        let ahead = Interval(self.distance.to.0.max(0));
        self.reached = next(self.reached, self.goes_to, &mut self.members, (&mut self.bases, ahead));
        let end = self.final_before();
        let Self {
            kept, lines, members, bases, due, final_bases, sorted, ready, leaving, kind, reached, sorter, ..
        } = self;
        members.take(reached.0, due);
        let content = |rows: &[At]| hashes(kept, rows);
        if *kind == JoinKind::Full {
            sorter.sort(due, By::Time, content, sorted)?;
            leaving.extend(sorted.iter());
            sorter.sort_rows(sorted, By::Key, content)?;
        } else {
            sorter.sort(due, By::Key, content, sorted)?;
        }
        lines.append(sorted, &[]);
        bases.take(end.0, final_bases);
        sorter.sort(final_bases, By::Time, content, sorted)?;
        ready.extend(sorted.drain(..));
        Ok(())
    }

    /// Finds rows that may come out next, about a batch of them; whether these are all.
    fn look(&mut self) -> (Vec<Candidate>, bool) {
        let (mut found, mut left) = (Vec::new(), TURN);
        let Distance { from, to } = self.distance;
        while found.len() < self.batch_rows && left > 0 {
            let end = self.ready.front().map_or(self.final_before().0, |base| base.time);
            // Base rows of the same time come first.
            let is_left = |member: &mut Entry| member.time.saturating_sub(from.0) < end;
            if let Some(member) = self.leaving.pop_front_if(is_left) {
                found.push(Candidate::Left(member));
                continue;
            }
            let Some(base) = self.ready.front().copied() else { return (found, true) };
            // The last base row of this key was not much earlier.
            let (line, near) = self.lines.followed(base.key, 0);
            if !self.has_null[base.key as usize] {
                let last = near.clone();
                *near = line.between(base.time.saturating_add(from.0), base.time.saturating_add(to.0), near);
                // Both ends have passed the rows in between.
                self.visited += (near.start.abs_diff(last.start) + near.end.abs_diff(last.end)) as u64;
            }
            let members = &line.rows()[near.clone()];
            let rest = &members[self.begun.0..];
            // One partner is as good as many, unless a condition may fail for one of them.
            let is_enough = self.pairs.condition.is_none() && matches!(self.kind, JoinKind::Semi | JoinKind::Anti);
            let rest = if is_enough { &rest[..rest.len().min(1)] } else { rest };
            let room = self.batch_rows - found.len();
            self.visited += rest.len().min(room) as u64;
            // What a guest might change is whether a member comes out alone.
            let (kept, is_guest) = (&self.kept, base.rank == GUEST);
            let looked = rest.iter().take(room).filter(|member| !is_guest || !kept.is_marked(member.at));
            found.extend(looked.map(|member| Candidate::Pair(base, *member)));
            left = left.saturating_sub(rest.len().min(room) + 1);
            if rest.len() > room {
                self.begun.0 += room;
            } else {
                self.begun.0 = 0;
                self.ready.pop_front();
                found.push(Candidate::End(base));
            }
        }
        (found, false)
    }

    /// Which of the pairs are what the condition asks for; all, if there is none.
    fn holds(&self, candidates: &[Candidate]) -> Result<Option<BooleanArray>> {
        if self.pairs.condition.is_none() {
            return Ok(None);
        }
        let pairs = candidates.iter().filter_map(|candidate| match candidate {
            Candidate::Pair(base, member) => Some((Some(base.at), Some(member.at))),
            _ => None,
        });
        let (bases, members): (Vec<_>, Vec<_>) = pairs.unzip();
        self.pairs.hold(&self.kept, self.sides(&bases[..], &members[..]))
    }

    /// The left and the right ones of base rows and members.
    fn sides<'a, T: ?Sized>(&self, base: &'a T, member: &'a T) -> [&'a T; 2] {
        if self.base == 0 { [base, member] } else { [member, base] }
    }

    /// The rows that come out of candidates.
    fn join(&mut self, candidates: &[Candidate]) -> Result<Joined> {
        let holds = self.holds(candidates)?;
        if let (Some(spoilt), Some(holds)) = (&mut self.spoilt, &holds) {
            spoilt.ask(holds.len(), holds.true_count());
        }
        let mut joined = Joined::default();
        let mut pair = 0;
        for candidate in candidates {
            match candidate {
                Candidate::Pair(base, member) => {
                    let is_partner = pairs::holds(holds.as_ref(), pair);
                    pair += 1;
                    self.begun.1[1] = self.begun.1[1].saturating_add(u32::from(holds.is_some()));
                    if !is_partner {
                        continue;
                    }
                    if self.is_full() {
                        self.kept.mark(member.at);
                    }
                    if base.rank == GUEST {
                        continue;
                    }
                    joined.pairs += 1;
                    let is_first = self.begun.1[0] == 0;
                    self.begun.1[0] = self.begun.1[0].saturating_add(1);
                    match self.kind {
                        JoinKind::Semi if is_first => joined.put(Some(base), None),
                        JoinKind::Semi | JoinKind::Anti => {}
                        _ => joined.put(Some(base), Some(member)),
                    }
                }
                Candidate::End(base) => {
                    let partners = std::mem::take(&mut self.begun.1);
                    let is_wanted = !matches!(self.kind, JoinKind::Inner | JoinKind::Semi) && base.rank != GUEST;
                    if is_wanted && partners[0] == 0 {
                        joined.put(Some(base), None);
                    }
                    if self.spoilt.is_some() && base.rank != GUEST {
                        joined.ended.push((*base, partners));
                    }
                    joined.gone.push(base.at);
                }
                Candidate::Left(member) => {
                    let has_partner = self.kept.is_marked(member.at);
                    if !has_partner {
                        joined.put(None, Some(member));
                    }
                    if self.spoilt.is_some() {
                        joined.left.push((*member, [u32::from(has_partner), 0]));
                    }
                    joined.gone.push(member.at);
                }
            }
        }
        Ok(joined)
    }
}

impl IntervalJoin {
    /// Remembers what some rows have seen that met all others.
    fn remember(&mut self, joined: &Joined) -> Result<()> {
        let Some(OfJoin { bases, others, .. }) = self.spoilt.as_mut() else { return Ok(()) };
        let sides =
            [(Some(bases), &joined.ended, self.distance), (others.as_mut(), &joined.left, self.distance.mirrored())];
        for (spoilt, rows, distance) in sides {
            let Some(spoilt) = spoilt else { continue };
            let chosen: Vec<_> = spoilt.choose(rows.len()).into_iter().map(|row| rows[row]).collect();
            if chosen.is_empty() {
                continue;
            }
            let seen = chosen.iter().map(|(Entry { time, key, .. }, rows)| {
                Seen::within(distance, *time, *rows, self.has_null[*key as usize])
            });
            let seen: Vec<Seen> = seen.collect();
            spoilt.remember(&self.lines.columns(chosen.iter().map(|(row, _)| row.key).collect())?, &seen)?;
        }
        Ok(())
    }

    /// Says how many results lack rows that came too late.
    fn tell_spoilt(&mut self, out: &mut Output) {
        let (final_before, are_all) = (self.final_before(), self.goes_to == Timestamp::MAX);
        let told = self.spoilt.as_mut().and_then(|spoilt| spoilt.tell(final_before, are_all));
        told.into_iter().for_each(|told| out.tell(told));
    }

    /// A batch of the rows that come out, if there are any.
    fn batch(&self, joined: &Joined) -> Result<Option<Batch>> {
        if joined.rows.is_empty() {
            return Ok(None);
        }
        let at = |side: usize| joined.rows.iter().map(|row| row[side].map(|entry| entry.at)).collect::<Vec<_>>();
        let (bases, members) = (at(0), at(1));
        let sides = self.sides(&bases[..], &members[..]);
        let columns = self.pairs.columns(&self.kept, sides, self.output.fields().len())?;
        let batch = Batch::new(RecordBatch::try_new(Arc::clone(&self.output), columns)?);
        Ok(Some(match self.has_positions {
            false => batch,
            true => batch.with_positions(Arc::new(self.positions(&joined.rows)?)),
        }))
    }

    /// Where pairs stand: by the base row's time, position and content, then by those of the member.
    fn positions(&self, rows: &[[Option<Entry>; 2]]) -> Result<Positions> {
        let side = |side: usize| -> Result<Vec<[u8; 16]>> {
            let entries: Vec<Entry> = rows.iter().filter_map(|row| row[side]).collect();
            let port = if side == 0 { self.base } else { 1 - self.base };
            let hashes = match self.inputs[port].has_own_positions {
                true => vec![0; entries.len()],
                false => hashes(&self.kept, &entries.iter().map(|entry| entry.at).collect::<Vec<_>>())?,
            };
            let mut keys = entries.iter().zip(hashes).map(|(entry, hash)| of_content(entry.position, hash));
            // A row without a base row comes behind those that have one, and one without a member before.
            let none = [if side == 0 { u8::MAX } else { 0 }; 16];
            Ok(rows.iter().map(|row| row[side].and_then(|_| keys.next()).unwrap_or(none)).collect())
        };
        let (bases, members) = (side(0)?, side(1)?);
        let time = |row: &[Option<Entry>; 2]| match row {
            [Some(base), _] => base.time,
            [None, member] => member.map_or(0, |member| member.time.saturating_sub(self.distance.from.0)),
        };
        let keys = rows.iter().zip(bases.iter().zip(&members)).map(|(row, (base, member))| {
            let time = ordered(row[1].map_or(i64::MIN, |member| member.time));
            [&base[..], &time, member].concat()
        });
        Ok(Positions::in_time(rows.iter().map(time).collect(), BinaryArray::from_iter_values(keys)))
    }

    /// The numbers of rows' keys.
    fn number(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
        let numbers = self.lines.encoder().encode(keys, rows)?;
        let numbers = self.lines.number(&numbers, rows);
        self.has_null.resize(self.lines.keys(), false);
        for key in keys.iter().filter(|key| key.null_count() > 0) {
            let nulls = (0..rows).filter(|row| key.is_null(*row));
            nulls.for_each(|row| self.has_null[numbers[row] as usize] = true);
        }
        Ok(numbers)
    }

    fn expire(&mut self) -> Interval {
        let end = self.final_before().plus(self.distance.from);
        let Self { kept, lines, has_null, members, bases, leaving, .. } = self;
        let lag = lines
            .expire(end.0, end.0, None, |line, old| kept.release_all(line.rows()[..old].iter().map(|entry| entry.at)));
        if lines.is_sparse(members.rows() + bases.rows() + leaving.len()) {
            let mut is_wanted = vec![false; lines.keys()];
            let waiting = members.iter().chain(bases.iter()).chain(leaving.iter());
            waiting.for_each(|entry| is_wanted[entry.key as usize] = true);
            let moved = lines.forget_keys(|key| is_wanted[key as usize]);
            let mut stays = moved.iter().map(|key| *key != u32::MAX);
            has_null.retain(|_| stays.next().unwrap_or(false));
            let renumber = |entry: &mut Entry| {
                entry.key = moved[entry.key as usize];
                true
            };
            members.retain(renumber);
            bases.retain(renumber);
            leaving.iter_mut().for_each(|entry| entry.key = moved[entry.key as usize]);
        }
        lag
    }
}

impl Operator for IntervalJoin {
    fn searches(&self) -> Option<MadeOf> {
        Some(match self.kind {
            JoinKind::Semi | JoinKind::Anti => {
                MadeOf::Around { has_itself: false, reach: Some(self.distance.reach()), of_results: true }
            }
            _ => MadeOf::Pair,
        })
    }

    fn on_batch(&mut self, port: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let number = self.input_of[port];
        let input = &self.inputs[number];
        let all = batch.clone();
        let OnTime { batch, times, mut came } = input.on_time(batch, self.reached, self.allowed)?;
        if came.late > 0 && !self.kind.comes_alone(number) {
            came.late = input.late_with_keys(all.clone(), &batch);
        }
        out.count_late(came.late as usize);
        out.count_search(Search::of_side(number, came));
        if let Some(spoilt) = &mut self.spoilt {
            spoilt.leave_out(input, &all, &batch, number == self.base)?;
        }
        let (is_base, is_full) = (number == self.base, self.is_full());
        let (own, count) = (batch.own(), batch.len());
        let guests = [0..own.start, own.end..count];
        let looked_at = if is_base && !is_full { own.len() } else { count };
        if looked_at == 0 {
            return Ok(Progress::Done);
        }
        let Taken { arrivals, keys, columns } = input.taken(&batch, times, &mut self.kept.spare)?;
        let numbers = self.number(&keys, count)?;
        let uses = if !is_base && is_full { 2 } else { 1 };
        let batch = self.kept.keep(columns, uses * looked_at);
        let arrived = Arrived {
            times: &arrivals.times.values,
            positions: &arrivals.positions,
            keys: &numbers,
            rank: 0,
            at: At { batch, row: 0 },
        };
        if !is_base {
            self.members.put(&arrived);
            let guests = guests.into_iter().flatten().filter(|_| is_full);
            guests.for_each(|row| self.kept.mark(At { batch, row: row as u32 }));
            return Ok(Progress::Done);
        }
        self.bases.put(&arrived.slice(own));
        for guests in guests.into_iter().filter(|_| is_full) {
            self.bases.put(&Arrived { rank: GUEST, ..arrived.slice(guests) });
        }
        Ok(Progress::Done)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.goes_to = self.reached.max(frontier.combined().minus(Interval(self.allowed)));
        self.advance()?;
        out.hold(self.goes_to.minus(Interval(self.distance.to.0.max(0))));
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        let (mut left, room, mut steps) = (TURN, out.room(), 0);
        loop {
            if out.room() == 0 || left == 0 {
                return Ok(Progress::More);
            }
            let (candidates, are_all) = self.look();
            left = left.saturating_sub(candidates.len());
            let joined = self.join(&candidates)?;
            self.remember(&joined)?;
            out.count_search(Search {
                visited: std::mem::take(&mut self.visited),
                found: joined.pairs,
                ..Search::default()
            });
            if let Some(batch) = self.batch(&joined)? {
                out.emit(batch)?;
            }
            joined.gone.into_iter().for_each(|at| self.kept.release(at));
            if are_all {
                let lag = self.expire();
                out.count_search(Search { lag, ..Search::default() });
                if self.reached >= self.goes_to {
                    self.tell_spoilt(out);
                    return Ok(Progress::Done);
                }
                self.advance()?;
                steps += 1;
                if out.room() < room || steps == STEPS {
                    return Ok(Progress::More);
                }
                continue;
            }
            if candidates.len() < self.batch_rows {
                // Much was looked at, and little found.
                return Ok(Progress::More);
            }
        }
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}
