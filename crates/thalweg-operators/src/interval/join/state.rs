//! What an [`IntervalJoin`] keeps, as a state that is saved, loaded and handed over.

use std::collections::HashSet;

use thalweg_core::{Error, Held, KeyGroup, Part, Result, Snapshot, State, Timestamp};
use thalweg_plan::node::JoinKind;

use super::{
    super::{
        entry::{Entry, GUEST, Identity},
        kept::hashes,
        order::By,
        saved::{self, Saved, divided, together},
        spoilt::OfJoin,
    },
    IntervalJoin, VERSION,
};

/// Which part a row has when it is saved.
const IS_BASE: i64 = 1;
const IS_MEMBER: i64 = 2;
const IS_LEAVING: i64 = 4;
const IS_MARKED: i64 = 8;
/// Another instance answered for it, and the one that loads it has it as a guest.
const IS_HANDED_OVER: i64 = 16;

impl IntervalJoin {
    /// What there is of each of so many key groups, of which each key has this place; or of a part of that.
    fn saved(&self, places: &[Option<usize>], count: usize, part: Option<Part>) -> Result<Vec<Snapshot>> {
        let has = |wanted| self.is_full() || part.is_none_or(|part| part == wanted);
        let (has_members, has_bases) = (has(Part::Seen), has(Part::Waiting));
        let bases = self.bases.iter().map(|entry| (*entry, IS_BASE)).filter(|_| has_bases);
        let there = self.lines.iter().chain(self.members.iter()).map(|entry| (*entry, IS_MEMBER));
        // Until the rows of a key are looked at, they stay in its line although they have left.
        let leaving = self.leaving.iter().map(|entry| (*entry, IS_LEAVING));
        let members = divided(there.chain(leaving).filter(|_| has_members), places, count);
        let saved = divided(bases, places, count).into_iter().zip(members).map(|(mut bases, members)| {
            let mut snapshot = Snapshot::new(VERSION);
            snapshot.number(self.reached.0);
            let mut members = together(members);
            let marked = |(entry, roles): &mut (Entry, i64)| {
                *roles |= if self.kept.is_marked(entry.at) { IS_MARKED } else { 0 };
            };
            members.iter_mut().for_each(marked);
            if self.is_full() {
                self.part(&mut bases, &mut members, part);
            }
            for entries in [bases, members] {
                saved::write(&entries, &self.lines, &self.kept, &mut snapshot)?;
            }
            Ok(snapshot)
        });
        saved.collect()
    }

    /// Leaves a part of the rows of a full join: all of them as guests; or those that are answered for and of which something may come.
    fn part(&self, bases: &mut Vec<(Entry, i64)>, members: &mut Vec<(Entry, i64)>, part: Option<Part>) {
        match part {
            None => {}
            Some(Part::Seen) => {
                bases.iter_mut().for_each(|(base, _)| base.rank = GUEST);
                members.iter_mut().for_each(|(_, roles)| *roles |= IS_MARKED);
            }
            Some(Part::Waiting) => {
                bases.retain(|(base, _)| base.rank != GUEST);
                let waits = |entry: &Entry, roles: i64| roles & IS_LEAVING != 0 || entry.time >= self.reached.0;
                members.retain(|(member, roles)| roles & IS_MARKED == 0 && waits(member, *roles));
                members.iter_mut().for_each(|(_, roles)| *roles |= IS_HANDED_OVER);
            }
        }
    }

    /// Of these members, which are handed over, those that are here are guests no more; they are returned. (A base row that is here as a guest,
    /// too, does no harm: all it may do is to be a member's partner once more.)
    fn take_over(&mut self, handed: &HashSet<Identity>) -> HashSet<Identity> {
        let Self { kept, lines, members, leaving, .. } = self;
        let mut there = HashSet::new();
        if handed.is_empty() {
            return there;
        }
        let all = lines.iter().chain(members.iter()).chain(leaving.iter());
        for member in all.filter(|member| handed.contains(&member.identity())) {
            kept.unmark(member.at);
            there.insert(member.identity());
        }
        there
    }

    /// The place of each key's group among these.
    fn places(&self, groups: &[KeyGroup]) -> Result<Vec<Option<usize>>> {
        let by: Vec<usize> = (0..self.inputs[0].keys.len()).collect();
        self.lines.places(self.key_groups, &by, groups)
    }

    /// Drops all rows of keys that have a place.
    fn drop_placed(&mut self, places: &[Option<usize>]) {
        let Self { kept, lines, members, bases, leaving, kind, .. } = self;
        lines.forget(|key| places[key as usize].is_some(), |at| kept.release(at));
        let mut stays = |entry: &Entry, uses: usize| {
            let stays = places[entry.key as usize].is_none();
            (0..uses).filter(|_| !stays).for_each(|_| kept.release(entry.at));
            stays
        };
        let uses = if *kind == JoinKind::Full { 2 } else { 1 };
        members.retain(|entry| stays(entry, uses));
        bases.retain(|entry| stays(entry, 1));
        leaving.retain(|entry| stays(entry, 1));
    }
}

impl State for IntervalJoin {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let mut saved = self.saved(&self.places(&[group])?, 1, None)?;
        saved.pop().ok_or_else(|| Error::bug("a key group was saved as nothing"))
    }

    fn save_part(&mut self, group: KeyGroup, part: Part) -> Result<Snapshot> {
        let mut saved = self.saved(&self.places(&[group])?, 1, Some(part))?;
        saved.pop().ok_or_else(|| Error::bug("a part of a key group was saved as nothing"))
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let mut snapshot = snapshot.read(VERSION)?;
        let reached = Timestamp(snapshot.number()?);
        self.reached = self.reached.max(reached);
        let key_columns = self.inputs[0].keys.len();
        for _ in 0..2 {
            let Some(saved) = Saved::read(&mut snapshot, key_columns)? else { continue };
            let numbers = self.number(saved.keys(), saved.len())?;
            let identity = |row: usize| saved.entry(row, numbers[row], 0).identity();
            let handed = (0..saved.len()).filter(|row| saved.parts(*row) & IS_HANDED_OVER != 0).map(identity).collect();
            let there = self.take_over(&handed);
            let new: Vec<usize> = (0..saved.len()).filter(|row| !there.contains(&identity(*row))).collect();
            if new.is_empty() {
                continue;
            }
            let waits = |row: usize| saved.time(row) >= reached.0;
            // Who was handed a member that it does not have had it for late, and shows it to nobody.
            let parts = |row: usize| match saved.parts(row) {
                parts if parts & IS_HANDED_OVER != 0 && !waits(row) => parts & !IS_MEMBER,
                parts => parts,
            };
            let uses = |row: &usize| {
                let parts = parts(*row);
                // A member that waits will leave, too.
                let later = self.is_full() && parts & IS_MEMBER != 0 && waits(*row);
                (parts & (IS_BASE | IS_MEMBER | IS_LEAVING)).count_ones() as usize + usize::from(later)
            };
            let batch = self.kept.keep(saved.kept(), new.iter().map(uses).sum());
            for (row, key) in new.into_iter().map(|row| (row, numbers[row])) {
                let (entry, parts) = (saved.entry(row, key, batch), parts(row));
                if parts & IS_MARKED != 0 {
                    self.kept.mark(entry.at);
                }
                match () {
                    _ if parts & IS_BASE != 0 => self.bases.put_one(entry),
                    _ if parts & IS_MEMBER != 0 && waits(row) => self.members.put_one(entry),
                    _ if parts & IS_MEMBER != 0 => self.due.copy(&[entry]),
                    _ => {}
                }
                if parts & IS_LEAVING != 0 {
                    self.leaving.push_back(entry);
                }
            }
        }
        let Self { due, sorted, kept, lines, leaving, sorter, .. } = self;
        sorter.sort(due, By::Key, |rows| hashes(kept, rows), sorted)?;
        lines.append(sorted, &[]);
        let mut left: Vec<Entry> = std::mem::take(leaving).into();
        sorter.sort_rows(&mut left, By::Time, |rows| hashes(kept, rows))?;
        *leaving = left.into();
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        self.drop_placed(&self.places(&[group])?);
        Ok(())
    }

    fn take(&mut self, groups: &[KeyGroup]) -> Result<Vec<Snapshot>> {
        let places = self.places(groups)?;
        let saved = self.saved(&places, groups.len(), None)?;
        self.drop_placed(&places);
        Ok(saved)
    }

    fn bytes(&self) -> usize {
        let spoilt = self.spoilt.as_ref().map_or(0, OfJoin::bytes);
        let entries = self.sorted.capacity() + self.ready.capacity() + self.leaving.capacity();
        let waiting = self.members.bytes() + self.bases.bytes() + self.due.bytes() + self.final_bases.bytes();
        self.kept.bytes() + self.lines.bytes() + waiting + entries * size_of::<Entry>() + self.sorter.bytes() + spoilt
    }

    fn held(&self) -> Vec<Held> {
        match (self.lines.rows(), self.members.rows() + self.bases.rows()) {
            (0, 0) => Vec::new(),
            (seen, waiting) => vec![
                Held::new(seen, ["row that may find partners", "rows that may find partners"]),
                Held::new(waiting, ["row that waits for the watermark", "rows that wait for the watermark"]),
            ],
        }
    }
}
