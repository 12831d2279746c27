//! Interval joins: for each row of a base stream, the sum over rows of a probe stream that have its key and lie in a window around its
//! time. What others build, on the workloads of Scale-OIJ's evaluation.
//!
//! * [`workload`]: the workloads, and rows that are like them
//! * [`feed`]: rows as they come, [`arrivals`]: when they did, and [`watermark`]: how far event time has come with them
//! * [`expected`]: what must come out
//! * [`key_oij`], [`split_join`] and [`scale_oij`]: the baselines; [`joiner`]: what a thread of the first two does, with [`buffer`] and
//!   [`waiting`]; [`correcting`]: what one does that corrects; [`bare`]: what there is to be had
//! * [`way`]: by which of them, or the engine, and by how many threads
//! * [`sink`] and [`profile`]: what is found out on the way
//! * [`latency`]: how long results take, and [`plot`]: that as a picture; [`balance`]: who has how much to do, as a picture
//! * [`sweep`]: what each parameter does
//! * [`flink`]: Apache Flink's interval join beside
//! * [`engine`]: the same question as SQL, [`arriving`]: where it counts how long results take, [`extremes`]: minima and maxima, as SQL,
//!   [`indexes`]: pairs at once, and [`teams`]: one key
//!
//! Source: Zhang et al., "Scalable Online Interval Join on Modern Multicore Processors in OpenMLDB", §III to §V.

mod arrivals;
mod arriving;
pub mod balance;
mod bare;
mod buffer;
mod correcting;
mod engine;
mod expected;
mod extremes;
mod feed;
pub mod flink;
mod indexes;
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
mod way;
mod workload;

use expected::{Answer, Mode};
use feed::{Feed, Pace};
#[cfg(test)]
pub use profile::thread_time;
use profile::{Breakdown, Unbalancedness, over_mean};
use serde_json::{Map, Value, json};
use sink::{Outcome, Wanted};
use way::{Join, Way};
use workload::{Keys, Workload};

use crate::measure::{Report, Run, parameters};

/// Measures each workload as fast as can be, and then how long results take; then what each parameter does.
pub fn run(report: &mut Report) -> Result<(), String> {
    for workload in Workload::all() {
        throughput(report, &workload, &Way::all())?;
        latency::run(report, &workload)?;
    }
    for workload in Workload::long() {
        throughput(report, &workload, &Way::least(&workload))?;
    }
    for workload in sweep::workloads() {
        throughput(report, &workload, &sweep::ways(&workload))?;
    }
    extremes::run(report)?;
    indexes::run(report)?;
    teams::run(report)
}

/// Measures a workload as fast as can be, and looks closer at each way.
fn throughput(report: &mut Report, workload: &Workload, ways: &[Way]) -> Result<(), String> {
    let ways: Vec<&Way> = ways.iter().filter(|way| report.wants(&way.called(workload))).collect();
    if ways.is_empty() {
        return Ok(());
    }
    let rows = workload.generate(if report.is_quick() { workload.rows / 8 } else { workload.rows });
    let answer = |mode| Answer::of(&rows, workload, mode);
    let (exact, eager) = (answer(Mode::Final), answer(Mode::Eager));
    let expected = |mode| if mode == Mode::Eager { eager } else { exact };
    let once = |join: Join, way: &Way, wanted| {
        join(&Feed::new(&rows, workload, Pace::Fast), workload, way.mode, way.joiners, wanted)
    };
    let memory = &engine::memory(&rows).map_err(|error| error.to_string())?;
    let right = engine::expected(&rows, workload);
    let cases = ways.iter().map(|way| {
        let run: Run<'_> = match way.join {
            Some(join) => Box::new(move || {
                let outcome = once(join, way, Wanted::Speed);
                Ok(Box::new(move || expected(way.mode).compare(&outcome.answer)))
            }),
            None => Box::new(move || {
                let answer = engine::engine(memory, workload, &way.asked()).map_err(|error| error.to_string())?;
                Ok(Box::new(move || right.compare(&answer)))
            }),
        };
        (way.case(workload, way.called(workload), &rows), run)
    });
    report.measure_beside(cases.collect())?;
    for way in ways {
        // Looking closer takes time, so that it has a run of its own.
        let variant = way.called(workload);
        let profiled = match way.join {
            Some(join) => {
                let outcome = once(join, way, Wanted::Profile);
                expected(way.mode).compare(&outcome.answer).map(|_| {
                    let (mut found, said) = profile(&outcome, way.mode);
                    if let Keys::Hot(_) = workload.keys {
                        found.insert("work_of_joiners".into(), json!(over_mean(&outcome.works)));
                    }
                    (found, said)
                })
            }
            None => engine::profile(memory, workload, &way.asked()),
        };
        let (found, said) = profiled.map_err(|error| format!("interval-join {variant}: {error}"))?;
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
    if mode == Mode::Final && !outcome.times.is_empty() {
        let Breakdown { lookup, matching, other } = Breakdown::of(outcome.times.iter().copied());
        found.extend(parameters([("lookup", json!(lookup)), ("match", json!(matching)), ("other", json!(other))]));
        let [lookup, matching, other] = [lookup, matching, other].map(|share| 100.0 * share);
        said += &format!("; lookup {lookup:.0} %, match {matching:.0} %, other {other:.0} %");
    }
    (found, said)
}

#[cfg(test)]
mod tests {
    use super::{way::ALGORITHMS, workload::Row, *};

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
