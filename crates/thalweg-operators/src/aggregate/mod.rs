//! Computes aggregates per window and key.
//!
//! * [`Aggregate`]: the operator
//! * [`instants`]: the same, where each window is an instant; [`spans`]: which of them are in a pane
//! * [`partial`]: its first phase, where rows are aggregated by who sends them
//! * [`windowing`]: which rows belong together in time, and which panes make a window
//! * [`placing`]: which pane a row goes into
//! * [`pane`]: groups with their running values
//! * [`places`]: where its rows stand among those of all instances
//! * [`sliding`]: the panes of windows that overlap, merged ahead
//! * [`groups`]: distinct keys, numbered
//! * [`values`]: what the expressions give for a batch
//! * [`functions`]: aggregate functions of our own

pub mod functions;
pub mod groups;
pub mod instants;
pub mod pane;
pub mod partial;
mod places;
pub mod placing;
pub mod sliding;
pub mod spans;
pub(crate) mod values;
pub mod windowing;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::repeat_n,
    sync::Arc,
};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::{concat::concat_batches, take::take};
use thalweg_core::{
    Batch, Error, Frontier, Held, KeyGroup, KeyGroups, Operator, Output, Port, Progress, Result, Snapshot, State,
    Timestamp, Window, aggregate::Aggregate as Function, expression::Expression,
};

use groups::KeyEncoder;
pub use instants::Instants;
pub use partial::Partial;

use pane::{Arrivals, Pane, by_function};
use places::Places;
use placing::Rows;
use sliding::{Maker, Sliding};
use values::Values;
use windowing::{PaneId, Windowing};

/// One aggregate of an [`Aggregate`] operator.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub function: Arc<dyn Function>,
    /// Its arguments, over the input.
    pub arguments: Vec<Arc<dyn Expression>>,
    /// FILTER (WHERE …), over the input.
    pub filter: Option<Arc<dyn Expression>>,
}

/// Computes aggregates per window and key, and emits a window's groups once, when no row for it may come any more.
///
/// A row is aggregated once, into the *pane* of rows that share all their windows (paired windows); a window is the merge of
/// its panes. A row that is late for some of its windows goes into a pane of its own that only the other windows see.
///
/// Shape:  row → `window_start, window_end, window_time` (if there are windows), the keys, the aggregates, one row per group
///         and window, ordered by window end, start, and keys ascending with nulls first.
/// State:  the groups of open windows; O(distinct keys × open panes).
/// Errors: what an expression or an aggregate gives for a row it cannot be computed for.
/// Source: Krishnamurthy, Wu, Franklin, "On-the-fly sharing for streamed aggregation".
pub struct Aggregate {
    windowing: Windowing,
    keys: Vec<Arc<dyn Expression>>,
    calls: Vec<Call>,
    functions: Vec<Arc<dyn Function>>,
    merges: bool,
    encoder: KeyEncoder,
    /// Says where rows stand, if somebody asks.
    places: Option<Places>,
    key_groups: KeyGroups,
    divided_by: Vec<usize>,
    output: SchemaRef,
    batch_rows: usize,
    panes: BTreeMap<PaneId, Pane>,
    /// The windows that still have to be emitted: each has at least one pane.
    open: BTreeSet<(Timestamp, Timestamp)>,
    reached: Timestamp,
    closed: Option<Closed>,
    sliding: Sliding,
    /// The pane of a window that was closed, with memory for the groups of the next.
    spare: Option<Spare>,
    /// Rows, groups and windows that came since the state was last measured.
    grown: usize,
}

/// A window of which not all groups are emitted.
struct Closed {
    window: Window,
    pane: Pane,
    /// What the aggregates give, one row per group.
    results: Vec<ArrayRef>,
    /// The groups in the order of their keys.
    order: UInt32Array,
    /// How many of them are emitted.
    emitted: usize,
}

/// A pane without groups.
struct Spare {
    pane: Pane,
    /// How many groups it had.
    groups: usize,
}

const VERSION: u16 = 1;

/// After so many rows, groups and windows, or as many as there are panes, the state is measured within a call: a batch whose
/// rows are far apart opens thousands of windows for each. So a limit on memory is exceeded by a few megabytes at most.
const GROWTH: usize = 16_384;

/// Windows with no more rows than this go together in a batch: where there are many, what each batch costs is more than to copy them.
const FEW: usize = 256;

/// What an open window takes, about.
const WINDOW_BYTES: usize = 32;

/// How an [`Aggregate`] is made.
pub struct Parts {
    /// Which rows belong together in time.
    pub windowing: Windowing,
    /// The grouping keys.
    pub keys: Vec<Arc<dyn Expression>>,
    /// Their types.
    pub key_types: Vec<DataType>,
    /// The aggregates.
    pub calls: Vec<Call>,
    /// Whether it takes the states that [`Partial`](partial::Partial) operators give, rather than rows.
    pub merges: bool,
    /// The output columns.
    pub output: SchemaRef,
    /// How many rows an emitted batch has at most.
    pub batch_rows: usize,
    /// Into how many groups keys are divided.
    pub key_groups: KeyGroups,
    /// Which of the keys decide on the group: all, unless an aggregate before this one, or behind it, has others.
    pub divided_by: Vec<usize>,
    /// Whether rows say where they stand among those of all instances.
    pub has_positions: bool,
}

impl Aggregate {
    /// An aggregate without rows.
    ///
    /// Errors: `Error::Query` if a key's type cannot be compared.
    pub fn new(parts: Parts) -> Result<Self> {
        let Parts {
            windowing,
            keys,
            key_types,
            calls,
            merges,
            output,
            batch_rows,
            key_groups,
            divided_by,
            has_positions,
        } = parts;
        Ok(Self {
            merges,
            encoder: KeyEncoder::new(&key_types)?,
            places: has_positions.then(|| Places::new(&key_types)).transpose()?,
            functions: calls.iter().map(|call| Arc::clone(&call.function)).collect(),
            windowing,
            keys,
            calls,
            key_groups,
            divided_by,
            output,
            batch_rows,
            panes: BTreeMap::new(),
            open: BTreeSet::new(),
            reached: Timestamp::MIN,
            closed: None,
            sliding: Sliding::default(),
            spare: None,
            grown: 0,
        })
    }

    /// Puts selected rows of a batch into one pane.
    fn add(&mut self, id: PaneId, rows: &Rows, values: &Values) -> Result<()> {
        let values = values.of(rows)?;
        let Values { keys, count, arguments, filters } = values.as_ref();
        let keys = &self.encoder.encode(keys, *count)?;
        self.pane(id)?;
        let Self { panes, functions, .. } = self;
        let pane = panes.get_mut(&id).ok_or_else(|| Error::bug("a pane was just inserted"))?;
        match self.merges {
            true => pane.add_states(functions, keys, *count, arguments),
            false => pane.add(functions, &Arrivals { keys, count: *count, arguments, filters }),
        }
    }

    /// The panes of states, and their columns.
    fn states(&self, batch: &Batch) -> Result<(Values, Vec<(PaneId, Rows)>)> {
        let batch = &Batch::new(batch.compact()?);
        let panes = self.windowing.named(batch)?;
        let (_, columns) = batch.columns().columns().split_at(self.windowing.name_width());
        let (keys, columns) = columns.split_at(self.keys.len());
        let widths = self.functions.iter().map(|function| Ok(function.state()?.len())).collect::<Result<Vec<_>>>()?;
        let arguments = by_function(widths.into_iter(), columns);
        let filters = vec![None; arguments.len()];
        Ok((Values { keys: keys.to_vec(), count: batch.len(), arguments, filters }, panes))
    }

    /// The panes of states, without windows that are closed: who sends states does not know how far time has come for others while it
    /// was silent. A state that is late for a window is counted as one row.
    fn still_open(&self, panes: Vec<(PaneId, Rows)>, states: usize, out: &mut Output) -> Vec<(PaneId, Rows)> {
        let is_closed = |end| self.windowing.is_closed(end, self.reached);
        let open = |(id, rows): (PaneId, Rows)| {
            if !is_closed(id.first_end) {
                return Some((id, rows));
            }
            out.count_late(match &rows {
                Rows::All => states,
                Rows::Range(range) => range.len(),
                Rows::Some(rows) => rows.len(),
            });
            let first = self.windowing.windows(id).find(|window| !is_closed(window.end))?;
            Some((PaneId { first_end: first.end, ..id }, rows))
        };
        panes.into_iter().filter_map(open).collect()
    }

    /// The pane, new if need be; the windows that contain it are then open.
    fn pane(&mut self, id: PaneId) -> Result<&mut Pane> {
        if !self.panes.contains_key(&id) {
            let pane = self.fresh()?;
            self.panes.insert(id, pane);
            self.open.extend(self.windowing.windows(id).map(|window| (window.end, window.start)));
        }
        self.panes.get_mut(&id).ok_or_else(|| Error::bug("a pane was just inserted"))
    }

    /// A pane without groups.
    fn fresh(&mut self) -> Result<Pane> {
        match self.spare.take() {
            Some(spare) => Ok(spare.pane),
            None => Pane::new(&self.functions, &self.encoder),
        }
    }

    /// Keeps a pane that had so many groups for the next window, unless it is much too large for it, or none is open.
    fn recycle(&mut self, pane: Pane, groups: usize) {
        let is_outgrown = self.spare.as_ref().is_some_and(|spare| spare.groups > groups * 4);
        if self.spare.is_none() || is_outgrown {
            self.spare = Some(Spare { pane, groups });
        }
        if self.panes.is_empty() {
            self.spare = None;
            self.sliding = Sliding::default();
        }
    }

    /// Looks after the memory limit now and then; `more` is what is held beside the state.
    fn check_memory(&mut self, out: &Output, more: &Pane) -> Result<()> {
        if self.grown < GROWTH.saturating_add(self.panes.len()) {
            return Ok(());
        }
        self.grown = 0;
        out.check_memory(self.bytes() + more.bytes())
    }

    /// Computes the groups of one window, and drops the panes that no later window contains.
    fn close(&mut self, window: Window, out: &Output) -> Result<Closed> {
        let Self { panes, windowing, functions, encoder, sliding, .. } = self;
        let members = windowing.members(window, panes);
        // The panes that no later window contains.
        let is_last = |id: &PaneId| windowing.last_end(*id) <= window.end;
        let left: Vec<_> = members.iter().map(|(id, _)| *id).filter(is_last).collect();
        let mut groups = match (&members[..], &left[..]) {
            ([_], [only]) => panes.remove(only).ok_or_else(|| Error::bug("a member was just listed"))?,
            _ => {
                let merged = sliding.close(window, members, &Maker { functions, encoder })?;
                left.iter().for_each(|id| drop(panes.remove(id)));
                self.grown = usize::MAX;
                merged
            }
        };
        self.check_memory(out, &groups)?;
        let results = groups.take_results(&self.functions)?;
        let order = groups.sorted();
        Ok(Closed { window, pane: groups, results, order, emitted: 0 })
    }

    /// The rows of some groups of a window. Made a batch at a time, in memory that the last one had.
    fn rows(&self, closed: &Closed, groups: &UInt32Array) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.output.fields().len());
        columns.extend(self.windowing.bounds(closed.window, groups.len(), self.output.fields()).into_iter().flatten());
        columns.extend(closed.pane.keys(&self.encoder, groups)?);
        for result in &closed.results {
            columns.push(take(result, groups, None)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.output), columns)?)
    }

    /// The rows of several windows, one after the other, in one batch.
    fn together(&self, windows: &[(Window, RecordBatch)]) -> Result<Batch> {
        let rows = match windows {
            [(_, rows)] => rows.clone(),
            _ => concat_batches(&self.output, windows.iter().map(|(_, rows)| rows))?,
        };
        let (Some(places), [(first, _), ..]) = (&self.places, windows) else { return Ok(Batch::new(rows)) };
        let before = self.output.fields().len() - self.calls.len() - self.keys.len();
        let keys = &rows.columns()[before..before + self.keys.len()];
        let positions = if self.windowing.is_instant(*first) {
            let times = windows.iter().flat_map(|(window, rows)| repeat_n(window.start.0, rows.num_rows()));
            places.in_time(times.collect(), keys)?
        } else {
            places.of(*first, self.windowing.over(first.end), keys)?
        };
        Ok(Batch::new(rows).with_positions(Arc::new(positions)))
    }

    /// Whether another window may follow this one in one batch: if rows say where they stand, each of them must.
    fn may_be_followed(&self, window: Window) -> bool {
        self.places.is_none() || self.windowing.is_instant(window)
    }

    /// Whether there are groups of a window to be emitted, or one that takes no more rows.
    fn is_emitting(&self) -> bool {
        self.closed.is_some() || self.open.first().is_some_and(|(end, _)| self.windowing.is_closed(*end, self.reached))
    }

    /// The rows of a batch: of one window, or of several with few.
    fn next(&mut self, windows: &mut Vec<(Window, RecordBatch)>, out: &Output) -> Result<()> {
        let mut count = 0;
        while self.is_emitting() {
            let mut closed = match self.closed.take() {
                Some(closed) => closed,
                None => {
                    let Some((end, start)) = self.open.pop_first() else { break };
                    self.close(Window { start, end }, out)?
                }
            };
            let left = closed.order.len() - closed.emitted;
            if count > 0 && (left > FEW || count + left > self.batch_rows) {
                self.closed = Some(closed);
                break;
            }
            let rows = left.min(self.batch_rows);
            if rows > 0 {
                windows.push((closed.window, self.rows(&closed, &closed.order.slice(closed.emitted, rows))?));
                (count, closed.emitted) = (count + rows, closed.emitted + rows);
            }
            let is_alone = rows > FEW || !self.may_be_followed(closed.window);
            if rows < left {
                self.closed = Some(closed);
            } else {
                closed.pane.clear();
                self.recycle(closed.pane, closed.emitted);
            }
            if rows > 0 && is_alone {
                break;
            }
        }
        Ok(())
    }

    /// A whole input without keys has one group, even without rows.
    fn ensure_only_group(&mut self) -> Result<()> {
        if self.keys.is_empty() && matches!(self.windowing, Windowing::Whole) && self.open.is_empty() {
            let keys = self.encoder.encode(&[], 1)?;
            let functions = self.functions.clone();
            self.pane(PaneId::WHOLE)?.add_empty_key(&functions, &keys)?;
        }
        Ok(())
    }
}

/// Writes groups of a pane, with its name.
fn put_pane(snapshot: &mut Snapshot, id: PaneId, groups: RecordBatch) {
    [id.first_end, id.slice.start, id.slice.end].into_iter().for_each(|t| snapshot.number(t.0));
    snapshot.rows(groups);
}

/// What is held, for people.
fn held(windows: usize, groups: usize) -> Vec<Held> {
    // All instances have the same windows, and each has its own groups.
    let windows = Held { is_shared: true, ..Held::new(windows, ["open window", "open windows"]) };
    if windows.count == 0 { Vec::new() } else { vec![windows, Held::new(groups, ["group", "groups"])] }
}

impl Closed {
    fn bytes(&self) -> usize {
        let results: usize = self.results.iter().map(|result| result.get_array_memory_size()).sum();
        self.pane.bytes() + results + self.order.get_array_memory_size()
    }
}

impl Operator for Aggregate {
    fn on_batch(&mut self, _: Port, batch: Batch, out: &mut Output) -> Result<Progress> {
        let (values, panes) = match self.merges {
            true => {
                let (values, panes) = self.states(&batch)?;
                (values, self.still_open(panes, batch.len(), out))
            }
            false => {
                let assigned = self.windowing.assign(&batch, self.reached)?;
                out.count_late(assigned.late);
                (Values::new(&self.keys, &self.calls, &batch)?, assigned.panes)
            }
        };
        let nothing = Pane::new(&[], &self.encoder)?;
        for (id, rows) in panes {
            let windows = self.open.len();
            self.grown += match &rows {
                Rows::All => batch.len(),
                Rows::Range(range) => range.len(),
                Rows::Some(rows) => rows.len(),
            };
            self.add(id, &rows, &values)?;
            self.grown += self.open.len() - windows;
            self.check_memory(out, &nothing)?;
        }
        Ok(Progress::Done)
    }

    fn on_time(&mut self, frontier: &Frontier, out: &mut Output) -> Result<Progress> {
        self.reached = frontier.combined();
        out.hold(self.windowing.hold(self.reached));
        if self.reached == Timestamp::MAX {
            self.ensure_only_group()?;
        }
        self.resume(out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<Progress> {
        while self.is_emitting() {
            if out.room() == 0 {
                return Ok(Progress::More);
            }
            let mut windows = Vec::new();
            let made = self.next(&mut windows, out);
            // What was made before something failed is not lost.
            if !windows.is_empty() {
                out.emit(self.together(&windows)?)?;
            }
            made?;
        }
        Ok(Progress::Done)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Aggregate {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let mut snapshot = Snapshot::new(VERSION);
        snapshot.number(self.reached.0);
        for (id, pane) in &mut self.panes {
            if let Some(groups) = pane.save(group, self.key_groups, &self.divided_by, &self.encoder)? {
                put_pane(&mut snapshot, *id, groups);
            }
        }
        Ok(snapshot)
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.read(VERSION)?;
        self.reached = self.reached.max(Timestamp(snapshot.number()?));
        while !snapshot.is_at_end() {
            let mut time = || Ok::<_, Error>(Timestamp(snapshot.number()?));
            let (first_end, start, end) = (time()?, time()?, time()?);
            let groups = snapshot.rows()?;
            let keys = self.keys.len();
            let id = PaneId { first_end, slice: Window { start, end } };
            self.pane(id)?;
            let Self { panes, functions, encoder, .. } = self;
            let pane = panes.get_mut(&id).ok_or_else(|| Error::bug("a pane was just inserted"))?;
            pane.load(functions, keys, encoder, &groups)?;
        }
        self.sliding = Sliding::default();
        // A window that was closed before the snapshot must not be emitted again for what its panes hold for later ones.
        let Self { open, windowing, reached, .. } = self;
        open.retain(|(end, _)| !windowing.is_closed(*end, *reached));
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        self.sliding = Sliding::default();
        for pane in self.panes.values_mut() {
            pane.forget(&self.functions, group, self.key_groups, &self.divided_by, &self.encoder)?;
        }
        Ok(())
    }

    fn take(&mut self, groups: &[KeyGroup]) -> Result<Vec<Snapshot>> {
        self.sliding = Sliding::default();
        let mut snapshots: Vec<_> = groups.iter().map(|_| Snapshot::new(VERSION)).collect();
        snapshots.iter_mut().for_each(|snapshot| snapshot.number(self.reached.0));
        let Self { panes, functions, key_groups, divided_by, encoder, .. } = self;
        for (id, pane) in panes {
            let taken = pane.take(functions, groups, *key_groups, divided_by, encoder)?;
            for (snapshot, taken) in snapshots.iter_mut().zip(taken) {
                if let Some(taken) = taken {
                    put_pane(snapshot, *id, taken);
                }
            }
        }
        Ok(snapshots)
    }

    fn bytes(&self) -> usize {
        let closed = self.closed.as_ref().map_or(0, Closed::bytes);
        let spare = self.spare.as_ref().map_or(0, |spare| spare.pane.bytes());
        self.panes.values().map(Pane::bytes).sum::<usize>()
            + self.open.len() * WINDOW_BYTES
            + closed
            + spare
            + self.sliding.bytes()
    }

    fn held(&self) -> Vec<Held> {
        held(self.open.len(), self.panes.values().map(Pane::count).sum())
    }
}
