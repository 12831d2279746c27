//! What an operator keeps, and what it does at once, is bounded.

use super::*;

/// An operator with the first of all aggregates over rows from some time before each row on, after so many rows.
fn after(count: i64, from: Option<i64>, aggregates: usize) -> Over {
    after_of(count, FrameBounds::Range { from: from.map(Interval), to: Interval(0) }, aggregates)
}

/// The same of any frame that looks back.
fn after_of(count: i64, bounds: FrameBounds, aggregates: usize) -> Over {
    let results = (0..aggregates).map(|i| Field::new(format!("a{i}"), DataType::Int64, true));
    let output: Vec<Field> = fields().into_iter().take(1).chain(results).collect();
    let frame = Frame { bounds, most: None, excludes_row: false, excludes_time: false, excludes_base: false };
    let parts = over::Parts {
        passes: vec![0],
        ..asked(
            vec![over::OverInput { input: input(), calls: calls().into_iter().take(aggregates).collect() }],
            vec![(frame, aggregates)],
            Arc::new(Schema::new(output)),
            100,
        )
    };
    let (mut over, mut out) = (Over::new(parts).unwrap(), Output::new(1 << 20));
    for first in (0..count).step_by(100) {
        let row = |time: i64| Row { time, key: Some(time % 7), value: Some(1), position: time };
        let rows: Vec<Row> = (first..first + 100).map(row).collect();
        over.on_batch(0, batch(&rows), &mut out).unwrap();
        let mut frontier = Frontier::new(1);
        frontier.advance(0, Timestamp(first + 100));
        let mut progress = over.on_time(&frontier, &mut out).unwrap();
        while progress == Progress::More {
            progress = over.resume(&mut out).unwrap();
        }
        let batches = out.take(1 << 20);
        let last = batches.last().unwrap().1.columns();
        let sums = last.column(2).as_primitive::<Int64Type>();
        let before = (first + 99) / 7;
        let seen = match bounds {
            FrameBounds::Range { from, .. } => from.map_or(before, |from| before.min(-from.0 / 7)) + 1,
            FrameBounds::Rows { from, to } => {
                from.map_or(before + 1, |from| from as i64 + 1).min(before + 1) - (to as i64).min(before + 1)
            }
        };
        assert_eq!(sums.value(sums.len() - 1), seen, "as many rows as it sees of its key");
    }
    over
}

/// Of a frame without a beginning the state has the size of the keys, however many rows there were.
#[test]
fn rows_that_are_seen_for_ever_go_and_what_they_come_to_stays() {
    let last = |from, to| FrameBounds::Rows { from, to };
    for bounds in [
        FrameBounds::Range { from: None, to: Interval(0) },
        last(None, 0),
        last(None, 5),
        last(Some(9), 0),
        last(Some(9), 4),
    ] {
        // Times are counted where the frame has all rows of a time or none; else their values stay.
        let aggregates = if matches!(bounds, FrameBounds::Range { .. }) { 4 } else { 3 };
        let [few, many] = [2_000, 200_000].map(|count| after_of(count, bounds, aggregates).state().unwrap().bytes());
        assert!(many < 2 * few, "{bounds:?}: {few} bytes after 2,000 rows, {many} after 200,000");
    }
}

/// Of rows that stand in lines by their times and totals alone nothing else is kept.
#[test]
fn rows_are_given_back_once_their_totals_are_known() {
    let [few, many] = [4_000, 200_000].map(|count| {
        let mut over = after(count, Some(-2_100), 2);
        assert!(over.lines.is_light());
        over.state().unwrap().bytes()
    });
    assert!(many < 2 * few, "{few} bytes after 4,000 rows, {many} after 200,000");
}

#[test]
fn what_nobody_can_see_any_more_takes_no_memory() {
    let output: SchemaRef = {
        let whole = (0..4).map(|i| Field::new(format!("a{i}"), DataType::Int64, true)).collect();
        Arc::new(Schema::new([fields(), whole].concat()))
    };
    let frame = Frame {
        bounds: FrameBounds::Range { from: Some(Interval(-50)), to: Interval(0) },
        most: None,
        excludes_row: false,
        excludes_time: false,
        excludes_base: false,
    };
    let over = |output: SchemaRef| {
        let calls = || calls().into_iter().take(output.fields().len() - fields().len()).collect::<Vec<_>>();
        let over = || over::OverInput { input: input(), calls: calls() };
        asked(vec![over(), over()], vec![(frame.clone(), calls().len())], output, 1000)
    };
    let pair: SchemaRef = Arc::new(Schema::new([fields(), fields()].concat()));
    let types: Vec<_> = fields().iter().map(|field| field.data_type().clone()).collect();
    let join = |output: SchemaRef| join::Parts {
        kind: JoinKind::Full,
        inputs: [input(), input()],
        input_of: vec![0, 1],
        types: [types.clone(), types.clone()],
        key_types: vec![DataType::Int64],
        distance: Distance { from: Interval(-50), to: Interval(50) },
        condition: None,
        output,
        batch_rows: 1000,
        key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
        has_positions: false,
        allowed: Interval(0),
        index: JoinIndex::Auto,
        tells_spoilt: false,
    };
    let final_over = || Box::new(Over::new(over(Arc::clone(&output))).unwrap()) as Box<dyn Operator>;
    // All columns, a count, and a sum.
    let sums: SchemaRef = Arc::new(output.project(&(0..fields().len() + 2).collect::<Vec<_>>()).unwrap());
    let final_sums = || Box::new(Over::new(over(Arc::clone(&sums))).unwrap()) as Box<dyn Operator>;
    let eager_over = || Box::new(EagerOver::new(over(with_op(&output))).unwrap()) as Box<dyn Operator>;
    let final_join = || Box::new(IntervalJoin::new(join(Arc::clone(&pair))).unwrap()) as Box<dyn Operator>;
    let eager_join = || Box::new(EagerJoin::new(join(with_op(&pair))).unwrap()) as Box<dyn Operator>;
    let all: [&dyn Fn() -> Box<dyn Operator>; 5] = [&final_over, &final_sums, &final_join, &eager_over, &eager_join];
    // Few keys again and again, and keys that come once more.
    for keys in [10, 1_000_000] {
        for (number, make) in all.into_iter().enumerate() {
            let mut team = Team::new(make, 1);
            let bytes = |team: &mut Team<'_>| team.members[0].state().unwrap().bytes();
            for step in 0..400 {
                for port in 0..2 {
                    let row = |i: i64| {
                        let time = step * 100 + i;
                        let key = if keys == 10 { (time * 7 + 3) % keys } else { (time / 50 + 1) / 2 * 50 + time % 50 };
                        Row { time, key: Some(key), value: Some(i), position: time }
                    };
                    team.put(port, &(0..100).map(row).collect::<Vec<_>>(), 5000);
                    team.advance(port, Timestamp(step * 100 + 100), 5000);
                }
                if keys > 10 && number < 2 {
                    // Each sees itself, the row of its time in the other input, and those of 50 before if these have its key.
                    let is_right = |row: &String| {
                        let values: Vec<i64> = row.split(' ').take(5).map(|value| value.parse().unwrap()).collect();
                        values[4] == if values[0] > 50 && values[0] % 100 < 50 { 4 } else { 2 }
                    };
                    assert!(team.found[0].iter().all(is_right), "step {step}: {:?}", team.found[0]);
                }
                team.found[0].clear();
                assert!(bytes(&mut team) < 3_000_000, "{keys} keys, step {step}: {} bytes", bytes(&mut team));
            }
            for later in 0..2000 {
                (0..2).for_each(|port| team.advance(port, Timestamp(60_000 + later), 5000));
                team.catch_up(5000);
            }
            assert_eq!(team.members[0].state().unwrap().held(), [], "{keys} keys: all rows are gone");
            assert!(bytes(&mut team) < 1_200_000, "{keys} keys: {} bytes", bytes(&mut team));
        }
    }
}

/// Of a row that sees very many others not much is done at once, even if nothing comes out for long.
#[test]
fn a_row_that_sees_very_many_others_lets_others_work() {
    // As it is for tests.
    const TURN: u64 = 128;
    let members = 100 * TURN as i64;
    let pair: SchemaRef = Arc::new(Schema::new([fields(), fields()].concat()));
    let types: Vec<_> = fields().iter().map(|field| field.data_type().clone()).collect();
    let parts = |output: &SchemaRef, kind| join::Parts {
        kind,
        inputs: [input(), input()],
        input_of: vec![0, 1],
        types: [types.clone(), types.clone()],
        key_types: vec![DataType::Int64],
        distance: Distance { from: Interval(-members), to: Interval(0) },
        // It never holds.
        condition: Some(Condition { predicate: Arc::new(Less), pair: Arc::clone(&pair) }),
        output: Arc::clone(output),
        batch_rows: 50,
        key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
        has_positions: false,
        allowed: Interval(0),
        index: JoinIndex::Auto,
        tells_spoilt: false,
    };
    let left: SchemaRef = Arc::new(Schema::new(fields()));
    let results = [fields(), vec![Field::new("a", DataType::Int64, true)]].concat();
    let frame = Frame {
        bounds: FrameBounds::Range { from: Some(Interval(-members)), to: Interval(0) },
        most: None,
        excludes_row: false,
        excludes_time: false,
        excludes_base: false,
    };
    let over = || over::OverInput { input: input(), calls: calls()[2..3].to_vec() };
    let over = asked(vec![over(), over()], vec![(frame, 1)], Arc::new(Schema::new(results)), 50);
    let join = |kind, output| Box::new(IntervalJoin::new(parts(output, kind)).unwrap()) as Box<dyn Operator>;
    let all: [(&str, Box<dyn Operator>, usize); 5] = [
        ("inner", join(JoinKind::Inner, &pair), 0),
        ("semi", join(JoinKind::Semi, &left), 0),
        ("full", join(JoinKind::Full, &pair), 1 + members as usize),
        ("eager", Box::new(EagerJoin::new(parts(&with_op(&pair), JoinKind::Inner)).unwrap()), 0),
        ("over", Box::new(Over::new(over).unwrap()), 1),
    ];
    for (name, mut operator, expected) in all {
        let mut out = Output::new(50);
        let (mut calls, mut visited, mut rows) = (0, 0, 0);
        let mut go_on = |operator: &mut dyn Operator, mut progress: Progress, out: &mut Output| loop {
            let search = out.take_search();
            // Both ends of what it sees are found at once, and have passed all rows in between.
            let passed = members as u64;
            let looked = if search.visited >= passed { search.visited - passed } else { search.visited };
            assert!(looked <= 3 * TURN, "{name}: {looked} rows were looked at in one call");
            (calls, visited) = (calls + 1, visited + looked);
            rows += out.take(50).iter().map(|(_, batch)| batch.len()).sum::<usize>();
            match progress {
                Progress::More => progress = operator.resume(out).unwrap(),
                _ => break,
            }
        };
        let other = |time: i64| Row { time, key: Some(1), value: Some(-5), position: time };
        for first in (0..members).step_by(TURN as usize) {
            let some: Vec<Row> = (first..first + TURN as i64).map(other).collect();
            let progress = operator.on_batch(1, batch(&some), &mut out).unwrap();
            go_on(operator.as_mut(), progress, &mut out);
        }
        let progress = operator.on_batch(0, batch(&[Row { value: Some(5), ..other(members) }]), &mut out).unwrap();
        go_on(operator.as_mut(), progress, &mut out);
        let mut frontier = Frontier::new(2);
        assert_eq!([0, 1].map(|port| frontier.advance(port, Timestamp::MAX)), [false, true]);
        let progress = operator.on_time(&frontier, &mut out).unwrap();
        go_on(operator.as_mut(), progress, &mut out);
        assert_eq!(rows, expected, "{name}");
        assert!(visited >= members as u64, "{name}: {visited} rows were looked at");
        assert!(calls >= 100 + members as u64 / (3 * TURN), "{name}: {calls} calls");
    }
}

/// What follows very long windows from batch to batch is told of all rows bit by bit, and comes into its first window bit by bit.
#[test]
fn windows_of_very_many_rows_are_entered_bit_by_bit() {
    // As they are for tests: so many rows are looked at in a call, and told of for each batch.
    const TURN: u64 = 128;
    const TOLD: i64 = 64;
    let (members, bases) = (30 * TOLD, 40);
    let kind = DataType::Int64;
    let signature = Signature {
        name: "median",
        arguments: std::slice::from_ref(&kind),
        is_distinct: false,
        output: &kind,
        exact_floats: true,
    };
    let call =
        || Call { function: native(&signature).unwrap(), arguments: vec![Arc::new(Column(2)) as _], filter: None };
    let frame = Frame {
        bounds: FrameBounds::Range { from: Some(Interval(-members - bases)), to: Interval(0) },
        most: None,
        excludes_row: false,
        excludes_time: false,
        excludes_base: true,
    };
    let results = [fields(), vec![Field::new("a", DataType::Int64, true)]].concat();
    let mut operator = Over::new(asked(
        vec![over::OverInput { input: input(), calls: vec![call()] }; 2],
        vec![(frame, 1)],
        Arc::new(Schema::new(results)),
        50,
    ))
    .unwrap();
    let (mut out, mut frontier, mut looked) = (Output::new(50), Frontier::new(2), Vec::new());
    let some: Vec<Row> =
        (0..members).map(|time| Row { time, key: Some(1), value: Some(time), position: time }).collect();
    operator.on_batch(1, batch(&some), &mut out).unwrap();
    for time in members..members + bases {
        // Two see nearly all rows, which is less to look at together than twice.
        let row = Row { time, key: Some(1), value: None, position: time };
        operator.on_batch(0, batch(&[row, row]), &mut out).unwrap();
        (0..2).for_each(|port| {
            frontier.advance(port, Timestamp(time + 1));
        });
        let mut progress = operator.on_time(&frontier, &mut out).unwrap();
        let (mut visited, mut found) = (0, 0);
        loop {
            let search = out.take_search();
            visited += search.visited;
            // At first both ends of windows have passed all rows.
            assert!(search.visited <= 4 * TURN + members as u64 * u64::from(time == members), "{search:?}");
            for (_, batch) in out.take(50) {
                let medians = batch.column(fields().len()).as_primitive::<Int64Type>();
                assert!(medians.iter().all(|median| median == Some((members - 1) / 2)), "{medians:?}");
                found += batch.len();
            }
            match progress {
                Progress::More => progress = operator.resume(&mut out).unwrap(),
                _ => break,
            }
        }
        assert_eq!(found, 2);
        looked.push(visited);
    }
    let first = looked.iter().position(|visited| *visited < members as u64);
    assert!(first.is_some_and(|first| first >= 25), "windows are followed once all rows are known: {looked:?}");
    assert!(looked[39] < 10, "{looked:?}");
}

/// Where batches have a row each, windows of many rows are not looked at one by one, and results come out in such batches.
#[test]
fn windows_of_many_rows_are_looked_at_together_however_few_rows_a_batch_has() {
    let results = [fields(), vec![Field::new("a", DataType::Int64, true)]].concat();
    let frame = Frame {
        bounds: FrameBounds::Rows { from: None, to: 0 },
        most: None,
        excludes_row: false,
        excludes_time: false,
        excludes_base: false,
    };
    let input = over::OverInput { input: input(), calls: calls()[2..3].to_vec() };
    let asked = |batch_rows, has_positions| {
        let output = Arc::new(Schema::new(results.clone()));
        over::Parts { has_positions, ..asked(vec![input.clone()], vec![(frame.clone(), 1)], output, batch_rows) }
    };
    for (batch_rows, has_positions) in [(1, false), (1, true), (3, true)] {
        let (mut over, mut out) = (Over::new(asked(batch_rows, has_positions)).unwrap(), Output::new(50));
        let row = |time: i64| Row { time, key: Some(1), value: Some(1000 - time), position: time };
        over.on_batch(0, batch(&(0..1000).map(row).collect::<Vec<_>>()), &mut out).unwrap();
        let mut frontier = Frontier::new(1);
        frontier.advance(0, Timestamp::MAX);
        let mut progress = over.on_time(&frontier, &mut out).unwrap();
        let mut found = 0;
        loop {
            for (_, batch) in out.take(50) {
                assert!(batch.len() <= batch_rows);
                let least = batch.column(fields().len()).as_primitive::<Int64Type>();
                let of_times: Vec<i64> = least.values().iter().map(|least| 1000 - least).collect();
                assert_eq!(of_times, (found..found + batch.len() as i64).collect::<Vec<_>>());
                let times = batch.positions().map(|positions| positions.times().unwrap().to_vec());
                assert_eq!(times, has_positions.then_some(of_times));
                found += batch.len() as i64;
            }
            match progress {
                Progress::More => progress = over.resume(&mut out).unwrap(),
                _ => break,
            }
        }
        assert_eq!(found, 1000);
        // As it is for tests.
        assert!(over.at_once >= 16, "{} are looked at together", over.at_once);
    }
}
