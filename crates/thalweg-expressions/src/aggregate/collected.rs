//! DataFusion's other aggregates: all rows of a group wait until the result is wanted, are sorted, and folded once.
//!
//! So the result is a function of which rows there are and not of how they came: the rows are sorted by the keys that the
//! query gives, and then by their content. The price is memory in proportion to the rows, not to the groups.

use std::{collections::HashSet, fmt, mem, ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, UInt32Array, cast::AsArray, new_empty_array};
use arrow_buffer::OffsetBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Field, FieldRef, SortOptions};
use arrow_select::{concat::concat, take::take};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use thalweg_core::{
    Error, Result,
    aggregate::{Accumulator, Aggregate, Exactness, Follower, Pick, Slide, Windows},
    views::with_own_memory,
};

use super::{
    groups::{group, kept, slice},
    merging::together,
    picked::{Counted, Picked},
    retracted::Retracted,
};
use crate::error::from_datafusion;

/// Batches that wait are put together when there are more than this, so that many small ones do not cost much memory.
const BATCHES: usize = 64;

/// Whether a function has no meaning unless the query says in which order rows come.
pub fn needs_order(name: &str) -> bool {
    matches!(name, "array_agg" | "string_agg" | "first_value" | "last_value" | "nth_value")
}

/// Functions whose accumulators take a row away as fast as they take one in; those of DataFusion look at all values then, or need an order.
const FOLLOWED: [&str; 1] = ["topn_frequency"];

/// A function of DataFusion over the sorted rows of each group.
pub struct Collected(Arc<Plan>);

struct Plan {
    function: AggregateFunctionExpr,
    /// The types of the arguments, then of the sort keys.
    columns: Vec<DataType>,
    /// How to sort by each sort key.
    options: Vec<SortOptions>,
    is_distinct: bool,
    /// Whether rows come as they are to be sorted.
    is_sorted: bool,
    /// The row that it takes its value of, if that is all.
    picked: Option<Picked>,
    /// Whether its accumulators take rows away as they take them in, in any order.
    is_followed: bool,
}

impl Collected {
    /// A function whose accumulators take `columns`: its arguments, then one column per sort key. Where it `is_sorted`, rows come in the
    /// order that it sees them in, and it may take its value of one of them.
    ///
    /// Errors: `Error::Query` if the columns cannot be sorted.
    pub fn new(
        function: AggregateFunctionExpr,
        columns: Vec<DataType>,
        options: Vec<SortOptions>,
        is_distinct: bool,
        is_sorted: bool,
        picked: Option<Picked>,
    ) -> Result<Self> {
        let is_followed = options.is_empty()
            && !is_distinct
            && FOLLOWED.contains(&function.fun().name())
            && function.create_accumulator().is_ok_and(|accumulator| accumulator.supports_retract_batch());
        let plan = Plan { function, columns, options, is_distinct, is_sorted, picked, is_followed };
        plan.converters()?;
        Ok(Self(Arc::new(plan)))
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collected({})", self.0.function.name())
    }
}

impl Aggregate for Collected {
    fn output(&self) -> DataType {
        self.0.function.field().data_type().clone()
    }

    fn state(&self) -> Result<Vec<FieldRef>> {
        let lists = self.0.columns.iter().enumerate();
        Ok(lists.map(|(i, kind)| Arc::new(Field::new(format!("rows_{i}"), list_of(kind), false))).collect())
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn pick(&self) -> Option<Pick> {
        self.0.picked.filter(|picked| !picked.skips_nulls).map(|picked| picked.pick)
    }

    fn slide(&self) -> Option<&dyn Slide> {
        (self.0.is_followed || self.0.picked.is_some()).then_some(self)
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Waiting { plan: Arc::clone(&self.0), batches: Vec::new(), count: 0 }))
    }
}

impl Slide for Collected {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        if let Some(picked) = self.0.picked {
            return picked.results(windows).map(Some);
        }
        let function = &self.0.function;
        // What does not count is never there.
        let some = |rows: Range<usize>| {
            let rows = match windows.filter {
                None => return Ok(slice(windows.arguments, &rows)),
                Some(filter) => kept(Some(&filter.slice(rows.start, rows.len())), rows.len())
                    .into_iter()
                    .map(|row| row + rows.start as u32),
            };
            let rows = UInt32Array::from_iter_values(rows);
            windows.arguments.iter().map(|column| take(column.as_ref(), &rows, None)).collect::<Result<Vec<_>, _>>()
        };
        let mut accumulator = function.create_accumulator().map_err(|e| from_datafusion(&e))?;
        let results = windows.follow(
            &mut accumulator,
            |accumulator, rows, comes| {
                let columns = if rows.is_empty() { return Ok(()) } else { some(rows)? };
                let changed =
                    if comes { accumulator.update_batch(&columns) } else { accumulator.retract_batch(&columns) };
                changed.map_err(|e| from_datafusion(&e))
            },
            |accumulator| accumulator.evaluate().map_err(|e| from_datafusion(&e)),
        )?;
        together(results, function.field().data_type()).map(Some)
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        if let Some(picked) = self.0.picked {
            return Some(Box::new(Counted::new(picked)));
        }
        let Plan { function, is_followed: true, .. } = &*self.0 else { return None };
        if *function.field().data_type() != DataType::Utf8 {
            return None;
        }
        let [_, arguments] = self.0.converters().ok()?;
        Some(Box::new(Retracted::new(function.create_accumulator().ok()?, arguments)))
    }

    fn follows_rows(&self) -> bool {
        self.0.picked.is_some()
    }
}

impl Plan {
    fn arguments(&self) -> usize {
        self.columns.len() - self.options.len()
    }

    /// What sorts rows by the keys and then by the arguments, and what compares rows by the arguments alone.
    fn converters(&self) -> Result<[RowConverter; 2]> {
        let (arguments, keys) = self.columns.split_at(self.arguments());
        let keys = keys.iter().zip(&self.options);
        let keys = keys.map(|(kind, options)| SortField::new_with_options(kind.clone(), *options));
        let arguments: Vec<_> = arguments.iter().map(|kind| SortField::new(kind.clone())).collect();
        let all = keys.chain(arguments.iter().cloned()).collect();
        let unsortable = |_| Error::query(format!("{} of values that cannot be sorted", self.function.fun().name()));
        Ok([RowConverter::new(all).map_err(unsortable)?, RowConverter::new(arguments).map_err(unsortable)?])
    }

    /// The result of one group, whose rows are these.
    fn fold(
        &self,
        columns: &[ArrayRef],
        keys: &[Rows; 2],
        run: &Range<usize>,
    ) -> Result<datafusion_common::ScalarValue> {
        let [order, content] = keys;
        let mut rows: Vec<usize> = run.clone().collect();
        if !self.is_sorted {
            rows.sort_unstable_by_key(|row| order.row(*row));
        }
        if self.is_distinct {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(content.row(*row)));
        }
        let rows = UInt32Array::from_iter_values(rows.into_iter().map(|row| row as u32));
        let arguments = columns[..self.arguments()].iter().map(|column| take(column.as_ref(), &rows, None));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let fold = || {
            let mut group = self.function.create_accumulator()?;
            group.update_batch(&arguments)?;
            group.evaluate()
        };
        fold().map_err(|e| from_datafusion(&e))
    }
}

/// Rows that wait, with the group of each.
struct Waiting {
    plan: Arc<Plan>,
    batches: Vec<(Vec<ArrayRef>, Vec<u32>)>,
    count: usize,
}

impl Waiting {
    fn push(&mut self, columns: Vec<ArrayRef>, groups: Vec<u32>) -> Result<()> {
        if !groups.is_empty() {
            self.batches.push((columns, groups));
        }
        if self.batches.len() > BATCHES {
            let all = self.all()?;
            self.batches.push(all);
        }
        Ok(())
    }

    /// Takes all rows as one batch.
    fn all(&mut self) -> Result<(Vec<ArrayRef>, Vec<u32>)> {
        let batches = mem::take(&mut self.batches);
        let column = |index: usize, kind: &DataType| -> Result<ArrayRef> {
            let parts: Vec<_> = batches.iter().map(|(columns, _)| columns[index].as_ref()).collect();
            if parts.is_empty() { Ok(new_empty_array(kind)) } else { Ok(concat(&parts)?) }
        };
        let columns = self.plan.columns.iter().enumerate().map(|(index, kind)| column(index, kind));
        let columns = columns.collect::<Result<_>>()?;
        Ok((columns, batches.iter().flat_map(|(_, groups)| groups).copied().collect()))
    }

    /// Takes all rows, by group, and how many groups there are.
    fn drain(&mut self) -> Result<(super::groups::Grouped, usize)> {
        let (columns, groups) = self.all()?;
        Ok((group(&columns, kept(None, groups.len()), &groups)?, mem::take(&mut self.count)))
    }
}

impl Accumulator for Waiting {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.count = self.count.max(count);
        // The rows are copied, so that what waits does not keep whole batches alive.
        let rows = UInt32Array::from(kept(filter, groups.len()));
        let columns = arguments.iter().map(|column| Ok(with_own_memory(&take(column.as_ref(), &rows, None)?)));
        let groups = rows.values().iter().map(|row| groups[*row as usize]).collect();
        self.push(columns.collect::<Result<_>>()?, groups)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.count = self.count.max(count);
        let Some(first) = states.first() else { return Ok(()) };
        let lengths = first.as_list::<i32>().offsets().lengths();
        let groups = groups.iter().zip(lengths).flat_map(|(group, length)| std::iter::repeat_n(*group, length));
        // Several parts of what was one array would each keep all of it.
        self.push(states.iter().map(|list| with_own_memory(&rows_of(list.as_list()))).collect(), groups.collect())
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let (grouped, count) = self.drain()?;
        let mut lengths = vec![0; count];
        grouped.runs.iter().for_each(|(group, run)| lengths[*group as usize] = run.len());
        let too_many = || Error::environment("more rows wait in an aggregate than a snapshot can hold");
        i32::try_from(lengths.iter().sum::<usize>()).map_err(|_| too_many())?;
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        let lists = grouped.columns.into_iter().map(|column| {
            let item = Arc::new(Field::new_list_field(column.data_type().clone(), true));
            Arc::new(ListArray::new(item, offsets.clone(), column, None)) as ArrayRef
        });
        Ok(lists.collect())
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let (grouped, count) = self.drain()?;
        let (arguments, keys) = grouped.columns.split_at(self.plan.arguments());
        let [order, content] = self.plan.converters()?;
        let keys = [order.convert_columns(&[keys, arguments].concat())?, content.convert_columns(arguments)?];
        let mut results = vec![None; count];
        for (number, run) in &grouped.runs {
            results[*number as usize] = Some(self.plan.fold(&grouped.columns, &keys, run)?);
        }
        let nothing = 0..0;
        let results = results.into_iter().map(|result| match result {
            Some(result) => Ok(result),
            None => self.plan.fold(&slice(&grouped.columns, &nothing), &keys, &nothing),
        });
        together(results.collect::<Result<_>>()?, self.plan.function.field().data_type())
    }

    fn bytes(&self) -> usize {
        let bytes = |(columns, groups): &(Vec<ArrayRef>, Vec<u32>)| {
            columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>() + groups.capacity() * 4
        };
        self.batches.iter().map(bytes).sum()
    }
}

fn list_of(kind: &DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(kind.clone(), true)))
}

/// The rows in all lists.
fn rows_of(list: &ListArray) -> ArrayRef {
    let offsets = list.offsets();
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    list.values().slice(first, last - first)
}
