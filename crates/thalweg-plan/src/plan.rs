//! The graph of nodes.

use std::collections::BTreeSet;

use thalweg_core::{Error, Result};

use crate::{
    Node, Settings, StreamSchema, label,
    node::{Aggregate, Sink},
    parallel::costs::Costs,
};

/// The number of a node in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// What was asked for: nodes in an order in which each follows its inputs, and how to run them.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    nodes: Vec<PlanNode>,
    /// How the plan is to be run.
    pub settings: Settings,
    /// What was measured of its nodes when it was run before.
    pub costs: Costs,
    /// The number of the text of the plan that this one is another form of.
    pub(crate) origin: Option<String>,
}

/// A node in its place.
#[derive(Clone, Debug)]
pub struct PlanNode {
    /// What it does.
    pub node: Node,
    /// Whose rows it takes, by port.
    pub inputs: Vec<NodeId>,
    /// What it gives.
    pub schema: StreamSchema,
    /// Its number in its label; two nodes have the same if one of them is a phase of the other, or if both do what one did before
    /// it was [spread](crate::parallel::spread).
    pub number: usize,
    /// Which side each input is one of, where a side of a join, or a stream of a window union, has several inputs; else empty.
    pub sides: Vec<usize>,
}

impl PlanNode {
    /// The side that an input is one of.
    pub fn side(&self, input: usize) -> usize {
        self.sides.get(input).copied().unwrap_or(input)
    }

    /// The sides of all inputs.
    pub fn all_sides(&self) -> Vec<usize> {
        (0..self.inputs.len()).map(|input| self.side(input)).collect()
    }

    /// The first input of each side; the others of a side have the same columns.
    pub fn first_of_sides(&self) -> Vec<NodeId> {
        let is_first = |input: &usize| *input == 0 || self.side(*input) != self.side(*input - 1);
        (0..self.inputs.len()).filter(is_first).map(|input| self.inputs[input]).collect()
    }
}

impl Plan {
    /// A plan without nodes.
    pub fn new(settings: Settings) -> Self {
        Self { nodes: Vec::new(), settings, costs: Costs::new(), origin: None }
    }

    /// Adds a node behind its inputs.
    pub fn add(&mut self, node: Node, inputs: Vec<NodeId>, schema: StreamSchema) -> NodeId {
        let number = self.nodes.len();
        self.put(PlanNode { node, inputs, schema, number, sides: Vec::new() })
    }

    /// Adds a node with its number behind its inputs.
    pub(crate) fn put(&mut self, node: PlanNode) -> NodeId {
        assert!(node.inputs.iter().all(|input| input.0 < self.nodes.len()), "inputs come first");
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    /// Adds the nodes of another plan that do not read from `inputs` by name, which stand for its sources of these names
    /// without a connector; its sink is left out. Returns the node that gave the sink its rows.
    ///
    /// Errors: `Error::Bug` if the other plan has no sink.
    pub fn append(&mut self, other: &Self, inputs: &[(&str, NodeId)]) -> Result<NodeId> {
        let sink = other.sink()?;
        let mut moved: Vec<NodeId> = Vec::new();
        for (id, planned) in other.nodes() {
            let stands_for = |source: &crate::node::Source| {
                let is_stream = source.table.options.get("connector").is_none();
                inputs.iter().find(|(name, _)| is_stream && *name == source.table.name)
            };
            let place = match &planned.node {
                Node::Sink(_) if id == sink => return Ok(moved[planned.inputs[0].0]),
                Node::Source(source) if let Some((_, node)) = stands_for(source) => *node,
                node => {
                    let inputs = planned.inputs.iter().map(|input| moved[input.0]).collect();
                    self.add(node.clone(), inputs, planned.schema.clone())
                }
            };
            moved.push(place);
        }
        Err(Error::bug("a plan ends in a sink"))
    }

    /// The nodes that lead to a sink, and their order; others are left out.
    pub fn pruned(&self) -> Self {
        let mut is_wanted = vec![false; self.nodes.len()];
        for (i, planned) in self.nodes.iter().enumerate().rev() {
            is_wanted[i] |= matches!(planned.node, Node::Sink(_));
            if is_wanted[i] {
                planned.inputs.iter().for_each(|input| is_wanted[input.0] = true);
            }
        }
        let mut pruned = Self::new(self.settings.clone());
        let mut moved = vec![NodeId(usize::MAX); self.nodes.len()];
        for (i, planned) in self.nodes.iter().enumerate().filter(|(i, _)| is_wanted[*i]) {
            let inputs = planned.inputs.iter().map(|input| moved[input.0]).collect();
            moved[i] = pruned.add(planned.node.clone(), inputs, planned.schema.clone());
        }
        pruned
    }

    /// All nodes, each behind its inputs.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &PlanNode)> {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i), node))
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &PlanNode {
        &self.nodes[id.0]
    }

    /// Whether each row of a node has a position of its own: none is there twice.
    pub fn has_own_positions(&self, id: NodeId) -> bool {
        self.positioned(id).is_some()
    }

    /// Whether each row of one side of a node's inputs has a position of its own.
    pub fn side_has_own_positions(&self, id: NodeId, side: usize) -> bool {
        self.positioned_on(id, side).is_some()
    }

    /// The tables whose rows are a node's, each at most once; `None` if some may be there twice, or have no position.
    fn positioned(&self, id: NodeId) -> Option<BTreeSet<&str>> {
        let PlanNode { node, inputs, schema, .. } = self.node(id);
        schema.position?;
        match (node, inputs.first().map(|input| &self.node(*input).node)) {
            (Node::Position, Some(Node::Source(source))) => Some(BTreeSet::from([source.table.name.as_str()])),
            (Node::Map(_) | Node::Filter(_) | Node::Over(_), _) => self.positioned_on(id, 0),
            (Node::Union, _) => self.positioned_together(inputs),
            _ => None,
        }
    }

    fn positioned_on(&self, id: NodeId, side: usize) -> Option<BTreeSet<&str>> {
        let planned = self.node(id);
        let inputs = planned.inputs.iter().enumerate().filter(|(input, _)| planned.side(*input) == side);
        self.positioned_together(inputs.map(|(_, input)| input))
    }

    fn positioned_together<'a>(&self, inputs: impl IntoIterator<Item = &'a NodeId>) -> Option<BTreeSet<&str>> {
        let mut all = BTreeSet::new();
        for input in inputs {
            let of_input = self.positioned(*input)?;
            // A table that is named twice is read once.
            if !all.is_disjoint(&of_input) {
                return None;
            }
            all.extend(of_input);
        }
        Some(all)
    }

    /// Among the nodes of its kind the number of a [`Node::Position`], and how many there are.
    pub fn numbered_position(&self, id: NodeId) -> (u64, u64) {
        let all = self.nodes().filter(|(_, planned)| matches!(planned.node, Node::Position));
        let ids: Vec<NodeId> = all.map(|(id, _)| id).collect();
        (ids.partition_point(|other| *other < id) as u64, ids.len() as u64)
    }

    /// The nodes that take this node's rows.
    pub fn consumers(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.nodes().filter(move |(_, node)| node.inputs.contains(&id)).map(|(consumer, _)| consumer)
    }

    /// An aggregate over rows, and the node whose rows they are: of one that merges states, that of the first phase.
    pub fn aggregated(&self, id: NodeId) -> Option<(NodeId, &Aggregate)> {
        let planned = self.node(id);
        match (&planned.node, self.first_phase(id)) {
            (Node::Aggregate(_), Some(first)) => self.aggregated(first),
            (Node::Aggregate(aggregate) | Node::Partial(aggregate), _) => Some((planned.inputs[0], aggregate)),
            _ => None,
        }
    }

    /// The node whose states an aggregate merges, or the first of several behind a union; `None` if it takes rows.
    pub fn first_phase(&self, id: NodeId) -> Option<NodeId> {
        let is_aggregate = matches!(self.node(id).node, Node::Aggregate(_));
        let input = *self.node(id).inputs.first().filter(|_| is_aggregate)?;
        let first = if matches!(self.node(input).node, Node::Union) { self.node(input).inputs[0] } else { input };
        matches!(self.node(first).node, Node::Partial(_)).then_some(first)
    }

    /// Whether a node is there for the first phase of an aggregate only: it is that, or what gives the columns of a union's input the
    /// union's names below it.
    pub(crate) fn is_of_first_phase(&self, id: NodeId) -> bool {
        let is_union =
            |(_, other): (NodeId, &PlanNode)| matches!(other.node, Node::Union) && other.number == self.node(id).number;
        match self.node(id).node {
            Node::Partial(_) => true,
            Node::Map(_) => self.nodes().any(is_union),
            _ => false,
        }
    }

    /// Whose rows a node takes where no aggregate has two phases.
    pub(crate) fn inputs_in_one_phase(&self, id: NodeId) -> Vec<NodeId> {
        let below = |input: &NodeId| {
            let mut input = *input;
            while self.is_of_first_phase(input) {
                input = self.node(input).inputs[0];
            }
            input
        };
        self.node(id).inputs.iter().map(below).collect()
    }

    /// What a node is called in errors: its label, and a phase of an aggregate as the aggregate.
    pub fn name(&self, id: NodeId) -> String {
        label::told(&self.label(id)).into_owned()
    }

    /// What a node is called in metrics: its kind and its number, `Aggregate 3`.
    pub fn label(&self, id: NodeId) -> String {
        let planned = self.node(id);
        match &planned.node {
            Node::Source(source) => format!("Source {} ({})", source.table.name, planned.number),
            // By the step of the topology that it is.
            Node::Function(function) => label::label(&function.name, planned.number),
            node => label::label(node.name(), planned.number),
        }
    }

    /// How many nodes have this one's label: one for each input of a union that a node was spread over, and else one. They are measured together.
    pub fn copies(&self, id: NodeId) -> usize {
        let label = self.label(id);
        self.nodes().filter(|(other, _)| self.label(*other) == label).count()
    }

    /// The sink that takes the query's rows: that of its handle, or else the last one.
    ///
    /// Errors: `Error::Bug` if the plan has no sink.
    pub fn sink(&self) -> Result<NodeId> {
        let is_sink = |node: &Node| matches!(node, Node::Sink(_));
        let last = || self.nodes().filter(|(_, planned)| is_sink(&planned.node)).last().map(|(id, _)| id);
        self.result().or_else(last).ok_or_else(|| Error::bug("a plan ends in a sink"))
    }

    /// The sink whose rows the query's handle gives, if there is one.
    pub fn result(&self) -> Option<NodeId> {
        let mut nodes = self.nodes();
        nodes.find(|(_, planned)| matches!(planned.node, Node::Sink(Sink::Result))).map(|(id, _)| id)
    }
}
