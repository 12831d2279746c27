//! What the instances that share the rows of an exchange, those who send to them and the planner tell each other.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use thalweg_core::{Epoch, KeyGroup, KeyGroups, Snapshot, Timestamp};

use super::table::{Move, Table, What};
use crate::{
    metrics::{Counters, NodeCounters},
    pool::TaskRef,
};

/// The instances of one stage among which rows are divided by keys: its *members*.
///
/// Senders ask for the table of an epoch before they pass its barrier on; so it is there as long as one of them may.
pub struct Team {
    label: String,
    groups: KeyGroups,
    /// Whether several members may share a key group.
    may_share: bool,
    /// Rows by key group, since the planner last asked.
    rows: Vec<AtomicU64>,
    /// All rows, be they counted by key group or not, since the planner last asked.
    all_rows: AtomicU64,
    /// Nanoseconds at work by member, since the planner last asked.
    busy: Vec<AtomicU64>,
    /// Key groups that were given away, and the nanoseconds that it took members to give and to take them.
    given: AtomicU64,
    moving: AtomicU64,
    counters: Arc<Counters>,
    /// Counts states that are on their way, as the node's, whose members have theirs before.
    node: OnceLock<Arc<NodeCounters>>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Which table holds behind all changes.
    table: Arc<Table>,
    /// What is not over yet.
    changes: BTreeMap<Epoch, Change>,
    members: Vec<Member>,
}

#[derive(Default)]
struct Member {
    task: Option<TaskRef>,
    has_left: bool,
}

/// What happens at a barrier.
struct Change {
    table: Arc<Table>,
    moves: Vec<Move>,
    /// How far each that gives or takes has come.
    involved: BTreeMap<usize, Involved>,
    parcels: Vec<Parcel>,
}

#[derive(Default)]
struct Involved {
    /// How far time had come by port when the barrier had arrived on all inputs.
    reached: Option<Vec<Timestamp>>,
    has_given: bool,
    is_done: bool,
}

/// The states of one key group, or parts of them, on their way from one member to another.
#[derive(Debug)]
pub struct Parcel {
    /// The key group.
    pub group: KeyGroup,
    /// Who gets them.
    pub to: usize,
    /// What they are.
    pub what: What,
    /// The state of each operator that has one, by its place in the chain.
    pub states: Vec<(usize, Snapshot)>,
}

impl Parcel {
    fn bytes(&self) -> usize {
        self.states.iter().map(|(_, state)| state.bytes()).sum()
    }
}

/// What came to a team in some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Rows by key group, of which more were uncounted.
    pub rows: Vec<u64>,
    /// How many rows there were in all.
    pub all_rows: u64,
    /// How long members were at work, all together.
    pub busy: Duration,
    /// How long the one was that was longest at work.
    pub busiest: Duration,
}

impl Team {
    /// The team of a node, of so many members.
    pub fn new(label: String, groups: KeyGroups, members: usize, counters: Arc<Counters>) -> Self {
        let members: Vec<_> = (0..members).map(|_| Member::default()).collect();
        let table = Arc::new(Table::even(groups, members.len()));
        Self {
            rows: groups.iter().map(|_| AtomicU64::new(0)).collect(),
            all_rows: AtomicU64::new(0),
            node: OnceLock::new(),
            label,
            groups,
            may_share: false,
            busy: members.iter().map(|_| AtomicU64::new(0)).collect(),
            given: AtomicU64::new(0),
            moving: AtomicU64::new(0),
            counters,
            inner: Mutex::new(Inner { table, changes: BTreeMap::new(), members }),
        }
    }

    /// The same, whose members may share key groups.
    pub fn sharing(self, may_share: bool) -> Self {
        if may_share {
            self.node().most_owners.store(1, Relaxed);
        }
        Self { may_share, ..self }
    }

    /// Whether several members may share a key group.
    pub fn may_share(&self) -> bool {
        self.may_share
    }

    /// The node's name.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Into how many groups keys are divided.
    pub fn groups(&self) -> KeyGroups {
        self.groups
    }

    /// A sender has had these rows, by key group.
    pub fn came(&self, rows: &[u32]) {
        for (all, rows) in self.rows.iter().zip(rows) {
            if *rows > 0 {
                all.fetch_add(u64::from(*rows), Relaxed);
            }
        }
    }

    /// A sender has had so many rows.
    pub fn came_in_all(&self, rows: usize) {
        self.all_rows.fetch_add(rows as u64, Relaxed);
    }

    /// Whether rows of some key group came since the load was last taken.
    pub fn has_load(&self) -> bool {
        self.rows.iter().any(|rows| rows.load(Relaxed) > 0)
    }

    /// A member was at work for so long.
    pub fn worked(&self, member: usize, time: Duration) {
        self.busy[member].fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// A member gave so many key groups away, or took what others gave; that kept it from its work for so long.
    pub fn moved(&self, given: usize, time: Duration) {
        self.given.fetch_add(given as u64, Relaxed);
        self.moving.fetch_add(time.as_nanos() as u64, Relaxed);
        self.counters.moving(time);
    }

    /// A member that gives or takes waited for the others for so long.
    pub fn met(&self, time: Duration) {
        self.counters.met(time);
    }

    /// How long members are kept from their work for each key group that moves, as far as is known.
    pub fn cost_of_move(&self) -> Duration {
        let given = self.given.load(Relaxed).max(1);
        Duration::from_nanos(self.moving.load(Relaxed) / given)
    }

    /// How long members were at work since the load was last taken.
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy.iter().map(|busy| busy.load(Relaxed)).sum())
    }

    /// What came since this was last asked.
    pub fn take_load(&self) -> Load {
        let rows = self.rows.iter().map(|rows| rows.swap(0, Relaxed)).collect();
        let busy: Vec<_> = self.busy.iter().map(|busy| Duration::from_nanos(busy.swap(0, Relaxed))).collect();
        let all_rows = self.all_rows.swap(0, Relaxed);
        Load { rows, all_rows, busy: busy.iter().sum(), busiest: busy.into_iter().max().unwrap_or_default() }
    }

    /// The table that holds behind all that is planned; `None` while members that have ended want nothing more.
    pub fn table(&self) -> Option<Arc<Table>> {
        let inner = self.inner.lock();
        (!inner.members.iter().any(|member| member.has_left)).then(|| Arc::clone(&inner.table))
    }

    /// How many instances have key groups, and how many may, behind all that is planned.
    pub fn used(&self) -> (usize, usize) {
        let table = Arc::clone(&self.inner.lock().table);
        (table.used().len(), table.instances())
    }

    /// This table holds, and nothing changes.
    #[cfg(test)]
    pub fn set_table(&self, table: Table) {
        let mut inner = self.inner.lock();
        inner.changes.clear();
        inner.table = Arc::new(table);
    }

    /// Whether a change is not over yet.
    pub fn is_changing(&self) -> bool {
        !self.inner.lock().changes.is_empty()
    }

    /// Behind the barrier of an epoch, which no source has sent yet, this table holds.
    pub fn plan(&self, epoch: Epoch, table: Table) {
        let mut inner = self.inner.lock();
        let moves = inner.table.moves(&table);
        if moves.is_empty() {
            return;
        }
        let members = moves.iter().flat_map(|one| [one.from, one.to]);
        let involved = members.map(|member| (member, Involved::default())).collect();
        let table = Arc::new(table);
        if self.may_share {
            self.node().most_owners.fetch_max(table.most_owners(), Relaxed);
        }
        inner.table = Arc::clone(&table);
        inner.changes.insert(epoch, Change { table, moves, involved, parcels: Vec::new() });
    }

    /// The table that holds behind the barrier of an epoch, if it is another than before. Ask before the barrier passes on.
    pub fn table_behind(&self, epoch: Epoch) -> Option<Arc<Table>> {
        self.inner.lock().changes.get(&epoch).map(|change| Arc::clone(&change.table))
    }

    /// Makes a member known, so that it is woken.
    pub fn join(&self, member: usize, task: TaskRef) {
        self.inner.lock().members[member].task = Some(task);
    }

    /// A member has ended, and is not waited for.
    pub fn leave(&self, member: usize) {
        let mut inner = self.inner.lock();
        inner.members[member].has_left = true;
        inner.wake(0..inner.members.len());
    }

    /// The barrier has arrived on all inputs of a member, where time had come so far by port; returns whether the member gives or
    /// takes a key group there.
    pub fn arrive(&self, epoch: Epoch, member: usize, reached: impl FnOnce() -> Vec<Timestamp>) -> bool {
        let mut inner = self.inner.lock();
        let Some(involved) = inner.changes.get_mut(&epoch).and_then(|change| change.involved.get_mut(&member)) else {
            return false;
        };
        involved.reached = Some(reached());
        inner.wake_involved(epoch);
        true
    }

    /// How far time has come for those who give or take, as they said, once all of them have arrived.
    pub fn level(&self, epoch: Epoch) -> Option<Vec<Timestamp>> {
        let inner = self.inner.lock();
        let mut level: Vec<Timestamp> = Vec::new();
        for (member, involved) in &inner.changes.get(&epoch)?.involved {
            let Some(reached) = &involved.reached else {
                if inner.members[*member].has_left {
                    continue;
                }
                return None;
            };
            level.resize(reached.len(), Timestamp::MIN);
            level.iter_mut().zip(reached).for_each(|(most, t)| *most = (*most).max(*t));
        }
        Some(level)
    }

    /// What a member gives.
    pub fn gifts(&self, epoch: Epoch, member: usize) -> Vec<Move> {
        let inner = self.inner.lock();
        let moves = inner.changes.get(&epoch).into_iter().flat_map(|change| &change.moves);
        moves.filter(|one| one.from == member).copied().collect()
    }

    /// The key groups that a member gains, or of which it gets rows to answer for: without what is on its way it can do nothing with their
    /// rows.
    pub fn gains(&self, epoch: Epoch, member: usize) -> Vec<KeyGroup> {
        let inner = self.inner.lock();
        let moves = inner.changes.get(&epoch).into_iter().flat_map(|change| &change.moves);
        let mut gains: Vec<KeyGroup> = moves.filter(|one| one.to == member).map(|one| one.group).collect();
        gains.sort_unstable();
        gains.dedup();
        gains
    }

    /// Rows of so many bytes wait at a member for a state.
    pub fn wait(&self, bytes: usize) {
        self.node().state_bytes.fetch_add(bytes, Relaxed);
    }

    /// So many rows, of so many bytes, waited, and go on.
    pub fn go_on(&self, rows: usize, bytes: usize) {
        self.node().state_bytes.fetch_sub(bytes, Relaxed);
        self.counters.waited(rows);
    }

    /// A member gives all that it loses.
    pub fn give(&self, epoch: Epoch, member: usize, parcels: Vec<Parcel>) {
        let mut inner = self.inner.lock();
        let Some(change) = inner.changes.get_mut(&epoch) else { return };
        self.node().state_bytes.fetch_add(parcels.iter().map(Parcel::bytes).sum(), Relaxed);
        change.parcels.extend(parcels);
        change.involved.entry(member).or_default().has_given = true;
        inner.wake_involved(epoch);
    }

    /// All that a member gains, what may be seen before what waits, and the groups that are its own from now on; `None` until all of it is
    /// there. What somebody had who has ended meanwhile is wanted by nobody.
    pub fn take(&self, epoch: Epoch, member: usize) -> Option<(Vec<Parcel>, Vec<KeyGroup>)> {
        let mut inner = self.inner.lock();
        let Inner { changes, members, .. } = &mut *inner;
        let Change { table, moves, involved, parcels } = changes.get_mut(&epoch)?;
        let has_given = |one: &Move| members[one.from].has_left || involved[&one.from].has_given;
        if !moves.iter().filter(|one| one.to == member).all(has_given) {
            return None;
        }
        let mut taken: Vec<Parcel> = parcels.extract_if(.., |parcel| parcel.to == member).collect();
        taken.sort_by_key(|parcel| parcel.what == What::Waiting);
        self.node().state_bytes.fetch_sub(taken.iter().map(Parcel::bytes).sum(), Relaxed);
        let owned = table.of(member);
        involved.entry(member).or_default().is_done = true;
        if involved.values().all(|involved| involved.is_done) {
            self.counters.moved(moves.len());
            changes.remove(&epoch);
        }
        Some((taken, owned))
    }

    fn node(&self) -> &NodeCounters {
        self.node.get_or_init(|| self.counters.whole_node(&self.label))
    }
}

impl Inner {
    fn wake_involved(&self, epoch: Epoch) {
        self.wake(self.changes.get(&epoch).into_iter().flat_map(|change| change.involved.keys().copied()));
    }

    fn wake(&self, members: impl IntoIterator<Item = usize>) {
        members.into_iter().filter_map(|member| self.members[member].task.as_ref()).for_each(TaskRef::wake);
    }
}
