//! What is written twice is done once: nodes that do the same with the same rows become one, whose rows all that follow it take.
//!
//! A table that a query names twice is so read once, which some can only be (a pipe, standard input), and a common table expression
//! that both sides of a join name is computed once.

use datafusion_expr::Expr;

use crate::{Node, NodeId, Plan, PlanNode, node::Aggregate};

impl Plan {
    /// The same plan, in which no two nodes do the same with the same rows.
    pub fn reused(&self) -> Self {
        let mut reused = Self::new(self.settings.clone());
        reused.costs = self.costs.clone();
        let mut moved: Vec<NodeId> = Vec::new();
        for (_, planned) in self.nodes() {
            let inputs: Vec<_> = planned.inputs.iter().map(|input| moved[input.0]).collect();
            let twin = reused.nodes().find(|(_, other)| other.inputs == inputs && does_the_same(planned, other));
            let twin = twin.map(|(id, _)| id);
            moved.push(twin.unwrap_or_else(|| reused.add(planned.node.clone(), inputs, planned.schema.clone())));
        }
        reused
    }
}

/// Whether two nodes give the same columns of the same rows.
fn does_the_same(one: &PlanNode, other: &PlanNode) -> bool {
    let is_alike = match (&one.node, &other.node) {
        (Node::Source(one), Node::Source(other)) => one.table.name == other.table.name,
        (Node::Position, Node::Position) => true,
        (Node::Filter(one), Node::Filter(other)) => are_same([&one.predicate], [&other.predicate]),
        (Node::Map(one), Node::Map(other)) => are_same(&one.expressions, &other.expressions),
        (Node::Window(one), Node::Window(other)) => one == other,
        (Node::Aggregate(one), Node::Aggregate(other)) => aggregate_alike(one, other),
        _ => false,
    };
    // Whatever follows names columns by their names.
    is_alike && one.schema == other.schema
}

fn aggregate_alike(one: &Aggregate, other: &Aggregate) -> bool {
    let calls = |aggregate: &Aggregate| -> Vec<Expr> {
        aggregate.aggregates.iter().map(|call| Expr::AggregateFunction(call.function.clone())).collect()
    };
    let phases = |aggregate: &Aggregate| aggregate.aggregates.iter().map(|call| call.phase.clone()).collect::<Vec<_>>();
    one.windowing == other.windowing
        && are_same(&one.keys, &other.keys)
        && are_same(&calls(one), &calls(other))
        && phases(one) == phases(other)
}

/// Whether expressions give the same values each time they are computed.
fn are_same<'a>(one: impl IntoIterator<Item = &'a Expr>, other: impl IntoIterator<Item = &'a Expr>) -> bool {
    one.into_iter().eq(other.into_iter().filter(|expression| !expression.is_volatile()))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use arrow_schema::{DataType, Field};
    use datafusion_common::DFSchema;
    use datafusion_expr::{Volatility, col, create_udf, lit};

    use super::*;
    use crate::{
        Settings, StreamSchema,
        node::{Filter, Map, Sink, Values},
    };

    fn stream(column: &str) -> StreamSchema {
        let fields = vec![Field::new(column, DataType::Int64, true)];
        let columns = DFSchema::from_unqualified_fields(fields.into(), HashMap::new()).unwrap();
        StreamSchema::plain(Arc::new(columns), true)
    }

    #[test]
    fn chains_are_one_up_to_where_they_differ() {
        let mut plan = Plan::new(Settings::default());
        let filter = |least: i64| Node::Filter(Filter { predicate: col("k").gt(lit(least)) });
        let map = || Node::Map(Map { expressions: vec![col("k") + lit(1)] });
        let values = plan.add(Node::Values(Values { rows: Vec::new() }), vec![], stream("k"));
        let ends = [(1, "a"), (1, "a"), (2, "a"), (1, "b")].map(|(least, name)| {
            let filtered = plan.add(filter(least), vec![values], stream("k"));
            plan.add(map(), vec![filtered], stream(name))
        });
        let union = plan.add(Node::Union, ends.to_vec(), stream("a"));
        plan.add(Node::Sink(Sink::Result), vec![union], stream("a"));
        let reused = plan.reused();
        let inputs = |(_, node): (_, &PlanNode)| node.inputs.iter().map(|id| id.0).collect::<Vec<_>>();
        let inputs: Vec<_> = reused.nodes().map(inputs).collect();
        let [first, second, other] = [2, 4, 5];
        let expected: [&[usize]; 8] = [&[], &[0], &[1], &[0], &[3], &[1], &[first, first, second, other], &[6]];
        assert_eq!(inputs, expected.map(<[usize]>::to_vec));
    }

    #[test]
    fn values_that_are_new_each_time_are_computed_each_time() {
        let dice = create_udf("dice", vec![], DataType::Int64, Volatility::Volatile, Arc::new(|_| unreachable!()));
        let volatile = dice.call(vec![]);
        assert!(!are_same([&volatile], [&volatile]));
        assert!(are_same([&col("k")], [&col("k")]) && !are_same([&col("k")], []));
    }
}
