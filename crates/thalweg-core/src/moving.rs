//! The rows of a key, and what is in the window that was last looked at: kept from batch to batch.

use std::{collections::VecDeque, mem, ops::Range};

use arrow_array::{ArrayRef, BooleanArray, builder::ArrayBuilder};

use crate::{
    Result,
    aggregate::{Follower, Windows, builder},
};

/// Values that come and go.
pub trait Bag {
    /// What is there, perhaps several times.
    type Value: Copy;

    /// One comes or goes.
    fn change(&mut self, value: Self::Value, comes: bool);

    /// How many bytes of memory it keeps beside itself.
    fn bytes(&self) -> usize {
        0
    }
}

/// An aggregate that follows from a bag of values, one of each row that counts.
pub trait Bagged: Clone + Send + 'static {
    /// The bag.
    type Bag: Bag<Value: Send> + Send;
    /// What builds a column of results.
    type Builder: ArrayBuilder;

    /// A bag without values.
    fn bag(&self) -> Self::Bag;

    /// The value of each row that counts.
    fn values(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<ValueOf<Self>>>>;

    /// Appends what the values in a bag come to.
    fn put(&self, bag: &Self::Bag, found: &mut Self::Builder) -> Result<()>;

    /// Appends what the values in windows of these rows come to, with what is in the bag before.
    ///
    /// Errors: those of the others.
    fn follow(&self, mut bag: Self::Bag, windows: &Windows<'_>, found: &mut Self::Builder) -> Result<()> {
        let values = self.values(windows.arguments, windows.filter)?;
        let change = |bag: &mut Self::Bag, rows: Range<usize>, comes: bool| {
            values[rows].iter().flatten().for_each(|value| bag.change(*value, comes));
            Ok(())
        };
        windows.follow(&mut bag, change, |bag| self.put(bag, found))?;
        Ok(())
    }

    /// What follows windows for it from batch to batch.
    fn follower(&self) -> Box<dyn Follower> {
        Box::new(Following { of: self.clone(), moving: Moving::new(self.bag()) })
    }
}

/// What is in the bag of an aggregate.
pub type ValueOf<B> = <<B as Bagged>::Bag as Bag>::Value;

/// Follows windows with a bag.
struct Following<B: Bagged> {
    of: B,
    moving: Moving<B::Bag>,
}

impl<B: Bagged> Follower for Following<B> {
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
        self.moving.insert(self.of.values(arguments, filter)?, places);
        Ok(())
    }

    fn drop_first(&mut self, rows: usize) {
        self.moving.drop_first(rows, |_, _| ());
    }

    fn results(&mut self, windows: &Windows<'_>, found: &mut dyn ArrayBuilder) -> Result<()> {
        let own = match windows.own {
            Some(_) => self.of.values(windows.arguments, windows.filter)?,
            None => Vec::new(),
        };
        let found = builder(found)?;
        self.moving.follow(windows, &own, |bag| self.of.put(bag, found))?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.moving.bytes() + self.moving.bag.bytes()
    }
}

/// Rows in order, each with its value if it counts, of which those of one window are in a bag.
///
/// A window that is not far from the one before costs what lies between them, be it of the next batch or long.
#[derive(Debug)]
pub struct Moving<B: Bag> {
    rows: VecDeque<Option<B::Value>>,
    near: Range<usize>,
    /// The values of the rows in the window.
    pub bag: B,
}

impl<B: Bag> Moving<B> {
    /// Without rows.
    pub fn new(bag: B) -> Self {
        Self { rows: VecDeque::new(), near: 0..0, bag }
    }

    /// Rows come: before each so many of those that are there already, which ascend.
    pub fn insert(&mut self, values: impl IntoIterator<Item = Option<B::Value>>, places: &[usize]) {
        for (number, (value, place)) in values.into_iter().zip(places).enumerate() {
            let place = place + number;
            if place == self.rows.len() {
                self.rows.push_back(value);
                continue;
            }
            self.rows.insert(place, value);
            if place >= self.near.end {
                continue;
            }
            self.near.end += 1;
            if place <= self.near.start {
                self.near.start += 1;
            } else if let Some(value) = value {
                self.bag.change(value, true);
            }
        }
    }

    /// The first rows go; `gone` is told the value of each that counts, when the bag has it no more.
    pub fn drop_first(&mut self, rows: usize, mut gone: impl FnMut(&mut B, B::Value)) {
        for (row, value) in self.rows.drain(..rows.min(self.rows.len())).enumerate() {
            let Some(value) = value else { continue };
            if self.near.contains(&row) {
                self.bag.change(value, false);
            }
            gone(&mut self.bag, value);
        }
        self.near = self.near.start.saturating_sub(rows)..self.near.end.saturating_sub(rows);
        if self.rows.capacity() > 4 * self.rows.len().max(64) {
            self.rows.shrink_to(2 * self.rows.len());
        }
    }

    /// Each value becomes another one.
    pub fn map(&mut self, to: impl Fn(B::Value) -> B::Value) {
        self.rows.iter_mut().flatten().for_each(|value| *value = to(*value));
    }

    /// What there is in each window; `own` are the values of the rows that each sees alone.
    ///
    /// Errors: those of `result`.
    pub fn follow<R>(
        &mut self,
        windows: &Windows<'_>,
        own: &[Option<B::Value>],
        mut result: impl FnMut(&mut B) -> Result<R>,
    ) -> Result<Vec<R>> {
        let mut near = mem::take(&mut self.near);
        let count = self.rows.len();
        let change = |moving: &mut Self, rows: Range<usize>, comes: bool| {
            let of_own = rows.start.max(count) - count..rows.end.max(count) - count;
            let all = moving.rows.range(rows.start.min(count)..rows.end.min(count)).chain(&own[of_own]);
            all.flatten().for_each(|value| moving.bag.change(*value, comes));
            Ok(())
        };
        let found = windows.follow_from(&mut near, self, change, |moving| result(&mut moving.bag));
        self.near = near;
        found
    }

    /// How many bytes of memory the rows take.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Option<B::Value>>()
    }
}
