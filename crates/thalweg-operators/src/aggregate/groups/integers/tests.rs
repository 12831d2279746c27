//! Whole numbers against a map.

use std::collections::BTreeMap;

use arrow_buffer::NullBuffer;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

#[test]
fn numbers_are_those_of_a_map_whatever_the_range() {
    for seed in 0..200 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut groups, mut expected) = (IntegerGroups::default(), BTreeMap::new());
        let (mut width, mut center) = (0, 0);
        for call in 0..random.random_range(1..20) {
            // A table that was cleared is as good as a new one, whatever keys come then.
            if call == 0 || random.random_bool(0.2) {
                groups.clear();
                expected.clear();
                width = [3, 1000, 200_000, i64::MAX][random.random_range(0..4)];
                center = [0, -5000, i64::MAX, i64::MIN][random.random_range(0..4)];
            }
            let rows = random.random_range(0..3000);
            let near = |random: &mut StdRng| center.saturating_add(random.random_range(-width..=width));
            let values: Vec<i64> = (0..rows).map(|_| near(&mut random)).collect();
            let with_nulls = random.random_bool(0.3);
            let known: Vec<bool> = (0..rows).map(|_| !with_nulls || random.random_bool(0.9)).collect();
            let nulls = with_nulls.then(|| NullBuffer::from(known.clone()));
            let chosen = random
                .random_bool(0.3)
                .then(|| UInt32Array::from((0..rows as u32).filter(|_| random.random_bool(0.5)).collect::<Vec<_>>()));
            let keys = Integers { values: values.clone().into(), nulls };
            let found = groups.number(&keys, chosen.as_ref());
            let rows = chosen.map_or((0..rows as u32).collect(), |rows| rows.values().to_vec());
            assert_eq!(found.len(), rows.len());
            for (number, row) in found.into_iter().zip(rows) {
                let key = known[row as usize].then_some(values[row as usize]);
                let next = expected.len() as u32;
                assert_eq!(number, *expected.entry(key).or_insert(next), "seed {seed}, key {key:?}");
            }
        }
        assert_eq!(groups.count(), expected.len());
        assert_eq!(groups.sorted(), expected.values().copied().collect::<Vec<_>>(), "seed {seed}");
        let half: Vec<u32> = (0..expected.len() as u32).step_by(2).collect();
        let kept = groups.only(&half);
        let mut again = kept.only(&(0..half.len() as u32).collect::<Vec<_>>());
        let numbers = again.absorb(&groups);
        for (number, kept) in half.iter().zip(0..) {
            assert_eq!(numbers[*number as usize], kept, "seed {seed}");
        }
        assert_eq!(again.count(), groups.count());
    }
}
