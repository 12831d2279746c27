//! Unions whose rows are divided by keys are spread: what stands between a union and who divides its rows is there for each of its
//! inputs, and a join, or an aggregate over the rows around a row, takes the rows of each input itself.
//!
//! ```text
//! a ─╖                                             a ─ Filter ═══╗
//! b ─╨ Union ─ Filter ═══ Aggregate                b ─ Filter ═══╩ Union ─ Aggregate
//!
//! a ─╖                                             a ════╗
//! b ─╨ Union ═══╗                                  b ════╣
//! c ════════════╩ IntervalJoin                     c ════╩ IntervalJoin (2 + 1 inputs)
//! ```
//!
//! So rows go straight to the instance that has their key, and a union needs none of its own. Rows are the same: a filter, an
//! expression or a window looks at one row at a time, which keeps its event time, its position, and the watermark that it met; the
//! rows of a union's inputs have no order among each other; and time is the slowest input's, in one step or in two.
//!
//! Over's streams stay what they were: rows of one time stand in the order of streams, and inputs of one stream are one stream.

use std::collections::HashMap;

use datafusion_expr::Expr;

use super::{
    costs::fingerprint,
    cut::{self, sees_all_rows},
    order::must_gather,
    renamed,
};
use crate::{
    Node, NodeId, Plan, PlanNode, StreamSchema,
    node::{Filter, Map},
    settings::Strategy,
};

/// The rows of a node: those of one node, or of several together, which were inputs of a union of this number.
#[derive(Clone)]
enum Rows {
    Of(NodeId),
    Together(Vec<NodeId>, usize),
}

/// The plan with the unions spread whose rows are divided by keys.
pub fn spread(plan: &Plan) -> Plan {
    if plan.settings.parallelism < 2 || plan.settings.strategy == Strategy::OperatorCluster {
        return plan.clone();
    }
    let mut spread = Plan::new(plan.settings.clone());
    spread.costs = plan.costs.clone();
    spread.origin = Some(fingerprint(plan));
    let mut moved: HashMap<NodeId, Rows> = HashMap::new();
    for (id, planned) in plan.nodes() {
        let inputs: Vec<Rows> = planned.inputs.iter().map(|input| moved[input].clone()).collect();
        let rows = match (&planned.node, &inputs[..]) {
            (Node::Union, _) if is_spread(plan, id) => {
                Rows::Together(inputs.iter().flat_map(Rows::nodes).collect(), planned.number)
            }
            (_, [Rows::Together(parts, union)]) if passes(&planned.node) => {
                let copies =
                    parts.iter().map(|part| copied(&mut spread, planned, *part, &plan.node(planned.inputs[0]).schema));
                Rows::Together(copies.collect(), *union)
            }
            (Node::IntervalJoin(_) | Node::Over(_), _) => Rows::Of(taken_apart(plan, &mut spread, planned, &inputs)),
            _ => {
                let inputs = planned.inputs.iter().zip(inputs).map(|(input, rows)| match rows {
                    Rows::Of(node) => node,
                    Rows::Together(inputs, number) => {
                        let schema = plan.node(*input).schema.clone();
                        spread.put(PlanNode { node: Node::Union, inputs, schema, number, sides: Vec::new() })
                    }
                });
                let inputs = inputs.collect();
                Rows::Of(spread.put(PlanNode { inputs, ..planned.clone() }))
            }
        };
        moved.insert(id, rows);
    }
    spread
}

impl Rows {
    fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::Of(node) => vec![*node],
            Self::Together(nodes, _) => nodes.clone(),
        }
    }
}

/// Whether the rows of a union, or of what stands behind it, are taken by one node only, which divides them by keys.
fn is_spread(plan: &Plan, id: NodeId) -> bool {
    let consumers: Vec<_> = plan.consumers(id).collect();
    let [consumer] = consumers[..] else { return false };
    let ends_divided = match &plan.node(consumer).node {
        Node::Aggregate(aggregate) => !must_gather(plan, consumer) && !sees_all_rows(aggregate),
        Node::IntervalJoin(_) | Node::Over(_) => cut::divides(plan, consumer),
        Node::Union => is_spread(plan, consumer),
        node => passes(node) && is_spread(plan, consumer),
    };
    ends_divided && !must_gather(plan, id)
}

/// Whether a node looks at one row at a time, and at nothing else.
fn passes(node: &Node) -> bool {
    matches!(node, Node::Filter(_) | Node::Map(_) | Node::Window(_)) && node.is_stateless()
}

/// A node without a state behind one of the inputs of a union, whose columns may have other names than the union's.
fn copied(spread: &mut Plan, planned: &PlanNode, part: NodeId, union: &StreamSchema) -> NodeId {
    let given = spread.node(part).schema.clone();
    let here = |expression: &Expr| renamed(expression.clone(), &union.columns, &given.columns);
    let (node, columns) = match &planned.node {
        Node::Filter(filter) => (Node::Filter(Filter { predicate: here(&filter.predicate) }), given.columns.clone()),
        Node::Map(map) => {
            (Node::Map(Map { expressions: map.expressions.iter().map(here).collect() }), planned.schema.columns.clone())
        }
        node => (node.clone(), planned.schema.columns.clone()),
    };
    let schema = StreamSchema { columns, is_bounded: given.is_bounded, ..planned.schema.clone() };
    spread.put(PlanNode { node, inputs: vec![part], schema, number: planned.number, sides: Vec::new() })
}

/// A join, or an aggregate over the rows around a row, which takes the rows of all inputs of unions itself.
fn taken_apart(plan: &Plan, spread: &mut Plan, planned: &PlanNode, rows: &[Rows]) -> NodeId {
    let (mut inputs, mut sides) = (Vec::new(), Vec::new());
    for (side, (input, rows)) in planned.inputs.iter().zip(rows).enumerate() {
        let schema = &plan.node(*input).schema;
        for part in rows.nodes() {
            inputs.push(match rows {
                Rows::Of(_) => part,
                Rows::Together(_, number) => under_names_of(spread, part, schema, *number),
            });
            sides.push(planned.side(side));
        }
    }
    let sides = if inputs.len() == planned.inputs.len() { planned.sides.clone() } else { sides };
    spread.put(PlanNode { inputs, sides, ..planned.clone() })
}

/// The rows of a union's input under the union's names. What gives them has the union's number.
fn under_names_of(spread: &mut Plan, part: NodeId, schema: &StreamSchema, number: usize) -> NodeId {
    let given = &spread.node(part).schema;
    let names = |schema: &StreamSchema| schema.columns.fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    if names(given) == names(schema) && given.position == schema.position {
        return part;
    }
    let expressions = given.columns.columns().into_iter().map(Expr::Column).collect();
    let (node, schema) = (Node::Map(Map { expressions }), schema.clone());
    spread.put(PlanNode { node, inputs: vec![part], schema, number, sides: Vec::new() })
}

#[cfg(test)]
mod tests {
    use datafusion_expr::{col, lit};

    use super::*;
    use crate::{
        node::{Aggregate, Emission, Limit, Over, Windowing},
        parallel::{Route, parallelize, testing::union_of_two},
        render::{Notes, text},
    };

    /// What [`union_of_two`] gives, spread.
    fn spread_of(set: &[(&str, &str)], behind: Vec<Node>, takers: usize) -> Plan {
        spread(&union_of_two(set, behind, takers))
    }

    fn filter() -> Node {
        Node::Filter(Filter { predicate: col("k").gt(lit(1_i64)) })
    }

    fn aggregate() -> Node {
        Node::Aggregate(Aggregate { windowing: Windowing::Whole, keys: vec![col("k")], aggregates: Vec::new() })
    }

    fn over() -> Node {
        Node::Over(Over {
            times: vec![0],
            keys: vec![col("k")],
            passes: vec![0],
            frames: Vec::new(),
            emission: Emission::default(),
        })
    }

    /// The nodes without where they run.
    fn nodes(plan: &Plan) -> Vec<String> {
        let text = text(plan, &Notes::default());
        let is_node = |line: &&str| !line.contains("─ exchange ") && !line.contains("─ gather ");
        let lines = text.lines().filter(is_node);
        lines
            .map(|line| line.split("  [").next().unwrap().trim_start_matches(['└', '├', '─', '│', ' ']).to_string())
            .collect()
    }

    #[test]
    fn what_stands_between_a_union_and_who_divides_its_rows_is_there_for_each_input() {
        let plan = spread_of(&[], vec![filter(), aggregate()], 1);
        let expected = [
            "Sink result",
            "Aggregate by k",
            "Union",
            "Filter a > 1",
            "Values 0 rows",
            "Filter b > 1",
            "Values 0 rows",
        ];
        assert_eq!(nodes(&plan), expected);
        let labels: Vec<_> = plan.nodes().map(|(id, _)| plan.label(id)).collect();
        let expected = ["Values 0", "Values 1", "Filter 3", "Filter 3", "Union 2", "Aggregate 4", "Sink 5"];
        assert_eq!(labels, expected, "numbers stay");
        assert_eq!(nodes(&spread(&plan)), nodes(&plan), "it is spread already");
    }

    #[test]
    fn aggregates_over_the_rows_around_a_row_take_the_rows_of_each_input() {
        let map = || Node::Map(Map { expressions: vec![col("k") + lit(1_i64)] });
        let plan = spread_of(&[], vec![map(), filter(), over()], 1);
        let filtered =
            ["Filter k > 1", "Map a + 1 AS k", "Values 0 rows", "Filter k > 1", "Map b + 1 AS k", "Values 0 rows"];
        assert_eq!(nodes(&plan), [&["Sink result", "Over by k on k:  (2 inputs)"][..], &filtered].concat());
        // Where nothing gives columns the union's names, somebody has to.
        let plan = spread_of(&[], vec![over()], 1);
        assert_eq!(nodes(&plan)[2..4], ["Map a AS k", "Values 0 rows"]);
        let cut = parallelize(&plan);
        let home = &cut.subqueries[cut.home(NodeId(4)).unwrap().0];
        assert!(home.instances == 4 && home.inputs.len() == 2, "{cut:?}");
        assert!(
            home.inputs.iter().all(|input| matches!(&input.route, Route::Keyed { keys, .. } if keys[..] == [col("k")]))
        );
    }

    #[test]
    fn a_union_stays_where_its_rows_are_seen_by_others_or_in_order() {
        let union = |set: &[(&str, &str)], behind: Vec<Node>, takers| {
            let nodes = nodes(&spread_of(set, behind, takers));
            let at = nodes.iter().position(|node| node == "Union").unwrap();
            nodes[at + 1].clone()
        };
        let stays = "Values 0 rows";
        assert_eq!(union(&[], vec![filter(), aggregate()], 1), "Filter a > 1");
        assert_eq!(union(&[], vec![filter(), aggregate()], 2), stays, "others want all rows");
        assert_eq!(
            union(&[("float.sum", "fast")], vec![filter(), aggregate()], 1),
            stays,
            "sums depend on the order of rows"
        );
        assert_eq!(union(&[("parallelism", "1")], vec![filter(), over()], 1), stays);
        assert_eq!(union(&[("parallel.strategy", "operator-cluster")], vec![filter(), over()], 1), stays);
        let limit = || Node::Limit(Limit { skip: 0, fetch: Some(1) });
        assert_eq!(union(&[], vec![limit(), aggregate()], 1), stays, "which rows it passes depends on all");
        assert_eq!(union(&[], vec![filter()], 1), stays, "nobody divides them");
    }
}
