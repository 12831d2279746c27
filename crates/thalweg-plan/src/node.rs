//! The nodes of a plan: a closed set, so that every compiler and backend says what it does with each.

use std::{fmt, sync::Arc};

use arrow_schema::{DataType, FieldRef, SchemaRef};
use datafusion_common::DFSchemaRef;
use datafusion_expr::{Expr, expr::AggregateFunction};
use thalweg_core::{Interval, KeyGroups, Operator, Result, connector::TableDefinition, expression::Expression};

use crate::Accuracy;

/// One step of a plan. The columns that an expression may name are those of the node's (first) input.
#[derive(Clone, Debug)]
pub enum Node {
    /// Reads a table.
    Source(Source),
    /// Gives rows written in the query.
    Values(Values),
    /// Keeps the rows for which a predicate is true.
    Filter(Filter),
    /// Computes one output column per expression.
    Map(Map),
    /// Puts each row into its windows, one output row per window, and appends the window's bounds.
    Window(Windows),
    /// Computes aggregates per window and key; of states that a [`Node::Partial`] behind which it stands gives, it merges those.
    Aggregate(Aggregate),
    /// The first phase of an aggregate: that of the rows of one instance, whose states the [`Node::Aggregate`] behind it merges.
    Partial(Aggregate),
    /// Appends the column `position`: where each row stands in its source ([`thalweg_core::Origin`]), as a number that follows
    /// the order of partitions and, within one, of rows, and that no row of another source has.
    Position,
    /// Joins rows with equal keys whose event times lie close to each other.
    IntervalJoin(IntervalJoin),
    /// Appends to each row of the first input aggregates over the rows of all inputs around it.
    Over(Over),
    /// Leaves out corrections that change none of the columns, and says of those of which a filter left one row that it comes or goes.
    Normalize,
    /// Gives the rows of all inputs, which have the same columns.
    Union,
    /// Gives each row to the first of several outputs whose predicate is true for it.
    Split(Split),
    /// The rows that a split gives to one of its outputs.
    Branch(usize),
    /// Puts rows into batches of equal size.
    Batch(usize),
    /// Does with each row what the program that embeds the engine says.
    Function(Function),
    /// Sorts all rows of a bounded input, and keeps the first `fetch`.
    Sort(Sort),
    /// Drops `skip` rows and passes `fetch`; then nothing more is wanted.
    Limit(Limit),
    /// Takes the rows of the query.
    Sink(Sink),
}

/// Reads a table: decodes its physical columns, computes the others, and follows event time in each partition.
#[derive(Clone, Debug)]
pub struct Source {
    /// The table, with the columns that are physically there.
    pub table: TableDefinition,
    /// The physical columns, for the expressions below.
    pub physical: DFSchemaRef,
    /// One expression per column of the node's output; `None` where the table is just its physical columns.
    pub computed: Option<Vec<Expr>>,
    /// `WATERMARK FOR …`; without it the stream has no event time.
    pub watermark: Option<WatermarkStrategy>,
    /// How many partitions the source has.
    pub partitions: usize,
}

/// How the watermark of a source partition follows from its rows: the highest event time so far, minus a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatermarkStrategy {
    /// The output column that carries event time.
    pub column: usize,
    /// How far rows may be out of order.
    pub delay: Interval,
    /// Whether that is learnt from the rows, so that this share of results is exact; then the delay is what holds until it is.
    pub accuracy: Option<Accuracy>,
}

/// Rows written in the query, expressions without columns.
#[derive(Clone, Debug)]
pub struct Values {
    /// The rows, each with one expression per output column.
    pub rows: Vec<Vec<Expr>>,
}

/// Keeps the rows for which the predicate is true.
#[derive(Clone, Debug)]
pub struct Filter {
    /// A boolean expression.
    pub predicate: Expr,
}

/// Computes one output column per expression.
#[derive(Clone, Debug)]
pub struct Map {
    /// One expression per output column.
    pub expressions: Vec<Expr>,
}

/// Windows over event time; they start at every `offset + k * slide` and last for `size`.
///
/// [`Node::Window`] appends the columns `window_start`, `window_end` and `window_time` to its input's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The input column that carries event time.
    pub time: usize,
    /// How long a window lasts.
    pub size: Interval,
    /// How far apart two windows start; equal to `size` for tumbling windows.
    pub slide: Interval,
    /// For cumulating windows, which start together: how far apart they end.
    pub step: Option<Interval>,
    /// How windows are shifted against what they are aligned to.
    pub offset: Interval,
    /// What windows are aligned to.
    pub anchor: Anchor,
    /// The zone whose local time the windows follow; `None` is UTC.
    pub zone: Option<Arc<str>>,
}

impl Windows {
    /// Whether each holds one instant, so that there may be one for each row.
    pub fn are_instants(&self) -> bool {
        let shortest = Interval(1);
        (self.size, self.slide, self.step, &self.zone) == (shortest, shortest, None, &None)
            && self.anchor == Anchor::Epoch
    }
}

/// What windows are aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// 1970-01-01T00:00:00.
    Epoch,
    /// The smallest event time of the input (StreamCloud).
    FirstRow,
}

/// Computes aggregates per window and key.
///
/// Shape: `window_start, window_end, window_time` (not with [`Windowing::Whole`]), the keys, the aggregates.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Which rows belong together in time.
    pub windowing: Windowing,
    /// The grouping keys.
    pub keys: Vec<Expr>,
    /// The aggregates.
    pub aggregates: Vec<AggregateCall>,
}

/// Which rows an aggregate puts together in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Windowing {
    /// All rows of a bounded input.
    Whole,
    /// Rows in the same window over event time.
    Assigned(Windows),
    /// Rows with the same window in these input columns, which a window node gave them further up.
    Columns {
        /// The column of the window's start.
        start: usize,
        /// The column of the window's end.
        end: usize,
    },
}

/// One aggregate function with its arguments.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// Function, arguments, DISTINCT, FILTER and ORDER BY.
    pub function: AggregateFunction,
    /// The output column.
    pub output: FieldRef,
    /// Whether it is computed here from its rows to its result.
    pub phase: Phase,
}

/// Which part of an aggregate a call computes, where one node aggregates some rows of a group, and another puts them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// All of it: the result of rows.
    #[default]
    Only,
    /// The state of rows, in one column; the result will be of this type.
    First {
        /// The type of the result.
        result: DataType,
    },
    /// The result of such states, which its only argument has.
    Second {
        /// The types of the arguments that the first one had.
        arguments: Vec<DataType>,
    },
}

/// Joins each row of the left input (the first) with the rows of the right one (the second) that have equal keys, none of them null,
/// and an event time within bounds around its own.
///
/// Shape: the columns of the left input, and, unless the join is a semi or anti join, those of the right one. The event time is that
/// of the left row; of a right join that of the right row; a full join has none. Rows without a partner come where the kind asks for
/// them, with nulls for the other side.
///
/// Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", definition 2.
#[derive(Clone, Debug)]
pub struct IntervalJoin {
    /// Which rows come out.
    pub kind: JoinKind,
    /// Values that are equal: over the columns of the left input, and over those of the right one.
    pub keys: Vec<(Expr, Expr)>,
    /// The column that carries the event time, of the left and of the right input.
    pub times: [usize; 2],
    /// How far a right row's event time may lie behind its left row's.
    pub distance: Distance,
    /// What else must be true of a pair, over the columns of `pair`.
    pub condition: Option<Expr>,
    /// The columns of a pair: those of the left input, then those of the right one, each under a name of its own.
    pub pair: DFSchemaRef,
    /// When rows come out.
    pub emission: Emission,
}

/// When results come out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emission {
    /// Once, when the watermark has passed all that they depend on.
    #[default]
    OnWatermark,
    /// At once, with what is there. What comes later and changes a result sends a correction. Behind the other columns stands
    /// [`OP`], which says what becomes of a row.
    Eager,
}

/// The column of eager results that says what becomes of a row: `+I` (it is there), `-U` and `+U` (it was so, and is so now), `-D` (it is
/// not there after all).
pub const OP: &str = "op";

/// Which rows a join gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// All pairs.
    Inner,
    /// All pairs, and left rows without a partner.
    Left,
    /// All pairs, and right rows without a partner.
    Right,
    /// All pairs, and rows of both sides without a partner.
    Full,
    /// Left rows that have a partner.
    Semi,
    /// Left rows that have none.
    Anti,
}

/// How far one event time may lie behind another; both ends are included, and less than zero is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// At least so far behind.
    pub from: Interval,
    /// At most so far behind. Nothing lies within a distance that ends before it begins.
    pub to: Interval,
}

impl JoinKind {
    /// Whether rows of the left side (0) or the right one (1) come out where they have no partner.
    pub fn comes_alone(self, side: usize) -> bool {
        match self {
            Self::Inner | Self::Semi => false,
            Self::Left | Self::Anti => side == 0,
            Self::Right => side == 1,
            Self::Full => true,
        }
    }
}

impl Distance {
    /// How far the other side's rows lie behind this one's.
    pub fn mirrored(self) -> Self {
        Self { from: Interval(self.to.0.saturating_neg()), to: Interval(self.from.0.saturating_neg()) }
    }

    /// How far apart a row and all that are so far behind it may be.
    pub fn reach(self) -> Interval {
        Interval(self.to.0.max(0).saturating_sub(self.from.0.min(0)))
    }
}

/// Appends to each row of the first input aggregates over rows with the same key around it: over rows of the first input and, if there
/// are others (a window union), over theirs. Rows of equal event time stand in the order of their positions; rows of other inputs
/// stand before those of the first.
///
/// Shape: the columns of the first input that pass, then the aggregates of all frames. Key, time and arguments are expressions over columns of
/// the first input that the others have under the same names.
#[derive(Clone, Debug)]
pub struct Over {
    /// The column that carries the event time, of each input.
    pub times: Vec<usize>,
    /// By what rows are divided: rows see only rows of the same key. Null is a key.
    pub keys: Vec<Expr>,
    /// Which columns of the first input pass.
    pub passes: Vec<usize>,
    /// What is computed.
    pub frames: Vec<Frame>,
    /// When rows come out.
    pub emission: Emission,
}

/// Which rows around a row are looked at, and what is computed of them.
#[derive(Clone, Debug)]
pub struct Frame {
    /// From where to where.
    pub bounds: FrameBounds,
    /// The last so many of these only.
    pub most: Option<usize>,
    /// Not the row itself (EXCLUDE CURRENT_ROW).
    pub excludes_row: bool,
    /// No other row of the same event time (EXCLUDE CURRENT_TIME).
    pub excludes_time: bool,
    /// No other row of the first input (INSTANCE_NOT_IN_WINDOW).
    pub excludes_base: bool,
    /// Whether the aggregates are over pairs of the row and each that it sees, and which.
    pub pairs: Option<Pairs>,
    /// The aggregates.
    pub aggregates: Vec<AggregateCall>,
}

/// Pairs of a row and each that it sees.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Which columns of the first input stand for those of the row that is seen; all others, which pass, are of the row itself.
    pub seen: Vec<usize>,
    /// What must be true of a pair.
    pub condition: Option<Expr>,
    /// Whether it is for rows alone that see nothing in the frame before.
    pub is_alone: bool,
    /// Whether all aggregates are values of the last row in time that a row sees.
    pub takes_last: bool,
}

/// From where to where a frame reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameBounds {
    /// Rows by their event time, both ends included.
    Range {
        /// How far behind the row's time the first one may be, at least; less than zero is before it. `None` is without end.
        from: Option<Interval>,
        /// How far behind it the last one may be, at most.
        to: Interval,
    },
    /// Rows by their number, both ends included.
    Rows {
        /// How many rows before the row the first one is; `None` is without end.
        from: Option<usize>,
        /// How many rows before it the last one is, no more than the first; 0 is the row itself.
        to: usize,
    },
}

/// Sorts all rows of a bounded input.
#[derive(Clone, Debug)]
pub struct Sort {
    /// What to sort by, most significant first.
    pub keys: Vec<SortKey>,
    /// How many rows are wanted; `None` is all.
    pub fetch: Option<usize>,
}

/// One key of a sort order.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The value to sort by.
    pub expression: Expr,
    /// Largest first.
    pub descending: bool,
    /// Nulls before everything else.
    pub nulls_first: bool,
}

/// Gives each row to one of several outputs (StreamCloud's filter, a case statement): that of the first predicate that is
/// true, or the last one, which has none. Each output is a [`Node::Branch`] behind it.
#[derive(Clone, Debug)]
pub struct Split {
    /// Boolean expressions, in the order in which they are asked.
    pub predicates: Vec<Expr>,
}

/// What the program that embeds the engine does with rows: the one part of a plan that is not data.
#[derive(Clone)]
pub struct Function {
    /// What it is called.
    pub name: String,
    /// By what its state is divided; none, if it has one for all rows, or none at all.
    pub keys: Vec<Expr>,
    /// Whether it has no state.
    pub is_stateless: bool,
    /// Makes the operator.
    pub make: MakeFunction,
}

/// Makes the operator of a [`Function`].
pub type MakeFunction = Arc<dyn Fn(FunctionParts) -> Result<Box<dyn Operator>> + Send + Sync>;

/// What a [`Function`] is made of.
#[derive(Clone, Debug)]
pub struct FunctionParts {
    /// The keys, compiled.
    pub keys: Vec<Arc<dyn Expression>>,
    /// The keys' types.
    pub key_types: Vec<DataType>,
    /// The columns that it gives.
    pub output: SchemaRef,
    /// Into how many groups keys are divided.
    pub key_groups: KeyGroups,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Passes some rows only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many rows to drop first.
    pub skip: usize,
    /// How many rows to pass then; `None` is all.
    pub fetch: Option<usize>,
}

/// Where the rows of a query go.
#[derive(Clone, Debug)]
pub enum Sink {
    /// To the holder of the query's handle.
    Result,
    /// Into a table.
    Table(TableDefinition),
    /// Nowhere: a function above has seen them.
    Discard,
}

impl Node {
    /// What the node is called in explanations, metrics and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Source(_) => "Source",
            Self::Values(_) => "Values",
            Self::Filter(_) => "Filter",
            Self::Map(_) => "Map",
            Self::Window(_) => "Window",
            Self::Aggregate(_) => "Aggregate",
            Self::Partial(_) => "Partial",
            Self::Position => "Position",
            Self::Normalize => "Normalize",
            Self::IntervalJoin(_) => "IntervalJoin",
            Self::Over(_) => "Over",
            Self::Union => "Union",
            Self::Split(_) => "Split",
            Self::Branch(_) => "Branch",
            Self::Batch(_) => "Batch",
            Self::Function(_) => "Function",
            Self::Sort(_) => "Sort",
            Self::Limit(_) => "Limit",
            Self::Sink(_) => "Sink",
        }
    }

    /// Whether results come out before they are final.
    pub fn is_eager(&self) -> bool {
        match self {
            Self::IntervalJoin(join) => join.emission == Emission::Eager,
            Self::Over(over) => over.emission == Emission::Eager,
            _ => false,
        }
    }

    /// Whether each row is treated by itself, so that any number of instances may share the rows.
    pub fn is_stateless(&self) -> bool {
        match self {
            Self::Filter(_) | Self::Map(_) | Self::Position | Self::Normalize => true,
            // What it holds goes out before all that others wait for.
            Self::Partial(_) => true,
            // Aligned windows of a row follow from the row alone.
            Self::Window(windows) => windows.anchor == Anchor::Epoch,
            Self::Function(function) => function.is_stateless,
            Self::Split(_) => true,
            Self::Source(_) | Self::Values(_) | Self::Aggregate(_) | Self::Union => false,
            Self::IntervalJoin(_) | Self::Over(_) => false,
            Self::Branch(_) | Self::Batch(_) | Self::Sort(_) | Self::Limit(_) | Self::Sink(_) => false,
        }
    }
}
