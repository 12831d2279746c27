//! By what a workload is joined, and by how many threads.

use serde_json::json;

use super::{
    bare,
    engine::{self, Asked},
    expected::Mode,
    feed::Feed,
    key_oij, scale_oij,
    sink::{Outcome, Wanted},
    split_join,
    workload::{BYTES, Row, Workload},
};
use crate::{
    machine::cores,
    measure::{Case, parameters},
};

/// As many as the paper has in most of its figures.
pub const JOINERS: usize = 16;

/// What runs the join.
pub type Join = fn(&Feed<'_>, &Workload, Mode, usize, Wanted) -> Outcome;

/// The baselines.
pub const ALGORITHMS: [(&str, Join); 3] =
    [("Key-OIJ", key_oij::run), ("SplitJoin", split_join::run), ("Scale-OIJ", scale_oij::run)];

/// Key-OIJ without columns, and without instructions that look at several rows at once.
pub const ROW_BY_ROW: (&str, Join) = ("Key-OIJ row by row", key_oij::row_by_row);

/// What each part of Scale-OIJ is for. Without its index it is Key-OIJ.
pub const ABLATIONS: [(&str, Join); 2] = [WITHOUT_SCHEDULE, WITHOUT_INCREMENTAL];

/// Each key has one thread.
pub const WITHOUT_SCHEDULE: (&str, Join) = ("Scale-OIJ without schedule", scale_oij::without_schedule);
/// All rows of each window are looked at.
pub const WITHOUT_INCREMENTAL: (&str, Join) = ("Scale-OIJ without incremental", scale_oij::without_incremental);

/// What the engine's way costs in one thread where nothing is around it.
pub const BARE: (&str, Join) = ("bare loop", bare::run);

/// How the engine is called.
pub const ENGINE: &str = "thalweg";

/// The same where results come as instances have them, as those of the others do.
pub const ANY_ORDER: &str = "thalweg in any order";

/// The same where all rows of each window are looked at.
pub const ENGINE_WITHOUT_INCREMENTAL: &str = "thalweg without incremental";

/// The same where instances are told to look often who of them has how much to do, so that they share hot keys even in a short run.
pub const ENGINE_WITH_SCHEDULE: &str = "thalweg with hot keys shared";

/// Little waits on its way: what is decided holds behind all that does.
const SHARING: &str = "SET 'adaptive.interval' = '5 ms'; SET 'exchange.memory' = '1 MB'; SET 'batch.rows' = 1024;";

/// One thread, and as many as there are cores, if these are more.
fn one_and_all() -> Vec<usize> {
    let mut joiners = vec![1, cores()];
    joiners.dedup();
    joiners
}

/// One way to run a workload.
#[derive(Clone, Copy)]
pub struct Way {
    /// The algorithm, with what is left out of it.
    pub name: &'static str,
    /// What runs it, if not the engine.
    pub join: Option<Join>,
    /// How many threads join, or how many instances there are.
    pub joiners: usize,
    /// When results come.
    pub mode: Mode,
}

impl Way {
    /// All that are of interest for a workload of the paper's.
    pub fn all() -> Vec<Self> {
        let mut joiners = one_and_all();
        joiners.push(JOINERS);
        joiners.sort_unstable();
        joiners.dedup();
        let finals = joiners.iter().flat_map(|joiners| ALGORITHMS.map(|one| Self::of(one, *joiners)));
        let several = joiners.iter().filter(|joiners| **joiners > 1);
        let ablations = several.flat_map(|joiners| ABLATIONS.map(|one| Self::of(one, *joiners)));
        let eager = ALGORITHMS.map(|one| Self { mode: Mode::Eager, ..Self::of(one, cores()) });
        let eager_ours = one_and_all().into_iter().map(|joiners| (joiners, Mode::Eager));
        let ours = [(1, Mode::Final), (cores(), Mode::Final), (JOINERS, Mode::Final)].into_iter().chain(eager_ours);
        let ours = ours.map(|(joiners, mode)| Self::of_engine(ENGINE, joiners, mode));
        let any_order = [cores(), JOINERS].map(|joiners| Self::of_engine(ANY_ORDER, joiners, Mode::Final));
        let row_by_row = one_and_all().into_iter().flat_map(|joiners| {
            [Mode::Final, Mode::Corrected].map(|mode| Self { mode, ..Self::of(ROW_BY_ROW, joiners) })
        });
        finals
            .chain(row_by_row)
            .chain([Self::of(BARE, 1)])
            .chain(ablations)
            .chain(eager)
            .chain(ours)
            .chain(any_order)
            .collect()
    }

    /// The engine and the baseline that costs least, in one thread and all: with final results, and where windows have few rows with results
    /// at once as well; and what there is to be had.
    pub fn least(workload: &Workload) -> Vec<Self> {
        let least = if workload.has_few() { ROW_BY_ROW } else { ALGORITHMS[0] };
        let ways = one_and_all().into_iter().flat_map(|joiners| {
            let name = if joiners == 1 { ENGINE } else { ANY_ORDER };
            let at_once = [
                Self { mode: Mode::Corrected, ..Self::of(least, joiners) },
                Self::of_engine(ENGINE, joiners, Mode::Eager),
            ];
            let at_once = at_once.into_iter().filter(|_| workload.has_few());
            [Self::of(least, joiners), Self::of_engine(name, joiners, Mode::Final)].into_iter().chain(at_once)
        });
        ways.chain([Self::of(BARE, 1)]).collect()
    }

    /// An algorithm with exact results.
    pub fn of((name, join): (&'static str, Join), joiners: usize) -> Self {
        Self { name, join: Some(join), joiners, mode: Mode::Final }
    }

    /// The engine, by one of its names.
    pub fn of_engine(name: &'static str, joiners: usize, mode: Mode) -> Self {
        Self { name, join: None, joiners, mode }
    }

    /// How the engine is asked.
    pub fn asked(&self) -> Asked {
        let merge = if self.name == ANY_ORDER { "arrival" } else { "ordered" };
        let sharing = if self.name == ENGINE_WITH_SCHEDULE { SHARING } else { "" };
        let all_rows = if self.name == ENGINE_WITHOUT_INCREMENTAL { engine::ALL_ROWS } else { "" };
        Asked {
            mode: self.mode,
            settings: format!("SET 'parallelism' = '{}'; SET 'merge' = '{merge}'; {sharing}{all_rows}", self.joiners),
        }
    }

    /// The name of the variant.
    pub fn called(&self, workload: &Workload) -> String {
        let joiners = match (self.join, self.joiners) {
            (None, instances) => format!("parallelism {instances}"),
            (_, 1) => "1 joiner".to_string(),
            (_, joiners) => format!("{joiners} joiners"),
        };
        format!("{}, {}, {joiners}, {}", workload.name, self.name, self.mode.name())
    }

    /// What is written down of it.
    pub fn case(&self, workload: &Workload, variant: String, rows: &[Row]) -> Case<'static> {
        let asked = Asked { mode: if self.join.is_none() { self.mode } else { Mode::Final }, ..self.asked() };
        Case {
            workload: "interval-join",
            variant,
            parameters: parameters([
                ("query", json!(engine::sql(workload, &asked))),
                ("input", json!("24-byte rows of both streams in memory, out of order")),
                ("algorithm", json!(self.name)),
                ("joiners", json!(self.joiners)),
                ("mode", json!(self.mode.name())),
                ("keys", json!(workload.keys.count())),
                ("window_us", json!(workload.window)),
                ("lateness_us", json!(workload.lateness)),
                ("along", json!(workload.along)),
                ("event_rows_per_s", json!([workload.rate, workload.rate])),
            ]),
            rows: rows.len() as u64,
            bytes_per_row: BYTES,
            // One more thread hands rows over.
            workers: (self.joiners + 1).min(cores()),
            peak: None,
        }
    }
}
