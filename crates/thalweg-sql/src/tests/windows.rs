//! What queries with windows become, and what windows need.

use super::*;

#[test]
fn a_window_function_and_its_group_by_are_one_aggregate() {
    check(
        r#"
SELECT window_start, window_end, origin, count(*) AS n, avg(delay) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, origin
Sink result
└─ Map window_start, window_end, origin, count(*) AS n, avg(delay)
   └─ Aggregate tumble 10 min on ts by origin compute count(*), avg(delay)
      └─ Map origin, delay, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_end, sum(delay) FROM HOP(s, ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) GROUP BY window_end
Sink result
└─ Map window_end, sum(delay)
   └─ Aggregate hop 10 min every 5 min on ts compute sum(delay)
      └─ Map delay, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, count(*) FROM TUMBLE(s, ts, INTERVAL '1' HOUR, INTERVAL '15' MINUTE) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 h offset 15 min on ts compute count(*)
      └─ Map ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, count(*) FROM TABLE(TUMBLE(DATA => TABLE s, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR, "OFFSET" => INTERVAL '-15' MINUTE)) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 h offset -15 min on ts compute count(*)
      └─ Map ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, count(*) FROM TABLE(HOP(DATA => TABLE s, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR, SLIDE => INTERVAL '15' MINUTES)) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate hop 1 h every 15 min on ts compute count(*)
      └─ Map ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, count(*) FROM TUMBLE((SELECT ts, delay FROM s WHERE delay > 0), ts, INTERVAL '1' HOUR) AS w GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 h on ts compute count(*)
      └─ Map ts
         └─ Filter delay > 0
            └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn only_what_is_selected_leaves_a_window() {
    check(
        r#"
SELECT window_start, count(*) * 2 AS n FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end
Sink result
└─ Map window_start, count(*) * 2 AS n
   └─ Aggregate tumble 1 h on ts compute count(*)
      └─ Map ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT w.a, w.f, count(*) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) AS w(a, b, c, d, e, f, g, h) GROUP BY w.a, w.f
Sink result
└─ Map a, window_start AS f, count(*)
   └─ Aggregate tumble 1 h on ts by origin compute count(*)
      └─ Map origin, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT origin AS window_start, window_start AS x, count(*) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, origin
Sink result
└─ Map origin AS window_start, window_start AS x, count(*)
   └─ Aggregate tumble 1 h on ts by origin compute count(*)
      └─ Map origin, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, delay + 1 AS d FROM TUMBLE(s, ts, INTERVAL '1' HOUR)
Sink result
└─ Map window_start, delay + 1 AS d
   └─ Window tumble 1 h on ts
      └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn what_is_computed_below_a_group_stays_below_the_aggregate() {
    check(
        r#"
SELECT window_start, window_end, sum(d2) FROM (SELECT window_start, window_end, delay * 2 AS d2 FROM TUMBLE(s, ts, INTERVAL '1' HOUR)) GROUP BY window_start, window_end
Sink result
└─ Map window_start, window_end, sum(d2)
   └─ Aggregate tumble 1 h on ts compute sum(d2)
      └─ Map delay * 2 AS d2, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, upper(origin) AS o, sum(delay) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) WHERE fare > 100 GROUP BY window_start, upper(origin)
Sink result
└─ Map window_start, upper(origin) AS o, sum(delay)
   └─ Aggregate tumble 1 h on ts by upper(origin) compute sum(delay)
      └─ Map origin, delay, ts
         └─ Filter fare > 100
            └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn conditions_on_windows_are_asked_of_their_results() {
    check(
        r#"
SELECT window_end, sum(delay) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) WHERE delay > 3 AND window_start > TIMESTAMP '2013-01-01 00:00:00' GROUP BY window_end HAVING count(*) > 3
Sink result
└─ Map window_end, sum(delay)
   └─ Filter count(*) > 3
      └─ Filter window_start > TIMESTAMP '2013-01-01 00:00:00'
         └─ Aggregate tumble 1 h on ts compute sum(delay), count(*)
            └─ Map delay, ts
               └─ Filter delay > 3
                  └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn rows_that_need_their_window_get_its_columns() {
    check(
        r#"
SELECT * FROM TUMBLE(s, ts, INTERVAL '1' HOUR)
Sink result
└─ Window tumble 1 h on ts
   └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, origin FROM TUMBLE(s, ts, INTERVAL '1' HOUR) WHERE window_start > TIMESTAMP '2013-01-01 00:00:00' AND delay > 1
Sink result
└─ Map window_start, origin
   └─ Filter window_start > TIMESTAMP '2013-01-01 00:00:00'
      └─ Window tumble 1 h on ts
         └─ Filter delay > 1
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, count(*) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) AS w WHERE w.window_start < w.ts AND delay > 2 GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate in the windows of window_start, window_end compute count(*)
      └─ Map window_start, window_end, window_time
         └─ Filter ts > window_start
            └─ Window tumble 1 h on ts
               └─ Filter delay > 2
                  └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, date_trunc('day', window_start) AS day, count(*) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, date_trunc('day', window_start)
Sink result
└─ Map window_start, date_trunc('day',window_start) AS day, count(*)
   └─ Aggregate in the windows of window_start, window_end by date_trunc('day', window_start) compute count(*)
      └─ Map window_start, window_end, window_time
         └─ Window tumble 1 h on ts
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT origin, count(*) FROM TUMBLE(f, ts, INTERVAL '1' HOUR) GROUP BY origin
Sink result
└─ Aggregate by origin compute count(*)
   └─ Map origin
      └─ Window tumble 1 h on ts
         └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn windows_of_windows_group_by_the_columns() {
    check(
        r#"
SELECT window_start, window_end, max(n) FROM (SELECT window_start, window_end, origin, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end, origin) GROUP BY window_start, window_end
Sink result
└─ Map window_start, window_end, max(n)
   └─ Aggregate in the windows of window_start, window_end compute max(n)
      └─ Map window_start, window_end, window_time, count(*)
         └─ Aggregate tumble 1 h on ts by origin compute count(*)
            └─ Map origin, ts
               └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_end, max(n) FROM (SELECT window_start, window_end, origin, count(*) + 1 AS n FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end, origin) GROUP BY window_end
Sink result
└─ Map window_end, max(n)
   └─ Aggregate in the windows of window_start, window_end compute max(n)
      └─ Map window_end, count(*) + 1 AS n, window_start
         └─ Aggregate tumble 1 h on ts by origin compute count(*)
            └─ Map origin, ts
               └─ Source s (stream, 2 partitions), watermark ts - 5 s

WITH h AS (SELECT window_time AS rowtime, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end, window_time) SELECT window_start, sum(n) FROM TUMBLE(h, rowtime, INTERVAL '1' DAY) GROUP BY window_start
Sink result
└─ Map window_start, sum(n)
   └─ Aggregate tumble 1 d on window_time compute sum(n)
      └─ Map window_time, count(*)
         └─ Aggregate tumble 1 h on ts compute count(*)
            └─ Map ts
               └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn distinct_filter_and_having_stay_as_they_are() {
    check(
        r#"
SELECT window_start, count(DISTINCT origin), count(DISTINCT dest), sum(delay) FILTER (WHERE delay > 0) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start
Sink result
└─ Map window_start, count(DISTINCT origin), count(DISTINCT dest), sum(delay) FILTER (WHERE delay > 0)
   └─ Aggregate tumble 1 h on ts compute count(DISTINCT origin), count(DISTINCT dest), sum(delay) FILTER (WHERE delay > 0)
      └─ Map origin, dest, delay, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, count(DISTINCT origin) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start
Sink result
└─ Map window_start, count(DISTINCT origin)
   └─ Aggregate tumble 1 h on ts compute count(DISTINCT origin)
      └─ Map origin, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT DISTINCT window_start, window_end, origin FROM TUMBLE(s, ts, INTERVAL '1' HOUR)
Sink result
└─ Map window_start, window_end, origin
   └─ Aggregate tumble 1 h on ts by origin
      └─ Map origin, ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT origin, count(*) AS n FROM f GROUP BY origin HAVING count(*) > 10 AND origin <> 'JFK'
Sink result
└─ Map origin, count(*) AS n
   └─ Filter count(*) > 10
      └─ Aggregate by origin compute count(*)
         └─ Map origin
            └─ Filter origin != 'JFK'
               └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn windows_over_instants_follow_the_sessions_clock() {
    check(
        r#"
SELECT window_start, count(*) FROM TUMBLE(z, at, INTERVAL '1' DAY) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 d on at compute count(*)
      └─ Map at
         └─ Source z (stream, 2 partitions), watermark at - 0 s

SET 'time.zone' = 'Europe/Berlin'; SELECT window_start, count(*) FROM TUMBLE(z, at, INTERVAL '1' DAY) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 d on at in Europe/Berlin compute count(*)
      └─ Map at
         └─ Source z (stream, 2 partitions), watermark at - 0 s

SET 'time.zone' = 'Europe/Berlin'; SELECT window_start, count(*) FROM TUMBLE(s, ts, INTERVAL '1' DAY) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 d on ts compute count(*)
      └─ Map ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s

SET 'window.anchor' = 'first-row'; SELECT window_start, count(*) FROM TUMBLE(s, ts, INTERVAL '1' DAY) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 d from the first row on ts compute count(*)
      └─ Map ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn windows_say_what_they_need() {
    refuses(
        r#"
SELECT window_start, count(*) FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '10' MINUTE)) GROUP BY window_start
  [GROUP] windows of CUMULATE start together, so that window_start does not tell them apart
    GROUP BY window_start, window_end

SELECT window_start, count(*) FROM TABLE(SESSION(TABLE s, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY window_start
  [SESSION] SESSION windows are not there yet
    use TUMBLE, HOP or CUMULATE

SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), count(*) FROM s GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)
  [TUMBLE_START] TUMBLE_START in GROUP BY and SELECT is not there: windows stand in FROM
    write FROM TUMBLE(t, ts, INTERVAL …) GROUP BY window_start, window_end, and SELECT window_start

SELECT count(*) FROM s GROUP BY HOP(ts, INTERVAL '1' HOUR, INTERVAL '2' HOUR)
  [HOP] HOP in GROUP BY and SELECT is not there: windows stand in FROM
    write FROM HOP(t, ts, INTERVAL …) GROUP BY window_start, window_end, and SELECT window_start

SELECT * FROM TUMBLE(s, ts, INTERVAL '1' MONTH)
  ['1'] the window's size is INTERVAL '1' MONTH: months and years differ in length
    write INTERVAL '10' MINUTE

SELECT * FROM TUMBLE(s, ts, 10)
  [10] the window's size is 10, expected an interval
    write INTERVAL '10' MINUTE

SELECT * FROM TUMBLE(s, ts)
  [TUMBLE] argument SIZE of TUMBLE is missing
    write TUMBLE(t, ts, INTERVAL '10' MINUTE): size, then perhaps an offset

SELECT * FROM TUMBLE(s, ts, INTERVAL '1' HOUR, INTERVAL '1' HOUR, 3)
  [TUMBLE] TUMBLE has other arguments
    write TUMBLE(t, ts, INTERVAL '10' MINUTE): size, then perhaps an offset

SELECT * FROM TUMBLE(s, ts, WIDTH => INTERVAL '1' HOUR)
  [WIDTH] TUMBLE has no argument WIDTH
    write TUMBLE(t, ts, INTERVAL '10' MINUTE): size, then perhaps an offset

SELECT * FROM TUMBLE(s, ts, INTERVAL '-1' HOUR)
  [TUMBLE] windows of -1 h cannot be
    their size is positive and shorter than 100 years

SELECT * FROM TUMBLE(nope, ts, INTERVAL '1' HOUR)
  [nope] table "nope" not found
    the tables and views here are f, out, s, z

SELECT * FROM TUMBLE(s, nope, INTERVAL '1' HOUR)
  [nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

SELECT * FROM TUMBLE(s, delay, INTERVAL '1' HOUR)
  [delay] column "delay" does not carry the event time of its stream
    window by "ts", which does

SELECT * FROM TUMBLE(s, ts + INTERVAL '1' HOUR, INTERVAL '1' HOUR)
  [TUMBLE] the time of a window is ts + INTERVAL '1' HOUR, expected a column
    write DESCRIPTOR(ts), or just the column's name

SELECT * FROM TUMBLE(5, ts, INTERVAL '1' HOUR)
  [TUMBLE] the input of a window function is 5, expected a table
    name a table or a view, or write a query in parentheses

SELECT * FROM TUMBLE((SELECT ts + INTERVAL '1' HOUR AS t FROM s), t, INTERVAL '1' HOUR)
  [t] column "t" does not carry the event time of its stream
    "ts" carried it before: take that, as it is

SELECT * FROM TUMBLE((SELECT ts FROM s UNION ALL SELECT CAST(at AS TIMESTAMP) FROM z), ts, INTERVAL '1' HOUR)
  [ts] column "ts" does not carry the event time of its stream
    it must be the same column in all inputs of UNION ALL, of one type, and have a WATERMARK in each

SELECT * FROM TUMBLE(TUMBLE(s, ts, INTERVAL '1' HOUR), window_time, INTERVAL '1' DAY)
  [TUMBLE(s, ts, INTERVAL '1' HOUR)] two columns are named "window_start": the input has a window already
    name those of the inner window anew: SELECT window_time AS t, …

SELECT * FROM TABLE(NOPE(TABLE s))
  [NOPE] table function "NOPE" not found
    the table functions are TUMBLE, HOP and CUMULATE
"#,
    );
}
