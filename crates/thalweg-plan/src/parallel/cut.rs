//! Which nodes run together: StreamCloud's three strategies.
//!
//! ```text
//! Source ─ Filter ─ Aggregate ─ Filter ─ Aggregate ─ Map
//! └───────0──────┘ └────────1─────────┘ └──────2───────┘   subquery-cluster: cut before each node with a state
//! └───────0──────┘ └────────1─────────┘ └──────2───────┘   query-cluster: cut there too, and all instances run all of it
//! └──0──┘ └──1───┘ └───2────┘ └──3────┘ └────4───┘ └─5─┘   operator-cluster: cut before each node
//! ```
//!
//! A union before a node that divides keys is the merger of that node's instances: it begins their subquery, and each of its inputs
//! is divided.
//!
//! Source: Gulisano et al., "StreamCloud: A Large Scale Data Streaming System", §III-B, figure 2. There, a node without a state
//! shares any rows with any number of instances. Here it has as many instances as what it takes its rows from, so that the order
//! of each source partition stays, or gets its rows in turn ([`deal`]).

use datafusion_expr::Expr;
use thalweg_core::KeyGroups;

use super::{
    SubqueryId, deal,
    fuse::{Keyed, fused},
    load,
    order::must_gather,
};
use crate::{
    Node, NodeId, Plan, PlanNode,
    node::{Aggregate, Anchor, Windowing},
    settings::{Merge, Settings, Strategy},
};

/// A subquery of which it is not decided yet how many instances it has.
#[derive(Clone, Debug)]
pub struct Draft {
    /// A chain: each node takes the rows of the one before.
    pub nodes: Vec<NodeId>,
    /// Where rows come from, by port of the first node.
    pub inputs: Vec<SubqueryId>,
    /// How many instances there may be.
    pub size: Size,
    /// The nodes whose keys are divided among the instances.
    pub keyed: Vec<Keyed>,
}

/// How many instances a subquery may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// At most so many.
    UpTo(usize),
    /// As many as this one, one to one.
    As(SubqueryId),
}

/// The subqueries of a plan, each behind its inputs.
pub fn drafts(plan: &Plan) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut home: Vec<SubqueryId> = Vec::new();
    for (id, planned) in plan.nodes() {
        let before = planned.inputs.iter().map(|input| home[input.0]).collect::<Vec<_>>();
        if let Some(place) = absorbing(plan, id, &before, &drafts) {
            drafts[place.0].size = size(plan, id, &before, &drafts);
            drafts[place.0].keyed = keyed(plan, id, drafts[place.0].size);
            drafts[place.0].nodes.push(id);
            home.push(place);
            continue;
        }
        let has_instances = |input: &SubqueryId| is_divided(*input, &drafts) || is_dealt(*input, &drafts);
        let is_gathered = must_gather(plan, id) && before.iter().any(has_instances);
        let gets_turns = !is_gathered && gets_turns(plan, id, &before, &drafts);
        let only = before.first().copied().filter(|b| before.len() == 1 && is_free(plan, id, &drafts[b.0]));
        let only = only.filter(|_| !is_gathered && !gets_turns);
        let alike = only.filter(|_| plan.settings.strategy == Strategy::SubqueryCluster);
        let alike = alike.and_then(|b| Some((b, fused(plan, id, &drafts[b.0].nodes, &drafts[b.0].keyed)?)));
        let place = match (alike, only.filter(|b| joins(plan, id, &drafts, *b))) {
            (Some((place, keyed)), _) => {
                drafts[place.0].keyed = keyed;
                place
            }
            (None, Some(place)) => place,
            (None, None) => {
                let size = match () {
                    _ if is_gathered => Size::UpTo(1),
                    _ if gets_turns => Size::UpTo(plan.settings.parallelism.min(deal::MOST)),
                    _ => size(plan, id, &before, &drafts),
                };
                let keyed = keyed(plan, id, size);
                drafts.push(Draft { nodes: Vec::new(), inputs: before, size, keyed });
                SubqueryId(drafts.len() - 1)
            }
        };
        drafts[place.0].nodes.push(id);
        home.push(place);
    }
    drafts
}

/// The most instances of a subquery.
pub fn most(drafts: &[Draft], subquery: SubqueryId) -> usize {
    match drafts[subquery.0].size {
        Size::UpTo(most) => most,
        Size::As(other) => self::most(drafts, other),
    }
}

/// The subquery of a union that only brings together what a node divides by its keys: it runs in that node's instances then, and each
/// of its inputs is divided.
fn absorbing(plan: &Plan, id: NodeId, before: &[SubqueryId], drafts: &[Draft]) -> Option<SubqueryId> {
    let ([place], [union]) = (before, &plan.node(id).inputs[..]) else { return None };
    let is_alone = absorbable(plan, *union) && drafts[place.0].nodes == [*union];
    // An aggregate with keys, or one over the rows around each row; a join has another input.
    let is_divided = !must_gather(plan, id) && divides(plan, id) && size(plan, id, before, drafts) != Size::UpTo(1);
    (is_alone && is_divided).then_some(*place)
}

/// Whether a union may be part of what takes its rows, because nobody else does, and rows need no order there.
pub(super) fn absorbable(plan: &Plan, id: NodeId) -> bool {
    let is_own_subquery = plan.settings.strategy == Strategy::OperatorCluster;
    let is_union = matches!(plan.node(id).node, Node::Union) && !must_gather(plan, id);
    is_union && !is_own_subquery && plan.consumers(id).count() == 1
}

/// Whether a node's input ends a subquery and serves nobody else.
fn is_free(plan: &Plan, id: NodeId, subquery: &Draft) -> bool {
    let input = plan.node(id).inputs[0];
    subquery.nodes.last() == Some(&input) && plan.consumers(input).count() == 1
}

/// Whether a node runs with its only input: it has no state, or there is just one instance.
fn joins(plan: &Plan, id: NodeId, drafts: &[Draft], before: SubqueryId) -> bool {
    let node = &plan.node(id).node;
    let begins_anew = matches!(node, Node::Aggregate(_) | Node::IntervalJoin(_) | Node::Over(_) | Node::Branch(_));
    let follows = node.is_stateless() || (most(drafts, before) == 1 && !begins_anew);
    // An output of a split does nothing: it goes with what takes its rows.
    let is_output = matches!(plan.node(plan.node(id).inputs[0]).node, Node::Branch(_));
    follows && (is_output || plan.settings.strategy != Strategy::OperatorCluster)
}

/// Whether the batches of a source are dealt to instances of a node and of those without a state behind it.
fn gets_turns(plan: &Plan, id: NodeId, before: &[SubqueryId], drafts: &[Draft]) -> bool {
    plan.node(id).node.is_stateless() && before.iter().all(|b| most(drafts, *b) == 1) && deal::is_worthwhile(plan, id)
}

/// Whether all aggregates are divided that may be.
pub(super) fn divides_keys(settings: &Settings) -> bool {
    settings.divides_keys || settings.merge == Merge::Arrival
}

/// Whether the keys of a node are divided. Those of joins always are: they have more to do than an exchange.
pub(super) fn divides(plan: &Plan, id: NodeId) -> bool {
    match &plan.node(id).node {
        Node::Aggregate(aggregate) => {
            let is_asked_for = || divides_keys(&plan.settings) || plan.first_phase(id).is_some();
            is_divided_by_keys(aggregate) && (is_asked_for() || load::outweighs(plan, id))
        }
        // Together with the node that it brings rows together for.
        Node::Union => {
            let is_divided = |consumer: NodeId| plan.node(consumer).inputs == [id] && divides(plan, consumer);
            absorbable(plan, id) && plan.consumers(id).any(is_divided)
        }
        _ => keys(plan.node(id), 0).is_some_and(|keys| !keys.is_empty()),
    }
}

/// What the rows of one of a node's inputs are divided by, if they may be.
pub(super) fn keys(planned: &PlanNode, input: usize) -> Option<Vec<&Expr>> {
    match &planned.node {
        Node::Aggregate(aggregate) => Some(aggregate.keys.iter().collect()),
        Node::Over(over) => Some(over.keys.iter().collect()),
        Node::IntervalJoin(join) if planned.side(input) == 0 => Some(join.keys.iter().map(|(left, _)| left).collect()),
        Node::IntervalJoin(join) => Some(join.keys.iter().map(|(_, right)| right).collect()),
        _ => None,
    }
}

fn size(plan: &Plan, id: NodeId, before: &[SubqueryId], drafts: &[Draft]) -> Size {
    let node = &plan.node(id).node;
    let Some(first) = before.first().copied() else {
        let partitions = if let Node::Source(source) = node { source.partitions } else { 1 };
        return Size::UpTo(plan.settings.parallelism.min(partitions).max(1));
    };
    match node {
        Node::Aggregate(_) | Node::IntervalJoin(_) | Node::Over(_) if divides(plan, id) => {
            Size::UpTo(plan.settings.parallelism.min(KeyGroups::default().count()))
        }
        Node::Partial(_) => Size::As(first),
        Node::Branch(_) if plan.settings.strategy != Strategy::SubqueryCluster => Size::As(first),
        // Where it does not run with what it takes its rows from, others take these, too.
        node if node.is_stateless() => Size::As(first),
        Node::Union if plan.settings.strategy == Strategy::QueryCluster && are_alike(before, drafts) => Size::As(first),
        _ => Size::UpTo(1),
    }
}

/// Whether subqueries have as many instances, and all of them hear what their instances hear of each other, or none does: what is
/// idle is then idle for all of their rows.
fn are_alike(subqueries: &[SubqueryId], drafts: &[Draft]) -> bool {
    let shape = |subquery: &SubqueryId| (most(drafts, *subquery), is_divided(*subquery, drafts));
    let is_like = |subquery: &SubqueryId| shape(subquery) == shape(&subqueries[0]) && !is_dealt(*subquery, drafts);
    subqueries.iter().all(is_like)
}

/// Whether the rows that a subquery has are those of an aggregate that were divided by keys, be it behind others that it takes them
/// from one to one.
pub(super) fn is_divided(subquery: SubqueryId, drafts: &[Draft]) -> bool {
    match drafts[subquery.0].size {
        Size::UpTo(_) => !drafts[subquery.0].keyed.is_empty(),
        Size::As(other) => is_divided(other, drafts),
    }
}

/// Whether the rows that a subquery has are those of batches that were dealt to its instances, be it behind others that it takes them
/// from one to one.
pub(super) fn is_dealt(subquery: SubqueryId, drafts: &[Draft]) -> bool {
    let draft = &drafts[subquery.0];
    match draft.size {
        Size::UpTo(most) => most > 1 && draft.keyed.is_empty() && !draft.inputs.is_empty(),
        Size::As(other) => is_dealt(other, drafts),
    }
}

fn keyed(plan: &Plan, id: NodeId, size: Size) -> Vec<Keyed> {
    match keys(plan.node(id), 0) {
        Some(keys) if size != Size::UpTo(1) => vec![Keyed { node: id, by: (0..keys.len()).collect() }],
        _ => Vec::new(),
    }
}

/// Whether the rows of a key tell all that is asked of it.
pub fn is_divided_by_keys(aggregate: &Aggregate) -> bool {
    !aggregate.keys.is_empty() && !sees_all_rows(aggregate)
}

/// Whether an aggregate has to see all rows at one place: where windows are aligned to the first one, only who sees all knows which that is.
pub fn sees_all_rows(aggregate: &Aggregate) -> bool {
    matches!(&aggregate.windowing, Windowing::Assigned(windows) if windows.anchor == Anchor::FirstRow)
}

#[cfg(test)]
mod tests {
    use datafusion_expr::col;

    use super::*;
    use crate::{
        node::{Emission, Filter, Over},
        parallel::{Route, parallelize, testing::union_of_two},
    };

    fn aggregate() -> Node {
        let keys = vec![col("k") + datafusion_expr::lit(1_i64)];
        Node::Aggregate(Aggregate { windowing: Windowing::Whole, keys, aggregates: Vec::new() })
    }

    /// How many nodes the union's subquery has, in how many instances, and what its inputs are divided by.
    fn union(set: &[(&str, &str)], behind: Vec<Node>, takers: usize) -> (usize, usize, Vec<String>) {
        let cut = parallelize(&union_of_two(set, behind, takers));
        let subquery = &cut.subqueries[cut.home(NodeId(2)).unwrap().0];
        let keys = subquery.inputs.iter().filter_map(|input| match &input.route {
            Route::Keyed { keys, .. } => Some(keys[0].to_string()),
            _ => None,
        });
        (subquery.nodes.len(), subquery.instances, keys.collect())
    }

    #[test]
    fn each_input_of_a_union_is_divided_for_the_only_node_that_takes_its_rows() {
        let divided = |set: &[(&str, &str)], behind: Vec<Node>| union(set, behind, 1);
        let both = (2, 4, vec!["a + Int64(1)".to_string(), "b + Int64(1)".to_string()]);
        assert_eq!(divided(&[], vec![aggregate()]), both);
        assert_eq!(divided(&[("parallel.strategy", "query-cluster")], vec![aggregate()]), both);
        let over = Over {
            times: vec![0],
            keys: vec![col("k")],
            passes: vec![0],
            frames: Vec::new(),
            emission: Emission::default(),
        };
        assert_eq!(divided(&[], vec![Node::Over(over.clone())]).1, 4);
        let alone = (1, 1, vec![]);
        assert_eq!(divided(&[("parallel.strategy", "operator-cluster")], vec![aggregate()]), alone);
        assert_eq!(union(&[], vec![aggregate()], 2), alone, "others want all rows");
        assert_eq!(divided(&[("float.sum", "fast")], vec![aggregate()]), alone, "sums depend on the order of rows");
        assert_eq!(divided(&[("parallelism", "1")], vec![aggregate()]), alone);
        let filter = Node::Filter(Filter { predicate: datafusion_expr::lit(true) });
        assert_eq!(divided(&[], vec![filter, aggregate()]), (2, 1, vec![]), "a filter between them is spread before");
        let whole = Aggregate { windowing: Windowing::Whole, keys: Vec::new(), aggregates: Vec::new() };
        assert_eq!(divided(&[], vec![Node::Aggregate(whole)]), alone, "it has no keys");
    }
}
