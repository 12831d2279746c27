//! Interval joins: for each row of a base stream, the sum over rows of a probe stream that have its key and lie in a window around its
//! time. What others build, on the workloads of Scale-OIJ's evaluation.
//!
//! * [`workload`]: the workloads, and rows that are like them
//! * [`feed`]: rows as they come, [`arrivals`]: when they did, and [`watermark`]: how far event time has come with them
//! * [`expected`]: what must come out
//! * [`key_oij`], [`split_join`] and [`scale_oij`]: the baselines; [`joiner`]: what a thread of the first two does, with [`buffer`] and
//!   [`waiting`]
//! * [`sink`] and [`profile`]: what is found out on the way
//! * [`latency`]: how long results take, and [`plot`]: that as a picture
//! * [`sweep`]: what each parameter does
//! * [`flink`]: Apache Flink's interval join beside
//! * [`engine`]: the same question as SQL, [`arriving`]: where it counts how long results take, [`blocks`]: minima and maxima, as SQL,
//!   and [`teams`]: one key
//!
//! Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", §III to §V.

mod arrivals;
mod arriving;
mod blocks;
mod buffer;
mod engine;
mod expected;
mod feed;
pub mod flink;
mod joiner;
mod key_oij;
mod latency;
pub mod plot;
mod profile;
mod scale_oij;
mod sink;
mod split_join;
pub mod sweep;
mod teams;
mod waiting;
mod watermark;
mod workload;

use expected::{Answer, Mode};
use feed::{Feed, Pace};
#[cfg(test)]
pub use profile::thread_time;
use profile::{Breakdown, Unbalancedness};
use serde_json::{Map, Value, json};
use sink::{Outcome, Wanted};
use workload::{BYTES, Row, Workload};

use crate::{
    machine::cores,
    measure::{Case, Report, Run, parameters},
};

/// As many as the paper has in most of its figures.
const JOINERS: usize = 16;

/// What runs the join.
type Join = fn(&Feed<'_>, &Workload, Mode, usize, Wanted) -> Outcome;

const ALGORITHMS: [(&str, Join); 3] =
    [("Key-OIJ", key_oij::run), ("SplitJoin", split_join::run), ("Scale-OIJ", scale_oij::run)];

/// What each part of Scale-OIJ is for. Without its index it is Key-OIJ.
const ABLATIONS: [(&str, Join); 2] = [
    ("Scale-OIJ without schedule", scale_oij::without_schedule),
    ("Scale-OIJ without incremental", scale_oij::without_incremental),
];

/// How the engine is called.
const ENGINE: &str = "thalweg";

/// The same where results come as instances have them, as those of the others do.
const ANY_ORDER: &str = "thalweg in any order";

/// One way to run a workload.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    join: Join,
    joiners: usize,
    mode: Mode,
}

/// Measures each workload as fast as can be, and then how long results take; then what each parameter does.
pub fn run(report: &mut Report) -> Result<(), String> {
    for workload in Workload::all() {
        throughput(report, &workload, &Way::all())?;
        latency::run(report, &workload)?;
    }
    for workload in sweep::workloads() {
        throughput(report, &workload, &Way::usual())?;
    }
    blocks::run(report)?;
    teams::run(report)
}

impl Way {
    fn all() -> Vec<Self> {
        let mut joiners = vec![1, cores(), JOINERS];
        joiners.sort_unstable();
        joiners.dedup();
        let of = |(name, join): (&'static str, Join), joiners, mode| Self { name, join, joiners, mode };
        let finals = joiners.iter().flat_map(|joiners| ALGORITHMS.map(|one| of(one, *joiners, Mode::Final)));
        let several = joiners.iter().filter(|joiners| **joiners > 1);
        let ablations = several.flat_map(|joiners| ABLATIONS.map(|one| of(one, *joiners, Mode::Final)));
        finals.chain(ablations).chain(Self::usual().into_iter().map(|way| Self { mode: Mode::Eager, ..way })).collect()
    }

    /// Each algorithm on all cores, with exact results.
    fn usual() -> Vec<Self> {
        ALGORITHMS.map(|(name, join)| Self { name, join, joiners: cores(), mode: Mode::Final }).into()
    }

    fn is_engine(&self) -> bool {
        [ENGINE, ANY_ORDER].contains(&self.name)
    }

    /// The engine's own, which is not run by [`Way::join`].
    fn of_engine(joiners: usize, mode: Mode) -> Self {
        Self { name: ENGINE, join: key_oij::run, joiners, mode }
    }

    /// The engine's settings.
    fn settings(&self) -> String {
        let merge = if self.name == ANY_ORDER { "arrival" } else { "ordered" };
        format!("SET 'parallelism' = '{}'; SET 'merge' = '{merge}';", self.joiners)
    }

    fn called(&self, workload: &Workload) -> String {
        if self.is_engine() {
            return format!("{}, {}, parallelism {}, {}", workload.name, self.name, self.joiners, self.mode.name());
        }
        let joiners = if self.joiners == 1 { "joiner" } else { "joiners" };
        format!("{}, {}, {} {joiners}, {}", workload.name, self.name, self.joiners, self.mode.name())
    }

    fn case(&self, workload: &Workload, variant: String, rows: &[Row]) -> Case<'static> {
        Case {
            workload: "interval-join",
            variant,
            parameters: parameters([
                ("query", json!(engine::sql(workload, if self.is_engine() { self.mode } else { Mode::Final }))),
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

fn throughput(report: &mut Report, workload: &Workload, ways: &[Way]) -> Result<(), String> {
    let is_all = ways.len() > ALGORITHMS.len();
    let ours = if is_all {
        vec![(1, Mode::Final), (1, Mode::Eager), (cores(), Mode::Final), (JOINERS, Mode::Final)]
    } else {
        vec![(cores(), Mode::Final)]
    };
    let mut ours: Vec<Way> = ours.into_iter().map(|(joiners, mode)| Way::of_engine(joiners, mode)).collect();
    if is_all {
        ours.push(Way { name: ANY_ORDER, ..Way::of_engine(cores(), Mode::Final) });
    }
    let mut variants = ways.iter().chain(&ours).map(|way| way.called(workload));
    if !variants.any(|variant| report.wants(&variant)) {
        return Ok(());
    }
    let rows = workload.generate(if report.is_quick() { workload.rows / 8 } else { workload.rows });
    let answer = |mode| Answer::of(&rows, workload, mode);
    let (exact, eager) = (answer(Mode::Final), answer(Mode::Eager));
    let expected = |mode| if mode == Mode::Final { exact } else { eager };
    let once = |way: &Way, wanted| {
        (way.join)(&Feed::new(&rows, workload, Pace::Fast), workload, way.mode, way.joiners, wanted)
    };
    let memory = engine::memory(&rows).map_err(|error| error.to_string())?;
    let right = engine::expected(&rows, workload);
    let engines = ours.iter().map(|way| {
        let (memory, workload, mode) = (&memory, workload, way.mode);
        let run: Run<'_> = Box::new(move || {
            let answer = engine::engine(memory, workload, mode, &way.settings()).map_err(|error| error.to_string())?;
            Ok(Box::new(move || right.compare(&answer)))
        });
        (way.case(workload, way.called(workload), &rows), run)
    });
    let cases = ways.iter().map(|way| {
        let run: Run<'_> = Box::new(move || {
            let outcome = once(way, Wanted::Speed);
            Ok(Box::new(move || expected(way.mode).compare(&outcome.answer)))
        });
        (way.case(workload, way.called(workload), &rows), run)
    });
    report.measure_beside(cases.chain(engines).collect())?;
    for way in ways.iter().filter(|way| report.wants(&way.called(workload))).collect::<Vec<_>>() {
        // Looking closer takes time, so that it has a run of its own.
        let outcome = once(way, Wanted::Profile);
        let variant = way.called(workload);
        expected(way.mode).compare(&outcome.answer).map_err(|error| format!("interval-join {variant}: {error}"))?;
        let (found, said) = profile(&outcome, way.mode);
        report.note(&variant, found, &said);
    }
    for way in ours.iter().filter(|way| report.wants(&way.called(workload))).collect::<Vec<_>>() {
        let variant = way.called(workload);
        let (found, said) = engine::profile(&memory, workload, way.mode, &way.settings())
            .map_err(|error| format!("interval-join {variant}: {error}"))?;
        report.note(&variant, found, &said);
    }
    Ok(())
}

/// Effectiveness, unbalancedness, and where the time goes if rows wait: who is joined at once is joined between rows that are stored.
fn profile(outcome: &Outcome, mode: Mode) -> (Map<String, Value>, String) {
    let effectiveness = outcome.effectiveness();
    let unbalancedness = Unbalancedness::of(&outcome.works);
    let mut found = parameters([
        ("effectiveness", json!(effectiveness)),
        ("unbalancedness", json!(unbalancedness.whole)),
        ("unbalancedness_of_moments", json!(unbalancedness.moments)),
    ]);
    let mut said = format!(
        "effectiveness {effectiveness:.3}, unbalancedness {:.2} ({:.2} from moment to moment)",
        unbalancedness.whole, unbalancedness.moments
    );
    if mode == Mode::Final {
        let Breakdown { lookup, matching, other } = Breakdown::of(outcome.times.iter().copied());
        found.extend(parameters([("lookup", json!(lookup)), ("match", json!(matching)), ("other", json!(other))]));
        let [lookup, matching, other] = [lookup, matching, other].map(|share| 100.0 * share);
        said += &format!("; lookup {lookup:.0} %, match {matching:.0} %, other {other:.0} %");
    }
    (found, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Joins all workloads, made small, in both modes and with several numbers of joiners.
    pub fn check_everywhere(join: Join) {
        for mut workload in Workload::all() {
            (workload.window, workload.lateness) = (workload.window.min(3_000), workload.lateness.min(2_000));
            let rows = workload.generate(20_000);
            for mode in Mode::ALL {
                let expected = Answer::of(&rows, &workload, mode);
                let wanted = [Wanted::Speed, Wanted::Latency(10_000), Wanted::Profile];
                for (joiners, wanted) in [1, 2, 7].into_iter().zip(wanted) {
                    let pace = if joiners == 2 { Pace::Prompt } else { Pace::Fast };
                    let found = join(&Feed::new(&rows, &workload, pace), &workload, mode, joiners, wanted);
                    let case = format!("{}, {joiners} joiners, {}, {wanted:?}", workload.name, mode.name());
                    assert_eq!(expected.compare(&found.answer), Ok(20_000), "{case}");
                    assert_eq!(found.works.len(), joiners, "{case}");
                    let latencies = if wanted == Wanted::Latency(10_000) {
                        with_latency(&rows, 10_000, &workload, mode)
                    } else {
                        0
                    };
                    assert_eq!(found.latencies_us.len(), latencies, "{case}");
                    assert_eq!(found.effectiveness() > 0.0, wanted == Wanted::Profile, "{case}");
                    assert!(found.effectiveness() <= 1.0, "{case}");
                }
            }
        }
    }

    /// Of how many base rows from this number on it is known how long their results took.
    fn with_latency(rows: &[Row], first: usize, workload: &Workload, mode: Mode) -> usize {
        let passing = watermark::Passing::of(rows, workload.lateness);
        let is_known = |row: &&Row| row.is_base && (mode == Mode::Eager || passing.with(row.time).is_some());
        rows[first..].iter().filter(is_known).count()
    }

    #[test]
    fn rows_that_come_when_they_are_due_give_the_same_results() {
        // The shape is kept, and the watermark passes most of these few rows.
        let workload = Workload { lateness: 10_000, ..Workload::all()[1].paced().unwrap() };
        let rows = workload.generate(5_000);
        assert!(with_latency(&rows, 100, &workload, Mode::Final) > 3_000);
        for mode in Mode::ALL {
            for (_, join) in ALGORITHMS {
                let found = join(&Feed::new(&rows, &workload, Pace::Due), &workload, mode, 2, Wanted::Latency(0));
                assert_eq!(Answer::of(&rows, &workload, mode).compare(&found.answer), Ok(5_000));
                assert_eq!(found.latencies_us.len(), with_latency(&rows, 0, &workload, mode));
            }
            for pace in [Pace::Due, Pace::Prompt] {
                let found = arriving::run(&rows, (&workload, pace), mode, 2, 100).unwrap();
                assert_eq!(Answer::of(&rows, &workload, Mode::Final).compare(&found.answer), Ok(5_000));
                assert_eq!(found.latencies_us.len(), with_latency(&rows, 100, &workload, mode));
            }
        }
    }

    #[test]
    fn one_key_is_work_for_one_joiner_of_key_oij_and_for_all_of_split_join() {
        let mut workload = Workload::all().remove(0);
        (workload.keys, workload.window, workload.lateness) = (workload::Keys::Uniform(1), 2_000, 200);
        let rows = workload.generate(20_000);
        let run = |join: Join| {
            let outcome = join(&Feed::new(&rows, &workload, Pace::Fast), &workload, Mode::Final, 4, Wanted::Profile);
            (Unbalancedness::of(&outcome.works).whole, outcome.effectiveness(), outcome)
        };
        let ((alone, mine, key), (all, same, split)) = (run(key_oij::run), run(split_join::run));
        let ((team, only, scale), (unshared, ..)) = (run(scale_oij::run), run(scale_oij::without_schedule));
        // The first rows all go to one.
        assert!(team < 0.5 && only == 1.0, "{team} {only}");
        assert!((unshared - 3f64.sqrt()).abs() < 1e-9, "{unshared}");
        // One of four does all: √((3² + 3 · 1²) / 4).
        assert!((alone - 3f64.sqrt()).abs() < 1e-9, "{alone}");
        assert!(all < 0.01, "{all}");
        // A base row looks at its window, at what is not certain yet, and at what is not looked for each time.
        let wanted = workload.window as f64 / (workload.window + workload.lateness) as f64;
        assert!((wanted * 0.8..wanted * 1.02).contains(&mine), "{mine}, about {wanted}");
        assert!((mine - same).abs() < 0.1, "{mine} and {same}");
        for outcome in [key, split, scale] {
            let Breakdown { lookup, matching, other } = Breakdown::of(outcome.times.into_iter());
            assert!((lookup + matching + other - 1.0).abs() < 1e-9);
            assert!([lookup, matching, other].iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }
}
