//! DataFusion's aggregates whose states merge in any order to the same bits.

use std::{fmt, mem, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, new_empty_array};
use arrow_schema::{DataType, FieldRef};
use datafusion_common::ScalarValue;
use datafusion_expr::{Accumulator as RowAccumulator, EmitTo, GroupsAccumulator};
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Aggregate, Exactness, Slide},
};

use super::groups::{group, kept, slice};
use crate::error::from_datafusion;

/// Which functions merge in any order to the same bits, and why.
pub const REASONS: [(&str, &str); 14] = [
    ("approx_distinct", "registers of a HyperLogLog merge by their maximum"),
    ("avg", "sums as below; of floats only as collected rows"),
    ("bit_and", "bitwise AND commutes and associates"),
    ("bit_or", "bitwise OR commutes and associates"),
    ("bit_xor", "bitwise XOR commutes and associates"),
    ("bool_and", "AND commutes and associates"),
    ("bool_or", "OR commutes and associates"),
    ("count", "whole numbers are added, or a set is counted"),
    ("max", "the largest value is one, whatever comes first"),
    ("median", "keeps all values, and picks or averages the middle ones"),
    ("min", "the smallest value is one, whatever comes first"),
    ("percentile_cont", "keeps all values, and picks or interpolates between two"),
    ("regr_count", "whole numbers are added"),
    ("sum", "whole numbers are added; floats only as collected rows"),
];

/// Whether a function on these arguments is in the list: sums are for whole numbers only.
pub fn is_merging(name: &str, arguments: &[DataType], is_distinct: bool) -> bool {
    let folds_floats = matches!(name, "avg" | "sum") && arguments.iter().any(DataType::is_floating);
    let is_listed = REASONS.iter().any(|(known, _)| *known == name);
    // A set's order is random, so what is folded from it must not be floats; the listed ones are none.
    is_listed && !folds_floats && !(is_distinct && name == "percentile_cont")
}

/// A function of DataFusion with one row accumulator per group, but for `approx_distinct`, which has one for all groups.
pub struct Merging {
    function: Arc<AggregateFunctionExpr>,
    slide: Option<Box<dyn Slide>>,
}

impl Merging {
    /// The function as DataFusion has planned it, and what follows windows for it, if there is such.
    pub fn new(function: AggregateFunctionExpr, slide: Option<Box<dyn Slide>>) -> Self {
        Self { function: Arc::new(function), slide }
    }
}

impl fmt::Debug for Merging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Merging({})", self.function.name())
    }
}

impl Aggregate for Merging {
    fn output(&self) -> DataType {
        self.function.field().data_type().clone()
    }

    fn state(&self) -> Result<Vec<FieldRef>> {
        self.function.state_fields().map_err(|e| from_datafusion(&e))
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn slide(&self) -> Option<&dyn Slide> {
        self.slide.as_deref()
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        // Those of others give nulls, or zeros, where one per group gives the other. This one keeps groups of few values small.
        if self.function.fun().name() == "approx_distinct" && self.function.groups_accumulator_supported() {
            let all = self.function.create_groups_accumulator().map_err(|e| from_datafusion(&e))?;
            return Ok(Box::new(OfAll { all, count: 0 }));
        }
        Ok(Box::new(PerGroup {
            function: Arc::clone(&self.function),
            state: self.state()?,
            groups: Vec::new(),
            bytes: 0,
        }))
    }
}

/// One for all groups.
struct OfAll {
    all: Box<dyn GroupsAccumulator>,
    count: usize,
}

impl Accumulator for OfAll {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.count = self.count.max(count);
        let groups: Vec<usize> = groups.iter().map(|group| *group as usize).collect();
        self.all.update_batch(arguments, &groups, filter, self.count).map_err(|e| from_datafusion(&e))
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.count = self.count.max(count);
        let groups: Vec<usize> = groups.iter().map(|group| *group as usize).collect();
        self.all.merge_batch(states, &groups, self.count).map_err(|e| from_datafusion(&e))
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        self.count = 0;
        self.all.state(EmitTo::All).map_err(|e| from_datafusion(&e))
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        self.count = 0;
        self.all.evaluate(EmitTo::All).map_err(|e| from_datafusion(&e))
    }

    fn bytes(&self) -> usize {
        self.all.size()
    }
}

struct PerGroup {
    function: Arc<AggregateFunctionExpr>,
    state: Vec<FieldRef>,
    groups: Vec<Box<dyn RowAccumulator>>,
    bytes: usize,
}

impl PerGroup {
    fn grow(&mut self, count: usize) -> Result<()> {
        while self.groups.len() < count {
            let group = self.function.create_accumulator().map_err(|e| from_datafusion(&e))?;
            self.bytes += group.size();
            self.groups.push(group);
        }
        Ok(())
    }

    /// Gives each group its rows, of those with the given numbers.
    fn each(
        &mut self,
        columns: &[ArrayRef],
        rows: Vec<u32>,
        groups: &[u32],
        take: impl Fn(&mut dyn RowAccumulator, &[ArrayRef]) -> datafusion_common::Result<()>,
    ) -> Result<()> {
        let grouped = group(columns, rows, groups)?;
        for (number, run) in &grouped.runs {
            let group = self.groups[*number as usize].as_mut();
            let before = group.size();
            take(group, &slice(&grouped.columns, run)).map_err(|e| from_datafusion(&e))?;
            self.bytes = (self.bytes + group.size()).saturating_sub(before);
        }
        Ok(())
    }

    fn drain(&mut self) -> Vec<Box<dyn RowAccumulator>> {
        self.bytes = 0;
        mem::take(&mut self.groups)
    }
}

impl Accumulator for PerGroup {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.grow(count)?;
        self.each(arguments, kept(filter, groups.len()), groups, |group, rows| group.update_batch(rows))
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.grow(count)?;
        self.each(states, kept(None, groups.len()), groups, |group, rows| group.merge_batch(rows))
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = vec![Vec::with_capacity(self.groups.len()); self.state.len()];
        for mut group in self.drain() {
            let state = group.state().map_err(|e| from_datafusion(&e))?;
            state.into_iter().zip(&mut columns).for_each(|(value, column)| column.push(value));
        }
        columns.into_iter().zip(&self.state).map(|(column, field)| together(column, field.data_type())).collect()
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        let results = self.drain().into_iter().map(|mut group| group.evaluate());
        let results = results.collect::<Result<Vec<_>, _>>().map_err(|e| from_datafusion(&e))?;
        together(results, self.function.field().data_type())
    }

    fn bytes(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Box<dyn RowAccumulator>>()
    }
}

/// The values as one column.
pub fn together(values: Vec<ScalarValue>, kind: &DataType) -> Result<ArrayRef> {
    if values.is_empty() {
        return Ok(new_empty_array(kind));
    }
    ScalarValue::iter_to_array(values).map_err(|e| from_datafusion(&e))
}
