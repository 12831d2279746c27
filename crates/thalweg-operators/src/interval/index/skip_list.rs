//! Rows by key and time in the index of Scale-OIJ.
//!
//! Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", §V-A. There other joiners read it
//! meanwhile; here its writer does.

use thalweg_memory::index::{Reader, Row, Writer};

use super::{super::entry::Entry, Found, Index, Lookup};

/// The rank of a place that no row has.
const FREE: u32 = u32::MAX;

/// Rows by key and time, each of which takes O(log rows of its key between it and the one before).
///
/// State: 32 bytes a row, and the index.
pub struct SkipList {
    writer: Writer,
    reader: Reader,
    /// What the index leads to, and places that are free.
    rows: Vec<Entry>,
    free: Vec<u32>,
    /// There are keys with smaller numbers than this.
    keys: u32,
    /// Where the last lookup ended that is not done.
    left: Left,
}

/// So many rows were found for a lookup; and the time of the last one, of which there were so many among them.
#[derive(Clone, Copy, Default)]
struct Left {
    rows: usize,
    time: i64,
    of_time: usize,
}

impl Default for SkipList {
    fn default() -> Self {
        let writer = Writer::default();
        Self { reader: writer.reader(), writer, rows: Vec::new(), free: Vec::new(), keys: 0, left: Left::default() }
    }
}

/// Frees the place of a row, and tells of it.
fn free(rows: &mut [Entry], places: &mut Vec<u32>, place: u64, gone: &mut dyn FnMut(Entry)) {
    let row = &mut rows[place as usize];
    gone(*row);
    row.rank = FREE;
    places.push(place as u32);
}

impl Index for SkipList {
    fn insert(&mut self, rows: &[Entry]) {
        let Self { writer, rows: all, free, keys, .. } = self;
        writer.insert_batch(rows.iter().map(|row| {
            *keys = (*keys).max(row.key + 1);
            let place = free.pop().unwrap_or(all.len() as u32);
            match all.get_mut(place as usize) {
                Some(there) => *there = *row,
                None => all.push(*row),
            }
            Row { key: row.key.into(), time: row.time, value: place.into() }
        }));
    }

    fn find(&mut self, lookups: &[Lookup], mut skip: usize, most: usize, found: &mut Found) {
        let (view, most) = (self.reader.pin(), found.rows.len() + most);
        for Lookup { key, from, to } in lookups {
            // Nobody passes the rows again that were found before.
            let mut left = match skip > 0 && skip == self.left.rows {
                true => self.left,
                false => Left { time: *from, ..Left::default() },
            };
            let known = std::mem::take(&mut skip);
            let mut range = view.range((*key).into(), left.time..=*to).skip(left.of_time).peekable();
            while found.rows.len() < most
                && let Some((time, place)) = range.next()
            {
                let of_time = if time == left.time { left.of_time } else { 0 };
                left = Left { rows: left.rows + 1, time, of_time: of_time + 1 };
                if left.rows > known {
                    found.rows.push(self.rows[place as usize]);
                }
            }
            if range.peek().is_some() {
                self.left = left;
                return;
            }
            found.ends.push(found.rows.len());
        }
    }

    fn change(&mut self, key: u32, change: &mut dyn FnMut(&mut Entry)) {
        for (_, place) in self.reader.pin().range(key.into(), i64::MIN..=i64::MAX) {
            change(&mut self.rows[place as usize]);
        }
    }

    fn expire(&mut self, end: i64, gone: &mut dyn FnMut(Entry)) {
        let Self { writer, rows, free: places, .. } = self;
        writer.expire_each(end, |place| free(rows, places, place, gone));
    }

    fn forget(&mut self, is_gone: &dyn Fn(u32) -> bool, gone: &mut dyn FnMut(Entry)) {
        let Self { writer, rows, free: places, keys, .. } = self;
        for key in (0..*keys).filter(|key| is_gone(*key)) {
            writer.remove(key.into(), |place| free(rows, places, place, gone));
        }
    }

    fn renumber(&mut self, moved: &[u32]) {
        let mut rows: Vec<Entry> = self.iter().copied().collect();
        rows.iter_mut().for_each(|row| row.key = moved[row.key as usize]);
        // As they came where times are equal.
        rows.sort_by_key(|row| (row.key, row.time, row.at));
        *self = Self::default();
        self.insert(&rows);
    }

    fn iter(&self) -> Box<dyn Iterator<Item = &Entry> + '_> {
        Box::new(self.rows.iter().filter(|row| row.rank != FREE))
    }

    fn rows(&self) -> usize {
        self.writer.rows()
    }

    fn bytes(&self) -> usize {
        let rows = self.rows.capacity() * size_of::<Entry>() + self.free.capacity() * size_of::<u32>();
        self.writer.bytes() + rows
    }
}
