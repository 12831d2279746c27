//! How a query is doing, while it runs: a line on the terminal, and whether anybody still reads its rows.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use thalweg::{Control, Metrics};
use thalweg_core::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::{interrupt::Interrupt, output, screen::Screen, words};

/// How often the line is redrawn.
const TICK: Duration = Duration::from_millis(250);

/// Rates are those of the last second, so that one can read them.
const TICKS_OF_RATE: usize = 4;

/// What to look after.
pub struct Watched {
    /// The query.
    pub query: Control,
    /// Whether its rows go to standard output, and from there to nobody else.
    pub prints: bool,
    /// Whether the line is wanted.
    pub has_line: bool,
}

/// Looks after a query on a thread of its own, until dropped.
pub struct Watch {
    is_unread: Arc<AtomicBool>,
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks after a query from now on.
    pub fn start(watched: Watched, screen: &Arc<Screen>, interrupt: &Interrupt) -> Self {
        let is_unread = Arc::new(AtomicBool::new(false));
        let (end, ended) = sync_channel(1);
        let (screen, interrupt, flag) = (Arc::clone(screen), interrupt.clone(), Arc::clone(&is_unread));
        let watch = move || {
            let mut samples = VecDeque::new();
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if watched.prints && output::is_unread() {
                    flag.store(true, Ordering::Release);
                    watched.query.stop();
                    break;
                }
                if watched.has_line {
                    let metrics = watched.query.metrics();
                    let rates = rates(&mut samples, &metrics);
                    screen.show(line(&metrics, rates, interrupt.is_stopped(), screen.width()));
                }
            }
            screen.show(String::new());
        };
        // Without this thread the query runs just as well.
        let thread = thread::Builder::new().name("watch".into()).spawn(watch);
        let thread = thread.inspect_err(|error| tracing::warn!("no status line: {error}")).ok();
        Self { is_unread, end: Some(end), thread }
    }

    /// Ends, with the line erased; returns whether the query was stopped because nobody read its rows.
    pub fn end(mut self) -> bool {
        self.join();
        self.is_unread.load(Ordering::Acquire)
    }

    fn join(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the watch does not panic");
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.join();
    }
}

/// Rows per second, in and out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    rows_in: f64,
    rows_out: f64,
}

/// The rates since the oldest of the last samples, of which the newest is now.
fn rates(samples: &mut VecDeque<(Duration, u64, u64)>, metrics: &Metrics) -> Rates {
    let start = samples.front().copied().unwrap_or_default();
    samples.push_back((metrics.elapsed, metrics.rows_in, metrics.rows_out));
    if samples.len() > TICKS_OF_RATE {
        samples.pop_front();
    }
    let seconds = metrics.elapsed.saturating_sub(start.0).as_secs_f64().max(1e-3);
    Rates {
        rows_in: (metrics.rows_in - start.1) as f64 / seconds,
        rows_out: (metrics.rows_out - start.2) as f64 / seconds,
    }
}

/// The line, as far as it fits: what matters most comes first, and the name of the slowest partition takes what is left.
fn line(metrics: &Metrics, rates: Rates, is_stopping: bool, width: usize) -> String {
    let mut parts =
        vec![format!("in {}/s", words::short(rates.rows_in)), format!("out {}/s", words::short(rates.rows_out))];
    if is_stopping {
        parts.insert(0, "stopping, Ctrl-C ends at once".to_string());
    }
    let at_watermark = parts.len();
    parts.extend(watermark(metrics));
    for (rows, kind) in [(metrics.late_rows, "late"), (metrics.bad_rows, "bad")] {
        parts.extend((rows > 0).then(|| format!("{} {kind}", words::count(rows))));
    }
    parts.push(words::bytes(metrics.state_bytes));
    // A line as wide as the screen would be broken into two, also where the terminal adds ^C to it.
    let most = width.saturating_sub("^C".len() + 1);
    while parts.len() > 1 && shown(&parts).width() > most {
        parts.pop();
    }
    let room = most.saturating_sub(shown(&parts).width());
    if let (Some(part), Some(name), Some(_)) = (parts.get_mut(at_watermark), &metrics.held_by, metrics.watermark) {
        *part += &held_by(name, room);
    }
    cut(&shown(&parts), most)
}

fn watermark(metrics: &Metrics) -> Option<String> {
    Some(match (metrics.watermark?, metrics.watermark_lag) {
        (Timestamp::MIN, _) => "no watermark yet".to_string(),
        (Timestamp::MAX, _) => "end of input".to_string(),
        (watermark, None) => format!("watermark {}", whole_seconds(watermark)),
        (watermark, Some(lag)) => format!("watermark {}, {} behind", whole_seconds(watermark), words::interval(lag)),
    })
}

/// What is below a second would only flicker.
fn whole_seconds(Timestamp(micros): Timestamp) -> Timestamp {
    Timestamp(micros.div_euclid(1_000_000).saturating_mul(1_000_000))
}

/// Which partition it is that the watermark waits for; the end of a long name, since that is where names differ.
fn held_by(name: &str, room: usize) -> String {
    const HELD_BY: &str = ", held by partition ";
    const SHORTEST: usize = 8;
    let Some(room) = room.checked_sub(HELD_BY.len()).filter(|room| *room >= SHORTEST.min(name.width())) else {
        return String::new();
    };
    if name.width() <= room {
        return format!("{HELD_BY}{name}");
    }
    let mut end = name;
    while end.width() >= room {
        let mut letters = end.chars();
        letters.next();
        end = letters.as_str();
    }
    format!("{HELD_BY}…{end}")
}

fn shown(parts: &[String]) -> String {
    parts.join(" · ")
}

fn cut(text: &str, most: usize) -> String {
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if kept.width() > most {
            kept.pop();
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use thalweg_core::Interval;

    use super::*;

    fn metrics() -> Metrics {
        Metrics {
            late_rows: 3,
            bad_rows: 1200,
            state_bytes: 12_345_678,
            watermark: Some(Timestamp(1_357_035_300_930_182)),
            watermark_lag: Some(Interval::seconds(300)),
            held_by: Some("departures/2013-01-EWR.csv".to_string()),
            ..Metrics::default()
        }
    }

    const RATES: Rates = Rates { rows_in: 1_234_567.0, rows_out: 34.0 };

    #[test]
    fn the_line_says_how_fast_how_far_and_what_holds_it_back() {
        assert_eq!(
            line(&metrics(), RATES, false, 200),
            "in 1.23 M/s · out 34/s · watermark 2013-01-01T10:15:00Z, 5 min behind, held by partition departures/2013-01-EWR.csv \
             · 3 late · 1,200 bad · 12.3 MB"
        );
        let quiet = Metrics { watermark: None, late_rows: 0, bad_rows: 0, held_by: None, ..metrics() };
        assert_eq!(line(&quiet, RATES, true, 200), "stopping, Ctrl-C ends at once · in 1.23 M/s · out 34/s · 12.3 MB");
    }

    #[test]
    fn what_matters_most_is_kept_on_a_narrow_screen() {
        let at = |width| line(&metrics(), RATES, false, width);
        assert_eq!(
            at(132),
            "in 1.23 M/s · out 34/s · watermark 2013-01-01T10:15:00Z, 5 min behind, held by partition …-EWR.csv \
             · 3 late · 1,200 bad · 12.3 MB"
        );
        assert_eq!(at(82), "in 1.23 M/s · out 34/s · watermark 2013-01-01T10:15:00Z, 5 min behind · 3 late");
        assert_eq!(at(30), "in 1.23 M/s · out 34/s");
        for width in 3..200 {
            assert!(at(width).width() <= width - 3, "{width}");
        }
    }

    #[test]
    fn before_the_first_and_after_the_last_watermark_there_is_none() {
        let of = |watermark| watermark_words(&Metrics { watermark: Some(watermark), ..Metrics::default() });
        assert_eq!(of(Timestamp::MIN), "no watermark yet");
        assert_eq!(of(Timestamp::MAX), "end of input");
        assert_eq!(of(Timestamp(0)), "watermark 1970-01-01T00:00:00Z");
    }

    fn watermark_words(metrics: &Metrics) -> String {
        watermark(metrics).expect("there is one")
    }

    #[test]
    fn rates_are_those_of_the_last_ticks() {
        let mut samples = VecDeque::new();
        let mut rate = |second: u64, rows_in| {
            let elapsed = Duration::from_secs(second);
            rates(&mut samples, &Metrics { elapsed, rows_in, rows_out: rows_in / 10, ..Metrics::default() })
        };
        assert_eq!(rate(1, 100), Rates { rows_in: 100.0, rows_out: 10.0 });
        (2..5).for_each(|second| assert_eq!(rate(second, 100 * second).rows_in, 100.0));
        (5..8).for_each(|second| assert!(rate(second, 400).rows_in < 100.0));
        assert_eq!(rate(8, 400), Rates { rows_in: 0.0, rows_out: 0.0 });
    }
}
