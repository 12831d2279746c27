//! Where the writer gets nodes from: blocks, and nodes that nobody sees any more.

use std::{collections::VecDeque, sync::Arc};

use super::{
    Shared,
    arena::{Arena, MOST_LEVELS, Node},
    epoch,
};

/// Nodes for one writer.
pub(super) struct Nodes {
    shared: Arc<Shared>,
    epoch: u64,
    /// Nodes that may be used again, by levels: each keeps the next one's name.
    free: [Option<Node>; MOST_LEVELS + 1],
    taken_out: VecDeque<Run>,
    /// How many blocks there are, and how many words they have.
    blocks: usize,
    words: usize,
    /// What is unused of the last block.
    next: usize,
    end: usize,
    random: u64,
}

/// Nodes that were taken out together, in an epoch: each leads to the next on level 0, and the last to `end`.
struct Run {
    epoch: u64,
    first: Node,
    end: Option<Node>,
}

impl Nodes {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (words, next) = (shared.arena.add(0, 0), Node::words(Node::ROOT.levels()));
        let mut nodes = Self {
            shared,
            epoch: epoch::FIRST,
            free: [None; MOST_LEVELS + 1],
            taken_out: VecDeque::new(),
            blocks: 1,
            words,
            next,
            end: words,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        let head = nodes.take(1, 0, 0);
        nodes.arena().set_head(Node::ROOT, head);
        nodes
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.shared.arena
    }

    /// A node to which nothing leads, and which leads nowhere.
    pub(super) fn take(&mut self, levels: usize, order: u64, value: u64) -> Node {
        let node = self.again(levels).unwrap_or_else(|| self.cut(levels));
        self.arena().fill(node, order, value);
        node
    }

    /// How many levels the next node has: one more with a probability of a quarter each.
    pub(super) fn levels(&mut self, most: usize) -> usize {
        // Xorshift of 64 bits.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (1 + self.random.trailing_zeros() as usize / 2).min(most).min(MOST_LEVELS)
    }

    /// Keeps nodes that were taken out until nobody sees them: from `first` on, each leads to the next, up to `end`.
    pub(super) fn put(&mut self, first: Node, end: Option<Node>) {
        self.taken_out.push_back(Run { epoch: self.epoch, first, end });
    }

    /// Ends the epoch, which it returns, and frees what nobody sees.
    pub(super) fn end_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.shared.epochs.begin(self.epoch);
        self.reclaim();
        self.epoch - 1
    }

    /// The earliest epoch that a reader may be in.
    pub(super) fn earliest_epoch(&self) -> u64 {
        self.shared.epochs.earliest().min(self.epoch)
    }

    /// What blocks and lists take.
    pub(super) fn bytes(&self) -> usize {
        self.words * size_of::<u64>() + self.taken_out.capacity() * size_of::<Run>()
    }

    fn again(&mut self, levels: usize) -> Option<Node> {
        let node = self.free[levels]?;
        self.free[levels] = self.arena().below(node);
        Some(node)
    }

    /// Cuts a node from the last block, or from one more.
    fn cut(&mut self, levels: usize) -> Node {
        let words = Node::words(levels);
        if self.end - self.next < words {
            self.end = self.arena().add(self.blocks, self.words);
            (self.blocks, self.words, self.next) = (self.blocks + 1, self.words + self.end, 0);
        }
        self.next += words;
        Node::at(self.blocks - 1, self.next - words, levels).expect("a node has levels")
    }

    fn reclaim(&mut self) {
        let earliest = self.earliest_epoch();
        while let Some(run) = self.taken_out.pop_front_if(|run| run.epoch < earliest) {
            let mut next = Some(run.first);
            while let Some(node) = next
                && next != run.end
            {
                next = self.arena().next(node, 0);
                let levels = node.levels();
                self.arena().stack(node, self.free[levels]);
                self.free[levels] = Some(node);
            }
        }
    }
}
