//! Windows over unions of streams, and the clauses of OpenMLDB's windows.

use super::*;

#[test]
fn other_inputs_have_the_columns_that_are_read() {
    check(
        r#"
SELECT ts, origin, sum(delay) OVER w AS n, count(delay) OVER w AS c FROM s WINDOW w AS (UNION f, (SELECT delay * 2 AS delay, ts, dest AS origin FROM s WHERE delay > 5) PARTITION BY origin ORDER BY ts ROWS_RANGE BETWEEN 1s PRECEDING AND 1s FOLLOWING MAXSIZE 100 EXCLUDE CURRENT_TIME EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW)
Sink result
└─ Map ts, origin, sum(delay) AS n, count(delay) AS c
   └─ Over by origin on ts: range -1 s to +1 s, the last 100, without the row, without its time, without others of the first input compute sum(delay), count(delay)
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay AS delay, ts, position
         └─ Map delay * 2 AS delay, dest AS origin, ts, position
            └─ Filter delay > 5
               └─ Position
                  └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(delay) OVER (UNION f PARTITION BY origin ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) FROM s
Sink result
└─ Map sum(delay) AS sum(delay) OVER (PARTITION BY origin ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)
   └─ Over by origin on ts: range -1 h to 0 compute sum(delay)
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT last_value(fare) OVER (UNION f ORDER BY ts ROWS 5 PRECEDING) AS n FROM s
Sink result
└─ Map last_value(fare ORDER BY ts) AS n
   └─ Over on ts: 6 rows compute last_value(fare ORDER BY ts)
      ├─ Map fare, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map fare, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT sum(v) OVER (UNION (SELECT CAST(fare AS INT) AS v, ts AS at FROM f) ORDER BY at) AS n FROM (SELECT delay AS v, ts AS at FROM s)
Sink result
└─ Map sum(delay) AS n
   └─ Over on ts: range the first to 0 compute sum(delay)
      ├─ Map delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map v AS delay, at AS ts, position
         └─ Map ts AS at, fare AS v, position
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT sum(a) OVER w AS m, sum(b) OVER w AS n FROM (SELECT delay AS a, delay AS b, ts FROM s) WINDOW w AS (UNION (SELECT delay AS a, CAST(fare AS INT) AS b, ts FROM f) ORDER BY ts)
Sink result
└─ Map sum(a) AS m, sum(b) AS n
   └─ Over on ts: range the first to 0 compute sum(a), sum(b)
      ├─ Map delay AS a, delay AS b, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map a, b, ts, position
         └─ Map delay AS a, fare AS b, ts, position
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin, sum(a.delay) OVER w AS m, b.delay FROM s a JOIN s b ON a.ts = b.ts WINDOW w AS (UNION (SELECT delay, ts FROM f) ORDER BY a.ts)
Sink result
└─ Map origin, sum(delay) AS m, delay:2 AS delay
   └─ Over on ts: range the first to 0 compute sum(delay)
      ├─ Map origin, delay, ts, delay:2
      │  └─ IntervalJoin inner, ts from 0 to 0 of ts
      │     ├─ Map origin, delay, ts, position
      │     │  └─ Position
      │     │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      │     └─ Map delay, ts, position
      │        └─ Position
      │           └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn bounds_have_units_and_may_be_open() {
    check(
        r#"
SELECT count(*) OVER (ORDER BY ts ROWS_RANGE 10s PRECEDING) AS a, count(*) OVER (ORDER BY ts ROWS_RANGE BETWEEN 2h PRECEDING AND 3m PRECEDING) AS b, count(*) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1d PRECEDING AND 1500 FOLLOWING) AS c FROM s
Sink result
└─ Map count(*) AS a, count(*):2 AS b, count(*):3 AS c
   └─ Over on ts: range -10 s to 0 compute count(*); range -2 h to -3 min compute count(*):2; range -1 d to +1500 ms compute count(*):3
      └─ Map ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT count(*) OVER (ORDER BY ts ROWS_RANGE BETWEEN 2s OPEN PRECEDING AND 1s OPEN PRECEDING) AS a, count(*) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s OPEN FOLLOWING AND 2s OPEN FOLLOWING) AS b, count(*) OVER (ORDER BY ts ROWS_RANGE BETWEEN 0s OPEN PRECEDING AND 1s FOLLOWING) AS c, count(*) OVER (ORDER BY ts ROWS_RANGE BETWEEN UNBOUNDED OPEN PRECEDING AND 0 OPEN FOLLOWING) AS d FROM s
Sink result
└─ Map count(*) AS a, count(*):2 AS b, count(*):3 AS c, count(*):4 AS d
   └─ Over on ts: range -1999999 us to -1000001 us compute count(*); range +1000001 us to +1999999 us compute count(*):2; range +1 us to +1 s compute count(*):3; range the first to -1 us compute count(*):4
      └─ Map ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT count(*) OVER (ORDER BY ts ROWS BETWEEN 3 OPEN PRECEDING AND CURRENT ROW) AS a, count(*) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED OPEN PRECEDING AND CURRENT ROW) AS b FROM s
Sink result
└─ Map count(*) AS a, count(*):2 AS b
   └─ Over on ts: 3 rows compute count(*); rows from the first compute count(*):2
      └─ Map ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT count(*) OVER (ORDER BY ts ROWS_RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS a FROM s
Sink result
└─ Map count(*) AS a
   └─ Over on ts: range -1 min to 0 compute count(*)
      └─ Map ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn clauses_stand_behind_the_frame_in_any_order() {
    check(
        r#"
SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1h PRECEDING AND CURRENT ROW EXCLUDE CURRENT_TIME) AS a, sum(delay) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING MAXSIZE 7) AS b, sum(delay) OVER (ORDER BY ts INSTANCE_NOT_IN_WINDOW EXCLUDE CURRENT ROW MAXSIZE 3) AS c, sum(delay) OVER (ORDER BY ts) AS d FROM s
Sink result
└─ Map sum(delay):2 AS a, sum(delay):3 AS b, sum(delay):4 AS c, sum(delay) AS d
   └─ Over on ts: range the first to 0 compute sum(delay); range -1 h to 0, without its time compute sum(delay):2; rows from the first, the last 7 compute sum(delay):3; range the first to 0, the last 3, without the row, without others of the first input compute sum(delay):4
      └─ Map delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT maxsize, sum(delay) OVER (PARTITION BY maxsize ORDER BY ts MAXSIZE 3) AS n FROM (SELECT origin AS maxsize, delay, ts FROM s)
Sink result
└─ Map origin AS maxsize, sum(delay) AS n
   └─ Over by origin on ts: range the first to 0, the last 3 compute sum(delay)
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(delay) OVER v AS n FROM s WINDOW w AS (UNION f PARTITION BY origin), v AS (w ORDER BY ts ROWS 5 PRECEDING)
Sink result
└─ Map sum(delay) AS n
   └─ Over by origin on ts: 6 rows compute sum(delay)
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT sum(delay) over (union f order by ts rows_range between 1S preceding and current row exclude current_row) AS n FROM s
Sink result
└─ Map sum(delay) AS n
   └─ Over on ts: range -1 s to 0, without the row compute sum(delay)
      ├─ Map delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn views_and_queries_in_with_hold_unions() {
    check(
        r#"
CREATE VIEW v AS SELECT *, sum(delay) OVER w AS n, avg(fare) OVER w AS m FROM s WINDOW w AS (UNION f PARTITION BY origin ORDER BY ts ROWS 5 PRECEDING MAXSIZE 3); SELECT origin, m FROM v WHERE origin = 'JFK'
Sink result
└─ Map origin, avg(fare) AS m
   └─ Filter origin = 'JFK'
      └─ Over by origin on ts: 6 rows, the last 3 compute avg(fare)
         ├─ Map origin, fare, ts, position
         │  └─ Position
         │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
         └─ Map origin, fare, ts, position
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s

WITH r AS (SELECT * FROM f WHERE delay > 1) SELECT sum(delay) OVER (UNION r ORDER BY ts) AS n FROM s
Sink result
└─ Map sum(delay) AS n
   └─ Over on ts: range the first to 0 compute sum(delay)
      ├─ Map delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map delay, ts, position
         └─ Filter delay > 1
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s

WITH r AS (SELECT * FROM f), q AS (SELECT sum(delay) OVER (UNION r ORDER BY ts) AS n, ts FROM s) SELECT sum(n) OVER (UNION (SELECT delay AS n, ts FROM r) ORDER BY ts) AS m FROM q
Sink result
└─ Map sum(sum(delay)) AS m
   └─ Over on ts: range the first to 0 compute sum(sum(delay))
      ├─ Over on ts: range the first to 0 compute sum(delay)
      │  ├─ Map delay, ts, position
      │  │  └─ Position
      │  │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      │  └─ Map delay, ts, position
      │     └─ Position
      │        └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map delay AS sum(delay), ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT sum(n) OVER (UNION (SELECT sum(delay) OVER (UNION f ORDER BY ts ROWS_RANGE 5s PRECEDING) AS n, ts FROM s) ORDER BY ts) AS m FROM (SELECT delay AS n, ts FROM s)
Sink result
└─ Map sum(delay) AS m
   └─ Over on ts: range the first to 0 compute sum(delay)
      ├─ Map delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map sum(delay) AS delay, ts, position
         └─ Over on ts: range -5 s to 0 compute sum(delay)
            ├─ Map delay, ts, position
            │  └─ Position
            │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
            └─ Map delay, ts, position
               └─ Position
                  └─ Source f (file, 2 partitions), watermark ts - 5 s

INSERT INTO out SELECT origin, count(*) OVER (UNION f PARTITION BY origin ORDER BY ts) FROM s
Sink out (file)
└─ Map origin, count(*) AS n
   └─ Over by origin on ts: range the first to 0 compute count(*)
      ├─ Map origin, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn one_window_is_planned_once() {
    check(
        r#"
SELECT sum(delay) OVER w AS a, max(delay) OVER w AS b, min(delay) OVER (UNION f ORDER BY ts) AS c FROM s WINDOW w AS (UNION f ORDER BY ts)
Sink result
└─ Map sum(delay) AS a, max(delay) AS b, min(delay) AS c
   └─ Over on ts: range the first to 0 compute sum(delay), max(delay), min(delay)
      ├─ Map delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn inputs_of_a_union_have_the_columns_and_the_time() {
    refuses(
        r#"
SELECT sum(delay) OVER (UNION ALL f PARTITION BY origin ORDER BY ts) FROM s
  [ALL] ALL does not stand behind UNION of a window, which takes all rows
    leave it out: OVER (UNION r, (SELECT …) PARTITION BY …)

SELECT sum(delay) OVER (UNION nope PARTITION BY origin ORDER BY ts) FROM s
  [nope] table "nope" not found
    the tables and views here are f, out, s, z

SELECT sum(delay) OVER (UNION z PARTITION BY origin ORDER BY ts) FROM s
  [z] table "z" has no column "delay", which the window reads
    the columns here are k, at; name one so: (SELECT x AS delay, … FROM …)

SELECT sum(delay) OVER (UNION f, (SELECT origin, ts FROM f) PARTITION BY origin ORDER BY ts) FROM s
  [SELECT origin, ts FROM f] query 2 of UNION has no column "delay", which the window reads
    the columns here are origin, ts; name one so: (SELECT x AS delay, … FROM …)

SELECT sum(delay) OVER (UNION (SELECT origin, dest AS delay, ts FROM f) PARTITION BY origin ORDER BY ts) FROM s
  [SELECT origin, dest AS delay, ts FROM f] column "delay" of query 1 of UNION is STRING, expected INT
    cast it in a query: (SELECT CAST(delay AS INT) AS delay, … FROM …), or that of the first stream

SELECT sum(v) OVER (UNION (SELECT fare AS v, ts AS at FROM f) ORDER BY at) AS n FROM (SELECT delay AS v, ts AS at FROM s)
  [SELECT fare AS v, ts AS at FROM f] column "v" of query 1 of UNION is DOUBLE, expected INT
    cast it in a query: (SELECT CAST(v AS INT) AS v, … FROM …), or that of the first stream

SELECT sum(delay) OVER (UNION (SELECT origin, delay, ts + INTERVAL '1' HOUR AS ts FROM f) PARTITION BY origin ORDER BY ts) FROM s
  [SELECT origin, delay, ts + INTERVAL '1' HOUR AS ts FROM f] column "ts" of query 1 of UNION does not carry the event time of its stream
    "ts" carried it before: take that, as it is

SELECT sum(delay) OVER (UNION (SELECT origin, delay, ts AS t, ts + INTERVAL '1' HOUR AS ts FROM f) PARTITION BY origin ORDER BY ts) FROM s
  [SELECT origin, delay, ts AS t, ts + INTERVAL '1' HOUR AS ts FROM f] column "ts" of query 1 of UNION does not carry the event time of its stream
    "ts" carried it before: take that, as it is

CREATE TABLE u (delay INT, ts TIMESTAMP(3)) WITH ('connector' = 'stream'); SELECT sum(delay) OVER (UNION u ORDER BY ts) FROM s
  [u] column "ts" of table "u" does not carry the event time of its stream
    declare it in CREATE TABLE: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND; it must reach OVER as it is, and be the same column in all inputs of UNION ALL

CREATE VIEW v AS SELECT sum(delay) OVER (UNION z ORDER BY ts) AS n FROM s
  [z] table "z" has no column "delay", which the window reads
    the columns here are k, at; name one so: (SELECT x AS delay, … FROM …)

SELECT sum(nope) OVER (UNION f ORDER BY ts) FROM s
  [nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

SELECT sum(delay) OVER (UNION (SELECT nope AS delay, ts FROM f) ORDER BY ts) FROM s
  [nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts
"#,
    );
}

#[test]
fn clauses_of_a_window_are_written_once_and_whole() {
    refuses(
        r#"
SELECT sum(delay) OVER (UNION PARTITION BY origin ORDER BY ts) FROM s
  [UNION] UNION of a window names tables
    write OVER (UNION r, (SELECT …) PARTITION BY …)

SELECT sum(delay) OVER (UNION f, PARTITION BY origin ORDER BY ts) FROM s
  [,] UNION of a window names tables
    write OVER (UNION r, (SELECT …) PARTITION BY …)

SELECT sum(delay) OVER (UNION f UNION f ORDER BY ts) FROM s
  [f] expected SELECT, VALUES, or a subquery in the query body, found "f"

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1y PRECEDING AND CURRENT ROW) FROM s
  [y] there is no unit "y"
    write 10s PRECEDING: the units are s, m (minutes), h and d, and a bare number is milliseconds

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1.5s PRECEDING AND CURRENT ROW) FROM s
  [1.5] 1.5 is no bound of a frame
    write 10s PRECEDING: the units are s, m (minutes), h and d, and a bare number is milliseconds

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s OPEN AND CURRENT ROW) FROM s
  [AND] OPEN stands before PRECEDING or FOLLOWING, and neither stands here
    write 10s OPEN PRECEDING

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN OPEN 1s PRECEDING AND CURRENT ROW) FROM s
  [OPEN] OPEN stands before PRECEDING or FOLLOWING, behind the number
    write 10s OPEN PRECEDING

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s AND CURRENT ROW) FROM s
  [1s] of 1s it is not said to which side of the row it lies
    write 1s PRECEDING, or 1s FOLLOWING

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s PRECEDING AND CURRENT) FROM s
  [CURRENT] CURRENT stands here alone
    write CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s PRECEDING AND CURRENT_ROW) FROM s
  [CURRENT_ROW] CURRENT_ROW stands behind EXCLUDE: a bound of a frame is two words
    write CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts PARTITION BY origin ROWS_RANGE BETWEEN 1s PRECEDING AND CURRENT ROW) FROM s
  [PARTITION] PARTITION BY stands before ORDER BY
    write OVER (PARTITION BY … ORDER BY …)

SELECT sum(delay) OVER w FROM s WINDOW w AS (ORDER BY ts PARTITION BY origin ROWS 2 PRECEDING)
  [PARTITION] PARTITION BY stands before ORDER BY
    write OVER (PARTITION BY … ORDER BY …)

SELECT sum(delay) OVER (ORDER BY ts ROWS BETWEEN 5s PRECEDING AND CURRENT ROW) FROM s
  [s] units of one letter belong to ROWS_RANGE: ROWS counts rows
    write ROWS_RANGE for ROWS, or 5 PRECEDING

SELECT sum(delay) OVER (ORDER BY ts ROW_RANGE BETWEEN 5s PRECEDING AND CURRENT ROW) FROM s
  [ROW_RANGE] unexpected "ROW_RANGE" in a window
    did you mean "ROWS_RANGE"?

SELECT sum(delay) OVER w FROM s WINDOW w AS (PARTITON BY origin ORDER BY ts ROWS_RANGE BETWEEN 5s PRECEDING AND CURRENT ROW)
  [PARTITON] unexpected "PARTITON" in a window
    did you mean "PARTITION"?

SELECT sum(delay) OVER (PARTITION origin ORDER BY ts ROWS_RANGE BETWEEN 5s PRECEDING AND CURRENT ROW) FROM s
  [PARTITION] PARTITION stands here without BY
    write PARTITION BY

SELECT sum(delay) OVER w FROM s WINDOW w AS (UNION f PARTITION BY origin order ts ROWS_RANGE BETWEEN 5s PRECEDING AND CURRENT ROW)
  [order] ORDER stands here without BY
    write ORDER BY

SELECT sum(delay) OVER (ORDER ts) FROM s
  [ORDER] ORDER stands here without BY
    write ORDER BY

SELECT sum(delay) OVER w FROM s WINDOWS w AS (ORDER BY ts ROWS_RANGE BETWEEN 5s PRECEDING AND CURRENT ROW)
  [WINDOWS] unexpected "WINDOWS"
    did you mean "WINDOW"?

SELECT sum(delay) OVER (UNION SELECT * FROM f ORDER BY ts) FROM s
  [SELECT] a query behind UNION of a window stands in parentheses
    write OVER (UNION (SELECT …) PARTITION BY …)

SELECT sum(f.delay) OVER (UNION f ORDER BY ts) FROM s
  [f.delay] table "f" of column "delay" is not in FROM
    rows of the UNION of a window have the names of its stream's columns: write "delay" alone

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s PRECEDING AND 2s PRECEDING) FROM s
  [ROWS_RANGE BETWEEN 1s PRECEDING AND 2s PRECEDING] the frame ends before it begins: from 1 s before the row to 2 s before the row
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s OPEN PRECEDING AND 1s OPEN PRECEDING) FROM s
  [ROWS_RANGE BETWEEN 1s OPEN PRECEDING AND 1s OPEN PRECEDING] the frame ends before it begins: from just less than 1 s before the row to just more than 1 s before the row
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER v AS a, sum(delay) OVER w AS b FROM s WINDOW v AS (ORDER BY ts ROWS_RANGE BETWEEN 1s PRECEDING AND 2s PRECEDING INSTANCE_NOT_IN_WINDOW), w AS (ORDER BY ts ROWS_RANGE 3s PRECEDING)
  [ROWS_RANGE BETWEEN 1s PRECEDING AND 2s PRECEDING] the frame ends before it begins: from 1 s before the row to 2 s before the row
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 9999999999999d PRECEDING AND CURRENT ROW) FROM s
  [9999999999999d] the frame reaches 9999999999999d: that is longer than 292,000 years, or 106,751,991 days
    write UNBOUNDED PRECEDING for a frame that begins with the first row, or less

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE 1s PRECEDING MAXSIZE 0) FROM s
  [0] MAXSIZE is a number of rows, from 1 on
    write MAXSIZE 100

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE 1s PRECEDING MAXSIZE 99999999999999999999) FROM s
  [99999999999999999999] MAXSIZE 99999999999999999999 is more rows than there can be
    leave it out, or write less

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE 1s PRECEDING MAXSIZE '9') FROM s
  ['9'] MAXSIZE is a number of rows, from 1 on
    write MAXSIZE 100

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE 1s PRECEDING MAXSIZE 1 MAXSIZE 1) FROM s
  [MAXSIZE] MAXSIZE stands here twice
    write it once

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE 1s PRECEDING EXCLUDE CURRENT_ROW EXCLUDE CURRENT ROW) FROM s
  [EXCLUDE] EXCLUDE CURRENT_ROW stands here twice
    write it once

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 1s PRECEDING AND CURRENT ROW MAXSZE 9) FROM s
  [MAXSZE] unexpected "MAXSZE" in a window
    behind the frame stand MAXSIZE n, EXCLUDE CURRENT_ROW, EXCLUDE CURRENT_TIME and INSTANCE_NOT_IN_WINDOW

SELECT sum(delay) OVER (ORDER BY ts ROWS 3 PRECEDING MAXSIZE -1) FROM s
  [-] MAXSIZE is a number of rows, from 1 on
    write MAXSIZE 100

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE 1s PRECEDING EXCLUDE CURRENT_ROW EXCLUDE TIES) FROM s
  [TIES] unexpected "TIES" in a window
    behind the frame stand MAXSIZE n, EXCLUDE CURRENT_ROW, EXCLUDE CURRENT_TIME and INSTANCE_NOT_IN_WINDOW

SELECT lag(delay) OVER (ORDER BY ts ROWS 1 PRECEDING MAXSIZE 3 EXCLUDE CURRENT_TIME) FROM s
  [lag] lag counts all rows of a window, and EXCLUDE CURRENT_TIME and INSTANCE_NOT_IN_WINDOW leave some out
    give it a window of its own, without them

SELECT row_number() OVER w FROM s WINDOW w AS (ORDER BY ts EXCLUDE CURRENT_TIME)
  [row_number] row_number counts all rows of a window, and MAXSIZE, EXCLUDE and INSTANCE_NOT_IN_WINDOW leave some out
    give it a window of its own, without them

SELECT upper(origin) OVER (UNION f ORDER BY ts) FROM s
  [upper] upper is of one row, and OVER looks at others
    leave OVER out, or compute an aggregate

SELECT sum(delay) OVER (PARTITION BY `window clauses`(0) ORDER BY ts) FROM s
  [`window clauses`] function "window clauses" not found
"#,
    );
}

#[test]
fn windows_over_one_union_with_other_flags_are_one_node() {
    let nodes = |columns: &str| {
        let plan = plan_text(&format!("SELECT {columns} FROM s WINDOW w AS (UNION f PARTITION BY origin ORDER BY ts)"));
        plan.matches("Over ").count()
    };
    let flags = "PARTITION BY origin ORDER BY ts MAXSIZE 2";
    assert_eq!(nodes(&format!("sum(delay) OVER w AS a, max(fare) OVER (UNION f {flags}) AS b")), 1);
    assert_eq!(nodes(&format!("sum(delay) OVER w AS a, max(fare) OVER ({flags}) AS b")), 2);
    assert_eq!(nodes(&format!("sum(delay) OVER w AS a, max(fare) OVER (UNION f, f {flags}) AS b")), 2);
    let both = format!("SELECT sum(delay) OVER w AS a, lag(fare) OVER w AS b FROM s WINDOW w AS (UNION f {flags})");
    assert_eq!(plan_text(&both).matches("Over ").count(), 1);
    assert_eq!(nodes("sum(delay) OVER w AS a, max(fare) OVER (UNION f PARTITION BY dest ORDER BY ts) AS b"), 2);
}
