//! What can be done per key and per window.

use thalweg_core::{Error, Result};
use thalweg_operators::function::{Row, Values};

use super::{Stream, Window, quoted, stream::INPUT};

/// A stream whose rows are divided by keys.
#[derive(Clone)]
pub struct Keyed<'t> {
    pub(super) stream: Stream<'t>,
    pub(super) keys: Vec<String>,
}

/// A stream whose rows are divided by keys and windows.
#[derive(Clone)]
pub struct Windowed<'t> {
    keyed: Keyed<'t>,
    window: Window,
}

impl<'t> Keyed<'t> {
    /// Windows over each key's rows.
    pub fn window(self, window: Window) -> Windowed<'t> {
        Windowed { keyed: self, window }
    }

    /// Aggregates over each key's rows of a stream that ends, by expressions in SQL. Gives the keys and the aggregates.
    pub fn aggregate<'a>(self, aggregates: impl IntoIterator<Item = &'a str>) -> Stream<'t> {
        let aggregates: Vec<_> = aggregates.into_iter().map(str::to_string).collect();
        let name = format!("aggregate({:?})", aggregates.join(", "));
        let groups = ordinals(1, self.keys.len());
        let columns = self.keys.iter().chain(&aggregates).cloned().collect::<Vec<_>>().join(", ");
        let groups = if groups.is_empty() { String::new() } else { format!(" GROUP BY {}", groups.join(", ")) };
        self.stream.plan(name, &format!("SELECT {columns} FROM input{groups}"))
    }

    /// Appends columns of these names, which a function computes from each row and from what it remembers of its key.
    ///
    /// The state of a key outlives batches and is part of a snapshot; so it is of a type that serde writes and reads. Rows of a key
    /// come in their order where all are in one partition of the source; how partitions interleave is not promised.
    pub fn stateful_map<'a, S, V>(
        self,
        names: impl IntoIterator<Item = &'a str>,
        start: impl Fn() -> S + Send + Sync + 'static,
        step: impl Fn(&mut S, Row<'_>) -> Result<V> + Send + Sync + 'static,
    ) -> Stream<'t>
    where
        S: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
        V: Values + 'static,
    {
        self.stream.appended("stateful_map", false, self.keys, names.into_iter().collect(), start, step)
    }
}

impl<'t> Windowed<'t> {
    /// Aggregates per window and key, by expressions in SQL: `aggregate(["count(*) AS n", "avg(price)"])`. Gives `window_start`,
    /// `window_end`, `window_time`, the keys and the aggregates.
    pub fn aggregate<'a>(self, aggregates: impl IntoIterator<Item = &'a str>) -> Stream<'t> {
        const BOUNDS: [&str; 3] = ["window_start", "window_end", "window_time"];
        let Self { keyed: Keyed { stream, keys }, window } = self;
        let aggregates: Vec<_> = aggregates.into_iter().map(str::to_string).collect();
        let name = format!("aggregate({:?})", aggregates.join(", "));
        let Some(time) = stream.time() else {
            return stream.mistaken(name, || {
                Error::query("the stream has no event time")
                    .with_hint("WATERMARK FOR in the table declares it, and a map must keep its column")
            });
        };
        let bounds = BOUNDS.map(str::to_string);
        let groups = [bounds.to_vec(), ordinals(BOUNDS.len() + 1, keys.len())].concat().join(", ");
        let columns = [bounds.to_vec(), keys, aggregates].concat().join(", ");
        let windows = window.over(INPUT, &quoted(&time));
        stream.plan(name, &format!("SELECT {columns} FROM {windows} GROUP BY {groups}"))
    }
}

/// The numbers of so many columns, for GROUP BY: so keys may have names of their own.
fn ordinals(first: usize, count: usize) -> Vec<String> {
    (first..first + count).map(|number| number.to_string()).collect()
}
