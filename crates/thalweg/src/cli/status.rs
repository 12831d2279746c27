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

use thalweg::{Control, Metrics, words};
use thalweg_core::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::{interrupt::Interrupt, output, screen::Screen};

/// How often the line is redrawn.
const TICK: Duration = Duration::from_millis(250);

/// Rates are those of the last second, so that one can read them; or of the last ten, where rows are few: half a row a second
/// is not none in one second and one in the next.
const TICKS_OF_RATE: usize = 4;
const TICKS_OF_SLOW_RATE: usize = 40;
const FEW_ROWS: u64 = 20;

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

/// When was counted, and what: rows in, and rows out.
type Sample = (Duration, u64, u64);

/// The rates of the last second or ten; the newest of the samples is now.
fn rates(samples: &mut VecDeque<Sample>, metrics: &Metrics) -> Rates {
    let now = (metrics.elapsed, metrics.rows_in, metrics.rows_out);
    let back = |ticks: usize| samples.len().checked_sub(ticks).map_or(Sample::default(), |first| samples[first]);
    let rate = |rows: fn(&Sample) -> u64| {
        let lately = back(TICKS_OF_RATE);
        let is_slow = rows(&now) - rows(&lately) < FEW_ROWS;
        let start = if is_slow { back(TICKS_OF_SLOW_RATE) } else { lately };
        let seconds = now.0.saturating_sub(start.0).as_secs_f64().max(1e-3);
        (rows(&now) - rows(&start)) as f64 / seconds
    };
    let rates = Rates { rows_in: rate(|sample| sample.1), rows_out: rate(|sample| sample.2) };
    samples.push_back(now);
    if samples.len() > TICKS_OF_SLOW_RATE {
        samples.pop_front();
    }
    rates
}

/// The line, as far as it fits: what matters most is kept, and the name of the slowest partition takes what is left.
fn line(metrics: &Metrics, rates: Rates, is_stopping: bool, width: usize) -> String {
    // A line as wide as the screen would be broken into two, also where the terminal adds ^C to it.
    let most = width.saturating_sub("^C".len() + 1);
    let mut line = Line { parts: vec![], most };
    if is_stopping {
        line.add(0, "stopping, Ctrl-C ends at once".to_string());
    }
    line.add(1, format!("in {}/s", words::short(rates.rows_in)));
    line.add(2, format!("out {}/s", words::short(rates.rows_out)));
    let counted =
        [(4, metrics.late_rows, "late"), (5, metrics.bad_rows, "bad"), (6, metrics.out_of_order_rows, "out of order")];
    for (place, rows, kind) in counted {
        if rows > 0 {
            line.add(place, format!("{kind} {}", words::rows(rows)));
        }
    }
    let has_watermark = watermark(metrics).into_iter().any(|words| line.add(3, words));
    line.add(7, format!("memory {}", words::bytes(metrics.state_bytes)));
    if let (true, Some(name), Some(_)) = (has_watermark, &metrics.held_by, metrics.watermark) {
        line.extend(3, |room| held_by(name, room));
    }
    cut(&line.shown(), most)
}

/// Parts of the line by their places; a part that does not fit beside those that are there is left out.
struct Line {
    parts: Vec<(usize, String)>,
    most: usize,
}

impl Line {
    /// Adds a part, if it fits or is the first; returns whether it is there.
    fn add(&mut self, place: usize, part: String) -> bool {
        let at = self.parts.partition_point(|(other, _)| *other < place);
        self.parts.insert(at, (place, part));
        let fits = self.parts.len() == 1 || self.shown().width() <= self.most;
        if !fits {
            self.parts.remove(at);
        }
        fits
    }

    /// Adds what can be said in the room that is left to a part.
    fn extend(&mut self, place: usize, words: impl FnOnce(usize) -> String) {
        let room = self.most.saturating_sub(self.shown().width());
        if let Some((_, part)) = self.parts.iter_mut().find(|(other, _)| *other == place) {
            *part += &words(room);
        }
    }

    fn shown(&self) -> String {
        self.parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(" · ")
    }
}

/// How far event time has come, from the longest words to the shortest.
fn watermark(metrics: &Metrics) -> Vec<String> {
    let Some(watermark) = metrics.watermark else { return vec![] };
    match (watermark, metrics.watermark_lag) {
        (Timestamp::MIN, _) => vec!["no watermark yet".to_string()],
        (Timestamp::MAX, _) => vec!["end of input".to_string()],
        (watermark, lag) => {
            let at = format!("watermark {}", whole_seconds(watermark));
            let behind = lag.map(|lag| format!("{at}, {} behind", words::interval(lag)));
            behind.into_iter().chain([at]).collect()
        }
    }
}

/// What is below a second would only flicker.
fn whole_seconds(Timestamp(micros): Timestamp) -> Timestamp {
    Timestamp(micros.div_euclid(1_000_000).saturating_mul(1_000_000))
}

/// Which partition it is that the watermark waits for; the end of a long name, since that is where names differ.
fn held_by(name: &str, room: usize) -> String {
    const LONG: &str = ", held by partition ";
    const SHORT: &str = ", held by ";
    const SHORTEST: usize = 8;
    if LONG.len() + name.width() <= room {
        return format!("{LONG}{name}");
    }
    let Some(room) = room.checked_sub(SHORT.len()).filter(|room| *room >= SHORTEST.min(name.width())) else {
        return String::new();
    };
    if name.width() <= room {
        return format!("{SHORT}{name}");
    }
    let mut end = name;
    while end.width() >= room {
        let mut letters = end.chars();
        letters.next();
        end = letters.as_str();
    }
    format!("{SHORT}…{end}")
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
            "in 1.23 M/s · out 34/s · watermark 2013-01-01T10:15:00Z, 5 min behind, \
             held by partition departures/2013-01-EWR.csv · late 3 rows · bad 1,200 rows · memory 12.3 MB"
        );
        let quiet =
            Metrics { watermark: None, late_rows: 0, bad_rows: 0, out_of_order_rows: 7, held_by: None, ..metrics() };
        assert_eq!(
            line(&quiet, RATES, true, 200),
            "stopping, Ctrl-C ends at once · in 1.23 M/s · out 34/s · out of order 7 rows · memory 12.3 MB"
        );
    }

    #[test]
    fn what_matters_most_is_kept_on_a_narrow_screen() {
        let at = |width| line(&metrics(), RATES, false, width);
        assert_eq!(
            at(138),
            "in 1.23 M/s · out 34/s · watermark 2013-01-01T10:15:00Z, 5 min behind, held by …EWR.csv \
             · late 3 rows · bad 1,200 rows · memory 12.3 MB"
        );
        assert_eq!(at(100), "in 1.23 M/s · out 34/s · watermark 2013-01-01T10:15:00Z · late 3 rows · bad 1,200 rows");
        let quiet = Metrics { late_rows: 0, bad_rows: 0, ..metrics() };
        assert_eq!(line(&quiet, RATES, false, 60), "in 1.23 M/s · out 34/s · watermark 2013-01-01T10:15:00Z");
        assert_eq!(line(&quiet, RATES, false, 45), "in 1.23 M/s · out 34/s · memory 12.3 MB");
        assert_eq!(at(40), "in 1.23 M/s · out 34/s · late 3 rows");
        assert_eq!(at(30), "in 1.23 M/s · out 34/s");
        for width in 3..200 {
            assert!(at(width).width() <= width - 3, "{width}");
        }
    }

    #[test]
    fn before_the_first_and_after_the_last_watermark_there_is_none() {
        let of = |watermark| super::watermark(&Metrics { watermark: Some(watermark), ..Metrics::default() });
        assert_eq!(of(Timestamp::MIN), ["no watermark yet"]);
        assert_eq!(of(Timestamp::MAX), ["end of input"]);
        assert_eq!(of(Timestamp(0)), ["watermark 1970-01-01T00:00:00Z"]);
    }

    #[test]
    fn rates_are_those_of_the_last_second() {
        let mut samples = VecDeque::new();
        let mut rate = |tick: u64, rows_in| {
            let elapsed = TICK * tick as u32;
            rates(&mut samples, &Metrics { elapsed, rows_in, rows_out: rows_in / 10, ..Metrics::default() })
        };
        (1..9).for_each(|tick| assert_eq!(rate(tick, 1000 * tick), Rates { rows_in: 4000.0, rows_out: 400.0 }));
        (9..12).for_each(|tick| assert!((1.0..4000.0).contains(&rate(tick, 8000).rows_in)));
        // A pause ends the rate of the last second at once, and shows for ten that there was something.
        let last = (12..60).map(|tick| rate(tick, 8000)).last().unwrap();
        assert_eq!(last, Rates { rows_in: 0.0, rows_out: 0.0 });
    }

    #[test]
    fn a_slow_rate_does_not_flicker() {
        let mut samples = VecDeque::new();
        let mut rate = |tick: u32| {
            let rows_in = 1 + u64::from(tick / 8);
            rates(&mut samples, &Metrics { elapsed: TICK * tick, rows_in, ..Metrics::default() }).rows_in
        };
        let rates: Vec<_> = (1..200).map(&mut rate).skip(48).collect();
        assert!(rates.iter().all(|rate| (0.4..=0.6).contains(rate)), "{rates:?}");
    }
}
