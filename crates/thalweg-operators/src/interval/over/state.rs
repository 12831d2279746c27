//! What an [`Over`] keeps, as a state that is saved, loaded and handed over.

use thalweg_core::{Error, Held, KeyGroup, Part, Result, Snapshot, State, Timestamp, snapshot::Reader};

use super::{
    super::{
        entry::{BASE, Entry},
        light,
        saved::{self, Saved, divided, together},
        spoilt::Spoilt,
        sweep::Sweep,
    },
    Over, VERSION,
};

/// Which part a row has when it is saved.
const IS_BASE: i64 = 1;
const IS_MEMBER: i64 = 2;

impl Over {
    /// What there is of each of so many key groups, of which each key has this place; or of a part of that.
    pub(in super::super) fn saved(
        &self,
        bases: impl Iterator<Item = Entry>,
        places: &[Option<usize>],
        count: usize,
        part: Option<Part>,
    ) -> Result<Vec<Snapshot>> {
        let (has_members, has_bases) = (part != Some(Part::Waiting), part != Some(Part::Seen));
        let members = self.lines.iter().copied().chain(self.seen_at_once()).chain(self.members.iter().copied());
        let members = members.map(|entry| (entry, IS_MEMBER));
        let members = members.filter(|_| has_members);
        let bases = bases.map(|entry| (entry, IS_BASE)).filter(|_| has_bases);
        let divided = divided(members.chain(bases), places, count).into_iter().enumerate();
        let saved = divided.map(|(place, entries)| {
            let mut snapshot = Snapshot::new(VERSION);
            snapshot.number(self.reached.0);
            // A row that waits for what it sees, and is seen itself, is one row; those of the first input come before others.
            let (bases, others): (Vec<_>, Vec<_>) =
                together(entries).into_iter().partition(|(entry, _)| entry.rank == BASE);
            for entries in [bases, others] {
                saved::write(&entries, &self.lines, &self.kept, &mut snapshot)?;
            }
            let is_here = |key: u32| has_members && places[key as usize] == Some(place);
            self.past.save(is_here, &self.lines, &self.asked, &mut snapshot)?;
            light::save(&self.lines, is_here, self.asked.kinds.len(), &mut snapshot)?;
            self.faults.save(is_here, &self.lines, &mut snapshot)?;
            Ok(snapshot)
        });
        saved.collect()
    }

    /// The place of each key's group among these.
    pub(in super::super) fn places(&self, groups: &[KeyGroup]) -> Result<Vec<Option<usize>>> {
        self.lines.places(self.key_groups, &self.divided_by, groups)
    }

    /// Drops all there is of keys that have a place.
    pub(in super::super) fn drop_placed(&mut self, places: &[Option<usize>]) -> Result<()> {
        let Self { kept, lines, sweep, past, members, bases, fresh, faults, .. } = self;
        faults.forget(|key| places[key as usize].is_some());
        lines.forget(|key| places[key as usize].is_some(), |at| kept.release(at));
        let mut stays = |entry: &mut Entry| {
            let stays = places[entry.key as usize].is_none();
            if !stays {
                kept.release(entry.at);
            }
            stays
        };
        members.retain(&mut stays);
        bases.retain(&mut stays);
        fresh.retain(&mut stays);
        sweep.iter_mut().for_each(|sweep| sweep.retain(&mut stays));
        past.forget(|key| places[key as usize].is_some())
    }
}

impl Over {
    /// Reads the rows of a key group; returns those that wait for what they see, in the order in which they were written. The others are
    /// there at once if `is_eager`, and wait for the watermark if not.
    pub(in super::super) fn read(&mut self, snapshot: &mut Reader<'_>, is_eager: bool) -> Result<Vec<Entry>> {
        let reached = Timestamp(snapshot.number()?);
        self.reached = self.reached.max(reached);
        let key_columns = self.inputs[0].input.keys.len();
        let mut bases = Vec::new();
        for is_base in [true, false] {
            let Some(saved) = Saved::read(snapshot, key_columns)? else { continue };
            let keys = self.lines.encoder().encode(saved.keys(), saved.len())?;
            let numbers = self.lines.number(&keys, saved.len());
            let uses = (0..saved.len()).map(|row| saved.parts(row).count_ones() as usize).sum();
            let mut columns = saved.kept();
            if is_base {
                self.asked.layout.forget_unread(&mut columns);
            }
            let batch = self.kept.keep(columns, uses);
            for (row, key) in numbers.into_iter().enumerate() {
                let (entry, parts) = (saved.entry(row, key, batch), saved.parts(row));
                match () {
                    _ if parts & IS_MEMBER == 0 => {}
                    _ if is_eager || entry.time < reached.0 => self.due.copy(&[entry]),
                    _ => self.members.put_one(entry),
                }
                bases.extend((parts & IS_BASE != 0).then_some(entry));
            }
        }
        self.past.load(snapshot, key_columns, &mut self.lines, &self.asked)?;
        if let Some(rows) = light::read(snapshot)? {
            if !self.may_be_light {
                return Err(Error::environment(
                    "a window's state has totals and no rows: load it with the query and the settings that wrote it",
                ));
            }
            // These are earlier than those that waited.
            let due = std::mem::take(&mut self.due);
            self.lighten()?;
            light::load(&rows, key_columns, self.asked.kinds.len(), &mut self.lines)?;
            self.due = due;
        }
        self.faults.load(snapshot, key_columns, &mut self.lines)?;
        match &mut self.sweep {
            Some(sweep) if sweep.is_on() => sweep.put(&mut self.due),
            _ => self.append()?,
        }
        Ok(bases)
    }

    /// Lines keep no rows themselves from now on.
    fn lighten(&mut self) -> Result<()> {
        self.leave_sweep();
        if let Some(sweep) = self.sweep.as_mut().filter(|sweep| sweep.is_on()) {
            sweep.end(&mut self.due);
            self.append()?;
        }
        let Self { lines, kept, .. } = self;
        lines.lighten(|rows| kept.release_all(rows.iter().map(|entry| entry.at)));
        Ok(())
    }
}

impl State for Over {
    fn save(&mut self, group: KeyGroup) -> Result<Snapshot> {
        let mut saved = self.saved(self.waiting(), &self.places(&[group])?, 1, None)?;
        saved.pop().ok_or_else(|| Error::bug("a key group was saved as nothing"))
    }

    fn save_part(&mut self, group: KeyGroup, part: Part) -> Result<Snapshot> {
        let mut saved = self.saved(self.waiting(), &self.places(&[group])?, 1, Some(part))?;
        saved.pop().ok_or_else(|| Error::bug("a part of a key group was saved as nothing"))
    }

    fn load(&mut self, _: KeyGroup, snapshot: &Snapshot) -> Result<()> {
        let bases = self.read(&mut snapshot.read(VERSION)?, false)?;
        bases.into_iter().for_each(|base| self.bases.put_one(base));
        Ok(())
    }

    fn forget(&mut self, group: KeyGroup) -> Result<()> {
        self.drop_placed(&self.places(&[group])?)
    }

    fn take(&mut self, groups: &[KeyGroup]) -> Result<Vec<Snapshot>> {
        let places = self.places(groups)?;
        let saved = self.saved(self.waiting(), &places, groups.len(), None)?;
        self.drop_placed(&places)?;
        Ok(saved)
    }

    fn bytes(&self) -> usize {
        let entries = self.sorted.capacity() + self.ready.capacity();
        let waiting = self.members.bytes() + self.bases.bytes() + self.fresh.bytes();
        let due = self.due.bytes() + self.final_bases.bytes() + self.swept.bytes();
        self.kept.bytes()
            + self.lines.bytes()
            + self.sweep.as_ref().map_or(0, Sweep::bytes)
            + self.past.bytes()
            + self.faults.bytes()
            + waiting
            + due
            + entries * size_of::<Entry>()
            + self.sorter.bytes()
            + self.spoilt.as_ref().map_or(0, Spoilt::bytes)
            + self.chunk.bytes()
    }

    fn held(&self) -> Vec<Held> {
        let waiting = self.sweep.as_ref().map_or(0, |sweep| sweep.not_passed(self.reached.0));
        let swept = self.sweep.as_ref().map_or(0, |sweep| sweep.rows().len());
        let seen = self.lines.rows() + swept - waiting;
        let waiting = (self.members.rows() + waiting).max(self.bases.rows() + self.fresh.len());
        match (seen, waiting) {
            (0, 0) => Vec::new(),
            _ => vec![
                Held::new(seen, ["row that may be seen", "rows that may be seen"]),
                Held::new(waiting, ["row that waits for the watermark", "rows that wait for the watermark"]),
            ],
        }
    }
}
