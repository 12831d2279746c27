//! Nested loops over all rows give the same, however rows arrive, and wherever state moves. [`exact`]: sums of floats; [`bounded`]: memory.

mod bounded;
mod exact;
mod paired;

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray,
    cast::AsArray,
    types::{Int64Type, TimestampMicrosecondType},
};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use thalweg_core::{
    Batch, Frontier, Interval, KeyGroup, KeyGroups, Operator, Output, Part, Progress, PutOff, Result, Snapshot,
    Timestamp, aggregate::Signature, expression::Expression,
};
use thalweg_memory::kernels::hash::hash_columns;
use thalweg_plan::{
    node::{Distance, FrameBounds, JoinKind},
    parallel::share::Sharing,
    settings::JoinIndex,
};

use super::{EagerJoin, EagerOver, Frame, Input, IntervalJoin, Over, join, over, pairs::Condition};
use crate::aggregate::{Call, functions::native};

#[derive(Debug)]
struct Column(usize);

impl Expression for Column {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        Ok(Arc::clone(batch.column(self.0)))
    }

    fn column(&self) -> Option<usize> {
        Some(self.0)
    }
}

/// Whether the value of the left row is less than that of the right one; null where one of them is.
#[derive(Debug)]
struct Less;

impl Expression for Less {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        let value = |column: usize| batch.column(column).as_primitive::<Int64Type>();
        let pairs = value(2).iter().zip(value(6).iter());
        Ok(Arc::new(arrow_array::BooleanArray::from_iter(pairs.map(|(left, right)| Some(left? < right?)))))
    }
}

pub(super) const KEY_GROUPS: u16 = 8;

/// How far rows are out of order.
const DISORDER: i64 = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub time: i64,
    pub key: Option<i64>,
    pub value: Option<i64>,
    pub position: i64,
}

pub(super) fn fields() -> Vec<Field> {
    let kinds = [DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Int64, DataType::Int64, DataType::Int64];
    kinds.into_iter().enumerate().map(|(i, kind)| Field::new(format!("c{i}"), kind, true)).collect()
}

pub(super) fn batch(rows: &[Row]) -> Batch {
    let whole = |of: &dyn Fn(&Row) -> Option<i64>| Arc::new(Int64Array::from_iter(rows.iter().map(of))) as ArrayRef;
    let columns = vec![
        Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.time))) as ArrayRef,
        whole(&|row| row.key),
        whole(&|row| row.value),
        whole(&|row| Some(row.position)),
    ];
    Batch::new(RecordBatch::try_new(Arc::new(Schema::new(fields())), columns).unwrap())
}

fn group_of(row: &Row) -> KeyGroup {
    let key: ArrayRef = Arc::new(Int64Array::from(vec![row.key]));
    KeyGroups::new(KEY_GROUPS).unwrap().of(hash_columns(&[key], 1).unwrap()[0])
}

pub(super) fn input() -> Input {
    Input { time: 0, position: Some(3), has_own_positions: true, keys: vec![Arc::new(Column(1))] }
}

pub(super) fn calls() -> Vec<Call> {
    let call = |name: &str, output: DataType| {
        let signature =
            Signature { name, arguments: &[DataType::Int64], is_distinct: false, output: &output, exact_floats: true };
        Call { function: native(&signature).unwrap(), arguments: vec![Arc::new(Column(2)) as _], filter: None }
    };
    let times = Signature {
        name: "count",
        arguments: &[fields()[0].data_type().clone()],
        is_distinct: true,
        output: &DataType::Int64,
        exact_floats: true,
    };
    let times = Call { function: native(&times).unwrap(), arguments: vec![Arc::new(Column(0)) as _], filter: None };
    vec![call("count", DataType::Int64), call("sum", DataType::Int64), call("min", DataType::Int64), times]
}

/// Aggregates over rows around those of the first input, each port of which is one input.
fn asked(
    inputs: Vec<over::OverInput>,
    frames: Vec<(Frame, usize)>,
    output: SchemaRef,
    batch_rows: usize,
) -> over::Parts {
    over::Parts {
        input_of: (0..inputs.len()).collect(),
        inputs,
        key_types: vec![DataType::Int64],
        passes: (0..fields().len()).collect(),
        frames,
        paired: Vec::new(),
        output,
        batch_rows,
        key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
        divided_by: vec![0],
        has_positions: false,
        are_in_order: true,
        allowed: Interval(0),
        is_incremental: true,
        tells_spoilt: false,
        partners: None,
        of_results: false,
        corrected: None,
    }
}

/// Rows of two inputs, each in an order that is off by [`DISORDER`] at most.
fn rows(random: &mut StdRng, count: usize, keys: i64) -> [Vec<Row>; 2] {
    [0, 1].map(|_| {
        let row = |position: usize| {
            let time = position as i64 / 2 + random.random_range(0..DISORDER);
            let time = if position.is_multiple_of(7) { time / 5 * 5 } else { time };
            Row {
                time: time.max(position as i64 / 2),
                key: random.random_bool(0.9).then(|| random.random_range(0..keys)),
                value: random.random_bool(0.9).then(|| random.random_range(-5..20)),
                position: position as i64,
            }
        };
        (0..count).map(row).collect()
    })
}

/// Instances that share rows by key group, and what came out of each.
pub(super) struct Team<'a> {
    make: &'a dyn Fn() -> Box<dyn Operator>,
    pub members: Vec<Box<dyn Operator>>,
    /// Who has each key group: several, if the rows of both inputs are shared so.
    owners: Vec<Vec<usize>>,
    sharing: Option<[Sharing; 2]>,
    pub found: Vec<Vec<String>>,
    /// How far the last member that said so lets time pass.
    pub held: Timestamp,
    frontier: Frontier,
}

impl Team<'_> {
    pub fn new(make: &dyn Fn() -> Box<dyn Operator>, members: usize) -> Team<'_> {
        Team {
            make,
            members: (0..members).map(|_| make()).collect(),
            owners: (0..KEY_GROUPS as usize).map(|group| vec![group % members]).collect(),
            sharing: None,
            found: vec![Vec::new(); members],
            held: Timestamp::MIN,
            frontier: Frontier::new(2),
        }
    }

    pub fn put(&mut self, port: usize, rows: &[Row], room: usize) {
        for member in 0..self.members.len() {
            let mine = rows.iter().filter(|row| self.owners[group_of(row).0 as usize] == [member]).copied();
            self.put_some(member, port, &mine.collect::<Vec<_>>(), None, room);
        }
        for group in 0..KEY_GROUPS as usize {
            let owners = self.owners[group].clone();
            let (Some(sharing), 2..) = (self.sharing, owners.len()) else { continue };
            let rows: Vec<Row> = rows.iter().filter(|row| group_of(row).0 as usize == group).copied().collect();
            for (place, member) in owners.iter().enumerate() {
                let own = rows.len() * place / owners.len()..rows.len() * (place + 1) / owners.len();
                let (some, own) = match sharing[port] {
                    Sharing::Dealt => (&rows[own], None),
                    Sharing::Answered => (&rows[..], Some(own)),
                    Sharing::Seen => (&rows[..], Some(if place == 0 { 0..rows.len() } else { 0..0 })),
                };
                self.put_some(*member, port, some, own, room);
            }
        }
    }

    /// One member gets rows, of which these are its own.
    fn put_some(&mut self, member: usize, port: usize, rows: &[Row], own: Option<Range<usize>>, room: usize) {
        if !rows.is_empty() {
            let batch = own.map_or_else(|| batch(rows), |own| batch(rows).with_own(own));
            self.call(member, room, |operator, out| operator.on_batch(port, batch.clone(), out));
        }
    }

    pub fn advance(&mut self, port: usize, time: Timestamp, room: usize) {
        if self.frontier.advance(port, time) {
            let frontier = self.frontier.clone();
            (0..self.members.len()).for_each(|m| self.call(m, room, |operator, out| operator.on_time(&frontier, out)));
        }
    }

    /// Nothing else is to be done, for a short time; returns whether all was done that was put off.
    pub fn catch_up(&mut self, room: usize) -> bool {
        let puts_off = |operator: &dyn Operator| operator.put_off() > PutOff::Nothing;
        for member in 0..self.members.len() {
            if puts_off(self.members[member].as_ref()) {
                self.call(member, room, |operator, out| operator.catch_up(out));
            }
        }
        !self.members.iter().any(|member| puts_off(member.as_ref()))
    }

    pub fn call(
        &mut self,
        member: usize,
        room: usize,
        call: impl Fn(&mut dyn Operator, &mut Output) -> Result<Progress>,
    ) {
        let mut out = Output::new(room);
        let operator = self.members[member].as_mut();
        let mut progress = call(operator, &mut out).unwrap();
        loop {
            for (_, batch) in out.take(room) {
                if let Some(positions) = batch.positions() {
                    let in_order = (1..batch.len()).all(|row| positions.compare(row - 1, positions, row).is_lt());
                    assert!(in_order, "positions follow each other: {batch:?}");
                }
                self.found[member].extend((0..batch.len()).map(|row| text(&batch, row)));
            }
            if progress != Progress::More {
                break;
            }
            progress = operator.resume(&mut out).unwrap();
        }
        assert_eq!(out.take_late(), 0);
        self.held = Some(out.held_at()).filter(|held| *held < Timestamp::MAX).unwrap_or(self.held);
    }

    /// What the runtime does before state is saved.
    fn flush(&mut self) {
        (0..self.members.len()).for_each(|member| self.call(member, 5, |operator, out| operator.flush(out)));
    }

    /// Key groups move to other instances.
    fn deal(&mut self, random: &mut StdRng) {
        self.flush();
        for group in (0..KEY_GROUPS).map(KeyGroup) {
            let to = random.random_range(0..self.members.len());
            if self.sharing.is_some() && random.random_bool(0.7) {
                self.share(group, to, random);
                continue;
            }
            let &[from] = &self.owners[group.0 as usize][..] else { continue };
            let state = self.members[from].state().unwrap();
            let mut saved = state.save(group).unwrap();
            if from == to && random.random_bool(0.5) {
                continue;
            }
            match random.random_bool(0.5) {
                true => state.forget(group).unwrap(),
                false => {
                    // Others may go with it, and come back.
                    let other = KeyGroup((group.0 + 1) % KEY_GROUPS);
                    let taken = state.take(&[other, group]).unwrap();
                    assert_eq!(taken[1], saved, "what is taken is what is saved");
                    state.load(other, &taken[0]).unwrap();
                    saved = taken[1].clone();
                }
            }
            self.members[to].state().unwrap().load(group, &saved).unwrap();
            self.owners[group.0 as usize] = vec![to];
        }
    }

    /// Some members share a group, or do so no more.
    fn share(&mut self, group: KeyGroup, heir: usize, random: &mut StdRng) {
        let before = self.owners[group.0 as usize].clone();
        let mut after = vec![heir];
        after.extend((0..self.members.len()).filter(|member| *member != heir && random.random_bool(0.5)));
        let mut part = |from: usize, part| self.members[from].state().unwrap().save_part(group, part).unwrap();
        let come = after.iter().filter(|member| !before.contains(member));
        let seen: Vec<(usize, Snapshot)> = come.map(|member| (*member, part(before[0], Part::Seen))).collect();
        let go: Vec<usize> = before.iter().filter(|member| !after.contains(member)).copied().collect();
        let waiting: Vec<Snapshot> = go.iter().map(|member| part(*member, Part::Waiting)).collect();
        go.iter().for_each(|member| self.members[*member].state().unwrap().forget(group).unwrap());
        for (member, saved) in seen.into_iter().chain(waiting.into_iter().map(|waiting| (heir, waiting))) {
            let saved = Snapshot::from_bytes(&saved.to_bytes().unwrap()).unwrap();
            self.members[member].state().unwrap().load(group, &saved).unwrap();
        }
        self.owners[group.0 as usize] = after;
    }

    /// All goes on with fresh operators.
    pub fn restart(&mut self) {
        self.flush();
        let groups = || (0..KEY_GROUPS).map(KeyGroup);
        for member in 0..self.members.len() {
            let mut fresh = (self.make)();
            let state = self.members[member].state().unwrap();
            for group in groups() {
                let bytes = state.save(group).unwrap().to_bytes().unwrap();
                fresh.state().unwrap().load(group, &Snapshot::from_bytes(&bytes).unwrap()).unwrap();
            }
            self.members[member] = fresh;
        }
    }
}

fn text(batch: &Batch, row: usize) -> String {
    let columns = batch.columns().columns().iter().map(|column| match column.is_null(row) {
        true => "-".to_string(),
        false => match column.as_primitive_opt::<TimestampMicrosecondType>() {
            Some(times) => times.value(row).to_string(),
            None => array_value_to_string(column, row).unwrap(),
        },
    });
    columns.collect::<Vec<_>>().join(" ")
}

/// What comes out, of one instance in its order, or of several, sorted.
fn run(
    make: &dyn Fn() -> Box<dyn Operator>,
    [left, right]: &[Vec<Row>; 2],
    random: &mut StdRng,
    members: usize,
) -> Vec<String> {
    run_team(Team::new(make, members), [left, right], random)
}

/// What comes out, sorted, of three instances that may share the rows of a key so.
fn run_shared(
    make: &dyn Fn() -> Box<dyn Operator>,
    [left, right]: &[Vec<Row>; 2],
    random: &mut StdRng,
    sharing: [Sharing; 2],
) -> Vec<String> {
    run_team(Team { sharing: Some(sharing), ..Team::new(make, 3) }, [left, right], random)
}

fn run_team(mut team: Team<'_>, [left, right]: [&Vec<Row>; 2], random: &mut StdRng) -> Vec<String> {
    let members = team.members.len();
    let mut read = [0, 0];
    let inputs = [left, right];
    while read[0] < left.len() || read[1] < right.len() {
        let port = random.random_range(0..2);
        let end = inputs[port].len().min(read[port] + random.random_range(1..40));
        let room = random.random_range(1..50);
        team.put(port, &inputs[port][read[port]..end], room);
        read[port] = end;
        let latest = inputs[port][..end].iter().map(|row| row.time).max();
        if let Some(latest) = latest.filter(|_| random.random_bool(0.6)) {
            team.advance(port, Timestamp(latest - DISORDER), room);
        }
        match random.random_range(0..20) {
            0 if members > 1 => team.deal(random),
            1 => team.restart(),
            2..6 => drop(team.catch_up(room)),
            _ => {}
        }
    }
    [0, 1].into_iter().for_each(|port| team.advance(port, Timestamp::MAX, 7));
    // Nothing is left but memory.
    for member in &mut team.members {
        assert!(
            member.state().unwrap().held().iter().all(|held| held.count < 1 << 40),
            "{:?}",
            member.state().unwrap().held()
        );
    }
    let mut found = team.found.concat();
    if members > 1 {
        found.sort();
    }
    found
}

/// The rows, sorted, that are left of those that end with what becomes of them.
pub(super) fn folded(rows: Vec<String>) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    for row in rows {
        let (row, op) = row.rsplit_once(' ').unwrap();
        match op {
            "+I" | "+U" => left.push(row.to_string()),
            _ => {
                let found = left.iter().rposition(|other| other == row);
                left.swap_remove(found.unwrap_or_else(|| panic!("{op} {row:?} takes out what is not there")));
            }
        }
    }
    left.sort();
    left
}

/// The columns of eager results.
pub(super) fn with_op(columns: &Schema) -> SchemaRef {
    let fields = columns.fields().iter().cloned().chain([Arc::new(Field::new("op", DataType::Utf8, false))]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Says where two results differ first.
fn same(found: &[String], expected: &[String], what: &str) {
    let differ = (0..found.len().max(expected.len())).find(|row| found.get(*row) != expected.get(*row));
    if let Some(row) = differ {
        panic!("{what}: row {row} is {:?}, expected {:?}", found.get(row), expected.get(row));
    }
}

fn show(value: Option<i64>) -> String {
    value.map_or("-".to_string(), |value| value.to_string())
}

fn shown(row: Option<&Row>) -> String {
    match row {
        None => "- - - -".to_string(),
        Some(row) => format!("{} {} {} {}", row.time, show(row.key), show(row.value), row.position),
    }
}

fn in_time(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (row.time, row.position));
    rows
}

/// What nested loops join, in order; rows of a full join without a left row at the end.
fn joined(kind: JoinKind, distance: Distance, has_condition: bool, left: &[Row], right: &[Row]) -> Vec<String> {
    let are_pair = |left: &Row, right: &Row| {
        let behind = right.time - left.time;
        left.key.is_some()
            && left.key == right.key
            && distance.from.0 <= behind
            && behind <= distance.to.0
            && (!has_condition || left.value.zip(right.value).is_some_and(|(left, right)| left < right))
    };
    let (left, right) = (in_time(left), in_time(right));
    let mut found = Vec::new();
    if kind == JoinKind::Right {
        for row in &right {
            let partners: Vec<_> = left.iter().filter(|other| are_pair(other, row)).collect();
            found.extend(partners.iter().map(|other| format!("{} {}", shown(Some(other)), shown(Some(row)))));
            found.extend(partners.is_empty().then(|| format!("{} {}", shown(None), shown(Some(row)))));
        }
        return found;
    }
    for row in &left {
        let partners: Vec<_> = right.iter().filter(|other| are_pair(row, other)).collect();
        match kind {
            JoinKind::Semi => found.extend((!partners.is_empty()).then(|| shown(Some(row)))),
            JoinKind::Anti => found.extend(partners.is_empty().then(|| shown(Some(row)))),
            _ => found.extend(partners.iter().map(|other| format!("{} {}", shown(Some(row)), shown(Some(other))))),
        }
        let is_alone = partners.is_empty() && matches!(kind, JoinKind::Left | JoinKind::Full);
        found.extend(is_alone.then(|| format!("{} {}", shown(Some(row)), shown(None))));
    }
    let lonely = right.iter().filter(|row| kind == JoinKind::Full && !left.iter().any(|other| are_pair(other, row)));
    found.extend(lonely.map(|row| format!("{} {}", shown(None), shown(Some(row)))));
    found
}

#[test]
fn a_join_gives_the_pairs_of_nested_loops() {
    for seed in 0..300 {
        let random = &mut StdRng::seed_from_u64(seed);
        let kinds = [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];
        let kind = *kinds.choose(random).unwrap();
        let distances = [(-5, 3), (0, 0), (2, 9), (-12, -4), (-40, 40), (3, -3)];
        let (from, to) = *distances.choose(random).unwrap();
        let distance = Distance { from: Interval(from), to: Interval(to) };
        let has_condition = random.random_bool(0.5);
        let index = JoinIndex::ALL.choose(random).unwrap();
        let count = random.random_range(0..300);
        let keys = *[1, 5, 40].choose(random).unwrap();
        let rows = rows(random, count, keys);
        let pair: SchemaRef = Arc::new(Schema::new([fields(), fields()].concat()));
        let only_left = matches!(kind, JoinKind::Semi | JoinKind::Anti);
        let types: Vec<_> = fields().iter().map(|field| field.data_type().clone()).collect();
        let output = if only_left { Arc::new(Schema::new(fields())) } else { Arc::clone(&pair) };
        let parts = |output: SchemaRef| join::Parts {
            kind,
            inputs: [input(), input()].map(|input| Input { has_own_positions: seed % 4 == 0, ..input }),
            input_of: vec![0, 1],
            types: [types.clone(), types.clone()],
            key_types: vec![DataType::Int64],
            distance,
            condition: has_condition.then(|| Condition { predicate: Arc::new(Less), pair: Arc::clone(&pair) }),
            output,
            batch_rows: 9,
            key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
            has_positions: seed % 2 == 0,
            allowed: Interval(0),
            index: *index,
            tells_spoilt: false,
        };
        let make = || Box::new(IntervalJoin::new(parts(Arc::clone(&output))).unwrap()) as Box<dyn Operator>;
        let eager = || Box::new(EagerJoin::new(parts(with_op(&output))).unwrap()) as Box<dyn Operator>;
        let mut expected = joined(kind, distance, has_condition, &rows[0], &rows[1]);
        let mut found = run(&make, &rows, random, 1);
        if kind == JoinKind::Full {
            expected.sort();
            found.sort();
        }
        same(&found, &expected, &format!("seed {seed}: {kind:?} {distance:?}"));
        expected.sort();
        let found = run(&make, &rows, random, 3);
        same(&found, &expected, &format!("seed {seed}: {kind:?} {distance:?}, three instances"));
        for members in [1, 3] {
            let found = folded(run(&eager, &rows, random, members));
            same(&found, &expected, &format!("seed {seed}: {kind:?} {distance:?}, eager, {members} instances"));
        }
        let sharing = match kind {
            JoinKind::Full => [Sharing::Answered; 2],
            JoinKind::Right => [Sharing::Seen, Sharing::Dealt],
            _ => [Sharing::Dealt, Sharing::Seen],
        };
        let found = run_shared(&make, &rows, random, sharing);
        same(&found, &expected, &format!("seed {seed}: {kind:?} {distance:?}, shared"));
        let found = folded(run_shared(&eager, &rows, random, sharing));
        same(&found, &expected, &format!("seed {seed}: {kind:?} {distance:?}, eager, shared"));
    }
}

/// Each base row, in order, with the rows of both inputs, or of the first only, that nested loops say it sees.
fn seen_by(frame: &Frame, base: &[Row], others: &[Row]) -> Vec<(Row, Vec<Row>)> {
    let all = others.iter().map(|row| (row, 0)).chain(base.iter().map(|row| (row, 1)));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(row, input)| (row.time, *input, row.position));
    let seen = |row: &Row| {
        let own = all.iter().position(|(other, input)| *input == 1 && other.position == row.position).unwrap();
        let of_key: Vec<usize> = (0..all.len()).filter(|place| all[*place].0.key == row.key).collect();
        let is_seen = |place: &usize| {
            let (other, input) = all[*place];
            let is_itself = *place == own;
            let behind = other.time - row.time;
            let is_near = match frame.bounds {
                FrameBounds::Range { from, to } => from.is_none_or(|from| from.0 <= behind) && behind <= to.0,
                FrameBounds::Rows { to, .. } => *place < own || to == 0 && *place == own,
            };
            is_near
                && !(is_itself && frame.excludes_row)
                && (is_itself || !(frame.excludes_time && behind == 0 || frame.excludes_base && input == 1))
        };
        let mut seen: Vec<usize> = of_key.into_iter().filter(is_seen).collect();
        if let FrameBounds::Rows { from, to } = frame.bounds {
            seen.truncate(seen.len().saturating_sub(to.saturating_sub(1)));
            let most = from.map(|from| from + usize::from(to == 0 && !frame.excludes_row) - to.saturating_sub(1));
            seen.drain(..seen.len().saturating_sub(most.unwrap_or(usize::MAX)));
        }
        if let Some(most) = frame.most {
            seen.drain(..seen.len().saturating_sub(most));
        }
        (*row, seen.into_iter().map(|place| *all[place].0).collect())
    };
    in_time(base).iter().map(seen).collect()
}

/// What nested loops aggregate over the rows of both inputs, or of the first only.
fn aggregated(frame: &Frame, base: &[Row], others: &[Row]) -> Vec<String> {
    let result = |(row, seen): (Row, Vec<Row>)| {
        let times: BTreeSet<i64> = seen.iter().map(|other| other.time).collect();
        let values: Vec<i64> = seen.iter().filter_map(|other| other.value).collect();
        let sum = (!values.is_empty()).then(|| values.iter().sum());
        let least = show(values.iter().min().copied());
        format!("{} {} {} {least} {}", shown(Some(&row)), values.len(), show(sum), times.len())
    };
    seen_by(frame, base, others).into_iter().map(result).collect()
}

#[test]
fn aggregates_over_the_rows_around_a_row_are_those_of_nested_loops() {
    for seed in 0..300 {
        let random = &mut StdRng::seed_from_u64(seed);
        let range = |from: i64, to| FrameBounds::Range { from: Some(Interval(from)), to: Interval(to) };
        let numbered = |from, to| FrameBounds::Rows { from, to };
        let bounds = [
            range(-7, 0),
            range(-5, 6),
            range(0, 0),
            range(-20, -3),
            range(2, 8),
            range(-60, 0),
            FrameBounds::Range { from: None, to: Interval(0) },
            FrameBounds::Range { from: None, to: Interval(-9) },
            FrameBounds::Range { from: None, to: Interval(6) },
            numbered(Some(3), 0),
            numbered(Some(0), 0),
            numbered(None, 0),
            numbered(Some(3), 1),
            numbered(Some(5), 3),
            numbered(Some(2), 2),
            numbered(None, 1),
            numbered(None, 4),
        ];
        let frame = |random: &mut StdRng| Frame {
            bounds: *bounds.choose(random).unwrap(),
            most: random.random_bool(0.2).then(|| random.random_range(0..5)),
            excludes_row: random.random_bool(0.2),
            excludes_time: random.random_bool(0.2),
            excludes_base: random.random_bool(0.3),
        };
        let mut frames = [frame(random), frame(random)];
        // Without others, counts and sums over a span need no index.
        let aggregates = if seed % 2 == 1 { 2 } else { calls().len() };
        if aggregates == 2 && random.random_bool(0.8) {
            frames.iter_mut().for_each(|frame| {
                (frame.bounds, frame.most) = (*bounds[..6].choose(random).unwrap(), None);
                (frame.excludes_row, frame.excludes_time) = (false, false);
            });
            let excludes_base = random.random_bool(0.5);
            frames.iter_mut().for_each(|frame| frame.excludes_base = excludes_base);
        }
        let is_union = random.random_bool(0.6);
        let keys = *[1, 5, 40].choose(random).unwrap();
        let count = random.random_range(0..250);
        let mut rows = rows(random, count, keys);
        if !is_union {
            rows[1].clear();
        }
        let whole = (0..2 * aggregates).map(|i| Field::new(format!("a{i}"), DataType::Int64, true));
        // Perhaps without the value.
        let passes = if seed % 3 == 0 { vec![0, 1, 3] } else { vec![0, 1, 2, 3] };
        let passed = passes.iter().map(|column: &usize| fields()[*column].clone());
        let output: SchemaRef = Arc::new(Schema::new(passed.chain(whole).collect::<Vec<_>>()));
        let parts = |output: SchemaRef| {
            let calls = [&calls()[..aggregates], &calls()[..aggregates]].concat();
            let input = || Input { has_own_positions: seed % 4 == 0, ..input() };
            let over = || over::OverInput { input: input(), calls: calls.clone() };
            over::Parts {
                passes: passes.clone(),
                has_positions: seed % 2 == 0,
                is_incremental: seed % 7 != 0,
                ..asked(
                    vec![over(), over()],
                    frames.iter().map(|frame| (frame.clone(), aggregates)).collect(),
                    output,
                    9,
                )
            }
        };
        let make = || Box::new(Over::new(parts(Arc::clone(&output))).unwrap()) as Box<dyn Operator>;
        let eager = || Box::new(EagerOver::new(parts(with_op(&output))).unwrap()) as Box<dyn Operator>;
        let [one, two] = frames.each_ref().map(|frame| aggregated(frame, &rows[0], &rows[1]));
        let both = one.iter().zip(&two).map(|(one, two)| {
            let of_frame = |skipped| move |(column, _): &(usize, &str)| (skipped..4 + aggregates).contains(column);
            let of_one = one.split(' ').enumerate().filter(of_frame(0));
            let values = of_one.chain(two.split(' ').enumerate().filter(of_frame(4)));
            let shown = values.filter(|(column, _)| *column > 3 || passes.contains(column));
            shown.map(|(_, value)| value).collect::<Vec<_>>().join(" ")
        });
        let mut expected: Vec<String> = both.collect();
        same(&run(&make, &rows, random, 1), &expected, &format!("seed {seed}: {frames:?}"));
        expected.sort();
        same(&run(&make, &rows, random, 3), &expected, &format!("seed {seed}: {frames:?}, three instances"));
        let in_any_order = || over::Parts { are_in_order: false, has_positions: false, ..parts(Arc::clone(&output)) };
        let any = || Box::new(Over::new(in_any_order()).unwrap()) as Box<dyn Operator>;
        let found = run(&any, &rows, random, 3);
        same(&found, &expected, &format!("seed {seed}: {frames:?}, three instances, in any order"));
        for members in [1, 3] {
            let found = folded(run(&eager, &rows, random, members));
            same(&found, &expected, &format!("seed {seed}: {frames:?}, eager, {members} instances"));
        }
        let is_base_seen = frames.iter().any(|frame| !frame.excludes_base);
        let sharing = [if is_base_seen { Sharing::Answered } else { Sharing::Dealt }, Sharing::Seen];
        let found = run_shared(&make, &rows, random, sharing);
        same(&found, &expected, &format!("seed {seed}: {frames:?}, shared"));
        let found = folded(run_shared(&eager, &rows, random, sharing));
        same(&found, &expected, &format!("seed {seed}: {frames:?}, eager, shared"));
    }
}
