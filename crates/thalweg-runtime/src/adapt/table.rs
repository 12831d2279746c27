//! Which instances have which key group.

use thalweg_core::{KeyGroup, KeyGroups};
use thalweg_shuffle::route::hash::ByKeyGroup;

/// The instances of each key group: one, or several that *share* it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    owners: Vec<Vec<usize>>,
    instances: usize,
}

/// What goes from one instance to another so that a key group changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The key group.
    pub group: KeyGroup,
    /// Who has it.
    pub from: usize,
    /// Who will have it.
    pub to: usize,
    /// What of it goes.
    pub what: What,
}

/// What of a key group's state goes to another instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// All, from the only instance that has it to the only one that will.
    All,
    /// A copy of what may be seen, to one that will share the group.
    Seen,
    /// What one answers for that will have the group no more, as far as something may come of it.
    Waiting,
}

impl Table {
    /// The table of so many instances that a route begins with.
    pub fn even(groups: KeyGroups, instances: usize) -> Self {
        let route = ByKeyGroup::new(Vec::new(), groups, instances as u32);
        let owners = groups.iter().map(|group| vec![route.owner(group) as usize]).collect();
        Self { owners, instances: instances.max(1) }
    }

    /// How many instances there are, with key groups or without.
    pub fn instances(&self) -> usize {
        self.instances
    }

    /// Who has each group: one instance at least, and the first is the one that counts what is late.
    pub fn owners(&self) -> impl Iterator<Item = (KeyGroup, &[usize])> {
        self.owners.iter().enumerate().map(|(group, owners)| (KeyGroup(group as u16), &owners[..]))
    }

    /// Who has a group.
    pub fn owners_of(&self, group: KeyGroup) -> &[usize] {
        &self.owners[group.0 as usize]
    }

    /// Whether several instances share a group.
    pub fn is_shared(&self, group: KeyGroup) -> bool {
        self.owners_of(group).len() > 1
    }

    /// How many instances share a group, at most.
    pub fn most_owners(&self) -> usize {
        self.owners.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// The groups of an instance, shared or not.
    pub fn of(&self, instance: usize) -> Vec<KeyGroup> {
        self.owners().filter(|(_, owners)| owners.contains(&instance)).map(|(group, _)| group).collect()
    }

    /// Which instances have groups.
    pub fn used(&self) -> Vec<usize> {
        let mut is_used = vec![false; self.instances];
        self.owners.iter().flatten().for_each(|instance| is_used[*instance] = true);
        (0..self.instances).filter(|instance| is_used[*instance]).collect()
    }

    /// Gives a group to another instance alone.
    pub fn give(&mut self, group: KeyGroup, instance: usize) {
        assert!(instance < self.instances, "an instance that is there");
        self.owners[group.0 as usize] = vec![instance];
    }

    /// An instance has a group from now on, together with those that have it.
    pub fn share(&mut self, group: KeyGroup, instance: usize) {
        assert!(instance < self.instances, "an instance that is there");
        let owners = &mut self.owners[group.0 as usize];
        if !owners.contains(&instance) {
            owners.push(instance);
        }
    }

    /// An instance leaves a group to those that share it with it, if there are any.
    pub fn leave(&mut self, group: KeyGroup, instance: usize) {
        let owners = &mut self.owners[group.0 as usize];
        if owners.len() > 1 {
            owners.retain(|owner| *owner != instance);
        }
    }

    /// What has to move so that `after` holds.
    pub fn moves(&self, after: &Self) -> Vec<Move> {
        let both = self.owners().zip(after.owners());
        both.flat_map(|((group, before), (_, after))| {
            let one = |from, to, what| Move { group, from, to, what };
            let (first, heir) = (before[0], after[0]);
            if let ([from], [to]) = (before, after) {
                return if from == to { Vec::new() } else { vec![one(*from, *to, What::All)] };
            }
            let come = after.iter().filter(|to| !before.contains(to)).map(|to| one(first, *to, What::Seen));
            let go = before.iter().filter(|from| !after.contains(from)).map(|from| one(*from, heir, What::Waiting));
            come.chain(go).collect()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

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
        assert!(moves.iter().all(|one| one.what == What::All));
        assert_eq!((after.of(0), after.used()), (vec![KeyGroup(0), KeyGroup(1), KeyGroup(4)], vec![0, 1]));
    }

    #[test]
    fn who_begins_to_share_gets_what_is_seen_and_who_leaves_gives_what_waits() {
        let mut table = Table::even(KeyGroups::new(1).unwrap(), 4);
        let mut moves = |change: fn(&mut Table)| {
            let before = table.clone();
            change(&mut table);
            before.moves(&table).iter().map(|one| (one.from, one.to, one.what)).collect::<Vec<_>>()
        };
        assert_eq!(moves(|table| table.share(KeyGroup(0), 2)), [(0, 2, What::Seen)]);
        assert_eq!(moves(|table| table.share(KeyGroup(0), 2)), []);
        assert_eq!(moves(|table| table.share(KeyGroup(0), 1)), [(0, 1, What::Seen)]);
        assert_eq!(moves(|table| table.leave(KeyGroup(0), 0)), [(0, 2, What::Waiting)]);
        let given = moves(|table| table.give(KeyGroup(0), 3));
        assert_eq!(given, [(2, 3, What::Seen), (2, 3, What::Waiting), (1, 3, What::Waiting)]);
        assert_eq!(moves(|table| table.leave(KeyGroup(0), 3)), [], "somebody has it");
    }

    /// Whatever changes: each that has a group afterwards has all that is seen of it, once, and nothing that waits is lost.
    #[test]
    fn nothing_is_lost_and_nothing_is_there_twice() {
        let mut random = StdRng::seed_from_u64(3);
        let mut at = Table::even(KeyGroups::new(1).unwrap(), 5);
        for _ in 0..2000 {
            let before = at.clone();
            at.give(KeyGroup(0), random.random_range(0..5));
            (0..random.random_range(0..4)).for_each(|_| at.share(KeyGroup(0), random.random_range(0..5)));
            let (had, have) = (before.owners_of(KeyGroup(0)), at.owners_of(KeyGroup(0)));
            let (mut seen, mut waiting) = (vec![0; 5], [0; 5]);
            had.iter().for_each(|owner| (seen[*owner], waiting[*owner]) = (1, 1));
            for Move { from, to, what, .. } in before.moves(&at) {
                assert!(had.contains(&from) && have.contains(&to));
                if what != What::Waiting {
                    seen[to] += 1;
                }
                if what != What::Seen {
                    waiting[to] += std::mem::take(&mut waiting[from]);
                }
            }
            // Who leaves forgets.
            had.iter().filter(|owner| !have.contains(owner)).for_each(|owner| seen[*owner] = 0);
            let expected = |owner: usize| usize::from(have.contains(&owner));
            assert_eq!(seen, (0..5).map(expected).collect::<Vec<_>>(), "{had:?} -> {have:?}");
            assert_eq!(waiting.iter().sum::<usize>(), had.len());
            assert!((0..5).all(|owner| waiting[owner] == 0 || have.contains(&owner)));
        }
    }
}
