//! Where the event time is lost on its way from a table.

use thalweg_plan::{
    Node, NodeId,
    node::{IntervalJoin, JoinKind},
};

use super::Lowering;

impl Lowering<'_> {
    /// What to do about rows that have no event time although those that they come from do; `None` if no table has one.
    pub(super) fn lost_time(&self, node: NodeId) -> Option<String> {
        let planned = self.plan.node(node);
        let time_of = |input: &NodeId| {
            let schema = &self.plan.node(*input).schema;
            schema.time.map(|time| schema.columns.field(time).name())
        };
        let Some(time) = planned.inputs.iter().find_map(time_of) else {
            return planned.inputs.iter().find_map(|input| self.lost_time(*input));
        };
        Some(match &planned.node {
            Node::Map(_) => {
                format!("\"{time}\" carried it before: take that, as it is")
            }
            Node::IntervalJoin(IntervalJoin { kind: JoinKind::Full, .. }) => {
                "the rows of a FULL JOIN have none: a LEFT JOIN's have that of the left row".to_string()
            }
            Node::Sort(_) => "what ORDER BY has sorted has none: leave it out".to_string(),
            Node::Aggregate(_) => format!("groups have one if they are of windows, or if \"{time}\" is in GROUP BY"),
            Node::Union => {
                "it must be the same column in all inputs of UNION ALL, of one type, and have a WATERMARK in each"
                    .to_string()
            }
            _ => return None,
        })
    }
}
