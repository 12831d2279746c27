//! Exact sums against Python's `math.fsum` (Shewchuk), and against whole numbers.

use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::{products::ExactProducts, *};

/// The correctly rounded sum, as long as no partial sum overflows.
///
/// Source: Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric predicates".
fn fsum(values: &[f64]) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    for value in values {
        let mut x = *value;
        let mut kept = 0;
        for i in 0..partials.len() {
            let mut y = partials[i];
            if x.abs() < y.abs() {
                (x, y) = (y, x);
            }
            let high = x + y;
            let low = y - (high - x);
            if low != 0.0 {
                partials[kept] = low;
                kept += 1;
            }
            x = high;
        }
        partials.truncate(kept);
        partials.push(x);
    }
    let Some(mut high) = partials.pop() else { return 0.0 };
    let mut low = 0.0;
    while let Some(y) = partials.pop() {
        let x = high;
        high = x + y;
        low = y - (high - x);
        if low != 0.0 {
            break;
        }
    }
    // What is left below may turn a tie.
    if let Some(next) = partials.last()
        && ((low < 0.0 && *next < 0.0) || (low > 0.0 && *next > 0.0))
    {
        let y = low * 2.0;
        let x = high + y;
        if y == x - high {
            high = x;
        }
    }
    high
}

/// Values of one kind: everyday, tiny, huge, any bits at all, nearly cancelling.
fn values(random: &mut StdRng) -> Vec<f64> {
    let kind = random.random_range(0..7);
    let mut values: Vec<f64> = (0..random.random_range(0..40))
        .map(|_| match kind {
            0 => random.random_range(-1000.0..1000.0),
            1 => f64::from(random.random_range(-50..50)) / 10.0,
            2 => random.random_range(-1.0..1.0) * 1e-9,
            3 => f64::from_bits(random.random_range(0..1 << 53)) * if random.random() { 1.0 } else { -1.0 },
            4 => random.random_range(-1.0..1.0) * 1e300,
            5 => random.random_range(-1.0..1.0) * 9e15,
            _ => loop {
                let value = f64::from_bits(random.random());
                if value.is_finite() && value.abs() < 1e300 {
                    break value;
                }
            },
        })
        .collect();
    if random.random() {
        let negated: Vec<_> =
            values.iter().map(|value| -value * (1.0 + f64::from(random.random_range(0..2)) * 1e-15)).collect();
        values.extend(negated);
    }
    values.shuffle(random);
    values
}

fn sum(values: &[f64]) -> ExactSum {
    let mut sum = ExactSum::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

fn bytes(sum: &ExactSum) -> Vec<u8> {
    let mut bytes = Vec::new();
    sum.write(&mut bytes);
    bytes
}

#[test]
fn sums_are_those_of_fsum_in_any_order_split_and_after_taking_back() {
    let mut random = StdRng::seed_from_u64(1);
    for round in 0..5000 {
        let mut values = values(&mut random);
        let expected = fsum(&values) + 0.0;
        let whole = sum(&values);
        assert_eq!(whole.value().to_bits(), expected.to_bits(), "round {round}: {values:?}");
        assert_eq!(whole.count(), values.len() as u64);
        values.shuffle(&mut random);
        let (left, right) = values.split_at(random.random_range(0..=values.len()));
        let mut merged = sum(right);
        merged.merge(&sum(left));
        assert_eq!(bytes(&merged), bytes(&whole), "round {round}: {values:?}");
        left.iter().for_each(|value| merged.subtract(*value));
        assert_eq!(bytes(&merged), bytes(&sum(right)), "round {round}: {values:?}");
        let back = ExactSum::read(&bytes(&whole), whole.count()).unwrap();
        assert_eq!((back.value().to_bits(), back.count()), (expected.to_bits(), whole.count()));
        assert_eq!(bytes(&back), bytes(&whole));
    }
}

#[test]
fn only_a_sum_beyond_all_floats_is_infinite() {
    let most = f64::MAX;
    assert_eq!(sum(&[most, most]).value(), f64::INFINITY);
    assert_eq!(sum(&[-most, -most]).value(), f64::NEG_INFINITY);
    assert_eq!(sum(&[most, most, -most]).value(), most);
    assert_eq!(sum(&[most, most]).mean(), most);
    let half_a_step = 2f64.powi(969);
    assert_eq!(sum(&[most, half_a_step]).value(), most);
    assert_eq!(sum(&[most, half_a_step, half_a_step]).value(), f64::INFINITY, "a tie goes to even");
}

#[test]
fn nan_and_infinities_are_told_apart_and_can_be_taken_back() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    assert_eq!(sum(&[1.0, inf]).value(), inf);
    assert_eq!(sum(&[-inf, 1.0, -inf]).value(), -inf);
    assert!(sum(&[inf, -inf]).value().is_nan() && sum(&[inf, nan]).mean().is_nan());
    let mut mixed = sum(&[0.1, inf, nan, -inf, 0.2]);
    let back = ExactSum::read(&bytes(&mixed), 5).unwrap();
    assert!(back.value().is_nan() && !back.is_finite());
    [nan, inf].into_iter().for_each(|value| mixed.subtract(value));
    assert_eq!(mixed.value(), -inf);
    mixed.subtract(-inf);
    assert_eq!(bytes(&mixed), bytes(&sum(&[0.2, 0.1])));
    assert_eq!(mixed.bytes(), 0, "what is not needed any more is given back");
}

#[test]
fn zeros_and_nothing_are_a_positive_zero() {
    for values in [&[][..], &[-0.0], &[-0.0, -0.0], &[-1.5, 1.5], &[1e-300, -1e-300]] {
        assert_eq!(sum(values).value().to_bits(), 0, "{values:?}");
        assert_eq!(sum(values).bytes() * usize::from(values.len() < 2), 0);
    }
    assert!(sum(&[]).mean().is_nan());
}

#[test]
fn means_round_once() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..3000 {
        let values: Vec<f64> = (0..random.random_range(1..30)).map(|_| f64::from(random.random::<i32>())).collect();
        let expected = values.iter().map(|value| *value as i64).sum::<i64>() as f64 / values.len() as f64;
        assert_eq!(sum(&values).mean(), expected, "{values:?}");
        let same = vec![random.random_range(-1.0..1.0); values.len()];
        assert_eq!(sum(&same).mean(), same[0]);
        assert_eq!(sum(&same).rounded_mean(dyadic::SINGLE), f64::from(same[0] as f32));
    }
}

#[test]
fn many_large_values_leave_the_window_and_come_back() {
    let large = vec![9e15; 10_000];
    let mut total = sum(&large);
    assert_eq!(total.value(), 9e19);
    large.iter().for_each(|value| total.subtract(*value));
    assert_eq!(bytes(&total), bytes(&ExactSum::default()));
}

#[test]
fn products_are_exact_in_any_order_and_merge() {
    let mut random = StdRng::seed_from_u64(3);
    for round in 0..2000 {
        let mut left = values(&mut random);
        left.iter_mut().for_each(|value| *value = value.clamp(-1e150, 1e150));
        let mut pairs: Vec<(f64, f64)> =
            left.iter().map(|value| (*value, left[random.random_range(0..left.len())])).collect();
        let total = |pairs: &[(f64, f64)]| {
            let mut total = ExactProducts::default();
            pairs.iter().for_each(|(x, y)| total.add(*x, *y));
            total
        };
        let bytes = |total: &ExactProducts| {
            let mut bytes = Vec::new();
            total.write(&mut bytes);
            bytes
        };
        let whole = total(&pairs);
        let naive = pairs.iter().fold(Dyadic::default(), |mut naive, (x, y)| {
            let factor = |value: f64| sum(&[value]).exact();
            naive.add(&factor(*x).times(&factor(*y)));
            naive
        });
        let mut expected = Vec::new();
        naive.write(&mut expected);
        assert_eq!(bytes(&whole), expected, "round {round}");
        pairs.shuffle(&mut random);
        let (first, second) = pairs.split_at(random.random_range(0..=pairs.len()));
        let mut merged = ExactProducts::read(&bytes(&total(first))).unwrap();
        merged.merge(&total(second));
        assert_eq!(bytes(&merged), expected, "round {round}");
        first.iter().for_each(|(x, y)| merged.subtract(*x, *y));
        assert_eq!(bytes(&merged), bytes(&total(second)), "round {round}");
    }
}

#[test]
fn a_quotient_is_rounded_once() {
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..20_000 {
        let whole = random.random::<i128>() >> random.random_range(0..127);
        let count = (random.random::<u64>() >> random.random_range(0..63)).max(1);
        let exponent = random.random_range(-100..50);
        let mut exact = Dyadic::default();
        exact.add_scaled(whole.unsigned_abs(), exponent, whole < 0);
        let expected = exact.over(&[count], DOUBLE);
        assert_eq!(quotient(whole, exponent, count).to_bits(), expected.to_bits(), "{whole} * 2^{exponent} / {count}");
    }
    // Halfway between two doubles, and a little beside.
    let tie = (1_i128 << 53) + 1;
    assert_eq!(quotient(tie, 0, 1), (1_u64 << 53) as f64);
    assert_eq!(quotient(3 * tie + 1, 0, 3), ((1_u64 << 53) + 2) as f64);
    assert_eq!(quotient(3 * tie - 1, 0, 3), (1_u64 << 53) as f64);
}
