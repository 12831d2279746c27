//! Plans with a union, for tests of what becomes of it.

use std::{collections::HashMap, sync::Arc};

use arrow_schema::{DataType, Field};
use datafusion_common::DFSchema;

use crate::{
    Node, Plan, Settings, StreamSchema,
    node::{Sink, Values},
};

/// A stream of one column.
pub fn stream(column: &str) -> StreamSchema {
    let fields = vec![Field::new(column, DataType::Int64, true)];
    let columns = DFSchema::from_unqualified_fields(fields.into(), HashMap::new()).unwrap();
    StreamSchema::plain(Arc::new(columns), true)
}

/// A plan with these settings in which these nodes, and a sink, follow a union, called `k`, of the columns `a` and `b`, which so many
/// take the rows of. The union is its third node.
pub fn union_of_two(set: &[(&str, &str)], behind: Vec<Node>, takers: usize) -> Plan {
    let mut settings = Settings { parallelism: 4, divides_keys: true, ..Settings::default() };
    set.iter().for_each(|(key, value)| settings.set(key, value).unwrap());
    let mut plan = Plan::new(settings);
    let inputs =
        ["a", "b"].map(|name| plan.add(Node::Values(Values { rows: Vec::new() }), vec![], stream(name))).to_vec();
    let union = plan.add(Node::Union, inputs, stream("k"));
    let mut last = union;
    for node in behind {
        last = plan.add(node, vec![last], stream("k"));
    }
    plan.add(Node::Sink(Sink::Result), vec![last], stream("k"));
    for _ in 1..takers {
        plan.add(Node::Sink(Sink::Discard), vec![union], stream("k"));
    }
    plan
}
