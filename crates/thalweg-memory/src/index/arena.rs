//! Nodes in blocks of words: who reads one that is used for something else meanwhile reads nonsense, but nothing outside.
//!
//! ```text
//! node     │ order │ value │ next, level 0 │ next, level 1 │ …      words of 64 bits, as many links as it has levels
//! its name │ levels, 8 bits │ block, 24 bits │ word in the block, 32 bits │      never 0: as a link, 0 is the end
//! ```

use std::{num::NonZeroU64, sync::OnceLock};

use crate::sync::{AtomicU64, Ordering};

/// As many levels hold 4¹⁶ nodes.
pub(super) const MOST_LEVELS: usize = 16;

/// Order and value.
const LINKS: usize = 2;

/// The first blocks have so many words; models pay for each word.
const LEAST_WORDS: usize = if cfg!(loom) { 48 } else { 4096 };

/// Each block is an eighth of those before it, so that this many are more than a machine has memory for.
const BLOCKS: usize = 256;

/// Where a node lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(NonZeroU64);

impl Node {
    /// The first node of all: its value leads to the head of the list of keys.
    pub(super) const ROOT: Self = Self(NonZeroU64::new(1 << 56).expect("it has a level"));

    /// How many words a node of so many levels takes.
    pub(super) const fn words(levels: usize) -> usize {
        LINKS + levels
    }

    pub(super) fn at(block: usize, word: usize, levels: usize) -> Option<Self> {
        Self::named((levels as u64) << 56 | (block as u64) << 32 | word as u64)
    }

    /// The node of a name, if it is one.
    pub(super) fn named(name: u64) -> Option<Self> {
        NonZeroU64::new(name).map(Self)
    }

    pub(super) fn name(self) -> u64 {
        self.0.get()
    }

    pub(super) fn levels(self) -> usize {
        (self.name() >> 56) as usize
    }

    fn block(self) -> usize {
        (self.name() >> 32) as usize & 0xff_ffff
    }

    fn word(self) -> usize {
        self.name() as u32 as usize
    }
}

/// The blocks. One thread writes, and adds blocks; any number read.
pub(super) struct Arena {
    blocks: [OnceLock<Box<[AtomicU64]>>; BLOCKS],
}

impl Default for Arena {
    fn default() -> Self {
        Self { blocks: [const { OnceLock::new() }; BLOCKS] }
    }
}

impl Arena {
    /// Adds the block of a number to those before it, which have so many words together, and says how many it has.
    pub(super) fn add(&self, block: usize, words: usize) -> usize {
        let words = (words / 8).clamp(LEAST_WORDS, u32::MAX as usize);
        self.blocks[block].get_or_init(|| (0..words).map(|_| AtomicU64::new(0)).collect()).len()
    }

    /// What a list is sorted by.
    #[inline]
    pub(super) fn order(&self, node: Node) -> u64 {
        self.words(node)[0].load(Ordering::Relaxed)
    }

    /// What a node of rows carries: it was there before any link led to the node.
    #[inline]
    pub(super) fn value(&self, node: Node) -> u64 {
        self.words(node)[1].load(Ordering::Relaxed)
    }

    /// The head of the list that a node of keys leads to, or the root. It may be replaced at any time by one with more levels.
    #[inline]
    pub(super) fn head(&self, root: Node) -> Node {
        // Acquire: the head's links are those that it had when it was put there, or newer.
        let name = self.words(root)[1].load(Ordering::Acquire);
        Node::named(name).expect("every list has a head")
    }

    /// The next node on a level.
    #[inline]
    pub(super) fn next(&self, node: Node, level: usize) -> Option<Node> {
        // Acquire: who finds a node finds what it was filled with.
        Node::named(self.words(node)[LINKS + level].load(Ordering::Acquire))
    }

    /// Fills a node to which nothing leads yet; it leads nowhere.
    pub(super) fn fill(&self, node: Node, order: u64, value: u64) {
        let words = self.words(node);
        words[0].store(order, Ordering::Relaxed);
        words[1].store(value, Ordering::Relaxed);
        words[LINKS..].iter().for_each(|link| link.store(0, Ordering::Relaxed));
    }

    /// Lets a node lead to the next one on a level, which readers may find from now on.
    pub(super) fn link(&self, node: Node, level: usize, next: Option<Node>) {
        self.words(node)[LINKS + level].store(next.map_or(0, Node::name), Ordering::Release);
    }

    /// Gives a list another head, which readers may find from now on.
    pub(super) fn set_head(&self, root: Node, head: Node) {
        self.words(root)[1].store(head.name(), Ordering::Release);
    }

    /// Keeps the name of another node in one that nobody sees.
    pub(super) fn stack(&self, free: Node, below: Option<Node>) {
        self.words(free)[0].store(below.map_or(0, Node::name), Ordering::Relaxed);
    }

    /// What was kept so.
    pub(super) fn below(&self, free: Node) -> Option<Node> {
        Node::named(self.order(free))
    }

    #[inline]
    fn words(&self, node: Node) -> &[AtomicU64] {
        let block = self.blocks[node.block()].get().expect("nodes lie in blocks");
        &block[node.word()..][..Node::words(node.levels())]
    }
}
