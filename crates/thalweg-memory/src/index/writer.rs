//! Who inserts rows into an index, and takes them out.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, hash_map},
    fmt,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use super::{Reader, Row, Shared, arena::Node, list::List, nodes::Nodes, order_of};
use crate::{kernels::hash::mix, sync::Ordering};

/// So many entries that are out of date are not worth the work to leave them behind.
const DUE_LEAST: usize = 1000;

/// Writes an index: one thread at a time, while [`Reader`]s search it.
///
/// State: 27 bytes a row on average, and about 200 a key. Memory is used again, and kept until the writer and all readers are gone.
pub struct Writer {
    nodes: Nodes,
    keys: List,
    rows_of: HashMap<u64, Rows, BuildHasherDefault<Spread>>,
    /// Each key that has rows by a time that none of them is before; other entries are out of date.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    rows: usize,
    inserted: u64,
    finger_bytes: usize,
}

/// The rows of a key.
struct Rows {
    list: List,
    /// By which time the key is in `due`.
    due: u64,
}

/// What was taken out of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// How many rows.
    pub rows: usize,
    /// In which epoch: see [`Writer::earliest_epoch`].
    pub epoch: u64,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            nodes: Nodes::new(Arc::<Shared>::default()),
            keys: List::new(Node::ROOT),
            rows_of: HashMap::default(),
            due: BinaryHeap::new(),
            rows: 0,
            inserted: 0,
            finger_bytes: 0,
        }
    }
}

impl Writer {
    /// A reader of this index; more are its clones.
    pub fn reader(&self) -> Reader {
        Reader::new(self.nodes.shared())
    }

    /// Inserts a row behind those of its key that have the same time.
    ///
    /// It takes O(log d), where d is how many rows of the key lie between it and the one inserted before: nothing where times ascend.
    pub fn insert(&mut self, row: Row) {
        self.insert_batch([row]);
    }

    /// Inserts rows in this order. Readers may see some before others; the frontier moves when all are there. Neighbours of the
    /// same key take less.
    pub fn insert_batch(&mut self, rows: impl IntoIterator<Item = Row>) {
        let mut rows = rows.into_iter().peekable();
        while let Some(row) = rows.next() {
            self.insert_run(row, |row| rows.next_if(|next| next.key == row.key));
        }
        if self.due.len() > 2 * self.keys() + DUE_LEAST {
            self.due = self.rows_of.iter().map(|(key, rows)| Reverse((rows.due, *key))).collect();
        }
        // Release: who sees the frontier finds the rows.
        self.nodes.shared().frontier.0.store(self.inserted, Ordering::Release);
    }

    /// Takes out the rows of earlier times, and the keys that have none left; it visits those rows and no others. Readers may find
    /// them until they pin again. Rows as early may come after it, until it is called again.
    pub fn expire(&mut self, before: i64) -> Expired {
        self.expire_each(before, |_| ())
    }

    /// As [`Writer::expire`]; `gone` is told the value of each row.
    pub fn expire_each(&mut self, before: i64, mut gone: impl FnMut(u64)) -> Expired {
        let rows = self.rows;
        let before = order_of(before);
        while let Some(Reverse((due, key))) = self.due.peek().copied()
            && due < before
        {
            self.due.pop();
            self.expire_key(key, due, before, &mut gone);
        }
        Expired { rows: rows - self.rows, epoch: self.nodes.end_epoch() }
    }

    /// Takes a key out, with all its rows; `gone` is told the value of each. Readers may find them until they pin again.
    pub fn remove(&mut self, key: u64, mut gone: impl FnMut(u64)) -> Expired {
        let Some(Rows { mut list, .. }) = self.rows_of.remove(&key) else {
            return Expired { rows: 0, epoch: self.nodes.end_epoch() };
        };
        self.finger_bytes -= list.bytes();
        let rows = list.truncate(&mut self.nodes, None, &mut gone);
        self.rows -= rows;
        self.keys.remove(&mut self.nodes, key);
        list.close(&mut self.nodes);
        Expired { rows, epoch: self.nodes.end_epoch() }
    }

    /// The earliest epoch that readers may be in: what was expired in an epoch before it is found by nobody, so that what the
    /// values led to may be dropped.
    pub fn earliest_epoch(&self) -> u64 {
        self.nodes.earliest_epoch()
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many keys have rows.
    pub fn keys(&self) -> usize {
        self.rows_of.len()
    }

    /// How many bytes of memory it has, with those that wait to be used again.
    pub fn bytes(&self) -> usize {
        let due = self.due.capacity() * size_of::<(u64, u64)>();
        // A table of hashes has a byte for each place.
        let rows_of = self.rows_of.capacity() * (size_of::<(u64, Rows)>() + 1);
        size_of::<Shared>() + self.nodes.bytes() + due + rows_of + self.finger_bytes
    }

    /// Inserts a row, and those of the same key that follow it.
    fn insert_run(&mut self, row: Row, mut next: impl FnMut(Row) -> Option<Row>) {
        let Self { nodes, keys, due, .. } = self;
        let rows = match self.rows_of.entry(row.key) {
            hash_map::Entry::Occupied(rows) => rows.into_mut(),
            hash_map::Entry::Vacant(place) => {
                let head = nodes.take(1, 0, 0);
                let list = List::new(keys.insert(nodes, row.key, head.name()));
                self.finger_bytes += list.bytes();
                due.push(Reverse((order_of(row.time), row.key)));
                place.insert(Rows { list, due: order_of(row.time) })
            }
        };
        let finger_bytes = rows.list.bytes();
        let mut following = Some(row);
        while let Some(row) = following {
            let order = order_of(row.time);
            rows.list.insert(nodes, order, row.value);
            if order < rows.due {
                rows.due = order;
                due.push(Reverse((order, row.key)));
            }
            self.rows += 1;
            self.inserted += 1;
            following = next(row);
        }
        self.finger_bytes += rows.list.bytes() - finger_bytes;
    }

    /// Takes out the earlier rows of a key, if it is still due then.
    fn expire_key(&mut self, key: u64, due: u64, before: u64, gone: &mut impl FnMut(u64)) {
        let hash_map::Entry::Occupied(mut place) = self.rows_of.entry(key) else { return };
        let rows = place.get_mut();
        if rows.due != due {
            return;
        }
        self.rows -= rows.list.truncate(&mut self.nodes, Some(before), gone);
        match rows.list.first(self.nodes.arena()) {
            Some(first) => {
                rows.due = first;
                self.due.push(Reverse((first, key)));
            }
            None => {
                self.keys.remove(&mut self.nodes, key);
                let list = place.remove().list;
                self.finger_bytes -= list.bytes();
                list.close(&mut self.nodes);
            }
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer of an index of {} rows of {} keys", self.rows, self.keys())
    }
}

/// Hashes one number. Who chose the keys chose them before they were numbered or hashed.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0, number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
