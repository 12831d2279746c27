//! The same question to the engine, as SQL over two streams in memory.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray, types::*};
use thalweg::{Engine, Memory};

use super::{
    expected::{Mode, each, mixed},
    workload::{Row, Workload},
};

/// How many rows a batch has.
const BATCH: usize = 1 << 20;

/// The rows as two streams: `s` (k, ts), the base rows, and `r` (k, ts, v), the probe rows.
pub fn memory(rows: &[Row]) -> thalweg::Result<Memory> {
    let memory = Memory::default();
    for is_base in [true, false] {
        let mine: Vec<&Row> = rows.iter().filter(|row| row.is_base == is_base).collect();
        let batches = mine.chunks(BATCH).map(|rows| batch(rows, is_base));
        let stream = Memory::preallocated(&[batches.collect::<Result<Vec<_>, _>>()?])?;
        memory.put(if is_base { "s" } else { "r" }, stream)?;
    }
    Ok(memory)
}

fn batch(rows: &[&Row], is_base: bool) -> thalweg::Result<RecordBatch> {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.time));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| i64::from(row.key))));
    let mut columns = vec![("k", keys), ("ts", Arc::new(times) as ArrayRef)];
    if !is_base {
        columns.push(("v", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.payload)))));
    }
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// What is asked.
pub fn sql(workload: &Workload) -> String {
    format!(
        "SELECT s.k, s.ts, sum(v) OVER w FROM s WINDOW w AS (UNION r PARTITION BY k ORDER BY ts \
         ROWS_RANGE BETWEEN {} PRECEDING AND CURRENT ROW INSTANCE_NOT_IN_WINDOW)",
        interval(workload.window)
    )
}

fn interval(micros: i64) -> String {
    format!("INTERVAL '{}.{:06}' SECOND", micros / 1_000_000, micros % 1_000_000)
}

/// The engine's results.
pub fn engine(memory: &Memory, workload: &Workload, settings: &str) -> thalweg::Result<Vec<RecordBatch>> {
    let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
    let lateness = interval(workload.lateness);
    engine.sql(&format!(
        "{settings}
         CREATE TABLE s (WATERMARK FOR ts AS ts - {lateness}) WITH ('connector' = 'memory', 'stream' = 's');
         CREATE TABLE r (WATERMARK FOR ts AS ts - {lateness}) WITH ('connector' = 'memory', 'stream' = 'r')"
    ))?;
    engine.sql(&sql(workload))?.collect()
}

/// Results in short, as rows of key, time and sum have them: how many there are, and a sum over all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    rows: u64,
    checksum: u64,
}

impl Content {
    /// What must come out.
    pub fn of(rows: &[Row], workload: &Workload) -> Self {
        let mut content = Self::default();
        each(rows, workload, Mode::Final, |base, count, sum| {
            content.add(i64::from(base.key), base.time, (count > 0).then_some(sum));
        });
        content
    }

    /// What came out.
    pub fn of_batches(batches: &[RecordBatch]) -> Self {
        let mut content = Self::default();
        for batch in batches {
            let [keys, sums] = [0, 2].map(|column| batch.column(column).as_primitive::<Int64Type>());
            let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
            for row in 0..batch.num_rows() {
                let sum = sums.is_valid(row).then(|| sums.value(row));
                content.add(keys.value(row), times.value(row), sum);
            }
        }
        content
    }

    fn add(&mut self, key: i64, time: i64, sum: Option<i64>) {
        self.rows += 1;
        let sum = sum.map_or(0, |sum| mixed(sum as u64));
        self.checksum = self.checksum.wrapping_add(mixed(mixed(mixed(key as u64) ^ time as u64) ^ sum));
    }

    /// Compares with what came out; says how many results there were.
    pub fn compare(&self, found: &Self) -> Result<u64, String> {
        match (found.rows == self.rows, found.checksum == self.checksum) {
            (true, true) => Ok(self.rows),
            (true, false) => Err(format!("the checksum of {} results is not that of the right ones", self.rows)),
            (false, _) => Err(format!("{} results came out, {} must", found.rows, self.rows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_another_sum_and_with_none_are_not_the_right_ones() {
        let workload = &Workload::all()[0];
        let rows = workload.generate(2_000);
        let mut results = [Vec::new(), Vec::new(), Vec::new()];
        each(&rows, workload, Mode::Final, |base, count, sum| {
            let row = [Some(i64::from(base.key)), Some(base.time), (count > 0).then_some(sum)];
            results.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        });
        let batch = |[keys, times, sums]: &[Vec<Option<i64>>; 3]| {
            let columns: [(_, ArrayRef); 3] = [
                ("k", Arc::new(Int64Array::from(keys.clone()))),
                ("ts", Arc::new(TimestampMicrosecondArray::from(times.clone()))),
                ("sum", Arc::new(Int64Array::from(sums.clone()))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let right = Content::of(&rows, workload);
        assert_eq!(right.compare(&Content::of_batches(&[batch(&results)])), Ok(2_000));
        let twice = Content::of_batches(&[batch(&results), batch(&results)]);
        assert!(right.compare(&twice).unwrap_err().contains("4000 results came out, 2000 must"));
        for wrong in [Some(0), None, Some(-1)] {
            results[2][1_000] = wrong;
            assert!(right.compare(&Content::of_batches(&[batch(&results)])).unwrap_err().contains("checksum"));
        }
    }

    /// That is wrong: the engine does not know the question yet. Once it does, it belongs among what is measured.
    #[test]
    fn the_engine_knows_the_streams_and_not_the_question() {
        let workload = &Workload::all()[4];
        assert_eq!(interval(1_000), "INTERVAL '0.001000' SECOND");
        let memory = memory(&workload.generate(1_000)).unwrap();
        assert!(engine(&memory, workload, "").is_err());
        let mut known = Engine::with_connectors(vec![Arc::new(memory)]);
        let count = "SELECT count(*) FROM s JOIN r ON s.k = r.k";
        let tables =
            ["s", "r"].map(|name| format!("CREATE TABLE {name} WITH ('connector' = 'memory', 'stream' = '{name}')"));
        known.sql(&tables.join(";")).unwrap();
        assert!(known.sql(count).is_err());
        let found = known.sql("SELECT sum(v) FROM r").unwrap().next().unwrap().unwrap();
        assert!(found.column(0).as_primitive::<Int64Type>().value(0) > 0);
    }
}
