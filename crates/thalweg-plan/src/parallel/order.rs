//! Which edges put the rows of several instances in order.
//!
//! The rows of an aggregate come in an order that is promised; those of several of its instances do if a gather puts them there. It
//! does where somebody sees their order. Results that come out before they are final have none.

use crate::{
    Node, NodeId, Plan,
    settings::{FloatSum, Merge},
};

/// How the only instance of a subquery that begins with this node takes the rows of the instances of another, which are an
/// aggregate's that were divided by keys, or not.
pub fn merge(plan: &Plan, first: NodeId, is_divided: bool) -> Merge {
    if is_divided && sees_order(plan, first) && !takes_eager(plan, first) {
        plan.settings.merge
    } else {
        Merge::Arrival
    }
}

/// Whether a node takes results that are not final yet, which nothing behind them makes final.
fn takes_eager(plan: &Plan, id: NodeId) -> bool {
    plan.node(id).inputs.iter().any(|input| plan.node(*input).node.is_eager() || takes_eager(plan, *input))
}

/// Whether a node needs the rows of all instances of a divided aggregate at one place, and in order, although it might be divided,
/// or run with them.
///
/// So do functions of the program, which might look at rows in their order, and sums that depend on it; and a union, since rows of
/// two aggregates have no order among each other.
pub fn must_gather(plan: &Plan, id: NodeId) -> bool {
    let node = &plan.node(id).node;
    plan.settings.merge.puts_in_order()
        && matches!(node, Node::Aggregate(_) | Node::Function(_) | Node::Union)
        && sees_order(plan, id)
}

/// Whether what a node gives, or does, depends on the order of its rows, or has the same order.
fn sees_order(plan: &Plan, id: NodeId) -> bool {
    let node = &plan.node(id).node;
    match node {
        // Rows that they find equal are equal.
        Node::Sort(_) | Node::IntervalJoin(_) | Node::Over(_) => false,
        Node::Aggregate(_) | Node::Partial(_) => plan.settings.float_sum == FloatSum::Fast,
        Node::Union | Node::Branch(_) => plan.consumers(id).any(|consumer| sees_order(plan, consumer)),
        Node::Filter(_) | Node::Map(_) | Node::Position | Node::Window(_) | Node::Split(_) if node.is_stateless() => {
            plan.consumers(id).any(|consumer| sees_order(plan, consumer))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use arrow_schema::{DataType, Field};
    use datafusion_common::DFSchema;
    use datafusion_expr::{col, lit};
    use thalweg_core::Error;

    use super::*;
    use crate::{
        Settings, StreamSchema,
        node::{Aggregate, Emission, Filter, Function, Limit, Over, Sink, Sort, Split, Values, Windowing},
        parallel::{ParallelPlan, Route, parallelize},
    };

    fn aggregate(keys: usize) -> Node {
        let keys = vec![lit(1); keys];
        Node::Aggregate(Aggregate { windowing: Windowing::Whole, keys, aggregates: Vec::new() })
    }

    fn sort() -> Node {
        Node::Sort(Sort { keys: Vec::new(), fetch: None })
    }

    fn function(is_stateless: bool) -> Node {
        let make = Arc::new(|_| Err(Error::bug("never made")));
        Node::Function(Function { name: "f".to_string(), keys: Vec::new(), is_stateless, make })
    }

    fn filter() -> Node {
        Node::Filter(Filter { predicate: lit(true) })
    }

    fn limit() -> Node {
        Node::Limit(Limit { skip: 0, fetch: None })
    }

    fn settings(set: &[(&str, &str)]) -> Settings {
        let mut settings = Settings { parallelism: 4, divides_keys: true, ..Settings::default() };
        set.iter().for_each(|(key, value)| settings.set(key, value).unwrap());
        settings
    }

    /// The cut of a plan in which these nodes, and a sink, follow an aggregate with a key.
    fn cut(set: &[(&str, &str)], behind: Vec<Node>) -> ParallelPlan {
        let mut plan = Plan::new(settings(set));
        let nodes = [Node::Values(Values { rows: Vec::new() }), aggregate(1)].into_iter().chain(behind);
        let mut last = Vec::new();
        for node in nodes.chain([Node::Sink(Sink::Result)]) {
            last = vec![plan.add(node, last, stream())];
        }
        parallelize(&plan)
    }

    fn stream() -> StreamSchema {
        StreamSchema::plain(Arc::new(DFSchema::empty()), true)
    }

    /// How the rows of the aggregate travel on, and to how many instances.
    fn route(set: &[(&str, &str)], behind: Vec<Node>) -> (String, usize) {
        let cut = cut(set, behind);
        assert_eq!(cut.subqueries[1].instances, 4);
        let next = &cut.subqueries[2];
        let word = match next.inputs[0].route {
            Route::Gather(merge) => merge.name(),
            Route::Forward => "forward",
            Route::Keyed { .. } => "keyed",
            Route::InTurn | Route::RoundRobin => "turn",
        };
        assert_eq!(cut.is_put_in_order(next.inputs[0].from), ["ordered", "slack"].contains(&word));
        (word.to_string(), next.instances)
    }

    #[test]
    fn rows_are_put_in_order_where_somebody_sees_their_order() {
        let to = |behind: Vec<Node>| route(&[], behind);
        let (ordered, arrival) = (("ordered".to_string(), 1), ("arrival".to_string(), 1));
        assert_eq!(to(vec![]), ordered);
        assert_eq!(to(vec![filter()]), ordered);
        assert_eq!(to(vec![limit(), sort()]), ordered, "which rows it passes depends on it");
        assert_eq!(to(vec![Node::Batch(3), sort()]), ordered);
        assert_eq!(to(vec![filter(), Node::Union]), ordered);
        assert_eq!(to(vec![sort()]), arrival);
        assert_eq!(to(vec![Node::Union, filter(), sort(), limit()]), arrival);
        assert_eq!(to(vec![aggregate(0)]), arrival);
        assert_eq!(to(vec![aggregate(1)]), ("keyed".to_string(), 4));
    }

    #[test]
    fn results_that_are_not_final_are_taken_as_they_arrive() {
        let behind = |emission: Emission| {
            let over = Over { times: vec![0], keys: vec![lit(1)], passes: vec![0], frames: Vec::new(), emission };
            let mut plan = Plan::new(settings(&[]));
            let mut last = Vec::new();
            for node in
                [Node::Values(Values { rows: Vec::new() }), Node::Over(over), filter(), Node::Sink(Sink::Result)]
            {
                last = vec![plan.add(node, last, stream())];
            }
            let cut = parallelize(&plan);
            (cut.subqueries[2].inputs[0].route.clone(), cut.has_positions(NodeId(1)))
        };
        assert_eq!(behind(Emission::OnWatermark), (Route::Gather(Merge::Ordered), true));
        assert_eq!(behind(Emission::Eager), (Route::Gather(Merge::Arrival), false));
    }

    #[test]
    fn functions_of_the_program_see_rows_in_order_at_one_place() {
        for is_stateless in [true, false] {
            assert_eq!(route(&[], vec![function(is_stateless), sort()]), ("ordered".to_string(), 1));
        }
        let together = cut(&[("merge", "arrival")], vec![function(true)]);
        assert_eq!(together.subqueries[1].nodes.len(), 2, "any order will do: instances call it at the same time");
    }

    #[test]
    fn sums_that_depend_on_order_get_it() {
        let fast = [("float.sum", "fast")];
        for keys in [0, 1] {
            assert_eq!(route(&fast, vec![aggregate(keys)]), ("ordered".to_string(), 1));
        }
        let fast = [("float.sum", "fast"), ("merge", "arrival")];
        assert_eq!(route(&fast, vec![aggregate(1)]), ("keyed".to_string(), 4));
    }

    #[test]
    fn with_slack_the_plan_is_the_same_but_for_how_rows_are_put_in_order() {
        let behind =
            || vec![vec![], vec![sort()], vec![limit()], vec![aggregate(0)], vec![aggregate(1)], vec![function(true)]];
        for fast in [("float.sum", "exact"), ("float.sum", "fast")] {
            for (ordered, slack) in behind().into_iter().zip(behind()) {
                let (ordered, slack) = (route(&[fast], ordered), route(&[fast, ("merge", "slack")], slack));
                assert_eq!((ordered.0.replace("ordered", "slack"), ordered.1), slack);
            }
        }
    }

    #[test]
    fn nothing_is_put_in_order_where_arrival_will_do() {
        for behind in [vec![], vec![limit()], vec![function(false)]] {
            assert_eq!(route(&[("merge", "arrival")], behind).0, "arrival");
        }
        let one = cut(&[], vec![limit()]);
        let first = &one.subqueries[1].inputs[0].route;
        assert_eq!(*first, Route::Keyed { keys: vec![lit(1)], groups: Default::default() });
    }

    #[test]
    fn each_output_of_a_split_is_looked_at_by_itself() {
        let mut plan = Plan::new(settings(&[]));
        let values = plan.add(Node::Values(Values { rows: Vec::new() }), vec![], stream());
        let counts = plan.add(aggregate(1), vec![values], stream());
        let split = plan.add(Node::Split(Split { predicates: vec![lit(true)] }), vec![counts], stream());
        let [sorted, plain] = [0, 1].map(|output| plan.add(Node::Branch(output), vec![split], stream()));
        let sort = plan.add(sort(), vec![sorted], stream());
        for last in [sort, plain] {
            plan.add(Node::Sink(Sink::Discard), vec![last], stream());
        }
        let cut = parallelize(&plan);
        let route = |id| cut.subqueries[cut.home(id).unwrap().0].inputs[0].route.clone();
        assert_eq!(cut.home(split), cut.home(counts));
        assert_eq!((route(sorted), route(plain)), (Route::Gather(Merge::Arrival), Route::Gather(Merge::Ordered)));
    }

    #[test]
    fn rows_that_go_one_to_one_are_put_in_order_behind() {
        let (strategy, arrival) = (("parallel.strategy", "operator-cluster"), ("merge", "arrival"));
        let routes = |set: &[(&str, &str)], behind| {
            let cut = cut(set, behind);
            let routes: Vec<_> = cut.subqueries[2..].iter().map(|subquery| subquery.inputs[0].route.clone()).collect();
            // The aggregate is the second node.
            (routes, cut.has_positions(NodeId(1)))
        };
        let [ordered, by_arrival] = [Merge::Ordered, Merge::Arrival].map(Route::Gather);
        let two = |last: &Route| vec![Route::Forward, Route::Forward, last.clone()];
        assert_eq!(routes(&[strategy], vec![filter(), filter()]), (two(&ordered), true));
        assert_eq!(routes(&[strategy, arrival], vec![filter(), filter()]), (two(&by_arrival), false));
        let sorted = routes(&[strategy], vec![filter(), filter(), sort()]);
        assert_eq!((&sorted.0[..3], sorted.1), (&two(&by_arrival)[..], false));
        // What calls a function of the program in order calls it at one place.
        let called = routes(&[strategy], vec![filter(), function(true)]);
        assert_eq!((&called.0[..2], called.1), (&[Route::Forward, ordered][..], true));
    }

    #[test]
    fn of_fused_aggregates_the_last_says_where_rows_stand_unless_sums_depend_on_their_order() {
        let fields = vec![Field::new("k", DataType::Int64, true)];
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), HashMap::new()).unwrap());
        let by_k =
            || Node::Aggregate(Aggregate { windowing: Windowing::Whole, keys: vec![col("k")], aggregates: vec![] });
        let positions = |set: &[(&str, &str)]| {
            let mut plan = Plan::new(settings(set));
            let mut last = Vec::new();
            for node in [Node::Values(Values { rows: Vec::new() }), by_k(), filter(), by_k(), Node::Sink(Sink::Result)]
            {
                last = vec![plan.add(node, last, StreamSchema::plain(Arc::clone(&schema), true))];
            }
            let cut = parallelize(&plan);
            (cut.home(NodeId(1)) == cut.home(NodeId(3)), [1, 3].map(|node| cut.has_positions(NodeId(node))))
        };
        assert_eq!(positions(&[]), (true, [false, true]));
        assert_eq!(positions(&[("float.sum", "fast")]), (false, [true, false]));
        assert_eq!(positions(&[("float.sum", "fast"), ("merge", "arrival")]), (true, [false, false]));
    }
}
