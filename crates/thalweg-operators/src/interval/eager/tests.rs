//! Which results come out when, and how they are corrected.

use arrow_schema::{DataType, Field, Schema};
use thalweg_core::{Interval, KeyGroups, Operator, Timestamp};
use thalweg_plan::node::{Distance, FrameBounds, JoinKind};

use super::{
    super::{
        Frame, join, over,
        tests::{KEY_GROUPS, Row, Team, calls, fields, input, with_op},
    },
    EagerJoin, EagerOver,
};

/// Key 1, with the time for its position.
fn row(time: i64, value: i64) -> Row {
    Row { time, key: Some(1), value: Some(value), position: time }
}

/// The sum over rows at most 3 earlier, of the rows of input 0, which see each other and those of input 1.
fn over(batch_rows: usize) -> Box<dyn Operator> {
    let frame = Frame {
        bounds: FrameBounds::Range { from: Some(Interval(-3)), to: Interval(0) },
        most: None,
        excludes_row: false,
        excludes_time: false,
        excludes_base: false,
    };
    let of_input = || over::OverInput { input: input(), calls: vec![calls().swap_remove(1)] };
    let sum = Field::new("sum", DataType::Int64, true);
    let parts = over::Parts {
        inputs: vec![of_input(), of_input()],
        input_of: vec![0, 1],
        key_types: vec![DataType::Int64],
        passes: vec![0],
        frames: vec![(frame, 1)],
        output: with_op(&Schema::new(vec![fields()[0].clone(), sum])),
        batch_rows,
        key_groups: KeyGroups::new(KEY_GROUPS).unwrap(),
        divided_by: vec![0],
        has_positions: false,
        allowed: Interval(0),
        is_incremental: true,
    };
    Box::new(EagerOver::new(parts).unwrap())
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
    };
    Box::new(EagerJoin::new(parts).unwrap())
}

/// What has come out since this was last asked, and what comes out when nothing else is to be done.
fn new(team: &mut Team<'_>) -> Vec<String> {
    while !team.catch_up(3) {}
    std::mem::take(&mut team.found[0])
}

#[test]
fn corrections_wait_for_more_and_first_answers_do_not() {
    let make = || over(1000);
    let team = &mut Team::new(&make, 1);
    team.put(0, &[row(1, 1), row(5, 2)], 3);
    team.put(1, &[row(3, 10)], 3);
    team.put(1, &[row(4, 20)], 3);
    team.put(0, &[row(6, 4)], 3);
    assert_eq!(std::mem::take(&mut team.found[0]), ["1 1 +I", "5 2 +I", "6 36 +I"]);
    assert_eq!(new(team), ["5 2 -U", "5 32 +U"], "two rows changed it, and it is corrected once");
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
