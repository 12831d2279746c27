use arrow_array::{Array, cast::AsArray, types::*};
use thalweg_core::connector::Read;

use super::*;
use crate::testing::{host, read_all, table};

fn rows(columns: &str, options: &str, rows_at_once: usize) -> Vec<Vec<String>> {
    let source = Generator.source(&table(columns, options)).unwrap();
    let read = |p| read_all(&mut *source.open(p, host()).unwrap(), rows_at_once);
    (0..source.partitions().len()).map(read).collect()
}

fn error(columns: &str, options: &str) -> String {
    Generator.source(&table(columns, options)).err().unwrap().to_string()
}

const COLUMNS: &str = "a BIGINT, b STRING, c DOUBLE, d TIMESTAMP TIME, e BOOLEAN, f DECIMAL, g DATE, h INT, i TIME";

#[test]
fn neither_batches_nor_partitions_change_what_is_made() {
    let options = "number-of-rows=1000; seed=7; fields.a.null-rate=0.5; fields.d.disorder=1 s; fields.h.kind=sequence";
    let all = rows(COLUMNS, options, 4096).remove(0);
    assert_eq!(all.len(), 1000);
    for rows_at_once in [1, 7] {
        assert_eq!(rows(COLUMNS, options, rows_at_once).remove(0), all);
    }
    let parts = rows(COLUMNS, &format!("{options}; partitions=3"), 7);
    let merged = (0..1000).map(|n| parts[n % 3][n / 3].clone()).collect::<Vec<_>>();
    assert_eq!(merged, all);
    assert_ne!(rows(COLUMNS, &options.replace("seed=7", "seed=8"), 4096).remove(0), all);
}

#[test]
fn kinds_make_what_they_say() {
    let sequence = "fields.a.kind=sequence; fields.a.start=5; fields.a.step=-2; fields.a.end=0";
    assert_eq!(rows("a TINYINT", sequence, 10), [["5", "3", "1"]]);
    let times = "number-of-rows=3; fields.t.start=2013-01-01 10:00:00; fields.t.step=10 s";
    let expected = ["2013-01-01T10:00:00Z", "2013-01-01T10:00:10Z", "2013-01-01T10:00:20Z"];
    assert_eq!(rows("t TIMESTAMP", times, 10), [expected]);
    let choice = "number-of-rows=100; fields.s.kind=choice; fields.s.values=x, y,z";
    let chosen = rows("s STRING", choice, 100).remove(0);
    assert!(["x", "y", "z"].iter().all(|value| chosen.iter().any(|row| row == value)));
    let length = rows("s STRING", "number-of-rows=2; fields.s.length=30", 10).remove(0);
    assert!(length.iter().all(|s| s.len() == 30) && length[0] != length[1], "{length:?}");
    assert_eq!(rows("s STRING", "number-of-rows=1; fields.s.length=0", 10), [[""]]);
}

#[test]
fn random_values_keep_to_their_bounds_and_reach_them() {
    let options = "number-of-rows=5000; fields.a.min=-2; fields.a.max=2; fields.b.min=1.5; fields.b.max=2; \
                   fields.c.min=0.10; fields.c.max=0.12; fields.d.min=2013-01-01; fields.d.max=2013-01-02";
    let source = Generator.source(&table("a SMALLINT, b DOUBLE, c DECIMAL, d DATE", options)).unwrap();
    let Ok(Read::Rows(batch)) = source.open(0, host()).unwrap().read(5000) else { panic!("rows") };
    let integers = batch.column(0).as_primitive::<Int16Type>().values();
    assert_eq!((integers.iter().min(), integers.iter().max()), (Some(&-2), Some(&2)));
    assert!(batch.column(1).as_primitive::<Float64Type>().values().iter().all(|x| (1.5..=2.0).contains(x)));
    let decimals = batch.column(2).as_primitive::<Decimal128Type>().values();
    assert_eq!((decimals.iter().min(), decimals.iter().max()), (Some(&10), Some(&12)));
    let days = batch.column(3).as_primitive::<Date32Type>().values();
    assert_eq!(days.iter().max().unwrap() - days.iter().min().unwrap(), 1);
}

#[test]
fn the_widest_ranges_are_filled() {
    let columns = "a BIGINT, b BIGINT UNSIGNED, c DECIMAL, d DOUBLE";
    let options = "number-of-rows=100; fields.c.min=-9999999.99; fields.d.min=-8e307; fields.d.max=8e307";
    let all = rows(columns, options, 100).remove(0);
    assert!(all.iter().any(|row| row.starts_with('-')) && all.iter().any(|row| !row.starts_with('-')));
}

#[test]
fn disorder_sets_rows_back_by_no_more_than_it_says() {
    let options = "number-of-rows=10000; fields.t.step=1 ms; fields.t.disorder=50 ms";
    let source = Generator.source(&table("t TIMESTAMP", options)).unwrap();
    let Ok(Read::Rows(batch)) = source.open(0, host()).unwrap().read(10_000) else { panic!("rows") };
    let times = batch.column(0).as_primitive::<TimestampMicrosecondType>().values();
    let back = times.iter().enumerate().map(|(i, t)| i as i64 * 1000 - t).collect::<Vec<_>>();
    assert!(back.iter().all(|b| (0..=50_000).contains(b)));
    assert!(back.iter().any(|b| *b > 49_000) && back.iter().any(|b| *b < 1_000));
}

#[test]
fn it_ends_when_it_was_told_to() {
    let bounded = |options| Generator.source(&table("a BIGINT", options)).unwrap().is_bounded();
    assert!(!bounded(""));
    assert!(!bounded("fields.a.kind=sequence"));
    assert!(bounded("number-of-rows=0") && bounded("fields.a.kind=sequence; fields.a.end=9"));
    assert_eq!(rows("a BIGINT", "number-of-rows=0", 10), [[""; 0]]);
    assert_eq!(rows("a BIGINT", "number-of-rows=1; partitions=11", 10).concat().len(), 1);
    assert_eq!(rows("a TINYINT", "fields.a.kind=sequence; fields.a.start=-128", 100).concat().len(), 256);
}

#[test]
fn a_paced_source_waits_for_its_rows() {
    let source = Generator.source(&table("a BIGINT", "rows-per-second=1; number-of-rows=1000")).unwrap();
    let mut reader = source.open(0, host()).unwrap();
    let Ok(Read::Rows(first)) = reader.read(1000) else { panic!("the first row is due at once") };
    assert!(first.num_rows() < 1000);
    assert!(matches!(reader.read(1000), Ok(Read::Wait(Some(_)))));
}

#[test]
fn nulls_come_at_their_rate() {
    let source = Generator.source(&table("a BIGINT", "number-of-rows=10000; fields.a.null-rate=0.2")).unwrap();
    let Ok(Read::Rows(batch)) = source.open(0, host()).unwrap().read(10_000) else { panic!("rows") };
    assert!((1_800..2_200).contains(&batch.column(0).null_count()), "{}", batch.column(0).null_count());
}

#[test]
fn options_are_checked() {
    assert_eq!(
        error("a BIGINT", "fields.b.kind=random"),
        "option 'fields.b.kind' is for a column \"b\" that the table does not have"
    );
    assert_eq!(error("a BIGINT", "fields.a.length=3"), "option 'fields.a.length' does not go with this kind of column");
    assert_eq!(
        error("a TINYINT", "fields.a.max=300"),
        "option 'fields.a.max' is '300', expected a value of type TINYINT"
    );
    assert_eq!(error("a BIGINT", "fields.a.min=2; fields.a.max=1"), "the options 'fields.a.*' leave no value in range");
    assert_eq!(error("a BYTES", ""), "column \"a\" is BYTES, which kind 'random' cannot make");
    assert_eq!(error("a BIGINT", "fields.a.kind=choice"), "option 'fields.a.values' is missing");
    assert_eq!(
        error("a BIGINT", "fields.a.kind=choice; fields.a.values=1,x"),
        "option 'fields.a.values': \"x\" is not a value of type BIGINT"
    );
    assert_eq!(
        error("t TIMESTAMP TIME", "fields.t.null-rate=0.1"),
        "option 'fields.t.null-rate': the column carries event time"
    );
    assert_eq!(
        error("a BIGINT", "rows-per-second=0"),
        "option 'rows-per-second' is '0', expected a positive number such as '100' or '0.5'"
    );
    assert_eq!(error("a BIGINT", "partitions=0"), "option 'partitions' is '0', expected a number from 1 to 65536");
    assert_eq!(error("a BIGINT", "rows=3"), "unknown option 'rows'");
}
