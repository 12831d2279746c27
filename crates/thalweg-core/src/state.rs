//! What outlives a batch: saved, loaded and forgotten by key group, one group at a time, as snapshots.
//!
//! Checkpoints, recovery at another parallelism, adaptive partitioning, live change of a query and another engine's
//! rescaling are all made of these three calls.

use std::fmt;

use crate::{Result, Snapshot};

/// A share of all keys: those whose hash falls into one of a query's equal ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyGroup(pub u16);

/// Into how many key groups a query divides its keys; fixed when the query starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyGroups(u16);

/// The state of one operator.
pub trait State {
    /// What belongs to the key group; the state stays as it is. Empty where there is nothing.
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot>;

    /// Takes in what `save` gave for the key group, here or elsewhere. The group must not be present.
    fn load(&mut self, group: KeyGroup, snapshot: &Snapshot) -> Result<()>;

    /// Drops what belongs to the key group: another instance has it now.
    fn forget(&mut self, group: KeyGroup) -> Result<()>;

    /// Saves and forgets several key groups: what `save` gives for each. A state that is searched for a group can do so once for all.
    fn take(&mut self, groups: &[KeyGroup]) -> Result<Vec<Snapshot>> {
        let mut saved = Vec::with_capacity(groups.len());
        for group in groups {
            saved.push(self.save(*group)?);
            self.forget(*group)?;
        }
        Ok(saved)
    }

    /// A part of what belongs to a key group that several instances share; the state stays as it is. `load` takes it in: what may be seen
    /// where nothing is, and what waits where the other part is present. Where no row is seen by others all of it waits.
    fn save_part(&mut self, group: KeyGroup, part: Part) -> Result<Snapshot> {
        match part {
            Part::Seen => Ok(Snapshot::default()),
            Part::Waiting => self.save(group),
        }
    }

    /// How many bytes of memory the state takes.
    fn bytes(&self) -> usize;

    /// What is held and not yet emitted, for people: 3 open windows, 17 groups. Of two states of one node the same comes in the same order.
    fn held(&self) -> Vec<Held> {
        Vec::new()
    }
}

/// A part of the state of a key group that several instances share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The rows that may be seen, which all of them have.
    Seen,
    /// The rows that an instance answers for, and of which something may come yet: each instance has others.
    Waiting,
}

/// So many of something that a state holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub count: usize,
    /// What one is called, and what several are.
    pub names: [&'static str; 2],
    /// Whether other instances hold the same ones, and not others.
    pub is_shared: bool,
    /// Whether what was found for them by now is out, and may still change.
    pub is_out: bool,
}

impl Held {
    /// So many that no other instance holds.
    pub fn new(count: usize, names: [&'static str; 2]) -> Self {
        Self { count, names, is_shared: false, is_out: false }
    }

    /// So many of which what was found by now is out.
    pub fn out(count: usize, names: [&'static str; 2]) -> Self {
        Self { is_out: true, ..Self::new(count, names) }
    }

    /// What several instances hold.
    pub fn together(all: &[Vec<Self>]) -> Vec<Self> {
        let mut sums: Vec<Self> = Vec::new();
        for held in all.iter().flatten() {
            match sums.iter_mut().find(|sum| sum.names == held.names) {
                Some(sum) if held.is_shared => sum.count = sum.count.max(held.count),
                Some(sum) => sum.count += held.count,
                None => sums.push(*held),
            }
        }
        sums
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.names[usize::from(self.count != 1)])
    }
}

impl KeyGroup {
    /// Where an operator without keys, which has one instance, keeps all its state.
    pub const FIRST: Self = Self(0);
}

impl KeyGroups {
    /// So many groups, from 1 to 32,768.
    pub fn new(count: u16) -> Option<Self> {
        (1..=1 << 15).contains(&count).then_some(Self(count))
    }

    /// How many groups there are.
    pub fn count(self) -> usize {
        self.0 as usize
    }

    /// Every group.
    pub fn iter(self) -> impl Iterator<Item = KeyGroup> {
        (0..self.0).map(KeyGroup)
    }

    /// The group of a key with this hash. Uses the hash's upper half, so that tables may use the lower one.
    pub fn of(self, hash: u64) -> KeyGroup {
        KeyGroup((((hash >> 32) * u64::from(self.0)) >> 32) as u16)
    }
}

impl Default for KeyGroups {
    /// 128, as in Flink.
    fn default() -> Self {
        Self(128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_instances_hold_is_added_up_and_what_they_share_is_not() {
        let windows = |count| Held { is_shared: true, ..Held::new(count, ["open window", "open windows"]) };
        let groups = |count| Held::new(count, ["group", "groups"]);
        let all = Held::together(&[vec![windows(1), groups(1)], vec![], vec![windows(2), groups(93)]]);
        assert_eq!(all.iter().map(Held::to_string).collect::<Vec<_>>(), ["2 open windows", "94 groups"]);
        assert_eq!((windows(1).to_string(), groups(0).to_string()), ("1 open window".into(), "0 groups".into()));
    }

    #[test]
    fn every_hash_has_a_group_and_every_group_has_hashes() {
        let groups = KeyGroups::new(5).unwrap();
        let hashes = [0, 1 << 62, 1 << 63, 3 << 62, u64::MAX];
        assert_eq!(hashes.map(|h| groups.of(h).0), [0, 1, 2, 3, 4]);
    }
}
