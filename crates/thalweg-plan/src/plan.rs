//! The graph of nodes.

use thalweg_core::{Error, Result};

use crate::{Node, Settings, StreamSchema};

/// The number of a node in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// What was asked for: nodes in an order in which each follows its inputs, and how to run them.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    nodes: Vec<PlanNode>,
    /// How the plan is to be run.
    pub settings: Settings,
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
}

impl Plan {
    /// A plan without nodes.
    pub fn new(settings: Settings) -> Self {
        Self { nodes: Vec::new(), settings }
    }

    /// Adds a node behind its inputs.
    pub fn add(&mut self, node: Node, inputs: Vec<NodeId>, schema: StreamSchema) -> NodeId {
        assert!(inputs.iter().all(|input| input.0 < self.nodes.len()), "inputs come first");
        self.nodes.push(PlanNode { node, inputs, schema });
        NodeId(self.nodes.len() - 1)
    }

    /// All nodes, each behind its inputs.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &PlanNode)> {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i), node))
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &PlanNode {
        &self.nodes[id.0]
    }

    /// The nodes that take this node's rows.
    pub fn consumers(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.nodes().filter(move |(_, node)| node.inputs.contains(&id)).map(|(consumer, _)| consumer)
    }

    /// What a node is called in metrics and errors: its kind and its number, `Aggregate 3`.
    pub fn label(&self, id: NodeId) -> String {
        match &self.node(id).node {
            Node::Source(source) => format!("Source {} ({})", source.table.name, id.0),
            node => format!("{} {}", node.name(), id.0),
        }
    }

    /// The last node, which takes the query's rows.
    ///
    /// Errors: `Error::Bug` if the plan has no sink.
    pub fn sink(&self) -> Result<NodeId> {
        match self.nodes.last() {
            Some(PlanNode { node: Node::Sink(_), .. }) => Ok(NodeId(self.nodes.len() - 1)),
            _ => Err(Error::bug("a plan ends in a sink")),
        }
    }
}
