//! Numbers, spans of time and sizes as people read them.

use std::time::Duration;

use thalweg_core::Interval;

/// A whole number with separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of rows: `1 row`, `1,234 rows`.
pub fn rows(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "row" } else { "rows" })
}

/// A number with about three digits and the letter of a thousand, a million or a billion: `12.3 M`.
pub fn short(number: f64) -> String {
    scaled(number, &["", " k", " M", " G", " T"])
}

/// A number of bytes: `512 B`, `12.3 MB`.
pub fn bytes(number: u64) -> String {
    scaled(number as f64, &[" B", " kB", " MB", " GB", " TB"])
}

/// A span of time with about three digits: `850 µs`, `12.3 s`, `2 min 5 s`.
pub fn duration(span: Duration) -> String {
    let nanos = span.as_nanos();
    let seconds = span.as_secs_f64();
    match seconds {
        _ if nanos == 0 => "0 s".to_string(),
        _ if seconds < 999.5e-9 => format!("{nanos} ns"),
        _ if seconds < 999.5e-6 => format!("{} µs", three(seconds * 1e6)),
        _ if seconds < 0.9995 => format!("{} ms", three(seconds * 1e3)),
        _ if seconds < 59.95 => format!("{} s", three(seconds)),
        _ => long(seconds.round() as u64),
    }
}

/// A span of event time; never negative.
pub fn interval(span: Interval) -> String {
    duration(Duration::from_micros(span.0.max(0) as u64))
}

/// The two largest units.
fn long(seconds: u64) -> String {
    let two = |whole: u64, unit: &str, part: u64, smaller: &str| match part {
        0 => format!("{whole} {unit}"),
        _ => format!("{whole} {unit} {part} {smaller}"),
    };
    match seconds {
        0..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn scaled(number: f64, units: &[&str]) -> String {
    let mut number = number;
    for unit in &units[..units.len() - 1] {
        if number < 999.5 {
            return format!("{}{unit}", three(number));
        }
        number /= 1000.0;
    }
    format!("{}{}", three(number), units[units.len() - 1])
}

/// A number with three digits, without zeros at the end of a fraction.
fn three(number: f64) -> String {
    let digits = match number {
        _ if number < 9.995 => 2,
        _ if number < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_or_three_digits() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 1000].map(rows), ["0 rows", "1 row", "1,000 rows"]);
        let numbers = [0.0, 0.004, 1.0, 9.996, 12.34, 999.4, 999.6, 12_345.0, 1e6, 2.5e9, 1e16];
        assert_eq!(
            numbers.map(short),
            ["0", "0", "1", "10", "12.3", "999", "1 k", "12.3 k", "1 M", "2.5 G", "10000 T"]
        );
        assert_eq!([0, 512, 1000, 12_345_678].map(bytes), ["0 B", "512 B", "1 kB", "12.3 MB"]);
    }

    #[test]
    fn spans_of_time_are_in_the_units_that_people_use() {
        let nanos = [0, 15, 999, 1_000, 850_000, 999_600, 1_240_000, 999_600_000, 59_940_000_000, 59_960_000_000];
        assert_eq!(
            nanos.map(|n| duration(Duration::from_nanos(n))),
            ["0 s", "15 ns", "999 ns", "1 µs", "850 µs", "1 ms", "1.24 ms", "1 s", "59.9 s", "1 min"]
        );
        let seconds = [61, 3_599, 3_600, 3_725, 86_399, 90_000, 86_400 * 400];
        assert_eq!(
            seconds.map(|s| duration(Duration::from_secs(s))),
            ["1 min 1 s", "59 min 59 s", "1 h", "1 h 2 min", "23 h 59 min", "1 d 1 h", "400 d"]
        );
        assert_eq!([interval(Interval::seconds(300)), interval(Interval(-1))], ["5 min", "0 s"]);
    }
}
