//! The engine, where it counts how long results take: both streams read from connectors that hold a row back until it is due, or, where rows
//! come as fast as can be, say when they were asked for it.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use thalweg::Engine;
use thalweg_core::{
    Error, Result,
    connector::{Connector, Host, Read, Reader, Source, TableDefinition},
};

use super::{
    arrivals::Arrivals,
    engine::{Becomes, becomes, emit, interval, results},
    expected::Mode,
    feed::{PROMPT, Pace},
    sink::Outcome,
    watermark::{Passing, stream_of},
    workload::{Row, Workload},
};

/// `'connector' = 'arriving'`, `'stream' = 's'` or `'r'`: columns `k`, `ts` and `v`, which is the number of a base row and the value of a probe row.
#[derive(Clone)]
struct Arriving(Arc<All>);

/// The rows of both streams.
struct All {
    rows: Vec<Row>,
    pace: Pace,
    /// When somebody first asked for a row, so that the start of the query is no latency.
    origin: OnceLock<Instant>,
    /// Of each stream, which is read by itself; since the origin.
    arrivals: [Arrivals; 2],
    passing: Passing,
}

impl All {
    /// How long ago the result of a base row could be there, in microseconds: [`Feed::since`](super::feed::Feed::since) says since when.
    fn since(&self, number: i64, mode: Mode, now: Instant) -> Option<f64> {
        let row = &self.rows[number as usize];
        let arrival = match mode {
            Mode::Eager | Mode::Corrected => self.arrivals[stream_of(row)].of(number as usize),
            Mode::Final => {
                let [one, other] = self.passing.with(row.time)?;
                self.arrivals[0].of(one).max(self.arrivals[1].of(other))
            }
        };
        let origin = self.origin.get().copied().unwrap_or(now);
        Some(now.saturating_duration_since(origin + Duration::from_micros(arrival)).as_nanos() as f64 / 1e3)
    }
}

impl Connector for Arriving {
    fn name(&self) -> &'static str {
        "arriving"
    }

    fn infer(&self, _: &TableDefinition) -> Result<SchemaRef> {
        let field = |name, data_type| Field::new(name, data_type, false);
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        Ok(Arc::new(Schema::new(vec![field("k", DataType::Int64), field("ts", time), field("v", DataType::Int64)])))
    }

    fn source(&self, table: &TableDefinition) -> Result<Box<dyn Source>> {
        let stream = usize::from(table.options.get("stream") == Some("s"));
        let mine = |number: &usize| stream_of(&self.0.rows[*number]) == stream;
        let numbers = (0..self.0.rows.len()).filter(mine).collect();
        Ok(Box::new(Stream { all: Arc::clone(&self.0), stream, numbers, names: vec!["0".to_string()] }))
    }
}

/// One of the streams.
struct Stream {
    all: Arc<All>,
    stream: usize,
    /// Its rows.
    numbers: Arc<[usize]>,
    names: Vec<String>,
}

impl Source for Stream {
    fn partitions(&self) -> &[String] {
        &self.names
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn open(&self, _: usize, _: Host) -> Result<Box<dyn Reader>> {
        let (all, numbers) = (Arc::clone(&self.all), Arc::clone(&self.numbers));
        Ok(Box::new(Packets { all, stream: self.stream, numbers, next: 0 }))
    }
}

struct Packets {
    all: Arc<All>,
    stream: usize,
    numbers: Arc<[usize]>,
    next: usize,
}

impl Reader for Packets {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let Some(next) = self.numbers.get(self.next).copied() else { return Ok(Read::End) };
        let origin = *self.all.origin.get_or_init(Instant::now);
        let now = origin.elapsed().as_micros() as u64;
        let arrivals = &self.all.arrivals[self.stream];
        if self.all.pace != Pace::Due {
            arrivals.take(next, now);
        } else if arrivals.of(next) > now {
            return Ok(Read::Wait(Some(origin + Duration::from_micros(arrivals.of(next)))));
        }
        let behind = if self.all.pace == Pace::Due { arrivals.behind_due(now) } else { arrivals.behind(next) };
        let left = &self.numbers[self.next..];
        let due = left.iter().take(rows).take_while(|number| **number < behind).count();
        self.next += due;
        let rows = || left[..due].iter().map(|number| self.all.rows[*number]);
        let columns: [(_, ArrayRef); 3] = [
            ("k", Arc::new(Int64Array::from_iter_values(rows().map(|row| i64::from(row.key))))),
            ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(rows().map(|row| row.time)))),
            ("v", Arc::new(Int64Array::from_iter_values(rows().map(|row| row.payload)))),
        ];
        Ok(Read::Rows(RecordBatch::try_from_iter(columns)?))
    }
}

/// What is asked: the number of each base row, with how many rows its window has and their sum.
pub fn sql(workload: &Workload, mode: Mode) -> String {
    let emit = emit(mode);
    format!(
        "SELECT n, count(v) OVER w AS rows, sum(v) OVER w AS total FROM (SELECT k, ts, v AS n, CAST(NULL AS BIGINT) AS v FROM s) \
         WINDOW w AS (UNION (SELECT k, ts, CAST(0 AS BIGINT) AS n, v FROM r) PARTITION BY k ORDER BY ts \
         ROWS_RANGE BETWEEN {} PRECEDING AND CURRENT ROW EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW){emit}",
        interval(workload.window)
    )
}

/// Runs it; latencies are those of the first result of each base row from `first` on.
///
/// Errors: rows are due that have no rate, and what the engine gives.
pub fn run(
    rows: &[Row],
    (workload, pace): (&Workload, Pace),
    mode: Mode,
    joiners: usize,
    first: i64,
) -> Result<Outcome> {
    let packet = workload.packet().ok_or_else(|| Error::bug("the workload has no rate"));
    let packet = if pace == Pace::Due { packet? } else { PROMPT };
    let arrivals = |_| match pace {
        Pace::Due => Arrivals::due(rows.len(), packet),
        Pace::Prompt | Pace::Fast => Arrivals::when_taken(rows.len(), packet),
    };
    let (arrivals, passing) = ([0, 1].map(arrivals), Passing::of(rows, workload.lateness));
    let all = Arc::new(All { rows: rows.into(), pace, origin: OnceLock::new(), arrivals, passing });
    let arriving = Arriving(Arc::clone(&all));
    let mut engine = Engine::with_connectors(vec![Arc::new(arriving)]);
    let table = |name: &str| {
        let lateness = interval(workload.lateness);
        format!(
            "CREATE TABLE {name} (WATERMARK FOR ts AS ts - {lateness}) WITH ('connector' = 'arriving', 'stream' = '{name}');"
        )
    };
    engine.sql(&format!("SET 'parallelism' = '{joiners}'; {} {}", table("s"), table("r")))?;
    let mut outcome = Outcome::default();
    for batch in engine.sql(&sql(workload, mode))? {
        let (now, batch) = (Instant::now(), batch?);
        let results = results(&batch, mode);
        let [numbers, counts, sums] = [0, 1, 2].map(|column| results.column(column).as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let (number, count) = (numbers.value(row), counts.value(row));
            let sum = if count > 0 { sums.value(row) } else { 0 };
            let becomes = becomes(&batch, row, mode);
            becomes.of(&mut outcome.answer, [number, count, sum].map(|value| value as u64));
            if becomes == Becomes::First && number >= first {
                outcome.latencies_us.extend(all.since(number, mode, now));
            }
        }
    }
    Ok(outcome)
}
