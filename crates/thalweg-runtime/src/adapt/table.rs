//! Which instance has which key group.

use thalweg_core::{KeyGroup, KeyGroups};
use thalweg_shuffle::route::hash::ByKeyGroup;

/// The instance of each key group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    owners: Vec<usize>,
    instances: usize,
}

/// A key group that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The key group.
    pub group: KeyGroup,
    /// Who has it.
    pub from: usize,
    /// Who will have it.
    pub to: usize,
}

impl Table {
    /// The table of so many instances that a route begins with.
    pub fn even(groups: KeyGroups, instances: usize) -> Self {
        let route = ByKeyGroup::new(Vec::new(), groups, instances as u32);
        Self { owners: groups.iter().map(|group| route.owner(group) as usize).collect(), instances: instances.max(1) }
    }

    /// How many instances there are, with key groups or without.
    pub fn instances(&self) -> usize {
        self.instances
    }

    /// Who has a group.
    pub fn owner(&self, group: KeyGroup) -> usize {
        self.owners[group.0 as usize]
    }

    /// Who has each group.
    pub fn owners(&self) -> impl Iterator<Item = (KeyGroup, usize)> {
        self.owners.iter().enumerate().map(|(group, owner)| (KeyGroup(group as u16), *owner))
    }

    /// The groups of an instance.
    pub fn of(&self, instance: usize) -> Vec<KeyGroup> {
        self.owners().filter(|(_, owner)| *owner == instance).map(|(group, _)| group).collect()
    }

    /// Which instances have groups.
    pub fn used(&self) -> Vec<usize> {
        (0..self.instances).filter(|instance| self.owners.contains(instance)).collect()
    }

    /// Gives a group to another instance.
    pub fn give(&mut self, group: KeyGroup, instance: usize) {
        assert!(instance < self.instances, "an instance that is there");
        self.owners[group.0 as usize] = instance;
    }

    /// What has to move so that `after` holds.
    pub fn moves(&self, after: &Self) -> Vec<Move> {
        let both = self.owners().zip(after.owners());
        both.filter(|((_, from), (_, to))| from != to)
            .map(|((group, from), (_, to))| Move { group, from, to })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_what_differs() {
        let before = Table::even(KeyGroups::new(6).unwrap(), 3);
        let mut after = before.clone();
        assert_eq!(before.moves(&after), []);
        after.give(KeyGroup(4), 0);
        after.give(KeyGroup(5), 1);
        let moves = before.moves(&after);
        assert_eq!(moves.iter().map(|m| (m.group.0, m.from, m.to)).collect::<Vec<_>>(), [(4, 2, 0), (5, 2, 1)]);
        assert_eq!((after.of(0), after.used()), (vec![KeyGroup(0), KeyGroup(1), KeyGroup(4)], vec![0, 1]));
    }
}
