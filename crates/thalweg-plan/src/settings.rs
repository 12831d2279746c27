//! What `SET 'key' = 'value'` sets: how a query is to be run.

use thalweg_core::{Error, Interval, Result, connector::Options};

/// The settings of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many instances a subquery may have, and how many workers run them, unless there are fewer processors.
    pub parallelism: usize,
    /// Whether the keys of aggregates are divided among instances, also where their rows come in order: once somebody has said how many
    /// instances there are. Without that they are not: the way to an instance costs more than most aggregates save.
    pub divides_keys: bool,
    /// The most rows in a batch.
    pub batch_rows: usize,
    /// How long after the arrival of what causes it a result should be out: rows wait for one another only for a part of it.
    pub target_delay: Interval,
    /// How long a source waits for a batch to fill; `None` follows from the target.
    pub batch_linger: Option<Interval>,
    /// After how long without rows a source partition is not waited for; `None` waits for ever, which keeps results exact.
    pub watermark_idle: Option<Interval>,
    /// How long after a window's end its rows are still taken.
    pub late_allowed: Interval,
    /// How many bytes the state of a query may take.
    pub memory_limit: Option<usize>,
    /// The session's time zone.
    pub time_zone: String,
    /// How float sums are computed.
    pub float_sum: FloatSum,
    /// What windows are aligned to.
    pub window_anchor: crate::node::Anchor,
    /// In which order the rows of several instances come out.
    pub merge: Merge,
    /// How long rows wait for an instance that says nothing, with [`Merge::Slack`].
    pub merge_slack: Interval,
    /// How many bytes of rows may be on their way between the instances of subqueries; `None` follows from how many these are.
    pub exchange_memory: Option<usize>,
    /// How rows get to the instances that have their keys.
    pub exchange_scatter: Scatter,
    /// What is placed together.
    pub strategy: Strategy,
    /// Whether rows are aggregated before they travel.
    pub phases: Phases,
    /// Whether aggregates around a row are found without looking at all rows of its window, where that can be.
    pub over_incremental: bool,
    /// In what joins look rows up whose pairs come out at once.
    pub join_index: JoinIndex,
    /// Whether the routes of rows that are divided by keys follow the load.
    pub adaptive: bool,
    /// How often the load is looked at.
    pub adaptive_interval: Interval,
    /// By how much the busiest instance may be above the average, in percent of it.
    pub adaptive_imbalance: u32,
    /// At work for less of the time on average, in percent, instances become fewer.
    pub adaptive_low: u32,
    /// At work for more of the time on average, in percent, instances become more.
    pub adaptive_high: u32,
    /// By how much the busiest instance's load must become less, in percent of it, so that key groups move.
    pub adaptive_improvement: u32,
}

/// Whether rows are aggregated before they travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// Where several instances send rows, and their groups are fewer, as far as is known.
    Auto,
    /// No.
    One,
    /// Wherever aggregates can be split.
    Two,
}

/// What is placed together (StreamCloud, §III-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All of the query: every instance runs all of it.
    QueryCluster,
    /// Each node by itself.
    OperatorCluster,
    /// Each node with a state and those without one behind it.
    SubqueryCluster,
}

impl Strategy {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::QueryCluster, Self::OperatorCluster, Self::SubqueryCluster];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueryCluster => "query-cluster",
            Self::OperatorCluster => "operator-cluster",
            Self::SubqueryCluster => "subquery-cluster",
        }
    }
}

/// In which order the rows of several instances come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// In the order that is promised, which is that of one instance (StreamCloud's transparent merger).
    Ordered,
    /// In that order, as long as no instance is silent for longer than `'merge.slack'` while rows wait for it (k-slack).
    Slack,
    /// As instances have them: the same rows, in any order (StreamCloud's best-effort merger).
    Arrival,
}

impl Merge {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Slack => "slack",
            Self::Arrival => "arrival",
        }
    }

    /// Whether rows are put in order, be it within a slack.
    pub fn puts_in_order(self) -> bool {
        self != Self::Arrival
    }
}

/// How rows get into pages on their way between instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scatter {
    /// As measurement says is better.
    Auto,
    /// They stay in their batches: each instance gets these as they are, and the numbers of its rows.
    Selected,
    /// They wait in buffers that lie in the caches, until one is full.
    Buffered,
    /// Batch by batch: those of each receiver behind each other.
    Hybrid,
}

/// In what rows are looked up by key and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinIndex {
    /// What costs less.
    Auto,
    /// The rows of each key in the order of time, in leaves.
    Runs,
    /// The index of Scale-OIJ.
    SkipList,
}

impl JoinIndex {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Runs, Self::SkipList];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Runs => "runs",
            Self::SkipList => "skip-list",
        }
    }
}

/// How float sums are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatSum {
    /// Rounded once; the same bits in any order.
    Exact,
    /// Plain doubles; the last bits depend on the order of rows.
    Fast,
}

/// A setting: its key, what it may be, and what it does.
pub const KEYS: [(&str, &str, &str); 24] = [
    (
        "parallelism",
        "a whole number from 1 to 1024",
        "instances per subquery; as many threads, but no more than processors; the machine's cores by default",
    ),
    ("batch.rows", "a whole number from 1 to 1048576", "the most rows in a batch"),
    (
        "target.delay",
        "a duration such as '10 ms'",
        "how long after what causes it a result should be out; a longer one makes larger batches",
    ),
    (
        "batch.linger",
        "a duration such as '5 ms', or 'auto'",
        "how long a source waits for a batch to fill; a tenth of 'target.delay' by default",
    ),
    ("watermark.idle", "a duration such as '10 s', or 'off'", "when a silent source partition is no longer waited for"),
    ("late.allowed", "a duration such as '1 min'", "how long after a window's end its rows are still taken"),
    ("memory.limit", "a size such as '512 MB', or 'off'", "how much memory the state of a query may take"),
    ("time.zone", "a zone such as 'UTC' or 'Europe/Berlin'", "the zone of TIMESTAMP_LTZ and of local dates"),
    ("float.sum", "'exact' or 'fast'", "whether float sums are the same in any order of rows"),
    ("window.anchor", "'epoch' or 'first-row'", "what windows are aligned to"),
    (
        "merge",
        "'ordered', 'slack' or 'arrival'",
        "whether the groups of several instances come in their order, in order within 'merge.slack', or as the instances have them",
    ),
    (
        "merge.slack",
        "a duration such as '500 ms'",
        "how long rows wait for an instance that says nothing, with 'merge' = 'slack'",
    ),
    (
        "exchange.memory",
        "a size such as '64 MiB', or 'auto'",
        "how much memory rows may take that are on their way between instances; 64 MiB by default, or more for thousands of pairs",
    ),
    (
        "exchange.scatter",
        "'auto', 'selected', 'buffered' or 'hybrid'",
        "whether rows stay where they are, wait in buffers until they go into pages, or go there batch by batch",
    ),
    (
        "parallel.strategy",
        "'subquery-cluster', 'query-cluster' or 'operator-cluster'",
        "what is placed together: a node with a state and what follows it, all of the query, or each node by itself",
    ),
    (
        "aggregate.phases",
        "'auto', 'one' or 'two'",
        "whether the instances that send rows aggregate them first, and the states of their groups travel",
    ),
    (
        "over.incremental",
        "'true' or 'false'",
        "whether aggregates around a row are found without looking at all rows of its window, where that can be",
    ),
    ("join.index", "'auto', 'runs' or 'skip-list'", "in what joins with EMIT EAGER look rows up by key and time"),
    ("adaptive", "'true' or 'false'", "whether keys move between instances as the load asks for"),
    ("adaptive.interval", "a duration from '1 ms' to '1 h'", "how often the load of instances is looked at"),
    (
        "adaptive.imbalance",
        "a percentage from '0 %' to '1000 %'",
        "how far the busiest instance may be above the average before keys move",
    ),
    (
        "adaptive.low",
        "a percentage such as '20 %', below that of 'adaptive.high'",
        "at work for less of the time on average, instances become fewer",
    ),
    (
        "adaptive.high",
        "a percentage such as '70 %', above that of 'adaptive.low'",
        "at work for more of the time on average, instances become more",
    ),
    (
        "adaptive.improvement",
        "a percentage from '0 %' to '100 %'",
        "how much less the busiest instance must have to do so that keys move",
    ),
];

impl Default for Settings {
    fn default() -> Self {
        Self {
            parallelism: std::thread::available_parallelism().map_or(1, |n| n.get()),
            divides_keys: false,
            batch_rows: 8192,
            target_delay: Interval::millis(10),
            batch_linger: None,
            watermark_idle: None,
            late_allowed: Interval::ZERO,
            memory_limit: None,
            time_zone: "UTC".to_string(),
            float_sum: FloatSum::Exact,
            window_anchor: crate::node::Anchor::Epoch,
            merge: Merge::Ordered,
            merge_slack: Interval::millis(1000),
            exchange_memory: None,
            exchange_scatter: Scatter::Auto,
            strategy: Strategy::SubqueryCluster,
            phases: Phases::Auto,
            over_incremental: true,
            join_index: JoinIndex::Auto,
            adaptive: true,
            adaptive_interval: Interval::millis(1000),
            adaptive_imbalance: 25,
            adaptive_low: 20,
            adaptive_high: 70,
            adaptive_improvement: 10,
        }
    }
}

impl Settings {
    /// Sets one setting from text. That a time zone exists is checked by who knows zones.
    ///
    /// ```
    /// let mut settings = thalweg_plan::Settings::default();
    /// settings.set("memory.limit", "512 MB").unwrap();
    /// assert_eq!(settings.memory_limit, Some(512_000_000));
    /// ```
    ///
    /// Errors: `Error::Query` that names the key and what it may be.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let Some((_, expected, _)) = KEYS.iter().find(|(name, ..)| *name == key) else {
            let known = KEYS.map(|(name, ..)| format!("'{name}'")).join(", ");
            return Err(Error::query(format!("unknown setting '{key}'")).with_hint(format!("the settings are {known}")));
        };
        self.try_set(key, value.trim())
            .ok_or_else(|| Error::query(format!("setting '{key}' is '{value}', expected {expected}")))
    }

    /// What a query asks before it starts: settings that limit each other are set one after the other.
    ///
    /// Errors: `Error::Query` that names the settings that do not go together.
    pub fn check(&self) -> Result<()> {
        let (low, high) = (self.adaptive_low, self.adaptive_high);
        if low < high {
            return Ok(());
        }
        Err(Error::query(format!(
            "setting 'adaptive.low' is '{low} %', and not below 'adaptive.high', which is '{high} %'"
        ))
        .with_hint("SET one of them anew: instances become fewer below the first, and more above the second"))
    }

    /// Every key with its present value, as `SET` shows them.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let percent = |value: u32| format!("{value} %");
        let or_off = |value: Option<String>| value.unwrap_or_else(|| "off".to_string());
        KEYS.map(|(key, ..)| {
            let value = match key {
                "parallelism" => self.parallelism.to_string(),
                "batch.rows" => self.batch_rows.to_string(),
                "target.delay" => self.target_delay.to_string(),
                "batch.linger" => self.batch_linger.map_or("auto".to_string(), |linger| linger.to_string()),
                "watermark.idle" => or_off(self.watermark_idle.map(|i| i.to_string())),
                "late.allowed" => self.late_allowed.to_string(),
                "memory.limit" => or_off(self.memory_limit.map(|bytes| format!("{bytes} B"))),
                "time.zone" => self.time_zone.clone(),
                "float.sum" => match self.float_sum {
                    FloatSum::Exact => "exact",
                    FloatSum::Fast => "fast",
                }
                .to_string(),
                "merge" => self.merge.name().to_string(),
                "merge.slack" => self.merge_slack.to_string(),
                "exchange.memory" => self.exchange_memory.map_or("auto".to_string(), |bytes| format!("{bytes} B")),
                "exchange.scatter" => match self.exchange_scatter {
                    Scatter::Auto => "auto",
                    Scatter::Selected => "selected",
                    Scatter::Buffered => "buffered",
                    Scatter::Hybrid => "hybrid",
                }
                .to_string(),
                "parallel.strategy" => self.strategy.name().to_string(),
                "aggregate.phases" => match self.phases {
                    Phases::Auto => "auto",
                    Phases::One => "one",
                    Phases::Two => "two",
                }
                .to_string(),
                "over.incremental" => self.over_incremental.to_string(),
                "join.index" => self.join_index.name().to_string(),
                "adaptive" => self.adaptive.to_string(),
                "adaptive.interval" => self.adaptive_interval.to_string(),
                "adaptive.imbalance" => percent(self.adaptive_imbalance),
                "adaptive.low" => percent(self.adaptive_low),
                "adaptive.high" => percent(self.adaptive_high),
                "adaptive.improvement" => percent(self.adaptive_improvement),
                _ => match self.window_anchor {
                    crate::node::Anchor::Epoch => "epoch",
                    _ => "first-row",
                }
                .to_string(),
            };
            (key, value)
        })
        .to_vec()
    }

    /// How long a source waits for a batch to fill: what is read while a batch is worked on goes with the next one anyhow, so
    /// that batches grow with the load; waiting only spares work where there is little to do.
    pub fn linger(&self) -> Interval {
        self.batch_linger.unwrap_or(Interval(self.target_delay.0 / 10))
    }

    fn try_set(&mut self, key: &str, value: &str) -> Option<()> {
        let interval = || Options::new([(String::new(), value.to_string())]).interval("").ok().flatten();
        let within = |most: usize| value.parse::<usize>().ok().filter(|n| (1..=most).contains(n));
        match key {
            "parallelism" => (self.parallelism, self.divides_keys) = (within(1024)?, true),
            "batch.rows" => self.batch_rows = within(1 << 20)?,
            "target.delay" => self.target_delay = interval()?,
            "batch.linger" => self.batch_linger = if value == "auto" { None } else { Some(interval()?) },
            "watermark.idle" => {
                self.watermark_idle = if value == "off" { None } else { Some(interval().filter(|idle| idle.0 > 0)?) }
            }
            "late.allowed" => self.late_allowed = interval()?,
            "memory.limit" => self.memory_limit = if value == "off" { None } else { Some(parse_bytes(value)?) },
            "time.zone" => self.time_zone = value.to_string(),
            "float.sum" => {
                self.float_sum = match value {
                    "exact" => FloatSum::Exact,
                    "fast" => FloatSum::Fast,
                    _ => return None,
                }
            }
            "merge" => {
                self.merge = match value {
                    "ordered" => Merge::Ordered,
                    "slack" => Merge::Slack,
                    "arrival" => Merge::Arrival,
                    _ => return None,
                }
            }
            "merge.slack" => self.merge_slack = interval().filter(|slack| slack.0 > 0)?,
            "exchange.memory" => self.exchange_memory = if value == "auto" { None } else { Some(parse_bytes(value)?) },
            "exchange.scatter" => {
                self.exchange_scatter = match value {
                    "auto" => Scatter::Auto,
                    "selected" => Scatter::Selected,
                    "buffered" => Scatter::Buffered,
                    "hybrid" => Scatter::Hybrid,
                    _ => return None,
                }
            }
            "aggregate.phases" => {
                self.phases = match value {
                    "auto" => Phases::Auto,
                    "one" => Phases::One,
                    "two" => Phases::Two,
                    _ => return None,
                }
            }
            "parallel.strategy" => self.strategy = Strategy::ALL.into_iter().find(|s| s.name() == value)?,
            "over.incremental" => self.over_incremental = value.parse().ok()?,
            "join.index" => self.join_index = JoinIndex::ALL.into_iter().find(|index| index.name() == value)?,
            "adaptive" => self.adaptive = value.parse().ok()?,
            "adaptive.interval" => {
                let allowed = Interval::millis(1)..=Interval::millis(3_600_000);
                self.adaptive_interval = interval().filter(|every| allowed.contains(every))?;
            }
            "adaptive.imbalance" => self.adaptive_imbalance = parse_percent(value, 1000)?,
            "adaptive.low" => self.adaptive_low = parse_percent(value, 100)?,
            "adaptive.high" => self.adaptive_high = parse_percent(value, 100)?,
            "adaptive.improvement" => self.adaptive_improvement = parse_percent(value, 100)?,
            _ => {
                self.window_anchor = match value {
                    "epoch" => crate::node::Anchor::Epoch,
                    "first-row" => crate::node::Anchor::FirstRow,
                    _ => return None,
                }
            }
        }
        Some(())
    }
}

/// Reads a share up to so many percent: `25 %`, `25`.
fn parse_percent(text: &str, most: u32) -> Option<u32> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    number.parse().ok().filter(|percent| *percent <= most)
}

/// Reads a size: a whole number and a unit, `512 MB`, `2 GiB`, `4096`.
fn parse_bytes(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_takes_what_it_says_and_shows_what_it_has() {
        let mut settings = Settings::default();
        let values = [
            "3",
            "7",
            "50 ms",
            "20 ms",
            "10 s",
            "1 min",
            "2 GiB",
            "Europe/Berlin",
            "fast",
            "first-row",
            "slack",
            "250 ms",
            "1 MiB",
            "hybrid",
            "query-cluster",
            "two",
            "false",
            "skip-list",
            "false",
            "500 ms",
            "50 %",
            "0 %",
            "80 %",
            "5 %",
        ];
        for ((key, ..), value) in KEYS.iter().zip(values) {
            settings.set(key, value).unwrap();
        }
        let shown: Vec<_> = settings.entries().into_iter().map(|(_, value)| value).collect();
        // Sizes are shown in bytes.
        let mut expected = values;
        (expected[6], expected[12]) = ("2147483648 B", "1048576 B");
        assert_eq!(shown, expected);
        settings.set("batch.linger", "auto").unwrap();
        assert_eq!(settings.linger(), Interval::millis(5));
    }

    #[test]
    fn wrong_values_say_what_is_expected() {
        let mut settings = Settings::default();
        let error = settings.set("parallelism", "0").unwrap_err();
        assert_eq!(error.to_string(), "setting 'parallelism' is '0', expected a whole number from 1 to 1024");
        assert_eq!(settings.set("paralelism", "1").unwrap_err().to_string(), "unknown setting 'paralelism'");
        assert!(settings.set("memory.limit", "1 parsec").is_err());
        let error = settings.set("adaptive.low", "101 %").unwrap_err();
        let expected = "a percentage such as '20 %', below that of 'adaptive.high'";
        assert_eq!(error.to_string(), format!("setting 'adaptive.low' is '101 %', expected {expected}"));
        for (key, value) in
            [("adaptive", "on"), ("adaptive.interval", "0 s"), ("adaptive.imbalance", "-1 %"), ("merge.slack", "0 s")]
        {
            assert!(settings.set(key, value).is_err(), "{key}");
        }
    }
    #[test]
    fn bounds_of_the_load_may_be_set_one_before_the_other() {
        let mut settings = Settings::default();
        settings.set("adaptive.high", "10 %").unwrap();
        let error = settings.check().unwrap_err();
        let expected = "setting 'adaptive.low' is '20 %', and not below 'adaptive.high', which is '10 %'";
        assert_eq!(error.to_string(), expected);
        settings.set("adaptive.low", "10 %").unwrap();
        assert!(settings.check().is_err());
        settings.set("adaptive.low", "5 %").unwrap();
        settings.check().unwrap();
    }
}
