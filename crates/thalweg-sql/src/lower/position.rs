//! Where rows stand in their source, appended behind sources that lead to somebody who asks.

use arrow_schema::{DataType, Field};
use thalweg_core::Result;
use thalweg_plan::{Node, NodeId, StreamSchema};

use super::Lowering;

impl Lowering<'_> {
    /// Lowers something of whose rows it is asked, or not, where they stand in their source.
    pub(super) fn with_positions<T>(&mut self, wanted: bool, lower: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.wants_positions, wanted);
        let asks = std::mem::take(&mut self.asks_for_time);
        let wanted_time = std::mem::replace(&mut self.wants_time, asks);
        let lowered = lower(self);
        (self.wants_positions, self.wants_time) = (before, wanted_time);
        lowered
    }

    /// Appends where each row of a source stands in it, if somebody asks.
    pub(super) fn position(&mut self, source: NodeId) -> NodeId {
        if !self.wants_positions {
            return source;
        }
        let schema = self.plan.node(source).schema.clone();
        let fields = schema.columns.fields().iter().map(|field| field.as_ref().clone());
        let columns = self.unique(fields.chain([position_field()]));
        let position = Some(schema.columns.fields().len());
        self.plan.add(Node::Position, vec![source], StreamSchema { columns, position, ..schema })
    }
}

/// Where a row stands in its source.
pub(super) fn position_field() -> Field {
    Field::new("position", DataType::Int64, false)
}
