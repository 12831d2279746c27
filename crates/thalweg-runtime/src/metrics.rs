//! What is counted while a query runs.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use thalweg_core::{
    Held, Interval, Timestamp,
    operator::{MadeOf, Search},
    told::Told,
};
use thalweg_plan::label::told;

use crate::accuracy::{Results, Searched, exact_share};

/// What a query has done so far.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Rows that sources gave.
    pub rows_in: u64,
    /// Rows that came out at the end.
    pub rows_out: u64,
    /// Rows that came too late for at least one of their windows.
    pub late_rows: u64,
    /// Rows that were malformed and skipped.
    pub bad_rows: u64,
    /// Rows that came behind others which belong behind them, since these did not wait longer than `'merge.slack'`.
    pub out_of_order_rows: u64,
    /// Memory that operators' states take, in bytes.
    pub state_bytes: u64,
    /// How often key groups changed hands between instances.
    pub changes: u64,
    /// How many did, all times together.
    pub moved_groups: u64,
    /// How long that kept instances from their work, all together.
    pub moving: Duration,
    /// How long instances that gave or took key groups took nothing, since others of them had not come to the barrier yet, all together.
    pub meeting: Duration,
    /// Rows that were at an instance before the states of their keys, and waited for them.
    pub waited_rows: u64,
    /// Rows that were divided by their keys among instances, each time they were; states of groups count as rows.
    pub exchanged_rows: u64,
    /// The bytes that these took on their way.
    pub exchanged_bytes: u64,
    /// Since the query started, until it ended.
    pub elapsed: Duration,
    /// From a row's arrival to the emission of what it caused.
    pub latency: Latency,
    /// How far event time has come in the slowest source partition; `None` without watermarks.
    pub watermark: Option<Timestamp>,
    /// How far that is behind the latest event time seen anywhere.
    pub watermark_lag: Option<Interval>,
    /// The source partition that holds the watermark back: `table/partition`.
    pub held_by: Option<String>,
    /// Whether the query was stopped while rows had still so much to do that they were left.
    pub is_cut_short: bool,
    /// How far rows of each source partition are taken to be out of order, where that is learnt.
    pub lateness: Vec<(String, Interval)>,
    /// Each node that has something to tell.
    pub nodes: Vec<NodeMetrics>,
    /// Each instance of each subquery, where times are measured.
    pub tasks: Vec<TaskMetrics>,
}

impl Metrics {
    /// The share of results that are final and exact, about; `None` where no rows belong to results of others.
    pub fn exact_share(&self) -> Option<f64> {
        exact_share(&self.nodes)
    }

    /// The share of rows that came in time for all that they count for.
    pub fn timely_share(&self) -> f64 {
        1.0 - self.late_rows as f64 / self.rows_in.max(1) as f64
    }
}

/// The distribution of latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Half of the batches were faster.
    pub p50: Duration,
    /// 99 of 100 batches were faster.
    pub p99: Duration,
    /// The slowest.
    pub max: Duration,
}

/// What one node has done so far, all its instances together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeMetrics {
    /// The node's name.
    pub label: String,
    /// Rows that it took; of a source, those that it read, where times are measured.
    pub rows_in: u64,
    /// The same of each instance.
    pub rows_in_each: Vec<u64>,
    /// Rows that it put out.
    pub rows_out: u64,
    /// How long its calls took, where that is measured.
    pub busy: Duration,
    /// Rows that came too late for at least one of its windows.
    pub late_rows: u64,
    /// Rows that it passed on behind others which belong behind them.
    pub out_of_order_rows: u64,
    /// Memory that its state takes, in bytes.
    pub state_bytes: u64,
    /// The most that the states of its instances took, each at its own time.
    pub most_state_bytes: u64,
    /// How many of its instances shared a key group, at most; 0 where each key has one for certain.
    pub most_owners: usize,
    /// What it looked at for rows that belong to others, and how many it found.
    pub search: Search,
    /// Of which rows its results are made, if it looks for such.
    pub made_of: Option<MadeOf>,
    /// How many of its results are exact, where it tells that.
    pub told: Option<Told>,
    /// How often a result of a window without a beginning lacked a late row, in millionths.
    pub lacked: u128,
    /// How long the calls of each instance took, where that is measured.
    pub busy_each: Vec<Duration>,
    /// What it held and had not emitted when the query was stopped.
    pub held: Vec<Held>,
}

impl NodeMetrics {
    /// The standard deviation of the work of its instances over its mean: of the time that they were at work, or, where that was not
    /// measured, of the rows that each took. `None` where it has one instance.
    ///
    /// Source: Zhang et al., "Scalable Online Interval Join", §V-B: the unbalancedness of joiners.
    pub fn unbalancedness(&self) -> Option<f64> {
        let work: Vec<f64> = match self.busy_each.is_empty() {
            true => self.rows_in_each.iter().map(|rows| *rows as f64).collect(),
            false => self.busy_each.iter().map(Duration::as_secs_f64).collect(),
        };
        let mean = work.iter().sum::<f64>() / work.len() as f64;
        let variance = work.iter().map(|work| (work - mean).powi(2)).sum::<f64>() / work.len() as f64;
        (work.len() > 1 && mean > 0.0).then(|| variance.sqrt() / mean)
    }
}

/// What one instance of a subquery has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskMetrics {
    /// The subquery's number.
    pub subquery: usize,
    /// Which of its instances.
    pub instance: usize,
    /// How long its turns took by the clock: its nodes, and what it takes to send and to put in order.
    pub busy: Duration,
}

/// Rows that exchanges have divided by keys.
#[derive(Debug, Default)]
pub struct Exchanged {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl Exchanged {
    /// So many rows leave for one instance, in so many bytes.
    pub fn add(&self, rows: usize, bytes: usize) {
        self.rows.fetch_add(rows as u64, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// How long one instance of a subquery was at work.
#[derive(Debug)]
pub struct TaskCounters {
    subquery: usize,
    instance: usize,
    nanos: AtomicU64,
}

impl TaskCounters {
    /// A turn took so long.
    pub fn worked(&self, time: Duration) {
        self.nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    fn metrics(&self) -> TaskMetrics {
        let busy = Duration::from_nanos(self.nanos.load(Relaxed));
        TaskMetrics { subquery: self.subquery, instance: self.instance, busy }
    }
}

/// The counters of one operator instance.
#[derive(Debug)]
pub struct NodeCounters {
    /// The node's name.
    pub label: String,
    /// Whether these are an operator instance's; if not, they are of all instances together.
    pub is_instance: bool,
    /// Whether it is measured how long calls take.
    pub is_timed: bool,
    /// How long they took, in nanoseconds.
    pub nanos: AtomicU64,
    /// Rows that it took.
    pub rows_in: AtomicU64,
    /// Rows that it put out.
    pub rows_out: AtomicU64,
    /// Rows that came too late.
    pub late_rows: AtomicU64,
    /// Rows that it passed on out of order.
    pub out_of_order_rows: AtomicU64,
    /// Memory that its state takes.
    pub state_bytes: AtomicUsize,
    /// The most that it took.
    pub most_state_bytes: AtomicUsize,
    /// How many instances shared a key group, at most; none where nobody may.
    pub most_owners: AtomicUsize,
    /// Of which rows its results are made, if it looks for rows that belong to others.
    pub made_of: OnceLock<MadeOf>,
    /// What it looked at and found.
    pub searched: Mutex<Searched>,
    /// How many of its results are exact, where it tells that.
    pub told: Mutex<Option<Told>>,
    /// What it held when the query was stopped.
    pub held: Mutex<Vec<Held>>,
}

/// How far one source partition has come.
#[derive(Debug)]
pub struct PartitionProgress {
    /// `table/partition`.
    pub name: String,
    /// The partition's watermark.
    pub watermark: AtomicI64,
    /// The latest event time seen.
    pub latest: AtomicI64,
    /// Whether it is not waited for: idle, or at its end.
    pub is_idle: AtomicBool,
    /// How far its rows are taken to be out of order, in microseconds, if that is learnt; less than nothing until it is.
    pub lateness: AtomicI64,
}

impl PartitionProgress {
    /// Something else was learnt than what held before.
    pub fn tell_lateness(&self, before: Interval, learnt: Interval) {
        self.lateness.store(learnt.0, Relaxed);
        // A little more or less is no news.
        if learnt.0 > before.0.saturating_mul(2) || learnt.0 < before.0 / 2 {
            tracing::info!(partition = self.name, lateness = %learnt, before = %before, "rows are out of order by another time");
        }
    }
}

/// The counters of a query, written by its tasks.
#[derive(Debug)]
pub struct Counters {
    started: Instant,
    ended: Mutex<Option<Duration>>,
    pub(crate) rows_in: AtomicU64,
    pub(crate) rows_out: AtomicU64,
    pub(crate) bad_rows: AtomicU64,
    changes: AtomicU64,
    moved_groups: AtomicU64,
    moving_nanos: AtomicU64,
    meeting_nanos: AtomicU64,
    waited_rows: AtomicU64,
    pub(crate) exchanged: Arc<Exchanged>,
    latency: Mutex<Histogram<u64>>,
    tasks: Mutex<Vec<Arc<TaskCounters>>>,
    nodes: Mutex<Vec<Arc<NodeCounters>>>,
    partitions: Mutex<Vec<Arc<PartitionProgress>>>,
    has_watermarks: AtomicBool,
    is_timed: AtomicBool,
    is_cut_short: AtomicBool,
    /// The largest watermark that a snapshot has told.
    told: AtomicI64,
}

impl Default for Counters {
    /// Counters that start now.
    fn default() -> Self {
        // Two digits up to an hour are enough to tell a good latency from a bad one, and keep the histogram small.
        let latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("these bounds are allowed");
        Self {
            started: Instant::now(),
            ended: Mutex::new(None),
            rows_in: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            bad_rows: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            moved_groups: AtomicU64::new(0),
            moving_nanos: AtomicU64::new(0),
            meeting_nanos: AtomicU64::new(0),
            waited_rows: AtomicU64::new(0),
            exchanged: Arc::default(),
            latency: Mutex::new(latency),
            tasks: Mutex::new(Vec::new()),
            nodes: Mutex::new(Vec::new()),
            partitions: Mutex::new(Vec::new()),
            has_watermarks: AtomicBool::new(false),
            is_timed: AtomicBool::new(false),
            is_cut_short: AtomicBool::new(false),
            told: AtomicI64::new(Timestamp::MIN.0),
        }
    }
}

impl Counters {
    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// The query has ended: time stands still.
    pub fn end(&self) {
        self.ended.lock().get_or_insert(self.started.elapsed());
    }

    /// The query is stopped, and what has arrived is not finished.
    pub fn cut_short(&self) {
        self.is_cut_short.store(true, Relaxed);
    }

    /// Measures how long the nodes take whose counters are made from now on.
    pub fn time_nodes(&self) {
        self.is_timed.store(true, Relaxed);
    }

    /// Counters for a source instance, where its time is measured.
    pub fn timed_source(&self, label: &str) -> Option<Arc<NodeCounters>> {
        self.is_timed.load(Relaxed).then(|| self.node(label))
    }

    /// Counters for an instance of a subquery, where its time is measured.
    pub fn timed_task(&self, subquery: usize, instance: usize) -> Option<Arc<TaskCounters>> {
        let task = || Arc::new(TaskCounters { subquery, instance, nanos: AtomicU64::new(0) });
        let task = self.is_timed.load(Relaxed).then(task)?;
        self.tasks.lock().push(Arc::clone(&task));
        Some(task)
    }

    /// Counters for one more operator instance.
    pub fn node(&self, label: &str) -> Arc<NodeCounters> {
        self.counters(label, true)
    }

    /// Counters for what no instance of a node counts.
    pub fn whole_node(&self, label: &str) -> Arc<NodeCounters> {
        self.counters(label, false)
    }

    fn counters(&self, label: &str, is_instance: bool) -> Arc<NodeCounters> {
        let node = Arc::new(NodeCounters {
            label: label.to_string(),
            is_instance,
            is_timed: self.is_timed.load(Relaxed),
            nanos: AtomicU64::new(0),
            rows_in: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            late_rows: AtomicU64::new(0),
            out_of_order_rows: AtomicU64::new(0),
            state_bytes: AtomicUsize::new(0),
            most_state_bytes: AtomicUsize::new(0),
            most_owners: AtomicUsize::new(0),
            made_of: OnceLock::new(),
            searched: Mutex::default(),
            told: Mutex::default(),
            held: Mutex::default(),
        });
        self.nodes.lock().push(Arc::clone(&node));
        node
    }

    /// What is known of the query's results so far, where sources have read rows of so much time.
    pub fn results(&self, time: Interval) -> Results {
        Results::of(&merged(&self.nodes.lock(), Told::merge_sum), time)
    }

    /// Progress of one more source partition.
    pub fn partition(&self, name: String, has_watermark: bool) -> Arc<PartitionProgress> {
        let progress = Arc::new(PartitionProgress {
            name,
            watermark: AtomicI64::new(Timestamp::MIN.0),
            latest: AtomicI64::new(Timestamp::MIN.0),
            is_idle: AtomicBool::new(false),
            lateness: AtomicI64::new(-1),
        });
        self.has_watermarks.fetch_or(has_watermark, Relaxed);
        if has_watermark {
            self.partitions.lock().push(Arc::clone(&progress));
        }
        progress
    }

    /// Rows came out that an arrival at `arrived` (nanoseconds since the start) caused.
    pub fn emitted(&self, rows: usize, arrived: u64) {
        self.rows_out.fetch_add(rows as u64, Relaxed);
        self.latency.lock().saturating_record(self.now().saturating_sub(arrived));
    }

    /// So many key groups changed hands.
    pub fn moved(&self, groups: usize) {
        self.changes.fetch_add(1, Relaxed);
        self.moved_groups.fetch_add(groups as u64, Relaxed);
    }

    /// An instance gave or took the state of key groups for so long.
    pub fn moving(&self, time: Duration) {
        self.moving_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// An instance that gives or takes key groups waited for others at a barrier for so long.
    pub fn met(&self, time: Duration) {
        self.meeting_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// So many rows waited for a state that was on its way.
    pub fn waited(&self, rows: usize) {
        self.waited_rows.fetch_add(rows as u64, Relaxed);
    }

    /// The memory of all states, and the node with the largest.
    pub fn state(&self) -> (usize, String) {
        let nodes = self.nodes.lock();
        let bytes = |node: &Arc<NodeCounters>| node.state_bytes.load(Relaxed);
        let largest = nodes.iter().max_by_key(|node| bytes(node)).map(|node| told(&node.label).into_owned());
        (nodes.iter().map(bytes).sum(), largest.unwrap_or_default())
    }

    /// What has been counted so far.
    pub fn snapshot(&self) -> Metrics {
        let (state_bytes, _) = self.state();
        let nodes = merged(&self.nodes.lock(), Told::merge);
        let mut metrics = Metrics {
            rows_in: self.rows_in.load(Relaxed),
            rows_out: self.rows_out.load(Relaxed),
            late_rows: nodes.iter().map(|node| node.late_rows).sum(),
            bad_rows: self.bad_rows.load(Relaxed),
            out_of_order_rows: nodes.iter().map(|node| node.out_of_order_rows).sum(),
            state_bytes: state_bytes as u64,
            changes: self.changes.load(Relaxed),
            moved_groups: self.moved_groups.load(Relaxed),
            moving: Duration::from_nanos(self.moving_nanos.load(Relaxed)),
            meeting: Duration::from_nanos(self.meeting_nanos.load(Relaxed)),
            waited_rows: self.waited_rows.load(Relaxed),
            exchanged_rows: self.exchanged.rows.load(Relaxed),
            exchanged_bytes: self.exchanged.bytes.load(Relaxed),
            elapsed: self.ended.lock().unwrap_or_else(|| self.started.elapsed()),
            nodes,
            is_cut_short: self.is_cut_short.load(Relaxed),
            tasks: self.tasks.lock().iter().map(|task| task.metrics()).collect(),
            ..Metrics::default()
        };
        let latency = self.latency.lock();
        let quantile = |q| Duration::from_nanos(latency.value_at_quantile(q).min(latency.max()));
        metrics.latency = Latency { p50: quantile(0.5), p99: quantile(0.99), max: Duration::from_nanos(latency.max()) };
        self.watermark_into(&mut metrics);
        metrics
    }

    fn watermark_into(&self, metrics: &mut Metrics) {
        let partitions = self.partitions.lock();
        let waited_for = partitions.iter().filter(|p| !p.is_idle.load(Relaxed));
        if let Some(slowest) = waited_for.min_by_key(|p| p.watermark.load(Relaxed)) {
            // A partition that was idle may wake up with an earlier time, but what was final stays so.
            let watermark = slowest.watermark.load(Relaxed);
            metrics.watermark = Some(Timestamp(self.told.fetch_max(watermark, Relaxed).max(watermark)));
            metrics.held_by = Some(slowest.name.clone());
        } else if self.has_watermarks.load(Relaxed) {
            metrics.watermark = partitions.iter().map(|p| Timestamp(p.watermark.load(Relaxed))).max();
        }
        let learnt = |p: &Arc<PartitionProgress>| {
            let lateness = p.lateness.load(Relaxed);
            (lateness >= 0).then(|| (p.name.clone(), Interval(lateness)))
        };
        metrics.lateness = partitions.iter().filter_map(learnt).collect();
        let latest = partitions.iter().map(|p| p.latest.load(Relaxed)).max().filter(|t| *t > Timestamp::MIN.0);
        if let (Some(latest), Some(Timestamp(watermark))) = (latest, metrics.watermark) {
            let is_between = watermark > Timestamp::MIN.0 && watermark < Timestamp::MAX.0;
            metrics.watermark_lag = is_between.then(|| Interval((latest - watermark).max(0)));
        }
    }
}

fn merged(nodes: &[Arc<NodeCounters>], merge: fn(&mut Told, &Told)) -> Vec<NodeMetrics> {
    let mut all: Vec<NodeMetrics> = Vec::new();
    for node in nodes {
        let at = all.iter().position(|known| known.label == node.label).unwrap_or_else(|| {
            all.push(NodeMetrics { label: node.label.clone(), ..NodeMetrics::default() });
            all.len() - 1
        });
        let rows_in = node.rows_in.load(Relaxed);
        all[at].rows_in += rows_in;
        if node.is_instance {
            all[at].rows_in_each.push(rows_in);
        }
        all[at].rows_out += node.rows_out.load(Relaxed);
        let busy = Duration::from_nanos(node.nanos.load(Relaxed));
        all[at].busy += busy;
        if node.is_timed && node.is_instance {
            all[at].busy_each.push(busy);
        }
        all[at].late_rows += node.late_rows.load(Relaxed);
        all[at].out_of_order_rows += node.out_of_order_rows.load(Relaxed);
        all[at].state_bytes += node.state_bytes.load(Relaxed) as u64;
        all[at].most_state_bytes += node.most_state_bytes.load(Relaxed) as u64;
        all[at].most_owners = all[at].most_owners.max(node.most_owners.load(Relaxed));
        all[at].made_of = all[at].made_of.or(node.made_of.get().copied());
        let Searched { search, lacked } = *node.searched.lock();
        all[at].search.add(search);
        all[at].lacked += lacked;
        if let Some(told) = &*node.told.lock() {
            merge(all[at].told.get_or_insert_default(), told);
        }
        all[at].held = Held::together(&[std::mem::take(&mut all[at].held), node.held.lock().clone()]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_instances_is_their_time_or_else_their_rows() {
        let by_rows = NodeMetrics { rows_in_each: vec![30, 10], ..NodeMetrics::default() };
        assert_eq!(by_rows.unbalancedness(), Some(0.5));
        let even = [Duration::from_secs(1); 2].to_vec();
        assert_eq!(NodeMetrics { busy_each: even, ..by_rows }.unbalancedness(), Some(0.0));
        let one = NodeMetrics { rows_in_each: vec![30], ..NodeMetrics::default() };
        assert_eq!(one.unbalancedness(), None);
    }
}
