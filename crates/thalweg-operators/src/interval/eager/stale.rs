//! The spans of time in which results may have changed.

/// Spans are merged when there are so many, and twice as many as the last time. (Tests have few.)
const MANY: usize = if cfg!(test) { 4 } else { 4096 };

/// The spans of time in which results of keys may have changed, and nobody has looked yet which these are.
///
/// Most of them overlap with others of their key, and are one with these.
#[derive(Debug, Default)]
pub struct StaleSpans {
    spans: Vec<Span>,
    /// How many there were when they were last merged.
    merged: usize,
}

/// A span of time, of which both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    key: u32,
    from: i64,
    to: i64,
}

impl StaleSpans {
    /// Results of a key between these times may have changed.
    pub fn put(&mut self, key: u32, from: i64, to: i64) {
        if from > to {
            return;
        }
        self.spans.push(Span { key, from, to });
        if self.spans.len() >= MANY.max(2 * self.merged) {
            self.merge();
        }
    }

    /// Those of a key that overlap or follow each other are one.
    fn merge(&mut self) {
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, span| {
            let is_one = next.key == span.key && next.from <= span.to.saturating_add(1);
            if is_one {
                span.to = span.to.max(next.to);
            }
            is_one
        });
        self.merged = self.spans.len();
    }

    /// Tells of each key when its results may have changed before `end`, or ever: from when to when, which ascend and do not overlap. What is
    /// not before that stays.
    pub fn take_before(&mut self, end: Option<i64>, mut found: impl FnMut(u32, &mut dyn Iterator<Item = (i64, i64)>)) {
        if !self.spans.iter().any(|span| end.is_none_or(|end| span.from < end)) {
            return;
        }
        self.merge();
        let last = end.map_or(i64::MAX, |end| end.saturating_sub(1));
        for same in self.spans.chunk_by(|a, b| a.key == b.key) {
            let before = same.iter().take_while(|span| span.from <= last);
            found(same[0].key, &mut before.map(|span| (span.from, span.to.min(last))));
        }
        self.spans.retain_mut(|span| {
            span.from = span.from.max(last.saturating_add(1));
            last < span.to
        });
        self.merged = self.spans.len();
    }

    /// The keys of which there are some.
    pub fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.spans.iter().map(|span| span.key)
    }

    /// Gives each key its new number.
    pub fn renumber(&mut self, moved: &[u32]) {
        self.spans.iter_mut().for_each(|span| span.key = moved[span.key as usize]);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn each_time_of_a_span_is_told_once_when_it_is_before_the_end() {
        for seed in 0..300 {
            let random = &mut StdRng::seed_from_u64(seed);
            let (mut spans, mut expected) = (StaleSpans::default(), BTreeSet::new());
            for _ in 0..20 {
                for _ in 0..random.random_range(0..8) {
                    let (key, from) = (random.random_range(0..3), random.random_range(0..50));
                    let to = from + random.random_range(-3..9);
                    spans.put(key, from, to);
                    expected.extend((from..=to).map(|time| (key, time)));
                }
                let end = random.random_bool(0.8).then(|| random.random_range(0..60));
                let (mut told, mut last) = (BTreeSet::new(), (0, i64::MIN));
                spans.take_before(end, |key, spans| {
                    for (from, to) in spans {
                        assert!(last.0 < key || last.1 < from && last.0 == key, "seed {seed}: they ascend");
                        last = (key, to);
                        told.extend((from..=to).map(|time| (key, time)));
                    }
                });
                let is_before = |(_, time): &(u32, i64)| end.is_none_or(|end| *time < end);
                assert_eq!(told, expected.iter().copied().filter(is_before).collect(), "seed {seed}");
                expected.retain(|time| !is_before(time));
                assert_eq!(spans.is_empty(), expected.is_empty(), "seed {seed}");
            }
        }
    }

    #[test]
    fn spans_that_overlap_are_one_and_the_last_time_has_no_end() {
        let mut spans = StaleSpans::default();
        (0..1_000).for_each(|time| spans.put(7, time, time + 2));
        assert!(spans.spans.len() < 2 * MANY, "{} spans", spans.spans.len());
        spans.put(7, 500, i64::MAX);
        let mut told = Vec::new();
        spans.take_before(Some(i64::MAX), |key, spans| told.extend(spans.map(|span| (key, span))));
        assert_eq!(told, [(7, (0, i64::MAX - 1))]);
        spans.take_before(None, |key, spans| told.extend(spans.map(|span| (key, span))));
        assert_eq!(told[1..], [(7, (i64::MAX, i64::MAX))]);
        assert!(spans.is_empty());
    }
}
