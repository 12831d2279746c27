//! Random streams through interval joins and aggregates over the rows around a row: the engine's rows are those of nested loops, in the
//! order of time and position, at every batch size and parallelism, and with state saved and loaded, and moved, at random barriers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray, types::Int64Type};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use testkit::streams::{Check, Row, Stream, run, show, variants};
use thalweg::{Engine, Memory};

const CASES: u64 = 80;
/// Longer than any stream, in seconds.
const FOR_EVER: i64 = 1_000_000;

#[test]
fn joins_are_what_nested_loops_say() {
    // Each kind meets each span twice.
    for seed in 0..84 {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = *[1, 4, 30].choose(random).unwrap();
        let (left, right) = (Stream::random(random, 0, keys), Stream::random(random, 10_000, keys));
        let kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"];
        // Some end before they begin.
        let spans = [(-3, 2), (0, 0), (1, 6), (-9, -2), (-30, 30), (3, -3), (-1, -2)];
        let kind = kinds[seed as usize % kinds.len()];
        let (from, to) = spans[seed as usize / kinds.len() % spans.len()];
        let (has_key, has_condition) = (random.random_bool(0.8), random.random_bool(0.5));
        let is_strict = random.random_bool(0.2);
        let allowed = *[0, 0, 3].choose(random).unwrap();
        let near = match is_strict {
            true => format!("b.ts > a.ts + INTERVAL '{from}' SECOND AND b.ts < a.ts + INTERVAL '{to}' SECOND"),
            false => format!("b.ts BETWEEN a.ts + INTERVAL '{from}' SECOND AND a.ts + INTERVAL '{to}' SECOND"),
        };
        let key = if has_key { "a.k = b.k AND " } else { "" };
        let condition = if has_condition { " AND a.v < b.v" } else { "" };
        let only_left = kind.contains("SEMI") || kind.contains("ANTI");
        let columns = if only_left { "a.id" } else { "a.id, b.id" };
        let sql = format!("SELECT {columns} FROM a {kind} b ON {key}{near}{condition}");

        let (lefts, rights) = (left.on_time(allowed).0, right.on_time(allowed).0);
        let are_pair = |one: &Row, other: &Row| {
            let behind = other.time - one.time;
            let is_near = if is_strict { from < behind && behind < to } else { (from..=to).contains(&behind) };
            is_near
                && (!has_key || one.key.is_some() && one.key == other.key)
                && (!has_condition || one.value.zip(other.value).is_some_and(|(one, other)| one < other))
        };
        let pair = |one: Option<&Row>, other: Option<&Row>| {
            format!("{} | {}", show(one.map(|row| row.id)), show(other.map(|row| row.id)))
        };
        let mut expected = Vec::new();
        if kind == "RIGHT JOIN" {
            for row in &rights {
                let partners: Vec<_> = lefts.iter().filter(|other| are_pair(other, row)).collect();
                expected.extend(partners.iter().map(|other| pair(Some(other), Some(row))));
                expected.extend(partners.is_empty().then(|| pair(None, Some(row))));
            }
        } else {
            for row in &lefts {
                let partners: Vec<_> = rights.iter().filter(|other| are_pair(row, other)).collect();
                match kind {
                    "LEFT SEMI JOIN" => expected.extend((!partners.is_empty()).then(|| row.id.to_string())),
                    "LEFT ANTI JOIN" => expected.extend(partners.is_empty().then(|| row.id.to_string())),
                    _ => expected.extend(partners.iter().map(|other| pair(Some(row), Some(other)))),
                }
                let is_outer = matches!(kind, "LEFT JOIN" | "FULL JOIN");
                expected.extend((is_outer && partners.is_empty()).then(|| pair(Some(row), None)));
            }
        }
        if kind == "FULL JOIN" {
            let lonely = rights.iter().filter(|row| !lefts.iter().any(|other| are_pair(other, row)));
            expected.extend(lonely.map(|row| pair(None, Some(row))));
        }
        // What comes alone where it has no partner does so with a null for its key; what does not was nobody's partner.
        let comes_alone = match kind {
            "LEFT JOIN" | "LEFT ANTI JOIN" => [true, false],
            "RIGHT JOIN" => [false, true],
            _ => [kind == "FULL JOIN"; 2],
        };
        let sides = [&left, &right].into_iter().zip(comes_alone);
        let late = sides.map(|(side, comes_alone)| {
            let late = side.on_time(allowed).1;
            late.iter().filter(|row| !has_key || comes_alone || row.key.is_some()).count()
        });
        let (streams, late) = (&[&left, &right], late.sum());
        let is_in_order = kind != "FULL JOIN";
        Check { seed, streams, allowed, sql: &sql, expected: &expected, is_in_order, late }.both();
    }
}

#[test]
fn aggregates_over_the_rows_around_a_row_are_what_nested_loops_say() {
    // There are many ways to write a window.
    for seed in 0..2 * CASES {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = *[1, 4, 30].choose(random).unwrap();
        let (base, other) = (Stream::random(random, 0, keys), Stream::random(random, 10_000, keys));
        let is_union = random.random_bool(0.6);
        let allowed = *[0, 0, 3].choose(random).unwrap();
        let rows = random.random_bool(0.3).then(|| random.random_range(0..5));
        let spans = [(-3, 2), (0, 0), (1, 6), (-9, -2), (-30, 0), (-FOR_EVER, 0), (-FOR_EVER, -3), (-FOR_EVER, 2)];
        let (from, to) = *spans.choose(random).unwrap();
        let most = random.random_bool(0.3).then(|| random.random_range(1..6));
        let [no_row, no_time, no_base] = [0.2, 0.2, 0.3].map(|chance| random.random_bool(chance));
        let bound = |offset: i64| match offset {
            0 => "CURRENT ROW".to_string(),
            offset if offset <= -FOR_EVER => "UNBOUNDED PRECEDING".to_string(),
            offset if offset < 0 => format!("{}s PRECEDING", -offset),
            offset => format!("{offset}s FOLLOWING"),
        };
        let bounds = match rows {
            Some(rows) => format!("ROWS BETWEEN {rows} PRECEDING AND CURRENT ROW"),
            None => format!("ROWS_RANGE BETWEEN {} AND {}", bound(from), bound(to)),
        };
        let options = [
            most.map(|most| format!("MAXSIZE {most}")),
            no_row.then(|| "EXCLUDE CURRENT_ROW".to_string()),
            no_time.then(|| "EXCLUDE CURRENT_TIME".to_string()),
            no_base.then(|| "INSTANCE_NOT_IN_WINDOW".to_string()),
        ];
        let options = options.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let union = if is_union { "UNION b" } else { "" };
        // Aggregates that need all rows of a window, and those that need some of them.
        let needs_all = random.random_bool(0.5);
        // Counts and sums alone need no index, with some frames.
        let has_max = needs_all || random.random_bool(0.5);
        let max = if has_max { ", max(v) OVER w AS m" } else { "" };
        let more = if needs_all {
            ", count(DISTINCT v) OVER w, sum(DISTINCT v) FILTER (WHERE v > 3) OVER w, median(v) OVER w, first_value(id) OVER w,
             last_value(v) OVER w, nth_value(id, 2) OVER w, nth_value(id, -3) OVER w, topn_frequency(v, 2) OVER w"
        } else {
            ""
        };
        let sql = format!(
            "SELECT id, count(v) OVER w AS n, sum(v) OVER w AS s{max}{more} FROM a
             WINDOW w AS ({union} PARTITION BY k ORDER BY ts {bounds} {options})"
        );

        let (bases, others) = (base.on_time(allowed).0, other.on_time(allowed).0);
        // Rows of other inputs stand before those of the first of the same time.
        let all = others.iter().filter(|_| is_union).map(|row| (*row, 0)).chain(bases.iter().map(|row| (*row, 1)));
        let mut all: Vec<(Row, usize)> = all.collect();
        all.sort_by_key(|(row, input)| (row.time, *input, row.place));
        let result = |row: &Row| {
            let own = all.iter().position(|(other, _)| other.id == row.id).unwrap();
            let is_seen = |place: &usize| {
                let ((other, input), is_itself) = (all[*place], *place == own);
                let behind = other.time - row.time;
                let is_near = if rows.is_some() { *place <= own } else { (from..=to).contains(&behind) };
                let is_left_out = match is_itself {
                    true => no_row,
                    false => no_time && behind == 0 || no_base && input == 1,
                };
                other.key == row.key && is_near && !is_left_out
            };
            let mut seen: Vec<usize> = (0..all.len()).filter(is_seen).collect();
            for most in rows.map(|rows| rows + usize::from(!no_row)).into_iter().chain(most) {
                seen.drain(..seen.len().saturating_sub(most));
            }
            let values: Vec<i64> = seen.iter().filter_map(|place| all[*place].0.value).collect();
            let sum = (!values.is_empty()).then(|| values.iter().sum());
            let max = if has_max { format!(" | {}", show(values.iter().max().copied())) } else { String::new() };
            let result = format!("{} | {} | {}{max}", row.id, values.len(), show(sum));
            if !needs_all {
                return result;
            }
            let id = |place: Option<&usize>| show(place.map(|place| all[*place].0.id));
            let distinct: BTreeSet<i64> = values.iter().copied().collect();
            let large = distinct.iter().filter(|value| **value > 3);
            let large = (large.clone().count() > 0).then(|| large.sum::<i64>());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let middle = |half: usize| sorted.get(half).copied();
            let median = middle(sorted.len() / 2).zip(middle(sorted.len().saturating_sub(1) / 2));
            let mut frequent: Vec<i64> = distinct.iter().copied().collect();
            frequent.sort_by_key(|value| std::cmp::Reverse(values.iter().filter(|other| *other == value).count()));
            let frequent = frequent.iter().map(i64::to_string).chain(std::iter::repeat("NULL".to_string())).take(2);
            let frequent = frequent.collect::<Vec<_>>().join(",");
            let more = [
                distinct.len().to_string(),
                show(large),
                median.map_or("null".to_string(), |(one, other)| format!("{:?}", (one + other) as f64 / 2.0)),
                id(seen.first()),
                show(seen.last().and_then(|place| all[*place].0.value)),
                id(seen.get(1)),
                id(seen.len().checked_sub(3).and_then(|place| seen.get(place))),
                if values.is_empty() { "null".to_string() } else { frequent },
            ];
            format!("{result} | {}", more.join(" | "))
        };
        let expected: Vec<String> = bases.iter().map(result).collect();
        let nothing = Stream { partitions: vec![Vec::new()], delay: 0 };
        let streams = &[&base, if is_union { &other } else { &nothing }];
        let late = streams.iter().map(|stream| stream.late(allowed)).sum();
        Check { seed, streams, allowed, sql: &sql, expected: &expected, is_in_order: true, late }.both();
    }
}

/// Windows that divide rows otherwise, perhaps behind a LAST JOIN: each looks at the rows of the one before it, whose results only pass.
#[test]
fn windows_with_different_keys_are_what_nested_loops_say() {
    for seed in 0..CASES {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = *[1, 4, 30].choose(random).unwrap();
        let (base, other) = (Stream::random(random, 0, keys), Stream::random(random, 10_000, keys));
        let allowed = *[0, 0, 3].choose(random).unwrap();
        let has_last = random.random_bool(0.3);
        // By what rows are divided, whether there is a union, and from where to where windows reach: no two go together.
        let key_of = |key: &str, row: &Row| match key {
            "k" => row.key,
            "v" => row.value,
            "id % 3" => Some(row.id % 3),
            _ => None,
        };
        let mut ways: Vec<(&str, bool)> = ["k", "v", "id % 3", ""].map(|key| [(key, false), (key, true)]).concat();
        ways.retain(|(_, is_union)| !is_union || !has_last);
        let spans = [(-3, 2), (0, 0), (1, 6), (-9, -2), (-30, 0), (-FOR_EVER, 0), (-FOR_EVER, 4), (-2, 20)];
        let windows: Vec<(&str, bool, (i64, i64))> = (0..random.random_range(2..4))
            .map(|_| {
                let (key, is_union) = ways.swap_remove(random.random_range(0..ways.len()));
                (key, is_union, *spans.choose(random).unwrap())
            })
            .collect();
        let (mut columns, mut named) = (String::new(), Vec::new());
        for (number, (key, is_union, (from, to))) in windows.iter().enumerate() {
            let bound = |offset: i64| match offset {
                0 => "CURRENT ROW".to_string(),
                offset if offset <= -FOR_EVER => "UNBOUNDED PRECEDING".to_string(),
                offset if offset < 0 => format!("{}s PRECEDING", -offset),
                offset => format!("{offset}s FOLLOWING"),
            };
            let union = if *is_union { "UNION b" } else { "" };
            let by = if key.is_empty() { String::new() } else { format!("PARTITION BY {key}") };
            columns += &format!(", count(*) OVER w{number}, sum(v) OVER w{number}, max(id) OVER w{number}");
            let (from, to) = (bound(*from), bound(*to));
            named.push(format!("w{number} AS ({union} {by} ORDER BY ts ROWS_RANGE BETWEEN {from} AND {to})"));
        }
        // Who asks of results behind all windows sees rows come and go.
        let asks = random.random_bool(0.3);
        let third =
            (!has_last && random.random_bool(0.4)).then(|| Stream::random(random, 20_000, keys).without_texts());
        let (last, from) = match (has_last, &third) {
            (true, _) => (
                ", other",
                "(SELECT a.ts, a.k, a.v, a.id, b.id AS other FROM a LAST JOIN b ORDER BY b.ts ON a.k = b.k)",
            ),
            (false, Some(_)) => ("", "(SELECT ts, k, v, id FROM a UNION ALL SELECT ts, k, v, id FROM c)"),
            (false, None) => ("", "a"),
        };
        let (head, tail) = if asks { ("SELECT * FROM (", ") WHERE n < 4") } else { ("", "") };
        let sql = format!(
            "{head}SELECT id{last}{columns}, count(*) OVER w0 AS n FROM {from} WINDOW {}{tail}",
            named.join(", ")
        );

        let ((mut bases, mut late), (others, others_late)) = (base.on_time(allowed), other.on_time(allowed));
        if let Some((more, more_late)) = third.as_ref().map(|third| third.on_time(allowed)) {
            bases.extend(more);
            // Rows of one place are those of the table that is named first, and then the other's.
            bases.sort_by_key(|row| (row.time, row.place));
            late.extend(more_late);
        }
        let result = |row: &Row| {
            let mut counted = 0;
            let last = others.iter().rfind(|other| other.time <= row.time && row.key.is_some() && other.key == row.key);
            let last = last.map(|row| row.id);
            let mut result = vec![row.id.to_string()];
            result.extend(has_last.then(|| show(last)));
            for (number, (key, is_union, (from, to))) in windows.iter().enumerate() {
                let is_seen = |other: &&Row| {
                    (*from..=*to).contains(&(other.time - row.time)) && key_of(key, other) == key_of(key, row)
                };
                let seen: Vec<&Row> = bases.iter().chain(others.iter().filter(|_| *is_union)).filter(is_seen).collect();
                let values: Vec<i64> = seen.iter().filter_map(|row| row.value).collect();
                let sum = (!values.is_empty()).then(|| values.iter().sum());
                let most = seen.iter().map(|row| row.id).max();
                result.extend([seen.len().to_string(), show(sum), show(most)]);
                counted = if number == 0 { seen.len() } else { counted };
            }
            result.push(counted.to_string());
            (!asks || counted < 4).then(|| result.join(" | "))
        };
        let expected: Vec<String> = bases.iter().filter_map(result).collect();
        let with_others = windows.iter().filter(|(_, is_union, _)| *is_union).count();
        // What cannot be a last row does not come late for anybody.
        let last_late = if has_last { others_late.iter().filter(|row| row.key.is_some()).count() } else { 0 };
        let late = late.len() + with_others * others_late.len() + last_late;
        let streams: Vec<&Stream> = [&base, &other].into_iter().chain(&third).collect();
        let streams = &streams[..];
        Check { seed, streams, allowed, sql: &sql, expected: &expected, is_in_order: true, late }.both();
    }
}

#[test]
fn last_joins_are_what_nested_loops_say() {
    for seed in 0..CASES {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = *[1, 4, 30].choose(random).unwrap();
        let (left, right) = (Stream::random(random, 0, keys), Stream::random(random, 10_000, keys));
        let allowed = *[0, 0, 3].choose(random).unwrap();
        let spans = [(-3, 2), (0, 0), (1, 6), (-9, -2), (3, -3), (-FOR_EVER, 0), (-FOR_EVER, -3), (-FOR_EVER, 2)];
        let (from, to) = *spans.choose(random).unwrap();
        let [has_key, of_left, of_right] = [0.8, 0.3, 0.3].map(|chance| random.random_bool(chance));
        let of_both = from > -FOR_EVER && random.random_bool(0.5);
        let conditions = [
            has_key.then(|| "a.k = b.k".to_string()),
            (from > -FOR_EVER).then(|| format!("b.ts >= a.ts + INTERVAL '{from}' SECOND")),
            (to != 0).then(|| format!("b.ts <= a.ts + INTERVAL '{to}' SECOND")),
            of_left.then(|| "a.v > 3".to_string()),
            of_right.then(|| "b.v < 12".to_string()),
            of_both.then(|| "b.v + 5 > a.v".to_string()),
        ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        let condition = if conditions.is_empty() { "true".to_string() } else { conditions.join(" AND ") };
        let sql = format!("SELECT a.id, b.id, b.v, b.k FROM a LAST JOIN b ORDER BY b.ts ON {condition}");

        let ((lefts, left_late), (rights, right_late)) = (left.on_time(allowed), right.on_time(allowed));
        let may_be_last =
            |row: &Row| (!has_key || row.key.is_some()) && (!of_right || row.value.is_some_and(|value| value < 12));
        // What cannot be a last row does not come late for anybody.
        let late = left_late.len() + right_late.iter().filter(|row| may_be_last(row)).count();
        let result = |row: &Row| {
            let is_partner = |other: &&Row| {
                (from..=to).contains(&(other.time - row.time))
                    && (!has_key || row.key == other.key)
                    && (!of_left || row.value.is_some_and(|value| value > 3))
                    && (!of_both || other.value.zip(row.value).is_some_and(|(other, own)| other + 5 > own))
                    && may_be_last(other)
            };
            let last = rights.iter().rfind(is_partner);
            let (id, value, key) =
                (last.map(|row| row.id), last.and_then(|row| row.value), last.and_then(|row| row.key));
            format!("{} | {} | {} | {}", row.id, show(id), show(value), show(key))
        };
        let expected: Vec<String> = lefts.iter().map(result).collect();
        let streams = &[&left, &right];
        Check { seed, streams, allowed, sql: &sql, expected: &expected, is_in_order: true, late }.both();
    }
}

/// What is aggregated of the pairs of each row does not depend on whether there are pairs.
#[test]
fn aggregates_of_the_pairs_of_a_row_are_what_nested_loops_say() {
    for seed in 0..CASES / 2 {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = *[1, 4, 30].choose(random).unwrap();
        let streams = [Stream::random(random, 0, keys), Stream::random(random, 10_000, keys)];
        let allowed = *[0, 0, 3].choose(random).unwrap();
        let (from, to) = *[(-3, 2), (0, 0), (1, 6), (-9, -2), (-30, 30), (3, -3)].choose(random).unwrap();
        let [is_left, has_key, of_right, of_left] = [0.5, 0.8, 0.3, 0.3].map(|chance| random.random_bool(chance));
        let [of_both, has_more] = [0.3, 0.5].map(|chance| random.random_bool(chance));
        let conditions = [
            Some(format!("b.ts BETWEEN a.ts + INTERVAL '{from}' SECOND AND a.ts + INTERVAL '{to}' SECOND")),
            has_key.then(|| "a.k = b.k".to_string()),
            of_right.then(|| "b.v < 12".to_string()),
            of_left.then(|| "a.v > 3".to_string()),
            of_both.then(|| "b.v + 5 > a.v".to_string()),
        ];
        let conditions = conditions.into_iter().flatten().collect::<Vec<_>>().join(" AND ");
        // What is asked of both rows, and what a row has without a partner.
        let more = match has_more {
            true => {
                ", sum(b.v * a.v), max(a.v), sum(coalesce(b.v, 100)), count(*) FILTER (WHERE b.v > a.v), count(*) FILTER (WHERE b.id IS NULL), string_agg(b.id || '', '.' ORDER BY b.id DESC)"
            }
            false => "",
        };
        // What fails for rows of a key that no left row has.
        let has_faults = has_key && keys > 1 && random.random_bool(0.5);
        let (faults, from_a) = match has_faults {
            true => (", count(100 / (b.k - 3))", "a WHERE k <> 3"),
            false => ("", "a"),
        };
        let kind = if is_left { "LEFT" } else { "" };
        // A key that is computed is no key that anybody knows of.
        let sql = |id: &str| {
            format!(
                "SELECT a.id, count(*), count(b.v), sum(b.v), max(b.v) FILTER (WHERE b.v < 9), count(DISTINCT b.v), avg(b.v){more}{faults}
                 FROM (SELECT ts, k, v, {id} AS id FROM {from_a}) a {kind} JOIN b ON {conditions} GROUP BY a.id, a.ts"
            )
        };
        let [(lefts, _), (rights, _)] = streams.each_ref().map(|stream| stream.on_time(allowed));
        let result = |row: &Row| {
            let is_partner = |other: &&Row| {
                (from..=to).contains(&(other.time - row.time))
                    && (!has_key || row.key.is_some() && row.key == other.key)
                    && (!of_right || other.value.is_some_and(|value| value < 12))
                    && (!of_left || row.value.is_some_and(|value| value > 3))
                    && (!of_both || other.value.zip(row.value).is_some_and(|(other, own)| other + 5 > own))
            };
            let partners: Vec<&Row> = rights.iter().filter(is_partner).collect();
            let values: Vec<i64> = partners.iter().filter_map(|row| row.value).collect();
            let (sum, count) = (values.iter().sum::<i64>(), values.len());
            let some = |value: i64| (count > 0).then_some(value);
            let most = values.iter().copied().filter(|value| *value < 9).max();
            let kinds = values.iter().collect::<std::collections::HashSet<_>>().len();
            let mean = some(sum).map_or("null".to_string(), |sum| format!("{:?}", sum as f64 / count as f64));
            let pairs = partners.len().max(usize::from(is_left));
            let mut result =
                format!("{} | {pairs} | {count} | {} | {} | {kinds} | {mean}", row.id, show(some(sum)), show(most));
            if has_more {
                let products: Vec<i64> = values.iter().filter_map(|value| Some(value * row.value?)).collect();
                let product = (!products.is_empty()).then(|| products.iter().sum::<i64>());
                let is_lonely = partners.is_empty();
                let all = if is_lonely { 100 } else { partners.iter().map(|row| row.value.unwrap_or(100)).sum() };
                let larger = values.iter().filter(|value| row.value.is_some_and(|own| **value > own)).count();
                let (product, most) = (show(product), show(row.value));
                let mut ids: Vec<String> = partners.iter().map(|row| row.id.to_string()).collect();
                ids.sort_by_key(|id| std::cmp::Reverse(id.parse::<i64>().ok()));
                let ids = if is_lonely { "null".to_string() } else { ids.join(".") };
                let lonely = usize::from(is_lonely);
                result += &format!(" | {product} | {most} | {all} | {larger} | {lonely} | {ids}");
            }
            if has_faults {
                result += &format!(" | {}", partners.len());
            }
            let is_there = !has_faults || row.key.is_some_and(|key| key != 3);
            (pairs > 0 && is_there).then_some(result)
        };
        let mut expected: Vec<String> = lefts.iter().filter_map(result).collect();
        expected.sort();
        for variant in variants(seed) {
            for id in ["id", "id + 0"] {
                let mut found = run(&streams.each_ref(), allowed, &sql(id), variant).0;
                found.sort();
                assert_eq!(found, expected, "seed {seed}, {variant:?}\n{}", sql(id));
            }
        }
        let (streams, sql) = (&streams.each_ref(), &sql("id"));
        let late = run(streams, allowed, sql, variants(seed)[0]).1 as usize;
        Check { seed, streams, allowed, sql, expected: &expected, is_in_order: false, late }.eager();
    }
}

/// Groups of several rows have the aggregates of all their pairs, whether there are pairs or states of what each row sees.
#[test]
fn aggregates_of_the_pairs_of_several_rows_are_what_nested_loops_say() {
    // What decides on the groups, over the columns of the left side, and by what the loops tell groups apart.
    type Group = (&'static str, fn(&Row) -> String);
    const GROUPS: [Group; 6] = [
        ("GROUP BY a.ts, a.k", |row| format!("{} {}", row.time, show(row.key))),
        ("GROUP BY a.ts", |row| row.time.to_string()),
        ("GROUP BY a.k", |row| show(row.key)),
        ("GROUP BY a.v % 3, a.ts", |row| format!("{} {}", row.time, show(row.value.map(|value| value % 3)))),
        ("GROUP BY coalesce(a.v, -1) > 7", |row| (row.value.unwrap_or(-1) > 7).to_string()),
        ("", |_| String::new()),
    ];
    for seed in 0..CASES / 2 {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = *[1, 4, 30].choose(random).unwrap();
        let streams = [Stream::random(random, 0, keys), Stream::random(random, 10_000, keys)];
        let allowed = *[0, 0, 3].choose(random).unwrap();
        let (from, to) = *[(-3, 2), (0, 0), (1, 6), (-9, -2), (-30, 30), (3, -3)].choose(random).unwrap();
        let [is_outer, of_both, has_more, is_turned] = [0.5, 0.3, 0.5, 0.3].map(|chance| random.random_bool(chance));
        let (groups, group_of) = GROUPS[seed as usize % GROUPS.len()];
        let more = match has_more {
            true => ", sum(b.v * a.v), max(a.v), sum(coalesce(b.v, 100)), count(*) FILTER (WHERE b.id IS NULL)",
            false => "",
        };
        // Of floats that are far apart, and of what has no totals.
        let floats =
            "sum(b.v / 3.0e0 * power(10.0e0, b.id % 40)), avg(b.v / 7.0e0), stddev(b.v), bool_or(b.b), min(b.s), sum(b.p),
                      any_value(b.v), bit_xor(b.v), var_pop(b.v), corr(a.v, b.v), regr_slope(b.v, b.id), regr_count(b.v, b.id), covar_pop(b.id, b.v)";
        let sides = if is_turned { ["b", "a"] } else { ["a", "b"] };
        let kind = match (is_outer, is_turned) {
            (false, _) => "JOIN",
            (true, false) => "LEFT JOIN",
            (true, true) => "RIGHT JOIN",
        };
        let condition = if of_both { "AND b.v + 5 > a.v" } else { "" };
        let sql = |more: &str| {
            format!(
                "SELECT count(*), count(b.v), sum(b.v), max(b.v) FILTER (WHERE b.v < 9), avg(b.v){more} FROM {} {kind} {}
                 ON a.k = b.k AND b.ts BETWEEN a.ts + INTERVAL '{from}' SECOND AND a.ts + INTERVAL '{to}' SECOND {condition} {groups}",
                sides[0], sides[1]
            )
        };
        let [(lefts, _), (rights, _)] = streams.each_ref().map(|stream| stream.on_time(allowed));
        let mut pairs: BTreeMap<String, Vec<(&Row, Option<&Row>)>> = BTreeMap::new();
        for row in &lefts {
            let is_partner = |other: &&Row| {
                (from..=to).contains(&(other.time - row.time))
                    && (row.key.is_some() && row.key == other.key)
                    && (!of_both || other.value.zip(row.value).is_some_and(|(other, own)| other + 5 > own))
            };
            let group = pairs.entry(group_of(row)).or_default();
            let before = group.len();
            group.extend(rights.iter().filter(is_partner).map(|other| (row, Some(other))));
            if is_outer && group.len() == before {
                group.push((row, None));
            }
        }
        // An aggregate without groups has a row, whatever there is.
        pairs.retain(|_, pairs| groups.is_empty() || !pairs.is_empty());
        if groups.is_empty() {
            pairs.entry(String::new()).or_default();
        }
        let result = |pairs: &Vec<(&Row, Option<&Row>)>| {
            let values: Vec<i64> = pairs.iter().filter_map(|(_, other)| other.as_ref()?.value).collect();
            let sum = |values: &[i64]| show((!values.is_empty()).then(|| values.iter().sum::<i64>()));
            let most = values.iter().copied().filter(|value| *value < 9).max();
            let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
            let mean = if values.is_empty() { "null".to_string() } else { format!("{mean:?}") };
            let mut result = format!("{} | {} | {} | {} | {mean}", pairs.len(), values.len(), sum(&values), show(most));
            if has_more {
                let product = |(row, other): &(&Row, Option<&Row>)| Some(row.value? * other.as_ref()?.value?);
                let products: Vec<i64> = pairs.iter().filter_map(product).collect();
                let own = pairs.iter().filter_map(|(row, _)| row.value).max();
                let all = |(_, other): &(&Row, Option<&Row>)| other.and_then(|other| other.value).unwrap_or(100);
                let all: Vec<i64> = pairs.iter().map(all).collect();
                let lonely = pairs.iter().filter(|(_, other)| other.is_none()).count();
                result += &format!(" | {} | {} | {} | {lonely}", sum(&products), show(own), sum(&all));
            }
            result
        };
        let mut expected: Vec<String> = pairs.values().map(result).collect();
        expected.sort();
        let streams = &streams.each_ref();
        let with_floats = sql(&format!("{more}, {floats}"));
        // Distinct values are no small state, so that pairs are put together for it.
        let of_pairs = with_floats.replacen("SELECT ", "SELECT count(DISTINCT b.id) + count(DISTINCT a.id) * 0, ", 1);
        let mut of_pairs = run(streams, allowed, &of_pairs, variants(seed)[0]).0;
        of_pairs.iter_mut().for_each(|row| drop(row.drain(..row.find(" | ").unwrap() + 3)));
        of_pairs.sort();
        for variant in variants(seed) {
            let found = |sql: &str| {
                let mut found = run(streams, allowed, sql, variant).0;
                found.sort();
                found
            };
            assert_eq!(found(&sql(more)), expected, "seed {seed}, {variant:?}\n{}", sql(more));
            assert_eq!(found(&with_floats), of_pairs, "seed {seed}, {variant:?}\n{with_floats}");
        }
    }
}

/// Aggregates of pairs in windows are the same whether there are pairs or states of what each row sees.
#[test]
fn aggregates_of_pairs_in_windows_need_no_pairs() {
    for seed in 0..CASES / 4 {
        let random = &mut StdRng::seed_from_u64(seed);
        let keys = *[1, 4, 30].choose(random).unwrap();
        let streams = [Stream::random(random, 0, keys), Stream::random(random, 10_000, keys)];
        let allowed = *[0, 0, 3].choose(random).unwrap();
        let kind = *["JOIN", "LEFT JOIN"].choose(random).unwrap();
        let windows = [
            "TUMBLE(p, t, INTERVAL '7' SECOND)",
            "HOP(p, t, INTERVAL '4' SECOND, INTERVAL '12' SECOND, INTERVAL '1' SECOND)",
            "CUMULATE(p, t, INTERVAL '3' SECOND, INTERVAL '9' SECOND)",
        ];
        let windows = windows.choose(random).unwrap();
        let groups = ["window_start, window_end", "window_start, window_end, k", "window_end, x % 2, window_start"];
        let groups = groups.choose(random).unwrap();
        let sql = |more: &str| {
            let joined = format!(
                "(SELECT a.ts AS t, a.k, a.v AS x, b.v AS y, b.id FROM a {kind} b
                 ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '4' SECOND AND a.ts + INTERVAL '1' SECOND)"
            );
            let windows = windows.replacen("(p,", &format!("({joined},"), 1);
            format!(
                "SELECT {more}{groups}, count(*), count(id), sum(y), avg(y / 3.0e0), min(x + y) FROM {windows} GROUP BY {groups}"
            )
        };
        let streams = &streams.each_ref();
        let (mut pairs, late) = run(streams, allowed, &sql("count(DISTINCT id), "), variants(seed)[0]);
        pairs.iter_mut().for_each(|row| drop(row.drain(..row.find(" | ").unwrap() + 3)));
        pairs.sort();
        for variant in variants(seed) {
            let (mut found, found_late) = run(streams, allowed, &sql(""), variant);
            found.sort();
            assert_eq!((&found, found_late), (&pairs, late), "seed {seed}, {variant:?}\n{}", sql(""));
        }
    }
}

/// Rows of one time of two sources have no place of their own: their content decides, wherever they arrive first.
#[test]
fn rows_without_a_place_stand_the_same_every_time() {
    for seed in 0..CASES / 4 {
        let random = &mut StdRng::seed_from_u64(seed);
        let streams = [Stream::random(random, 0, 2), Stream::random(random, 10_000, 2)];
        let streams = &streams.each_ref();
        let sql =
            "SELECT id, count(*) OVER w, sum(v) FILTER (WHERE v > 3) OVER w, lag(id) OVER (PARTITION BY k ORDER BY ts)
                   FROM (SELECT ts, k, v, id FROM a UNION ALL SELECT ts, k, v, id FROM b)
                   WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)";
        let [first, others @ ..] = variants(seed);
        let (expected, late) = run(streams, 0, sql, first);
        let late_rows = late as usize;
        Check { seed, streams, allowed: 0, sql, expected: &expected, is_in_order: false, late: late_rows }.eager();
        for variant in others {
            let (mut found, found_late) = run(streams, 0, sql, variant);
            let mut expected = expected.clone();
            if variant.3 == "arrival" {
                found.sort();
                expected.sort();
            }
            let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            assert_eq!(differs, None, "seed {seed}, {variant:?}");
            assert_eq!((found.len(), found_late), (expected.len(), late), "seed {seed}, {variant:?}");
        }
    }
}

/// A million keys, each with one row in either stream, which meet for two keys of three.
#[test]
fn a_million_keys_have_their_rows_each() {
    const KEYS: i64 = 1_000_000;
    // A row of the other stream is at the time of its key's row, or half a second before, or two seconds.
    let behind = |key: i64| [0, 500_000, 2_000_000][key as usize % 3];
    let stream = |behind: &dyn Fn(i64) -> i64| -> Vec<RecordBatch> {
        let batch = |keys: std::ops::Range<i64>| {
            let times = TimestampMicrosecondArray::from_iter_values(keys.clone().map(|key| key * 3 - behind(key)));
            let columns: [(_, ArrayRef); 2] =
                [("k", Arc::new(Int64Array::from_iter_values(keys))), ("ts", Arc::new(times))];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        (0..KEYS / 10_000).map(|number| batch(number * 10_000..(number + 1) * 10_000)).collect()
    };
    let memory = Memory::default();
    memory.put("a", Memory::preallocated(&[stream(&|_| 0)]).unwrap()).unwrap();
    memory.put("b", Memory::preallocated(&[stream(&behind)]).unwrap()).unwrap();
    let over = "SELECT k, count(*) OVER w FROM a WINDOW w AS (UNION b PARTITION BY k ORDER BY ts
                ROWS_RANGE BETWEEN 1s PRECEDING AND CURRENT ROW EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW)";
    let join = "SELECT a.k, CASE WHEN b.k IS NULL THEN 0 ELSE 1 END FROM a LEFT JOIN b ON a.k = b.k
                AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts";
    for (sql, parallelism) in [(over, 1), (over, 3), (join, 2)] {
        let mut engine = Engine::with_connectors(vec![Arc::new(memory.clone())]);
        engine.sql(&format!("SET 'parallelism' = '{parallelism}'")).unwrap();
        for name in ["a", "b"] {
            let table = format!("CREATE TABLE {name} (WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)");
            engine.sql(&format!("{table} WITH ('connector' = 'memory', 'stream' = '{name}')")).unwrap();
        }
        let mut next = 0;
        for batch in engine.sql(sql).unwrap() {
            let batch = batch.unwrap();
            let [keys, counts] = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>().values());
            for (key, count) in keys.iter().zip(counts) {
                assert_eq!((*key, *count), (next, i64::from(next % 3 != 2)), "{parallelism} instances: {sql}");
                next += 1;
            }
        }
        assert_eq!(next, KEYS, "{parallelism} instances: {sql}");
    }
}
