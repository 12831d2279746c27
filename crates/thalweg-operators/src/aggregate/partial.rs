//! The first phase of an aggregate: whoever sends rows aggregates them before they travel.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use thalweg_core::{
    Batch, Frontier, Held, KeyGroup, Operator, Output, Port, Progress, Result, Snapshot, State, Timestamp,
    aggregate::Aggregate as Function, expression::Expression,
};

use super::{
    Call,
    groups::KeyEncoder,
    held,
    instants::{self, timed},
    pane::{Arrivals, Pane},
    placing::Rows,
    spans::{Spans, named},
    values::Values,
    windowing::{PaneId, Windowing},
};

/// Aggregates the rows of one instance, and puts out the states of its groups when the first window that sees them closes, for an
/// [`Aggregate`](super::Aggregate) that merges the states of all instances.
///
/// What it holds it puts out before a barrier, so that nothing of it has to be saved, before idleness, when there are too many groups
/// to go on with, and when the input ends. Where most rows turn out to be groups of their own, they pass as states one by one.
///
/// Shape:  row → the columns that name its pane ([`Windowing::name`]), the keys, the states of the aggregates.
/// State:  the groups of open windows, [`MOST_GROUPS`] at most and those of one batch; none behind a flush.
/// Errors: what an expression or an aggregate gives for a row it cannot be computed for.
/// Source: Gray et al., "Data Cube": aggregates that are distributive or algebraic; Leis et al., "Morsel-Driven Parallelism", for tables
///         that are put out when they are full.
pub struct Partial {
    windowing: Windowing,
    keys: Vec<Arc<dyn Expression>>,
    calls: Vec<Call>,
    functions: Vec<Arc<dyn Function>>,
    encoder: KeyEncoder,
    output: SchemaRef,
    batch_rows: usize,
    panes: BTreeMap<PaneId, Pane>,
    /// Which instants are in a pane, where windows are instants: their groups have their time as the first key.
    spans: Option<Spans>,
    reached: Timestamp,
    /// Panes that are to be put out.
    leaving: VecDeque<(PaneId, Pane)>,
    /// The states of one of them that are not put out yet.
    rest: Option<RecordBatch>,
    /// A pane without groups, with memory for as many as another one had.
    spare: Option<Pane>,
    gain: Gain,
}

/// So many groups are held at most.
pub const MOST_GROUPS: usize = 1 << 18;

/// So many panes are held at most: each takes memory for itself.
const MOST_PANES: usize = 1 << 10;

/// How a [`Partial`] is made; the fields are those of an [`Aggregate`](super::Aggregate)'s [`Parts`](super::Parts).
pub struct Parts {
    /// Which rows belong together in time.
    pub windowing: Windowing,
    /// The grouping keys.
    pub keys: Vec<Arc<dyn Expression>>,
    /// Their types.
    pub key_types: Vec<DataType>,
    /// The aggregates.
    pub calls: Vec<Call>,
    /// The output columns.
    pub output: SchemaRef,
    /// How many rows an emitted batch has at most.
    pub batch_rows: usize,
}

impl Partial {
    /// An operator without rows.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts { windowing, keys, key_types, calls, output, batch_rows } = parts;
        let spans = Spans::of(&windowing);
        let key_types = if spans.is_some() { timed(&key_types) } else { key_types };
        Ok(Self {
            encoder: KeyEncoder::new(&key_types)?,
            functions: calls.iter().map(|call| Arc::clone(&call.function)).collect(),
            spans,
            windowing,
            keys,
            calls,
            output,
            batch_rows,
            panes: BTreeMap::new(),
            reached: Timestamp::MIN,
            leaving: VecDeque::new(),
            rest: None,
            spare: None,
            gain: Gain::default(),
        })
    }

    /// Puts rows of a batch into a pane.
    fn add(&mut self, id: PaneId, rows: &Rows, values: &Values) -> Result<()> {
        let values = values.of(rows)?;
        let Values { keys, count, arguments, filters } = values.as_ref();
        let keys = &self.encoder.encode(keys, *count)?;
        let pane = match self.panes.entry(id) {
            std::collections::btree_map::Entry::Occupied(pane) => pane.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => place.insert(match self.spare.take() {
                Some(pane) => pane,
                None => Pane::new(&self.functions, &self.encoder)?,
            }),
        };
        self.gain.rows += count;
        pane.add(&self.functions, &Arrivals { keys, count: *count, arguments, filters })
    }

    /// Each row as the state of a group of its own.
    fn each(&self, panes: &[(PaneId, Rows)], values: &Values) -> Result<RecordBatch> {
        let mut parts = Vec::with_capacity(panes.len());
        for (id, rows) in panes {
            let values = values.of(rows)?;
            let groups: Vec<u32> = (0..values.count as u32).collect();
            let mut columns = self.named(*id, values.keys.clone(), values.count)?;
            for (i, function) in self.functions.iter().enumerate() {
                let mut accumulator = function.accumulator()?;
                accumulator.update(&values.arguments[i], values.filters[i].as_ref(), &groups, groups.len())?;
                columns.extend(accumulator.take_state()?);
            }
            parts.push(self.batch(columns, values.count)?);
        }
        Ok(concat_batches(&self.output, &parts)?)
    }

    /// The columns that name a pane, and the others, of so many rows: a time that is the first of these names it.
    fn named(&self, id: PaneId, columns: Vec<ArrayRef>, rows: usize) -> Result<Vec<ArrayRef>> {
        let (names, others) = match &self.spans {
            Some(_) => (named(&columns[0])?.to_vec(), &columns[1..]),
            None => (self.windowing.name(id, rows), &columns[..]),
        };
        Ok(names.into_iter().chain(others.iter().cloned()).collect())
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &rows)?)
    }

    /// Lets go of the panes that a window sees which is closed where time has come to `reached`; of all without one.
    fn leave(&mut self, reached: Option<Timestamp>) {
        let Self { panes, leaving, windowing, spans, .. } = self;
        let stays = |id: &PaneId| reached.is_some_and(|reached| !windowing.is_closed(id.first_end, reached));
        while let Some(pane) = panes.first_entry().filter(|pane| !stays(pane.key())) {
            spans.iter_mut().for_each(|spans| spans.leave(*pane.key()));
            leaving.push_back(pane.remove_entry());
        }
    }

    fn groups(&self) -> usize {
        self.panes.values().map(Pane::count).sum()
    }
}

impl Operator for Partial {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let values = Values::new(&self.keys, &self.calls, &batch)?;
        let (values, assigned) = match &mut self.spans {
            Some(spans) => (spans.timed(values, &batch)?, spans.assign(&batch)?),
            None => (values, self.windowing.assign(&batch, self.reached)?),
        };
        out.count_late(assigned.late);
        if assigned.panes.is_empty() {
            return Ok(Progress::Done);
        }
        if self.gain.passes(values.count) {
            // Nobody says that a batch is full: what one batch gives is one batch.
            return out.emit(Batch::new(self.each(&assigned.panes, &values)?));
        }
        for (id, rows) in assigned.panes {
            self.add(id, &rows, &values)?;
        }
        match self.groups() > MOST_GROUPS || self.panes.len() > MOST_PANES {
            true => self.flush(out),
            false => Ok(Progress::Done),
        }
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.reached = frontier.combined();
        self.spans.iter_mut().for_each(|spans| spans.go(self.reached));
        self.leave(Some(self.reached));
        self.resume(out)
    }

    fn flush(&mut self, out: &mut Output) -> Result<Progress> {
        self.leave(None);
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        loop {
            while let Some(rest) = self.rest.take().filter(|rest| rest.num_rows() > 0) {
                if out.room() == 0 {
                    self.rest = Some(rest);
                    return Ok(Progress::More);
                }
                let rows = rest.num_rows().min(self.batch_rows);
                out.emit(Batch::new(rest.slice(0, rows)))?;
                self.rest = Some(rest.slice(rows, rest.num_rows() - rows));
            }
            let Some((id, mut pane)) = self.leaving.pop_front() else { return Ok(Progress::Done) };
            let groups = pane.count();
            let columns = self.named(id, pane.take_states(&self.functions, &self.encoder)?, groups)?;
            self.rest = Some(self.batch(columns, groups)?);
            self.gain.put_out(groups);
            pane.clear();
            self.spare = Some(pane);
        }
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Partial {
    /// Nothing: it is called behind a flush.
    fn save(&mut self, _: KeyGroup) -> Result<Snapshot> {
        Ok(Snapshot::default())
    }

    fn load(&mut self, _: KeyGroup, _: &Snapshot) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self, _: KeyGroup) -> Result<()> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        let leaving = self.leaving.iter().map(|(_, pane)| pane);
        let panes = self.panes.values().chain(leaving).chain(&self.spare).map(Pane::bytes).sum::<usize>();
        panes + self.rest.as_ref().map_or(0, RecordBatch::get_array_memory_size)
    }

    fn held(&self) -> Vec<Held> {
        if self.spans.is_some() {
            return instants::held(self.groups());
        }
        let windows: BTreeSet<_> = self
            .panes
            .keys()
            .flat_map(|id| self.windowing.windows(*id))
            .map(|window| (window.end, window.start))
            .collect();
        held(windows.len(), self.groups())
    }
}

/// Whether it pays to put rows into groups.
#[derive(Default)]
struct Gain {
    /// Rows that were put into groups, and the groups that were put out, since it was looked at.
    rows: usize,
    groups: usize,
    /// How many rows still pass one by one.
    passing: usize,
}

/// After so many rows it is looked at whether they are fewer groups.
const LOOKED_AT: usize = 1 << 16;

/// So many rows pass one by one, before it is tried again.
const PASSING: usize = 1 << 21;

impl Gain {
    /// Whether the next rows pass one by one.
    fn passes(&mut self, rows: usize) -> bool {
        let passes = self.passing > 0;
        self.passing = self.passing.saturating_sub(rows);
        passes
    }

    /// Groups were put out.
    fn put_out(&mut self, groups: usize) {
        self.groups += groups;
        if self.rows >= LOOKED_AT {
            // A group costs about as much as a row on its way, and has cost one lookup already.
            self.passing = if self.groups * 2 > self.rows { PASSING } else { 0 };
            (self.rows, self.groups) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};
    use arrow_cast::display::array_value_to_string;
    use arrow_schema::{Field, Schema, TimeUnit};
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use thalweg_core::{Interval, aggregate::Signature, window::Grid};

    use super::{
        super::{
            Aggregate, Instants,
            functions::native,
            tests::{Row, batch, parts},
        },
        *,
    };

    /// The first phase of an aggregate.
    fn partial(of: super::super::Parts) -> Partial {
        let super::super::Parts { windowing, keys, key_types, calls, batch_rows, .. } = of;
        let instant = DataType::Timestamp(TimeUnit::Microsecond, None);
        let states = calls.iter().flat_map(|call| call.function.state().unwrap());
        let kinds = vec![instant; windowing.name_width()].into_iter().chain(key_types.iter().cloned());
        let kinds = kinds.chain(states.map(|field| field.data_type().clone()));
        let fields: Vec<_> = kinds.enumerate().map(|(i, kind)| Field::new(format!("c{i}"), kind, true)).collect();
        let output = SchemaRef::new(Schema::new(fields));
        Partial::new(Parts { windowing, keys, key_types, calls, output, batch_rows }).unwrap()
    }

    /// All that a call puts out.
    fn all(
        operator: &mut dyn Operator,
        call: impl FnOnce(&mut dyn Operator, &mut Output) -> Result<Progress>,
    ) -> Vec<Batch> {
        let (mut out, mut batches) = (Output::new(7), Vec::new());
        let mut progress = call(operator, &mut out).unwrap();
        loop {
            batches.extend(out.take(7).into_iter().map(|(_, batch)| batch));
            if progress != Progress::More {
                return batches;
            }
            progress = operator.resume(&mut out).unwrap();
        }
    }

    fn time(t: i64) -> Frontier {
        let mut frontier = Frontier::new(1);
        frontier.advance(0, Timestamp(t));
        frontier
    }

    fn lines(batches: Vec<Batch>) -> Vec<String> {
        let line = |batch: &Batch, row| {
            let columns = batch.columns().columns().iter();
            columns.map(|column| array_value_to_string(column, row).unwrap()).collect::<Vec<_>>().join(" ")
        };
        batches.iter().flat_map(|batch| (0..batch.len()).map(move |row| line(batch, row))).collect()
    }

    #[test]
    fn the_states_of_shares_make_the_rows_of_the_whole() {
        for seed in 0..60 {
            let grid = || Grid::new(Interval(10), Interval([10, 4][seed as usize % 2]), Interval(0)).unwrap();
            let whole = |merges| Box::new(Aggregate::new(parts(grid(), merges)).unwrap()) as _;
            shares_make_the_whole(seed, &grid, &whole);
        }
    }

    #[test]
    fn the_states_of_shares_make_the_rows_of_instants() {
        for seed in 0..60 {
            let grid = || Grid::new(Interval(1), Interval(1), Interval(0)).unwrap();
            let whole = |merges| Box::new(Instants::new(parts(grid(), merges)).unwrap()) as _;
            shares_make_the_whole(seed, &grid, &whole);
        }
    }

    /// Rows that come in three shares give the same states, and in the end rows, as they do together.
    fn shares_make_the_whole(seed: u64, grid: &dyn Fn() -> Grid, whole: &dyn Fn(bool) -> Box<dyn Operator>) {
        let mut random = StdRng::seed_from_u64(seed);
        let [mut alone, mut merged] = [false, true].map(whole);
        let mut shares: Vec<_> = (0..3).map(|_| partial(parts(grid(), false))).collect();
        let (mut expected, mut found, mut clock, mut sent) = (Vec::new(), Vec::new(), 0, 0);
        for _ in 0..60 {
            clock += random.random_range(0..6);
            for share in &mut shares {
                let keys = [None, Some("a"), Some("b"), Some("c")];
                let row = |random: &mut StdRng| {
                    let value = random.random_bool(0.9).then(|| random.random_range(-9..9));
                    Row(clock + random.random_range(-6..12), keys[random.random_range(0..keys.len())], value)
                };
                let rows: Vec<Row> = (0..random.random_range(0..20)).map(|_| row(&mut random)).collect();
                expected.extend(all(alone.as_mut(), |operator, out| operator.on_batch(0, batch(&rows), out)));
                share.gain.passing = if random.random_bool(0.2) { 1 } else { 0 };
                let mut states = all(share, |operator, out| operator.on_batch(0, batch(&rows), out));
                if random.random_bool(0.1) {
                    states.extend(all(share, |operator, out| operator.flush(out)));
                    assert_eq!((share.held(), share.panes.len()), (Vec::new(), 0));
                }
                for states in states {
                    sent += states.len();
                    found.extend(all(merged.as_mut(), |operator, out| operator.on_batch(0, states, out)));
                }
            }
            if random.random_bool(0.3) || clock > 120 {
                for share in &mut shares {
                    for states in all(share, |operator, out| operator.on_time(&time(clock), out)) {
                        sent += states.len();
                        found.extend(all(merged.as_mut(), |operator, out| operator.on_batch(0, states, out)));
                    }
                }
                expected.extend(all(alone.as_mut(), |operator, out| operator.on_time(&time(clock), out)));
                found.extend(all(merged.as_mut(), |operator, out| operator.on_time(&time(clock), out)));
            }
        }
        let (expected, found) = (lines(expected), lines(found));
        assert!(expected.len() > 30 && sent > 30, "the stream has results");
        assert_eq!(found, expected, "seed {seed}");
    }

    #[test]
    fn a_state_is_late_for_the_windows_that_are_closed_where_it_comes() {
        // Windows of 10 every 4: one ends at 10, the next at 14.
        let grid = || Grid::new(Interval(10), Interval(4), Interval(0)).unwrap();
        let mut merged: Box<dyn Operator> = Box::new(Aggregate::new(parts(grid(), true)).unwrap());
        assert!(all(merged.as_mut(), |operator, out| operator.on_time(&time(10), out)).is_empty());
        let mut share = partial(parts(grid(), false));
        let rows = [Row(3, Some("a"), Some(1)), Row(3, Some("b"), Some(2)), Row(5, Some("a"), Some(4))];
        all(&mut share, |operator, out| operator.on_batch(0, batch(&rows), out));
        let states = all(&mut share, |operator, out| operator.flush(out));
        assert_eq!(states.iter().map(Batch::len).sum::<usize>(), 3, "those of two slices");
        let mut out = Output::new(7);
        for states in states {
            assert_eq!(merged.on_batch(0, states, &mut out).unwrap(), Progress::Done);
        }
        assert_eq!((out.take_late(), out.take(7).len()), (3, 0), "all are late for the window that has ended");
        let found = lines(all(merged.as_mut(), |operator, out| operator.on_time(&time(14), out)));
        let found: Vec<_> = found.iter().map(|line| line.split(' ').skip(3).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(found, ["a 4 1 4.0"], "and the first two for all");
    }

    #[test]
    fn keys_that_do_not_repeat_pass_one_by_one() {
        #[derive(Debug)]
        struct Key;
        impl Expression for Key {
            fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
                Ok(Arc::clone(batch.column(0)))
            }
        }
        let whole = DataType::Int64;
        let count = Signature { name: "count", arguments: &[], is_distinct: false, output: &whole, exact_floats: true };
        let mut operator = partial(super::super::Parts {
            windowing: Windowing::Whole,
            keys: vec![Arc::new(Key)],
            key_types: vec![whole.clone()],
            calls: vec![Call { function: native(&count).unwrap(), arguments: Vec::new(), filter: None }],
            batch_rows: 10_000,
            ..parts(Grid::new(Interval(1), Interval(1), Interval(0)).unwrap(), false)
        });
        let rows = |from: i64| {
            let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 10_000));
            Batch::new(RecordBatch::try_from_iter([("k", keys)]).unwrap())
        };
        let mut sent = Vec::new();
        for batch in 0..40 {
            let states = all(&mut operator, |operator, out| operator.on_batch(0, rows(batch * 10_000), out));
            sent.push(states.iter().map(Batch::len).sum::<usize>());
            assert!(operator.groups() <= MOST_GROUPS, "no more than may be held");
        }
        let full = MOST_GROUPS / 10_000;
        assert_eq!(sent[..full], vec![0; full]);
        assert_eq!((sent[full], &sent[full + 1..]), ((full + 1) * 10_000, &vec![10_000; 39 - full][..]));
        let last = all(&mut operator, |operator, out| operator.on_batch(0, rows(0), out)).pop().unwrap();
        assert!(last.column(1).as_primitive::<Int64Type>().values().iter().all(|count| *count == 1));
        // After a while it is tried again.
        operator.gain.passing = 0;
        assert!(all(&mut operator, |operator, out| operator.on_batch(0, rows(0), out)).is_empty());
    }
}
