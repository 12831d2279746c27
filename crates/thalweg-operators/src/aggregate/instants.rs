//! Computes aggregates per instant of event time and key.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, cast::AsArray, types::TimestampMicrosecondType};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use arrow_select::{concat::concat_batches, take::take, take::take_record_batch};
use thalweg_core::{
    Batch, Error, Frontier, Held, KeyGroup, KeyGroups, Operator, Output, Port, Progress, Result, Snapshot, State,
    Timestamp, aggregate::Aggregate as Function, expression::Expression,
};

use super::{
    Call, FEW, GROWTH, Parts,
    groups::KeyEncoder,
    pane::{Arrivals, Pane, by_function},
    places::Places,
    placing::{Assigned, Rows},
    spans::{Spans, named},
    values::Values,
    windowing::{PaneId, Windowing},
};

/// What an [`Aggregate`](super::Aggregate) does, where each window is an instant of event time: there may be one for each row, so that a
/// pane holds the groups of many, with their time as the first key.
///
/// Shape:  as that of an aggregate with windows: row → `window_start, window_end, window_time`, the keys, the aggregates.
/// State:  the groups of instants that time has not passed; O(distinct keys and instants).
/// Errors: what an expression or an aggregate gives for a row it cannot be computed for.
pub struct Instants {
    keys: Vec<Arc<dyn Expression>>,
    calls: Vec<Call>,
    functions: Vec<Arc<dyn Function>>,
    merges: bool,
    /// Of the time, and the keys.
    encoder: KeyEncoder,
    /// Says where rows stand, if somebody asks.
    places: Option<Places>,
    key_groups: KeyGroups,
    divided_by: Vec<usize>,
    output: SchemaRef,
    batch_rows: usize,
    spans: Spans,
    panes: BTreeMap<PaneId, Waiting>,
    closed: Option<Closed>,
    /// One without groups, with memory for those to come.
    spare: Option<Pane>,
    /// How many rows and groups came since the state was last measured.
    grown: usize,
}

/// Groups that time has not passed, and the earliest time of one.
struct Waiting {
    pane: Pane,
    earliest: i64,
}

/// Groups that time has passed, of which not all are emitted.
struct Closed {
    pane: Pane,
    /// What the aggregates give, one row per group.
    results: Vec<ArrayRef>,
    /// The groups in the order of time and keys.
    order: UInt32Array,
    /// How many of them are emitted.
    emitted: usize,
}

const VERSION: u16 = 1;

/// The types of the keys of groups that have their time before them.
pub fn timed(key_types: &[DataType]) -> Vec<DataType> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    std::iter::once(time).chain(key_types.iter().cloned()).collect()
}

impl Instants {
    /// Whether windows are instants.
    pub fn are(windowing: &Windowing) -> bool {
        Spans::of(windowing).is_some()
    }

    /// An aggregate without rows.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared.
    pub fn new(parts: Parts) -> Result<Self> {
        let spans = Spans::of(&parts.windowing).ok_or_else(|| Error::bug("these windows are no instants"))?;
        Ok(Self {
            encoder: KeyEncoder::new(&timed(&parts.key_types))?,
            places: parts.has_positions.then(|| Places::new(&parts.key_types)).transpose()?,
            functions: parts.calls.iter().map(|call| Arc::clone(&call.function)).collect(),
            keys: parts.keys,
            calls: parts.calls,
            merges: parts.merges,
            key_groups: parts.key_groups,
            divided_by: parts.divided_by.iter().map(|key| key + 1).collect(),
            output: parts.output,
            batch_rows: parts.batch_rows,
            spans,
            panes: BTreeMap::new(),
            closed: None,
            spare: None,
            grown: 0,
        })
    }

    /// States of groups, and where they go.
    fn states(&mut self, batch: &Batch) -> Result<(Values, Assigned)> {
        let batch = Batch::new(batch.compact()?);
        let assigned = self.spans.divide(batch.times(1)?.values(), true);
        // The second column is the time.
        let columns = &batch.columns().columns()[1..];
        Ok((self.of_states(columns, batch.len())?, assigned))
    }

    /// Time, keys and states as values.
    fn of_states(&self, columns: &[ArrayRef], count: usize) -> Result<Values> {
        let (keys, states) = columns.split_at(self.keys.len() + 1);
        let widths = self.functions.iter().map(|function| Ok(function.state()?.len())).collect::<Result<Vec<_>>>()?;
        let arguments = by_function(widths.into_iter(), states);
        let filters = vec![None; arguments.len()];
        Ok(Values { keys: keys.to_vec(), count, arguments, filters })
    }

    /// Puts some rows, or states, into a pane.
    fn add(&mut self, id: PaneId, rows: &Rows, values: &Values, are_states: bool) -> Result<()> {
        let values = values.of(rows)?;
        let Values { keys, count, arguments, filters } = values.as_ref();
        let earliest = earliest(&keys[0])?;
        let keys = &self.encoder.encode(keys, *count)?;
        self.grown += count;
        let Self { panes, functions, encoder, spare, .. } = self;
        let waiting = waiting(panes, id, spare, functions, encoder)?;
        waiting.earliest = waiting.earliest.min(earliest);
        match are_states {
            true => waiting.pane.add_states(functions, keys, *count, arguments),
            false => waiting.pane.add(functions, &Arrivals { keys, count: *count, arguments, filters }),
        }
    }

    /// A snapshot without groups, which says how far time has come.
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(VERSION);
        snapshot.number(self.spans.reached().0);
        snapshot
    }

    /// Looks after the memory limit now and then; `more` bytes are held beside the state.
    fn check_memory(&mut self, out: &Output, more: usize) -> Result<()> {
        if self.grown < GROWTH.saturating_add(self.panes.len()) {
            return Ok(());
        }
        self.grown = 0;
        out.check_memory(self.bytes() + more)
    }

    /// Whether there are groups that time has passed.
    fn is_emitting(&self) -> bool {
        let is_passed = |waiting: &Waiting| waiting.earliest < self.spans.closed_before();
        self.closed.is_some() || self.panes.first_key_value().is_some_and(|(_, waiting)| is_passed(waiting))
    }

    /// Computes the earliest groups that time has passed.
    fn close(&mut self, out: &Output) -> Result<Option<Closed>> {
        let before = self.spans.closed_before();
        let Some(first) = self.panes.first_entry().filter(|first| first.get().earliest < before) else {
            return Ok(None);
        };
        let (id, Waiting { mut pane, .. }) = first.remove_entry();
        self.spans.leave(id);
        if id.slice.end.0 > before {
            pane = self.passed(pane, before)?;
        }
        self.check_memory(out, pane.bytes())?;
        let results = pane.take_results(&self.functions)?;
        let order = pane.sorted();
        Ok(Some(Closed { pane, results, order, emitted: 0 }))
    }

    /// The groups of a pane with a time before this one; the others wait on, in panes as long as they should be by now.
    fn passed(&mut self, mut pane: Pane, before: i64) -> Result<Pane> {
        let columns = pane.take_states(&self.functions, &self.encoder)?;
        let values = self.of_states(&columns, pane.count())?;
        pane.clear();
        let times = columns[0].as_primitive::<TimestampMicrosecondType>().values();
        let (passed, others): (Vec<u32>, Vec<u32>) =
            (0..times.len() as u32).partition(|group| times[*group as usize] < before);
        let of_others: Vec<i64> = others.iter().map(|group| times[*group as usize]).collect();
        let others = values.of(&Rows::Some(others.into()))?.into_owned();
        for (id, rows) in self.spans.divide(&of_others, false).panes {
            self.add(id, &rows, &others, true)?;
        }
        let passed = values.of(&Rows::Some(passed.into()))?;
        let keys = self.encoder.encode(&passed.keys, passed.count)?;
        pane.add_states(&self.functions, &keys, passed.count, &passed.arguments)?;
        Ok(pane)
    }

    /// The rows of some groups, and their keys without the time.
    fn rows(&self, closed: &Closed, groups: &UInt32Array) -> Result<RecordBatch> {
        let keys = closed.pane.keys(&self.encoder, groups)?;
        let zone = match self.output.field(2).data_type() {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let [end, start] = named(&keys[0])?;
        let time = start.as_primitive::<TimestampMicrosecondType>().clone().with_timezone_opt(zone);
        let mut columns = vec![start, end, Arc::new(time)];
        columns.extend_from_slice(&keys[1..]);
        for result in &closed.results {
            columns.push(take(result, groups, None)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.output), columns)?)
    }

    /// The rows of a batch: of one pane, or of several with few.
    fn next(&mut self, parts: &mut Vec<RecordBatch>, out: &Output) -> Result<()> {
        let mut count = 0;
        while count <= FEW {
            let mut closed = match self.closed.take() {
                Some(closed) => closed,
                None => match self.close(out)? {
                    Some(closed) => closed,
                    None => break,
                },
            };
            let left = closed.order.len() - closed.emitted;
            if count > 0 && (left > FEW || count + left > self.batch_rows) {
                self.closed = Some(closed);
                break;
            }
            let rows = left.min(self.batch_rows);
            parts.push(self.rows(&closed, &closed.order.slice(closed.emitted, rows))?);
            (count, closed.emitted) = (count + rows, closed.emitted + rows);
            if rows < left {
                self.closed = Some(closed);
                break;
            }
            closed.pane.clear();
            self.spare = Some(closed.pane);
        }
        Ok(())
    }

    /// One batch of these rows.
    fn together(&self, parts: &[RecordBatch]) -> Result<Batch> {
        let rows = match parts {
            [rows] => rows.clone(),
            _ => concat_batches(&self.output, parts)?,
        };
        let Some(places) = &self.places else { return Ok(Batch::new(rows)) };
        let times = rows.column(0).as_primitive::<TimestampMicrosecondType>().values().to_vec();
        let positions = places.in_time(times.into(), &rows.columns()[3..3 + self.keys.len()])?;
        Ok(Batch::new(rows).with_positions(Arc::new(positions)))
    }
}

/// The pane, new if need be.
fn waiting<'a>(
    panes: &'a mut BTreeMap<PaneId, Waiting>,
    id: PaneId,
    spare: &mut Option<Pane>,
    functions: &[Arc<dyn Function>],
    encoder: &KeyEncoder,
) -> Result<&'a mut Waiting> {
    use std::collections::btree_map::Entry;
    Ok(match panes.entry(id) {
        Entry::Occupied(waiting) => waiting.into_mut(),
        Entry::Vacant(place) => {
            let pane = spare.take().map_or_else(|| Pane::new(functions, encoder), Ok)?;
            place.insert(Waiting { pane, earliest: i64::MAX })
        }
    })
}

/// The earliest of some times.
fn earliest(times: &ArrayRef) -> Result<i64> {
    let times = times.as_primitive_opt::<TimestampMicrosecondType>();
    Ok(times.ok_or_else(no_times)?.values().iter().copied().min().unwrap_or(i64::MAX))
}

/// What is held, for people: nobody counts instants.
pub fn held(groups: usize) -> Vec<Held> {
    if groups == 0 { Vec::new() } else { vec![Held::new(groups, ["group", "groups"])] }
}

fn no_times() -> Error {
    Error::environment("the snapshot was taken by another query: its groups have no time")
}

impl Operator for Instants {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let (values, assigned) = match self.merges {
            true => self.states(&batch)?,
            false => {
                let assigned = self.spans.assign(&batch)?;
                (self.spans.timed(Values::new(&self.keys, &self.calls, &batch)?, &batch)?, assigned)
            }
        };
        out.count_late(assigned.late);
        for (id, rows) in assigned.panes {
            self.add(id, &rows, &values, self.merges)?;
            self.check_memory(out, 0)?;
        }
        Ok(Progress::Done)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.spans.go(frontier.combined());
        out.hold(self.spans.hold());
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        while self.is_emitting() {
            if out.room() == 0 {
                return Ok(Progress::More);
            }
            let mut parts = Vec::new();
            let made = self.next(&mut parts, out);
            // What was made before something failed is not lost.
            if !parts.is_empty() {
                out.emit(self.together(&parts)?)?;
            }
            made?;
        }
        if self.panes.is_empty() {
            self.spare = None;
        }
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Instants {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let mut snapshot = self.snapshot();
        for waiting in self.panes.values_mut() {
            if let Some(groups) = waiting.pane.save(group, self.key_groups, &self.divided_by, &self.encoder)? {
                snapshot.rows(groups);
            }
        }
        Ok(snapshot)
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.read(VERSION)?;
        self.spans.reach(Timestamp(snapshot.number()?));
        while !snapshot.is_at_end() {
            let groups = snapshot.rows()?;
            let times = groups.columns().first().and_then(|times| times.as_primitive_opt::<TimestampMicrosecondType>());
            let times = times.ok_or_else(no_times)?.values();
            for (id, rows) in self.spans.divide(times, false).panes {
                let part = match &rows {
                    Rows::All => groups.clone(),
                    Rows::Range(range) => groups.slice(range.start, range.len()),
                    Rows::Some(rows) => take_record_batch(&groups, rows)?,
                };
                let Self { panes, functions, encoder, spare, keys, .. } = self;
                let waiting = waiting(panes, id, spare, functions, encoder)?;
                waiting.earliest = waiting.earliest.min(earliest(part.column(0))?);
                waiting.pane.load(functions, keys.len() + 1, encoder, &part)?;
            }
        }
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        for waiting in self.panes.values_mut() {
            waiting.pane.forget(&self.functions, group, self.key_groups, &self.divided_by, &self.encoder)?;
        }
        Ok(())
    }

    fn take(&mut self, groups: &[KeyGroup]) -> Result<Vec<Snapshot>> {
        let mut snapshots: Vec<_> = groups.iter().map(|_| self.snapshot()).collect();
        let Self { panes, functions, key_groups, divided_by, encoder, .. } = self;
        for waiting in panes.values_mut() {
            let taken = waiting.pane.take(functions, groups, *key_groups, divided_by, encoder)?;
            for (snapshot, taken) in snapshots.iter_mut().zip(taken) {
                taken.into_iter().for_each(|taken| snapshot.rows(taken));
            }
        }
        Ok(snapshots)
    }

    fn bytes(&self) -> usize {
        let closed = self.closed.as_ref().map_or(0, Closed::bytes);
        let panes = self.panes.values().map(|waiting| &waiting.pane).chain(&self.spare);
        panes.map(Pane::bytes).sum::<usize>() + self.spans.bytes() + closed
    }

    fn held(&self) -> Vec<Held> {
        held(self.panes.values().map(|waiting| waiting.pane.count()).sum())
    }
}

impl Closed {
    fn bytes(&self) -> usize {
        let results: usize = self.results.iter().map(|result| result.get_array_memory_size()).sum();
        self.pane.bytes() + results + self.order.get_array_memory_size()
    }
}
