//! The engine, where rows come when they are due: both streams read from connectors that hold a row back until then.

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
    engine::{Becomes, becomes, emit, interval, results},
    expected::Mode,
    feed::TICK_US,
    sink::Outcome,
    workload::{Row, Workload},
};

/// `'connector' = 'arriving'`, `'stream' = 's'` or `'r'`: columns `k`, `ts` and `v`, which is the number of a base row and the value of a probe row.
#[derive(Clone)]
struct Arriving {
    rows: Arc<[Row]>,
    /// How many rows of both streams are due together.
    packet: usize,
    /// When the first of them is, which is when somebody first asks, so that the start of the query is no latency.
    origin: Arc<OnceLock<Instant>>,
}

impl Arriving {
    /// After how many microseconds a row is due, by its number.
    fn due_us(&self, number: usize) -> u64 {
        (number / self.packet) as u64 * TICK_US
    }

    /// How long ago a row was due, in microseconds.
    fn since(&self, number: i64, now: Instant) -> f64 {
        let origin = self.origin.get().copied().unwrap_or(now);
        let due = origin + Duration::from_micros(self.due_us(number as usize));
        now.saturating_duration_since(due).as_nanos() as f64 / 1e3
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
        let is_base = table.options.get("stream") == Some("s");
        let mine = |number: &usize| self.rows[*number].is_base == is_base;
        let numbers = (0..self.rows.len()).filter(mine).collect();
        Ok(Box::new(Stream { all: self.clone(), numbers, names: vec!["0".to_string()] }))
    }
}

/// One of the streams.
struct Stream {
    all: Arriving,
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
        Ok(Box::new(Packets { all: self.all.clone(), numbers: Arc::clone(&self.numbers), next: 0 }))
    }
}

struct Packets {
    all: Arriving,
    numbers: Arc<[usize]>,
    next: usize,
}

impl Reader for Packets {
    fn read(&mut self, rows: usize) -> Result<Read> {
        let Some(next) = self.numbers.get(self.next) else { return Ok(Read::End) };
        let origin = *self.all.origin.get_or_init(Instant::now);
        let now = origin.elapsed().as_micros() as u64;
        let left = &self.numbers[self.next..];
        let due = left.iter().take(rows).take_while(|number| self.all.due_us(**number) <= now).count();
        if due == 0 {
            return Ok(Read::Wait(Some(origin + Duration::from_micros(self.all.due_us(*next)))));
        }
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

/// Runs it; latencies are those of the first result of each base row from `first` on, since the row was due.
///
/// Errors: what the engine gives.
pub fn run(rows: &[Row], workload: &Workload, mode: Mode, joiners: usize, first: i64) -> Result<Outcome> {
    let rate = workload.arrival.ok_or_else(|| Error::bug("the workload has no rate"))?;
    let packet = (2 * rate * TICK_US / 1_000_000) as usize;
    let arriving = Arriving { rows: rows.into(), packet, origin: Arc::default() };
    let mut engine = Engine::with_connectors(vec![Arc::new(arriving.clone())]);
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
                outcome.latencies_us.push(arriving.since(number, now));
            }
        }
    }
    Ok(outcome)
}
