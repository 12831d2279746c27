//! Which results come out when, and how they are corrected.

use std::{ops::Range, sync::Arc};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use thalweg_core::{
    Batch, Error, Interval, KeyGroups, Operator, Output, Progress, PutOff, Result, Timestamp, expression::Expression,
};
use thalweg_plan::{
    node::{Distance, FrameBounds, JoinKind},
    settings::JoinIndex,
};

use super::{
    super::{
        Frame, join,
        over::{self, Corrected},
        tests::{KEY_GROUPS, Row, Team, batch, calls, fields, folded, input, with_op},
    },
    EagerJoin, EagerOver,
};

/// Key 1, with the time for its position.
fn row(time: i64, value: i64) -> Row {
    Row { time, key: Some(1), value: Some(value), position: time }
}

/// The sum over rows at most 3 earlier, of the rows of input 0, which see each other and those of input 1.
fn over(batch_rows: usize) -> Box<dyn Operator> {
    over_results(batch_rows, None)
}

/// The same, where rows of input 0 may be corrected.
fn over_results(batch_rows: usize, corrected: Option<Corrected>) -> Box<dyn Operator> {
    Box::new(EagerOver::new(parts(batch_rows, corrected)).unwrap())
}

fn parts(batch_rows: usize, corrected: Option<Corrected>) -> over::Parts {
    let frame = Frame {
        bounds: FrameBounds::Range { from: Some(Interval(-3)), to: Interval(0) },
        most: None,
        excludes_row: false,
        excludes_time: false,
        excludes_base: false,
    };
    let of_input = || over::OverInput { input: input(), calls: vec![calls().swap_remove(1)] };
    let [sum, result] = ["sum", "result"].map(|name| Field::new(name, DataType::Int64, true));
    let (mut passes, mut output) = (vec![0], vec![fields()[0].clone()]);
    if corrected.is_some() {
        passes.push(4);
        output.push(result);
    }
    output.push(sum);
    over::Parts {
        inputs: vec![of_input(), of_input()],
        input_of: vec![0, 1],
        key_types: vec![DataType::Int64],
        passes,
        frames: vec![(frame, 1)],
        paired: Vec::new(),
        output: with_op(&Schema::new(output)),
        batch_rows,
        key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
        divided_by: vec![0],
        has_positions: false,
        are_in_order: true,
        allowed: Interval(0),
        is_incremental: true,
        tells_spoilt: false,
        partners: None,
        of_results: false,
        corrected,
    }
}

/// A join of rows at most 2 apart.
fn join(kind: JoinKind) -> Box<dyn Operator> {
    let types: Vec<_> = fields().iter().map(|field| field.data_type().clone()).collect();
    let only_left = matches!(kind, JoinKind::Semi | JoinKind::Anti);
    let columns = if only_left { fields() } else { [fields(), fields()].concat() };
    let parts = join::Parts {
        kind,
        inputs: [input(), input()],
        input_of: vec![0, 1],
        types: [types.clone(), types],
        key_types: vec![DataType::Int64],
        distance: Distance { from: Interval(-2), to: Interval(2) },
        condition: None,
        output: with_op(&Schema::new(columns)),
        batch_rows: 1000,
        key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
        has_positions: false,
        allowed: Interval(0),
        index: JoinIndex::Auto,
        tells_spoilt: false,
    };
    Box::new(EagerJoin::new(parts).unwrap())
}

/// What has come out since this was last asked, and what comes out when nothing else is to be done.
fn new(team: &mut Team<'_>) -> Vec<String> {
    while !team.catch_up(3) {}
    std::mem::take(&mut team.found[0])
}

#[test]
fn many_first_answers_wait_for_what_has_come_and_corrections_for_more() {
    let make = || over(1000);
    let team = &mut Team::new(&make, 1);
    let found = |team: &mut Team<'_>| std::mem::take(&mut team.found[0]);
    team.put(0, &[row(1, 1), row(5, 2)], 3);
    assert_eq!(found(team), Vec::<String>::new(), "more may have come");
    team.catch_up(3);
    assert_eq!(found(team), ["1 1 +I", "5 2 +I"]);
    team.put(1, &[row(3, 10)], 3);
    team.put(1, &[row(4, 20)], 3);
    team.put(0, &[row(6, 4)], 3);
    assert_eq!(found(team), ["6 36 +I"], "one row is answered at once");
    assert_eq!(new(team), ["5 2 -U", "5 32 +U"], "two rows changed it, and it is corrected once");
    team.put(0, &[row(20, 1), row(21, 1)], 3);
    team.put(0, &[row(22, 1)], 3);
    assert_eq!(found(team), Vec::<String>::new(), "one that comes behind others waits with them");
    assert_eq!(new(team), ["20 1 +I", "21 2 +I", "22 3 +I"]);
    team.put(1, &[row(2, 100)], 3);
    // Time passes what has changed, which is right before it is forgotten, and before others hear of that.
    [0, 1].into_iter().for_each(|port| team.advance(port, Timestamp(6), 3));
    team.put(1, &[row(7, 0)], 3);
    assert_eq!(team.found[0], Vec::<String>::new());
    assert!(team.held < Timestamp(6));
    assert_eq!(new(team), ["5 32 -U", "5 132 +U"]);
    assert_eq!(team.held, Timestamp(6));
}

#[test]
fn many_rows_wait_for_no_more_and_nothing_is_kept_of_what_is_final() {
    let make = || over(1000);
    let team = &mut Team::new(&make, 1);
    // Once so many have come it is settled what is final, and the others are answered once there are 64 of them.
    let rows: Vec<Row> = (0..90).map(|time| row(time, 1)).collect();
    let advance = |team: &mut Team<'_>, time: i64| (0..2).for_each(|port| team.advance(port, Timestamp(time), 100));
    let held = |team: &mut Team<'_>| {
        let held = team.members[0].state().unwrap().held();
        held.iter().map(|held| (held.count, held.names[1])).collect::<Vec<_>>()
    };
    team.put(1, &rows[..20], 100);
    team.put(0, &rows[..20], 100);
    advance(team, 15);
    assert_eq!((team.found[0].len(), team.held), (0, Timestamp::MIN));
    team.put(0, &rows[20..30], 100);
    advance(team, 21);
    assert_eq!((team.found[0].len(), team.held), (21, Timestamp(21)));
    assert_eq!(team.found[0].last().map(String::as_str), Some("20 7 +I"));
    assert_eq!(held(team), [(2 + 12, "rows that may be seen"), (9, "rows whose results may change")]);
    team.put(0, &rows[30..84], 100);
    assert_eq!(team.found[0].len(), 21);
    team.put(0, &rows[84..86], 100);
    assert_eq!((team.found[0].len(), team.held), (86, Timestamp(21)));
    assert_eq!(held(team), [(2 + 68, "rows that may be seen"), (65, "rows whose results may change")]);
    assert_eq!(new(team).len(), 86);
}

#[test]
fn what_was_answered_early_is_soon_forgotten_once_it_is_final_where_others_are_final_at_once() {
    let make = || over(1000);
    let team = &mut Team::new(&make, 1);
    let advance = |team: &mut Team<'_>, time: i64| (0..2).for_each(|port| team.advance(port, Timestamp(time), 5000));
    let put = |team: &mut Team<'_>, times: Range<i64>| {
        team.put(0, &times.map(|time| row(time, 1)).collect::<Vec<_>>(), 5000);
    };
    put(team, 0..2000);
    assert_eq!(new(team).len(), 2000);
    put(team, 2000..2050);
    advance(team, 1000);
    let mut given = Vec::new();
    for time in (2050..2650).step_by(50) {
        advance(team, time);
        let held = team.members[0].state().unwrap().held();
        given.extend(held.iter().find(|held| held.names[1].contains("change")).map(|held| held.count));
        put(team, time..time + 50);
    }
    // The last rows among them wait for their first answer.
    assert!(given.starts_with(&[1050]) && given.ends_with(&[0]), "{given:?}");
}

#[test]
fn a_row_is_answered_at_once_and_corrected_where_one_comes_that_it_sees() {
    for batch_rows in [1, 2, 1000] {
        let make = || over(batch_rows);
        let team = &mut Team::new(&make, 1);
        team.put(0, &[row(1, 1), row(5, 2)], 3);
        assert_eq!(new(team), ["1 1 +I", "5 2 +I"]);
        // It is seen by the row at 5, and sees that at 1.
        team.put(0, &[row(3, 4)], 3);
        assert_eq!(new(team), ["3 5 +I", "5 2 -U", "5 6 +U"]);
        // Two rows of another input at once: each result is corrected once.
        team.put(1, &[row(2, 10), row(4, 20)], 3);
        assert_eq!(new(team), ["3 5 -U", "3 15 +U", "5 6 -U", "5 36 +U"]);
        // What does not change a result says nothing.
        team.put(1, &[row(4, 0), row(9, 7)], 3);
        assert_eq!(new(team), Vec::<String>::new());
        team.restart();
        // The watermark passes 4: rows at 3 are final, and that at 5 is not.
        [0, 1].into_iter().for_each(|port| team.advance(port, Timestamp(4), 3));
        team.put(1, &[row(4, 100)], 3);
        assert_eq!(new(team), ["5 36 -U", "5 136 +U"]);
        [0, 1].into_iter().for_each(|port| team.advance(port, Timestamp::MAX, 3));
        assert_eq!(new(team), Vec::<String>::new(), "all has been said");
    }
}

/// The value of a row, if it has one.
#[derive(Debug)]
struct Value;

impl Expression for Value {
    fn evaluate(&self, batch: &Batch) -> Result<ArrayRef> {
        let values = batch.column(2);
        let is_missing = batch.rows().any(|row| values.is_null(row));
        if is_missing { Err(Error::data("no value")) } else { Ok(Arc::clone(values)) }
    }
}

#[test]
fn a_row_for_which_nothing_can_be_computed_is_an_error_of_those_that_wait_to_be_answered() {
    let make = || {
        let mut parts = parts(1000, None);
        parts.inputs[1].calls[0].arguments = vec![Arc::new(Value)];
        EagerOver::new(parts).unwrap()
    };
    let bad = |time: i64| batch(&[Row { value: None, ..row(time, 0) }]);
    let waiting = || {
        let mut operator = make();
        let rows = batch(&[row(1, 1), row(5, 2)]);
        assert_eq!(operator.on_batch(0, rows, &mut Output::new(10)).unwrap(), Progress::Done);
        assert!(matches!(operator.put_off(), PutOff::Now(1..)), "they are not answered yet");
        operator
    };
    for (time, is_seen) in [(0, true), (2, true), (4, true), (6, false)] {
        let found = waiting().on_batch(1, bad(time), &mut Output::new(10));
        assert_eq!(found.is_err(), is_seen, "at {time}: {found:?}");
    }
}

/// Rows with a result of another window, and what becomes of them.
fn results(rows: &[(Row, i64, &str)]) -> Batch {
    let plain: Vec<Row> = rows.iter().map(|(row, ..)| *row).collect();
    let result: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, result, _)| *result)));
    let ops: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(.., op)| *op)));
    let columns = batch(&plain).columns().columns().iter().cloned().chain([result, ops]).collect::<Vec<_>>();
    let named = columns.into_iter().enumerate().map(|(number, column)| (number.to_string(), column, true));
    Batch::new(RecordBatch::try_from_iter_with_nullable(named).unwrap())
}

#[test]
fn what_is_corrected_passes_at_once_and_moves_no_row() {
    let make = || over_results(1000, Some(Corrected { op: 5, columns: vec![1] }));
    for room in [1, 100] {
        let team = &mut Team::new(&make, 1);
        let put = |team: &mut Team<'_>, rows: &[(Row, i64, &str)]| {
            let rows = results(rows);
            team.call(0, room, |operator, out| operator.on_batch(0, rows.clone(), out));
            std::mem::take(&mut team.found[0])
        };
        // A row may come with what it was corrected to: no row is corrected before it is there.
        let first = [(row(1, 1), 70, "+I"), (row(5, 2), 80, "+I"), (row(5, 2), 80, "-U"), (row(5, 2), 81, "+U")];
        assert_eq!(put(team, &first), ["1 70 1 +I", "5 80 2 +I", "5 80 2 -U", "5 81 2 +U"]);
        // Of several corrections the last counts, and one that changes nothing says nothing.
        let twice = [(row(1, 1), 71, "+U"), (row(5, 2), 81, "+U"), (row(1, 1), 72, "+U")];
        assert_eq!(put(team, &twice), ["1 70 1 -U", "1 72 1 +U"]);
        assert_eq!(new(team), Vec::<String>::new(), "no sum has changed");
        team.restart();
        team.put(1, &[row(4, 10)], room);
        assert_eq!(new(team), ["5 81 2 -U", "5 81 12 +U"], "with what was said last");
        [0, 1].into_iter().for_each(|port| team.advance(port, Timestamp::MAX, room));
        assert_eq!(new(team), Vec::<String>::new());
    }
}

#[test]
fn who_answered_for_a_row_corrects_it_and_others_that_share_its_key_do_not() {
    let make = || over_results(1000, Some(Corrected { op: 5, columns: vec![1] }));
    let team = &mut Team::new(&make, 1);
    let put = |team: &mut Team<'_>, rows: &[(Row, i64, &str)], own: Range<usize>| {
        let rows = results(rows).with_own(own);
        team.call(0, 100, |operator, out| operator.on_batch(0, rows.clone(), out));
        new(team)
    };
    let (one, other) = (row(1, 1), row(5, 2));
    assert_eq!(put(team, &[(one, 70, "+I"), (other, 80, "+I")], 0..1), ["1 70 1 +I"]);
    // Whose turn it is to answer for what is new says nothing of what is corrected.
    let both = [(one, 70, "-U"), (one, 71, "+U"), (other, 80, "-U"), (other, 81, "+U")];
    for own in [2..4, 0..4, 0..0] {
        let found = put(team, &both, own.clone());
        assert_eq!(found, if own.start == 2 { vec!["1 70 1 -U", "1 71 1 +U"] } else { Vec::new() });
    }
    assert_eq!(put(team, &[(other, 81, "-U"), (other, 82, "+U")], 0..2), Vec::<String>::new());
    // But it is seen.
    assert_eq!(put(team, &[(row(7, 30), 90, "+I")], 0..1), ["7 90 32 +I"]);
}

#[test]
fn a_row_that_is_corrected_while_it_is_to_be_looked_at_is_looked_at_once() {
    let make = || over_results(1000, Some(Corrected { op: 5, columns: vec![1] }));
    let team = &mut Team::new(&make, 1);
    let call = |team: &mut Team<'_>, rows: &[(Row, i64, &str)]| {
        let rows = results(rows);
        team.call(0, 100, |operator, out| operator.on_batch(0, rows.clone(), out));
    };
    call(team, &[5, 6, 7, 8].map(|time| (row(time, 1), 0, "+I")));
    team.catch_up(100);
    // Of four rows that see this one three are looked at, and one is left, whose turn it is next.
    team.put(1, &[row(5, 10)], 100);
    assert!(!team.catch_up(100));
    call(team, &[5, 6, 7, 8].map(|time| (row(time, 1), 9, "+U")));
    // Another one comes that all of them see, and time passes all.
    team.put(1, &[row(5, 100)], 100);
    [0, 1].into_iter().for_each(|port| team.advance(port, Timestamp::MAX, 100));
    assert!(team.catch_up(100));
    assert_eq!(folded(team.found[0].clone()), ["5 9 111", "6 9 112", "7 9 113", "8 9 114"]);
}

#[test]
fn a_row_without_a_partner_is_taken_back_when_its_first_one_comes() {
    let alone = |time: i64, value: i64| format!("{time} 1 {value} {time}");
    let pair = |left: &str, right: &str| format!("{left} {right} +I");
    let (none, left, one, two) = ("- - - -", alone(5, 1), alone(4, 2), alone(6, 3));
    let of = |kind: JoinKind| {
        let make = || join(kind);
        let team = &mut Team::new(&make, 1);
        team.put(0, &[row(5, 1)], 100);
        let first = new(team);
        team.restart();
        team.put(1, &[row(4, 2), row(6, 3), row(9, 4)], 100);
        (first, new(team))
    };
    let nothing: Vec<String> = Vec::new();
    let pairs = vec![pair(&left, &one), pair(&left, &two)];
    assert_eq!(of(JoinKind::Inner), (nothing.clone(), pairs.clone()));
    let (padded, back) = (format!("{left} {none} +I"), format!("{left} {none} -D"));
    let corrected = [vec![back], pairs.clone()].concat();
    assert_eq!(of(JoinKind::Left), (vec![padded.clone()], corrected.clone()));
    let lonely = format!("{none} {} +I", alone(9, 4));
    assert_eq!(of(JoinKind::Right), (nothing.clone(), [pairs, vec![lonely.clone()]].concat()));
    assert_eq!(of(JoinKind::Full), (vec![padded], [corrected, vec![lonely]].concat()));
    assert_eq!(of(JoinKind::Semi), (nothing, vec![format!("{left} +I")]));
    assert_eq!(of(JoinKind::Anti), (vec![format!("{left} +I")], vec![format!("{left} -D")]));
}

#[test]
fn rows_whose_key_is_null_have_no_partners_and_are_not_kept() {
    let make = || join(JoinKind::Full);
    let team = &mut Team::new(&make, 1);
    let nobody = |time: i64| Row { key: None, ..row(time, 1) };
    (0..2).for_each(|port| team.put(port, &[nobody(3), nobody(4)], 1));
    assert_eq!(new(team), ["3 - 1 3 - - - - +I", "4 - 1 4 - - - - +I", "- - - - 3 - 1 3 +I", "- - - - 4 - 1 4 +I"]);
    assert_eq!(team.members[0].state().unwrap().held(), []);
}

#[test]
fn what_becomes_final_does_not_wait_for_corrections_that_take_long() {
    let make = || over(1000);
    let team = &mut Team::new(&make, 1);
    let put_off = |team: &Team<'_>| team.members[0].put_off();
    team.put(0, &[row(1, 1), row(5, 2)], 100);
    assert!(matches!(put_off(team), PutOff::Now(_)));
    team.catch_up(100);
    team.put(1, &[row(4, 10)], 100);
    assert_eq!(put_off(team), PutOff::Later, "a result may have changed");
    [0, 1].into_iter().for_each(|port| team.advance(port, Timestamp(4), 100));
    assert_eq!(put_off(team), PutOff::Soon, "another one is final");
    team.catch_up(100);
    assert_eq!((put_off(team), team.found[0].len()), (PutOff::Later, 2), "nothing is said anew");
    team.catch_up(100);
    assert_eq!((put_off(team), team.found[0].len()), (PutOff::Nothing, 4));
}
