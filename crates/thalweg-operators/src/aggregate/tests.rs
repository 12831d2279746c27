//! State moves between instances by key group, in the middle of a stream, and nobody can tell from the rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use thalweg_core::{
    Batch, Frontier, Interval, KeyGroup, KeyGroups, Operator, Output, Progress, Result, Snapshot, Timestamp, Window,
    aggregate::Signature, expression::Expression, window::Grid,
};

use thalweg_memory::kernels::hash::hash_columns;

use super::{Aggregate, Call, Instants, Parts, functions::native, windowing::Windowing};
use crate::window::{Clock, WindowSpec};

#[derive(Debug)]
struct Column(usize);

impl Expression for Column {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        Ok(Arc::clone(batch.column(self.0)))
    }
}

const KEY_GROUPS: u16 = 16;

/// `sum(v)`, `count(DISTINCT v)` and `avg(v)` by the text `k`, over windows of 10 µs every 4 µs of the time `ts`.
fn operator() -> Aggregate {
    operator_over(Grid::new(Interval(10), Interval(4), Interval(0)).unwrap())
}

fn operator_over(grid: Grid) -> Aggregate {
    Aggregate::new(parts(grid, false)).unwrap()
}

/// Of an operator that takes rows, or merges the states of others.
pub fn parts(grid: Grid, merges: bool) -> Parts {
    let instant = DataType::Timestamp(TimeUnit::Microsecond, None);
    let spec = WindowSpec { time: 0, grid, clock: Clock::Utc, allowed: Interval(0), from_first_row: false };
    let whole = [DataType::Int64];
    let call = |name: &str, is_distinct: bool, output: &DataType| {
        let signature = Signature { name, arguments: &whole, is_distinct, output, exact_floats: true };
        Call { function: native(&signature).unwrap(), arguments: vec![Arc::new(Column(2)) as _], filter: None }
    };
    let (sum, average) = (DataType::Int64, DataType::Float64);
    let types = [&instant, &instant, &instant, &DataType::Utf8, &sum, &sum, &average];
    let fields = types.iter().enumerate().map(|(i, kind)| Field::new(format!("c{i}"), (*kind).clone(), true));
    Parts {
        windowing: Windowing::Assigned(spec),
        keys: vec![Arc::new(Column(1))],
        key_types: vec![DataType::Utf8],
        calls: vec![call("sum", false, &sum), call("count", true, &sum), call("avg", false, &average)],
        merges,
        output: SchemaRef::new(Schema::new(fields.collect::<Vec<_>>())),
        batch_rows: 5,
        key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
        divided_by: vec![0],
        has_positions: false,
    }
}

#[derive(Clone, Debug)]
pub struct Row(pub i64, pub Option<&'static str>, pub Option<i64>);

pub fn batch(rows: &[Row]) -> Batch {
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.0)))),
        ("k", Arc::new(StringArray::from_iter(rows.iter().map(|row| row.1)))),
        ("v", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2)))),
    ];
    Batch::new(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap())
}

/// The key group of each row, as a router would find it.
fn group_of(row: &Row) -> KeyGroup {
    let key: ArrayRef = Arc::new(StringArray::from(vec![row.1]));
    KeyGroups::new(KEY_GROUPS).unwrap().of(hash_columns(&[key], 1).unwrap()[0])
}

/// By instants of `ts`.
fn instants() -> Parts {
    parts(Grid::new(Interval(1), Interval(1), Interval(0)).unwrap(), false)
}

/// Instances with the rows that came out of any of them, as text.
struct Team {
    members: Vec<Box<dyn Operator>>,
    owner: Vec<usize>,
    found: Vec<String>,
}

impl Team {
    fn new(members: usize, make: &dyn Fn() -> Box<dyn Operator>) -> Self {
        let owner = (0..KEY_GROUPS as usize).map(|group| group % members).collect();
        Self { members: (0..members).map(|_| make()).collect(), owner, found: Vec::new() }
    }

    fn feed(&mut self, rows: &[Row]) {
        for member in 0..self.members.len() {
            let mine: Vec<Row> =
                rows.iter().filter(|row| self.owner[group_of(row).0 as usize] == member).cloned().collect();
            if !mine.is_empty() {
                self.call(member, |operator, out| operator.on_batch(0, batch(&mine), out));
            }
        }
    }

    fn time(&mut self, t: Timestamp) {
        let mut frontier = Frontier::new(1);
        frontier.advance(0, t);
        (0..self.members.len()).for_each(|member| self.call(member, |operator, out| operator.on_time(&frontier, out)));
    }

    fn call(&mut self, member: usize, call: impl FnOnce(&mut dyn Operator, &mut Output) -> Result<Progress>) {
        let mut out = Output::new(7);
        let mut progress = call(self.members[member].as_mut(), &mut out).unwrap();
        loop {
            for (_, batch) in out.take(7) {
                let columns = batch.columns().columns();
                let field =
                    |column: &ArrayRef, row: usize| arrow_cast::display::array_value_to_string(column, row).unwrap();
                let line = |row| columns.iter().map(|column| field(column, row)).collect::<Vec<_>>().join(" ");
                self.found.extend((0..batch.len()).map(line));
                assert!(batch.len() <= 5, "batches have their size");
            }
            match progress {
                Progress::More => progress = self.members[member].resume(&mut out).unwrap(),
                _ => break,
            }
        }
    }

    /// One key group goes to another member: saved, loaded there, forgotten here.
    fn hand_over(&mut self, group: KeyGroup, to: usize) {
        let from = std::mem::replace(&mut self.owner[group.0 as usize], to);
        if from == to {
            return;
        }
        let saved = self.members[from].state().unwrap().save(group).unwrap();
        assert_eq!(saved, self.members[from].state().unwrap().save(group).unwrap(), "saving leaves the state as it is");
        self.members[to].state().unwrap().load(group, &saved).unwrap();
        let state = self.members[from].state().unwrap();
        match group.0 % 2 {
            0 => state.forget(group).unwrap(),
            _ => assert_eq!(
                state.take(&[group]).unwrap(),
                std::slice::from_ref(&saved),
                "what is taken is what is saved"
            ),
        }
        let left = self.members[from].state().unwrap().save(group).unwrap();
        assert!(left.bytes() < saved.bytes() || saved == left, "nothing of the group is left");
    }
}

#[test]
fn key_groups_move_between_instances_and_the_rows_stay_the_same() {
    key_groups_move(&|| Box::new(operator()));
    key_groups_move(&|| Box::new(Instants::new(instants()).unwrap()));
}

fn key_groups_move(make: &dyn Fn() -> Box<dyn Operator>) {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut alone, mut team) = (Team::new(1, make), Team::new(3, make));
        let mut clock = 0;
        for _ in 0..60 {
            clock += random.random_range(0..6);
            let keys = [None, Some("a"), Some("b"), Some("c"), Some("d"), Some("e"), Some("f")];
            let row = |random: &mut StdRng| {
                let value = random.random_bool(0.9).then(|| random.random_range(-9..9));
                Row(clock + random.random_range(0..12), keys[random.random_range(0..keys.len())], value)
            };
            let rows: Vec<Row> = (0..random.random_range(0..20)).map(|_| row(&mut random)).collect();
            alone.feed(&rows);
            team.feed(&rows);
            match random.random_range(0..3) {
                0 => {
                    alone.time(Timestamp(clock));
                    team.time(Timestamp(clock));
                }
                1 => team.hand_over(KeyGroup(random.random_range(0..KEY_GROUPS)), random.random_range(0..3)),
                _ => {}
            }
        }
        alone.time(Timestamp::MAX);
        team.time(Timestamp::MAX);
        assert!(alone.found.len() > 50, "the stream has results");
        alone.found.sort();
        team.found.sort();
        assert_eq!(alone.found, team.found, "seed {seed}");
        assert!(team.members.iter_mut().all(|member| member.state().unwrap().held().is_empty()));
    }
}

/// All that an operator gives for a stream, as text with where each row stands, and how many rows were late.
fn given(mut operator: Box<dyn Operator>, seed: u64) -> (Vec<String>, u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut out, mut frontier) = (Output::new(3), Frontier::new(1));
    let (mut lines, mut clock, mut reached) = (Vec::new(), 0, i64::MIN);
    // How far time goes at once changes, and so does how long rows wait.
    for _ in 0..80 {
        let (pace, wait) = ([0, 1, 40, 3_000][random.random_range(0..4)], [2, 50, 2_000][random.random_range(0..3)]);
        clock += random.random_range(0..=pace);
        let row = |random: &mut StdRng| {
            let value = random.random_bool(0.9).then(|| random.random_range(-9..9));
            let key = [None, Some("a"), Some("b")][random.random_range(0..3)];
            Row(clock + random.random_range(-wait..wait), key, value)
        };
        let rows: Vec<Row> = (0..random.random_range(1..60)).map(|_| row(&mut random)).collect();
        let mut come = batch(&rows);
        if random.random_bool(0.3) {
            let kept = (0..rows.len() as u32).filter(|_| random.random_bool(0.5)).collect();
            come = come.with_selection(thalweg_core::Selection::new(kept));
        }
        if random.random_bool(0.3) {
            let behind = (0..rows.len()).map(|_| Timestamp(clock - random.random_range(0..wait)));
            come = come.with_behind(behind.collect());
        }
        let mut progress = operator.on_batch(0, come, &mut out).unwrap();
        if random.random_bool(0.5) {
            assert_eq!(progress, Progress::Done);
            reached = reached.max(clock - random.random_range(0..wait));
            frontier.advance(0, Timestamp(reached));
            progress = operator.on_time(&frontier, &mut out).unwrap();
        }
        finish(operator.as_mut(), &mut out, progress, &mut lines);
    }
    frontier.advance(0, Timestamp::MAX);
    let progress = operator.on_time(&frontier, &mut out).unwrap();
    finish(operator.as_mut(), &mut out, progress, &mut lines);
    assert_eq!((operator.state().unwrap().held(), out.held_at()), (Vec::new(), Timestamp::MAX));
    (lines, out.take_late())
}

/// Takes what an operator gives until it has finished, as text.
fn finish(operator: &mut dyn Operator, out: &mut Output, mut progress: Progress, lines: &mut Vec<String>) {
    loop {
        for (_, batch) in out.take(3) {
            let positions = batch.positions();
            let text = |column: &ArrayRef, row| arrow_cast::display::array_value_to_string(column, row).unwrap();
            for row in 0..batch.len() {
                let values: Vec<_> = batch.columns().columns().iter().map(|column| text(column, row)).collect();
                lines.push(format!("{} {:?}", values.join(" "), positions.map(|positions| positions.window(row))));
            }
            let ascends = |row: usize| positions.is_none_or(|all| all.compare(row - 1, all, row).is_lt());
            assert!((1..batch.len()).all(ascends));
        }
        match progress {
            Progress::More => progress = operator.resume(out).unwrap(),
            _ => break,
        }
    }
}

#[test]
fn instants_are_windows() {
    let mut late = 0;
    for seed in 0..200 {
        let parts = || {
            let mut parts = Parts { has_positions: true, batch_rows: [5, 400][seed as usize % 2], ..instants() };
            if let Windowing::Assigned(spec) = &mut parts.windowing {
                spec.allowed = Interval([0, 0, 30][seed as usize % 3]);
            }
            if seed % 5 == 0 {
                // By time alone, which one instance does.
                parts.has_positions = false;
                (parts.keys, parts.key_types, parts.divided_by) = (Vec::new(), Vec::new(), Vec::new());
                let fields = parts.output.fields().iter().enumerate().filter(|(i, _)| *i != 3);
                parts.output =
                    SchemaRef::new(Schema::new(fields.map(|(_, field)| Arc::clone(field)).collect::<Vec<_>>()));
            }
            parts
        };
        let expected = given(Box::new(Aggregate::new(parts()).unwrap()), seed);
        assert!(expected.0.len() > 50, "the stream has results");
        late += expected.1;
        let found = given(Box::new(Instants::new(parts()).unwrap()), seed);
        assert!(
            expected == found,
            "seed {seed}: {} and {} rows, {} and {} late",
            expected.0.len(),
            found.0.len(),
            expected.1,
            found.1
        );
    }
    assert!(late > 1_000);
}

/// Six windows of this length with two rows each: how many rows each batch has, after a look at where they say that they stand.
fn batches(size: i64, has_positions: bool) -> Vec<usize> {
    let grid = Grid::new(Interval(size), Interval(size), Interval(0)).unwrap();
    let mut operator = Aggregate::new(Parts { has_positions, ..parts(grid, false) }).unwrap();
    let rows: Vec<Row> = (0..6).flat_map(|i| ["b", "a"].map(|key| Row(i * size, Some(key), Some(i)))).collect();
    let (mut out, mut frontier) = (Output::new(7), Frontier::new(1));
    operator.on_batch(0, batch(&rows), &mut out).unwrap();
    frontier.advance(0, Timestamp::MAX);
    let mut progress = operator.on_time(&frontier, &mut out).unwrap();
    let mut batches: Vec<Batch> = out.take(7).into_iter().map(|(_, batch)| batch).collect();
    while progress == Progress::More {
        progress = operator.resume(&mut out).unwrap();
        batches.extend(out.take(7).into_iter().map(|(_, batch)| batch));
    }
    assert!(batches.iter().all(|batch| batch.positions().is_some() == has_positions));
    for batch in batches.iter().filter(|_| has_positions) {
        let (positions, starts) = (batch.positions().unwrap(), batch.times(0).unwrap());
        for row in 0..batch.len() {
            let start = Timestamp(starts.value(row));
            assert_eq!(positions.window(row), Window { start, end: start.plus(Interval(size)) });
            assert_eq!(positions.over(row), positions.window(row).end);
        }
        let ascend = |row: usize| positions.compare(row - 1, positions, row).is_lt();
        assert!((1..batch.len()).all(ascend));
    }
    batches.iter().map(Batch::len).collect()
}

#[test]
fn windows_with_few_rows_come_together_unless_each_is_to_say_where_it_stands() {
    assert_eq!(batches(1, false), [4, 4, 4]);
    assert_eq!(batches(10, false), [4, 4, 4]);
    assert_eq!(batches(1, true), [4, 4, 4]);
    assert_eq!(batches(10, true), [2, 2, 2, 2, 2, 2]);
}

#[test]
fn a_snapshot_of_another_query_or_version_is_refused() {
    let mut team = Team::new(1, &|| Box::new(operator()));
    team.feed(&[Row(1, Some("a"), Some(1))]);
    let group = group_of(&Row(1, Some("a"), None));
    let saved = team.members[0].state().unwrap().save(group).unwrap();
    let saved = saved.to_bytes().unwrap();
    let load = |bytes: &[u8]| operator().state().unwrap().load(group, &Snapshot::from_bytes(bytes)?);
    load(&saved).unwrap();
    for end in 0..saved.len() {
        // Cut between two panes it is a snapshot of fewer; anywhere else it is an error. It is never a panic.
        assert!(load(&saved[..end]).is_err() || end == 11, "cut at {end}");
    }
    let mut other = saved.clone();
    other[0] = 9;
    let error = load(&other).unwrap_err();
    assert_eq!(error.to_string(), "the snapshot has version 9, expected 1");
    // Groups of instants have their time as a key, and those of other windows have not.
    let mut by_instant = Team::new(1, &|| Box::new(Instants::new(instants()).unwrap()));
    let load_there = |operator: &mut dyn Operator, snapshot: &Snapshot| operator.state().unwrap().load(group, snapshot);
    let windows =
        Snapshot::from_bytes(&team.members[0].state().unwrap().save(group).unwrap().to_bytes().unwrap()).unwrap();
    assert!(load_there(by_instant.members[0].as_mut(), &windows).is_err());
    by_instant.feed(&[Row(1, Some("a"), Some(1))]);
    let saved = by_instant.members[0].state().unwrap().save(group).unwrap();
    assert!(load_there(team.members[0].as_mut(), &saved).is_err());
    let mut of_integers = Instants::new(Parts { key_types: vec![DataType::Int64], ..instants() }).unwrap();
    assert!(load_there(&mut of_integers, &saved).is_err());
}

/// Each row opens ten thousand windows of its own, so that the batch as a whole would take hundreds of megabytes.
#[test]
fn one_batch_does_not_exceed_the_memory_limit_by_much() {
    let limit = 1 << 20;
    let mut operator = operator_over(Grid::new(Interval(10_000), Interval(1), Interval(0)).unwrap());
    let rows: Vec<Row> = (0..2_000).map(|i| Row(i * 20_000, Some("a"), Some(i))).collect();
    let mut out = Output::new(7).with_memory_limit(Some(limit));
    let error = operator.on_batch(0, batch(&rows), &mut out).unwrap_err();
    assert!(error.message().contains("more than 'memory.limit' = 1048576"), "{error}");
    let bytes = operator.state().unwrap().bytes();
    assert!((limit..limit + (2 << 20)).contains(&bytes), "{bytes} bytes");
}
