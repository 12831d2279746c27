//! One list: nodes in an order, with levels of which each skips three of four nodes of the one below.
//!
//! ```text
//! level 2   head ────────────────────► 5 ───────────────► end
//! level 1   head ───────► 3 ─────────► 5 ───────────────► end
//! level 0   head ─► 1 ──► 3 ──► 3 ───► 5 ──► 8 ──► 9 ───► end
//! ```
//!
//! A head has as many levels as the highest node. When one is higher, a copy of the head with one more level takes its place.

use super::{
    arena::{Arena, MOST_LEVELS, Node},
    nodes::Nodes,
};

/// The first node, from a head on, whose order is not less.
///
/// Source: algorithm 1, which ends at any equal node; we want the first one.
pub(super) fn find(arena: &Arena, head: Node, order: u64) -> Option<Node> {
    let mut node = head;
    let mut level = head.levels() - 1;
    loop {
        let next = arena.next(node, level);
        match next {
            Some(next) if arena.order(next) < order => node = next,
            _ if level == 0 => return next,
            _ => level -= 1,
        }
    }
}

/// A list as its writer sees it.
pub(super) struct List {
    /// The node whose value leads to the head.
    root: Node,
    /// On each level of the head the last node up to where the list was last changed; `None` for the head.
    fingers: Vec<Option<Node>>,
}

impl List {
    /// The list of a root, whose head has one level and leads nowhere.
    pub(super) fn new(root: Node) -> Self {
        Self { root, fingers: vec![None] }
    }

    /// What it takes besides nodes.
    pub(super) fn bytes(&self) -> usize {
        self.fingers.capacity() * size_of::<Option<Node>>()
    }

    /// Adds a node behind those of the same order.
    ///
    /// Source: algorithm 2, but that it begins where the last node was added, and that equal nodes keep the order in which they came.
    pub(super) fn insert(&mut self, nodes: &mut Nodes, order: u64, value: u64) -> Node {
        self.seek(nodes.arena(), order);
        let levels = nodes.levels(self.fingers.len() + 1);
        if levels > self.fingers.len() {
            self.raise(nodes);
        }
        let node = nodes.take(levels, order, value);
        let arena = nodes.arena();
        let head = arena.head(self.root);
        for (level, finger) in self.fingers[..levels].iter().enumerate() {
            arena.link(node, level, arena.next(finger.unwrap_or(head), level));
        }
        for (level, finger) in self.fingers[..levels].iter_mut().enumerate() {
            arena.link(finger.unwrap_or(head), level, Some(node));
            *finger = Some(node);
        }
        node
    }

    /// Takes the node of an order out, of which there is one. Readers who are there find their way on.
    pub(super) fn remove(&mut self, nodes: &mut Nodes, order: u64) {
        match order.checked_sub(1) {
            Some(before) => self.seek(nodes.arena(), before),
            None => self.fingers.fill(None),
        }
        let arena = nodes.arena();
        let head = arena.head(self.root);
        let Some(node) = arena.next(self.fingers[0].unwrap_or(head), 0) else { return };
        debug_assert_eq!(arena.order(node), order, "what is taken out is there");
        for (level, finger) in self.fingers[..node.levels()].iter().enumerate() {
            arena.link(finger.unwrap_or(head), level, arena.next(node, level));
        }
        let end = arena.next(node, 0);
        nodes.put(node, end);
    }

    /// Takes all nodes out whose order is less than this, or all there are, and says how many; `gone` is told the value of each. Readers
    /// who are there find their way on.
    pub(super) fn truncate(&mut self, nodes: &mut Nodes, before: Option<u64>, gone: &mut impl FnMut(u64)) -> usize {
        let is_early = |order: u64| before.is_none_or(|before| order < before);
        let arena = nodes.arena();
        let head = arena.head(self.root);
        let mut next = [None; MOST_LEVELS];
        for (level, next) in next[..head.levels()].iter_mut().enumerate() {
            *next = arena.next(head, level);
        }
        let mut count = 0;
        let first = next[0];
        while let Some(node) = next[0]
            && is_early(arena.order(node))
        {
            count += 1;
            gone(arena.value(node));
            for (level, next) in next[..node.levels()].iter_mut().enumerate() {
                *next = arena.next(node, level);
            }
        }
        let Some(first) = first.filter(|_| count > 0) else { return 0 };
        for (level, next) in next[..head.levels()].iter().enumerate() {
            arena.link(head, level, *next);
        }
        for finger in &mut self.fingers {
            *finger = finger.filter(|node| !is_early(arena.order(*node)));
        }
        nodes.put(first, next[0]);
        count
    }

    /// The order of the first node.
    pub(super) fn first(&self, arena: &Arena) -> Option<u64> {
        arena.next(arena.head(self.root), 0).map(|node| arena.order(node))
    }

    /// Takes out the head of a list that is empty, which readers may see for some time.
    pub(super) fn close(self, nodes: &mut Nodes) {
        let head = nodes.arena().head(self.root);
        nodes.put(head, None);
    }

    /// Moves the fingers to the last nodes whose order is not greater: up to where a finger need not move, and down from there.
    /// What is near takes few steps, and what comes behind the last node one.
    fn seek(&mut self, arena: &Arena, order: u64) {
        let head = arena.head(self.root);
        let is_before = |node: Option<Node>| node.is_none_or(|node| arena.order(node) <= order);
        let follows = |node: Option<Node>, level| {
            arena.next(node.unwrap_or(head), level).filter(|next| arena.order(*next) <= order)
        };
        let stays =
            |(level, finger): &(usize, &Option<Node>)| is_before(**finger) && follows(**finger, *level).is_none();
        let top = self.fingers.iter().enumerate().find(stays).map_or(self.fingers.len() - 1, |(level, _)| level);
        let mut node: Option<Node> = None;
        for level in (0..=top).rev() {
            let finger = self.fingers[level];
            let is_further = finger.map(|finger| arena.order(finger)) >= node.map(|node| arena.order(node));
            if is_further && is_before(finger) {
                node = finger;
            }
            while let Some(next) = follows(node, level) {
                node = Some(next);
            }
            self.fingers[level] = node;
        }
    }

    /// Puts a copy of the head in its place that has one more level.
    fn raise(&mut self, nodes: &mut Nodes) {
        let old = nodes.arena().head(self.root);
        let new = nodes.take(old.levels() + 1, 0, 0);
        let arena = nodes.arena();
        (0..old.levels()).for_each(|level| arena.link(new, level, arena.next(old, level)));
        arena.set_head(self.root, new);
        let end = arena.next(old, 0);
        nodes.put(old, end);
        self.fingers.push(None);
    }
}
