//! What is to run: stages of sources, operators and sinks, with their factories.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use thalweg_core::{
    Batch, KeyGroups, Operator, Port, Result,
    connector::{Sink, Source},
    expression::Expression,
};
use thalweg_plan::{Settings, node::WatermarkStrategy, parallel::share::Sharing};

use crate::simulation::{Pick, Schedule};

/// A plan that was cut into subqueries and compiled: one stage per subquery.
pub struct Topology {
    /// The stages, each behind those it takes rows from.
    pub stages: Vec<Stage>,
    /// How to run them.
    pub settings: Settings,
    /// Into how many groups keys are divided.
    pub key_groups: KeyGroups,
    /// What happens at a barrier.
    pub on_barrier: OnBarrier,
    /// Whether it is measured how long nodes take.
    pub is_timed: bool,
    /// Decides in which order tasks run, on the thread of whoever takes the result; without one, workers do.
    pub schedule: Option<Schedule>,
    /// Decides which key groups change hands at each barrier, whatever the load.
    pub moves: Option<Pick>,
}

/// A subquery: all its instances do the same.
pub struct Stage {
    /// How many instances share the rows.
    pub instances: usize,
    /// Where rows come from, by port of the first operator. None where there is a source.
    pub inputs: Vec<StageInput>,
    /// What is read.
    pub source: Option<SourceParts>,
    /// The operators, each behind the one it takes rows from.
    pub operators: Vec<OperatorParts>,
    /// Where the rows go, with the node's name; `None` passes them to other stages or to the query's handle.
    pub sink: Option<(String, Box<dyn Sink>)>,
    /// Whether the query's handle gets the rows. One stage at most, of one instance.
    pub is_result: bool,
}

/// What a stage takes its rows from.
#[derive(Clone, Debug)]
pub struct StageInput {
    /// The stage that sends.
    pub stage: usize,
    /// The output of its last operator.
    pub port: Port,
    /// What decides which instance receives a row; `None` is every one, of which there is one, or the one with the sender's number.
    pub keys: Option<KeyParts>,
    /// Whether each instance takes the rows of the sender's instance of its number, of which there are as many.
    pub is_forward: bool,
    /// Whether the batches of the sender's only instance are dealt to the instances in turn.
    pub is_dealt: bool,
    /// Whether what the senders' instances make of batches that were dealt to them is taken in the same turn.
    pub is_in_turn: bool,
    /// Whether the rows of the senders' instances are put in the order of their positions.
    pub is_ordered: bool,
}

/// What rows are divided by: each goes to the instance that owns the key group of these values.
#[derive(Clone, Debug)]
pub struct KeyParts {
    /// The receiving node's name.
    pub label: String,
    /// The values, over the sender's columns.
    pub keys: Vec<Arc<dyn Expression>>,
    /// How rows get to the instances that share their key group, if any may: on all inputs of a stage or on none.
    pub sharing: Option<Sharing>,
}

impl KeyParts {
    /// The values of a batch's rows as its columns.
    ///
    /// Errors: what an expression gives, with the node's name.
    pub fn of(&self, batch: &Batch) -> Result<Batch> {
        let keys = self.keys.iter().map(|key| key.evaluate(batch)).collect::<Result<Vec<_>>>();
        let keys = keys.map_err(|error| error.in_node(&self.label))?;
        let fields = keys.iter().map(|key| Field::new("key", key.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(batch.clone().with_columns(RecordBatch::try_new(schema, keys)?))
    }
}

/// Reads a table.
pub struct SourceParts {
    /// The node's name.
    pub label: String,
    /// The table's name.
    pub table: String,
    /// The table's partitions.
    pub source: Box<dyn Source>,
    /// What the columns are computed by, if they are not just those that are read.
    pub computed: Option<(Vec<Arc<dyn Expression>>, SchemaRef)>,
    /// How event time is followed.
    pub watermark: Option<WatermarkStrategy>,
    /// Whether rows without a usable event time are counted and dropped, rather than an error.
    pub skips_bad_rows: bool,
}

/// Makes an operator.
#[derive(Clone)]
pub struct OperatorParts {
    /// The node's name.
    pub label: String,
    /// The name that errors give it: a phase of an aggregate is the aggregate to whoever wrote it.
    pub blamed: String,
    /// Makes a fresh instance.
    pub make: Arc<dyn Fn() -> Result<Box<dyn Operator>> + Send + Sync>,
}

/// What happens at a barrier, when all that belongs to an epoch has arrived at an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBarrier {
    /// Nothing: the barrier passes.
    #[default]
    Pass,
    /// Each state is saved, and loaded into a fresh operator which takes the place of the old one.
    Reload,
}
