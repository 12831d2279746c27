//! The best of any rows that follow each other, where rows come anywhere and go at the front.
//!
//! ```text
//! best of each       9               8             a node has up to 32 others below it, or rows,
//!               ┌────┴────┐     ┌────┴───┐         and knows how many rows each has and the best of them
//! rows         2 9 4    7 1 3  5 8 6    2 4        a window looks at two nodes of each level
//! ```
//!
//! A row that comes late costs as many steps as one that comes last, but for the way to its place: the number's digits to the base of 32.
//!
//! Source: Tangwongsan, Hirzel, Schneider, "Optimal and general out-of-order sliding-window aggregation" (PVLDB 2019): a B-tree with partial
//! aggregates. Its fingers, from where both ends of the window are found at once, are for one window over all rows; windows here begin and end
//! anywhere, several may be asked for of the same rows, and a node is wide, so that there are three or four levels.

use std::ops::Range;

use arrow_array::ArrowNativeTypeOp;

/// So many rows, or nodes, are below a node.
const WIDTH: usize = if cfg!(test) { 4 } else { 32 };

/// Values of which one is better.
pub trait Above: Clone {
    /// Whether this one is above the other.
    fn is_above(&self, other: &Self) -> bool;

    /// How many bytes of memory it keeps beside itself.
    fn bytes(&self) -> usize {
        0
    }
}

impl<N: ArrowNativeTypeOp> Above for N {
    fn is_above(&self, other: &Self) -> bool {
        self.is_gt(*other)
    }
}

/// Rows in order, each with its value if it counts.
#[derive(Debug)]
pub struct Tree<V> {
    root: Node<V>,
    rows: usize,
    /// How many bytes all values keep beside themselves, about.
    beside: usize,
    is_max: bool,
}

#[derive(Debug)]
enum Node<V> {
    Rows(Vec<Option<V>>),
    Nodes(Nodes<V>),
}

/// Nodes one behind the other, and what is known of each.
#[derive(Debug)]
struct Nodes<V> {
    rows: Vec<usize>,
    best: Vec<Option<V>>,
    nodes: Vec<Node<V>>,
}

/// The better of two, if there is one.
fn better<V: Above>(one: Option<V>, other: Option<&V>, is_max: bool) -> Option<V> {
    match (one, other) {
        (one, None) => one,
        (None, other) => other.cloned(),
        (Some(one), Some(other)) => {
            let is_better = if is_max { other.is_above(&one) } else { one.is_above(other) };
            Some(if is_better { other.clone() } else { one })
        }
    }
}

fn best<V: Above>(values: &[Option<V>], is_max: bool) -> Option<V> {
    values.iter().fold(None, |best, value| better(best, value.as_ref(), is_max))
}

/// Where what is too full is divided: what comes last leaves all before it full.
fn middle(place: usize, count: usize) -> usize {
    if place + 1 == count { count - 1 } else { count / 2 }
}

impl<V: Above> Node<V> {
    fn rows(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Nodes(nodes) => nodes.rows.iter().sum(),
        }
    }

    /// The best of some rows.
    fn best(&self, rows: Range<usize>, is_max: bool) -> Option<V> {
        match self {
            Self::Rows(values) => best(&values[rows], is_max),
            Self::Nodes(below) => below.best(rows, is_max),
        }
    }

    fn best_of_all(&self, is_max: bool) -> Option<V> {
        match self {
            Self::Rows(values) => best(values, is_max),
            Self::Nodes(below) => best(&below.best, is_max),
        }
    }

    /// A row comes; returns what belongs behind this node, if it was too full.
    fn insert(&mut self, place: usize, value: Option<V>, is_max: bool) -> Option<Self> {
        match self {
            Self::Rows(rows) => {
                rows.insert(place, value);
                (rows.len() > WIDTH).then(|| Self::Rows(with_room(rows, middle(place, WIDTH + 1))))
            }
            Self::Nodes(nodes) => nodes.insert(place, value, is_max).map(Self::Nodes),
        }
    }

    fn drop_first(&mut self, rows: usize, is_max: bool) {
        match self {
            Self::Rows(values) => drop(values.drain(..rows)),
            Self::Nodes(nodes) => nodes.drop_first(rows, is_max),
        }
    }
}

/// Takes all from a place on, with room for as many as there may be.
fn with_room<T>(all: &mut Vec<T>, from: usize) -> Vec<T> {
    let mut taken = Vec::with_capacity(WIDTH + 1);
    taken.extend(all.drain(from..));
    taken
}

impl<V: Above> Nodes<V> {
    fn best(&self, rows: Range<usize>, is_max: bool) -> Option<V> {
        let (mut start, mut found) = (0, None);
        for (number, count) in self.rows.iter().enumerate() {
            let of_node = rows.start.max(start)..rows.end.min(start + count);
            if of_node.start < of_node.end {
                found = match of_node.len() == *count {
                    true => better(found, self.best[number].as_ref(), is_max),
                    false => {
                        let of_node = of_node.start - start..of_node.end - start;
                        better(found, self.nodes[number].best(of_node, is_max).as_ref(), is_max)
                    }
                };
            }
            start += count;
            if start >= rows.end {
                break;
            }
        }
        found
    }

    fn insert(&mut self, place: usize, value: Option<V>, is_max: bool) -> Option<Self> {
        // Most come last, or not far from there.
        let (mut number, mut start) =
            (self.nodes.len() - 1, self.rows.iter().sum::<usize>() - self.rows[self.nodes.len() - 1]);
        while place < start {
            number -= 1;
            start -= self.rows[number];
        }
        self.rows[number] += 1;
        self.best[number] = better(self.best[number].take(), value.as_ref(), is_max);
        let behind = self.nodes[number].insert(place - start, value, is_max)?;
        let known = |node: &Node<V>| (node.rows(), node.best_of_all(is_max));
        (self.rows[number], self.best[number]) = known(&self.nodes[number]);
        let (rows, best) = known(&behind);
        self.rows.insert(number + 1, rows);
        self.best.insert(number + 1, best);
        self.nodes.insert(number + 1, behind);
        (self.nodes.len() > WIDTH).then(|| {
            let from = middle(number + 1, WIDTH + 1);
            Self {
                rows: with_room(&mut self.rows, from),
                best: with_room(&mut self.best, from),
                nodes: with_room(&mut self.nodes, from),
            }
        })
    }

    fn drop_first(&mut self, mut rows: usize, is_max: bool) {
        let mut whole = 0;
        while self.rows.get(whole).is_some_and(|count| *count <= rows) {
            rows -= self.rows[whole];
            whole += 1;
        }
        self.rows.drain(..whole);
        self.best.drain(..whole);
        self.nodes.drain(..whole);
        if rows > 0 && !self.nodes.is_empty() {
            self.nodes[0].drop_first(rows, is_max);
            self.rows[0] -= rows;
            self.best[0] = self.nodes[0].best_of_all(is_max);
        }
    }
}

impl<V: Above> Tree<V> {
    /// Without rows; whether the largest value is the best one, and not the smallest.
    pub fn new(is_max: bool) -> Self {
        Self { root: Node::Rows(Vec::new()), rows: 0, beside: 0, is_max }
    }

    /// A row comes, before which so many are.
    pub fn insert(&mut self, place: usize, value: Option<V>) {
        self.rows += 1;
        self.beside += value.as_ref().map_or(0, Above::bytes);
        if let Some(behind) = self.root.insert(place, value, self.is_max) {
            let root = std::mem::replace(&mut self.root, Node::Rows(Vec::new()));
            let nodes = vec![root, behind];
            self.root = Node::Nodes(Nodes {
                rows: nodes.iter().map(Node::rows).collect(),
                best: nodes.iter().map(|node| node.best_of_all(self.is_max)).collect(),
                nodes,
            });
        }
    }

    /// The first rows go.
    pub fn drop_first(&mut self, rows: usize) {
        // As many as these have on average.
        self.beside -= (self.beside as f64 * rows as f64 / self.rows.max(1) as f64) as usize;
        self.rows -= rows;
        self.root.drop_first(rows, self.is_max);
        // One below another one is a level too many.
        while let Node::Nodes(nodes) = &mut self.root
            && nodes.nodes.len() < 2
        {
            self.root = nodes.nodes.pop().unwrap_or(Node::Rows(Vec::new()));
        }
    }

    /// The best of two values.
    pub fn better(&self, one: Option<V>, other: Option<&V>) -> Option<V> {
        better(one, other, self.is_max)
    }

    /// The best of some rows, if one counts.
    pub fn best(&self, rows: Range<usize>) -> Option<V> {
        if rows.is_empty() { None } else { self.root.best(rows, self.is_max) }
    }

    /// How many bytes of memory it takes, about: nodes are three quarters full where rows come in no order.
    pub fn bytes(&self) -> usize {
        let nodes = self.rows / (WIDTH * 3 / 4) + 1;
        self.beside + nodes * (WIDTH * size_of::<Option<V>>() + size_of::<Node<V>>() + size_of::<(usize, Option<V>)>())
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn the_best_of_any_rows_is_found_wherever_rows_come_and_while_they_go() {
        for seed in 0..200 {
            let random = &mut StdRng::seed_from_u64(seed);
            let is_max = random.random();
            let (mut tree, mut rows) = (Tree::new(is_max), Vec::new());
            let most = random.random_range(1..200);
            let disorder = random.random_range(0..=most);
            for _ in 0..600 {
                if rows.len() > random.random_range(0..most) {
                    let gone = random.random_range(0..=rows.len().min(9));
                    rows.drain(..gone);
                    tree.drop_first(gone);
                }
                let value = random.random_bool(0.8).then(|| random.random_range(0..1_000_i64));
                let place = rows.len() - random.random_range(0..=disorder.min(rows.len()));
                rows.insert(place, value);
                tree.insert(place, value);
                let start = random.random_range(0..=rows.len());
                let window = start..random.random_range(start..=rows.len());
                let seen = rows[window.clone()].iter().flatten().copied();
                assert_eq!(tree.best(window), if is_max { seen.max() } else { seen.min() }, "seed {seed}");
                assert_eq!(tree.rows, rows.len());
            }
        }
    }
}
