//! OVER: aggregates over the rows around a row.

use super::*;

#[test]
fn each_frame_is_computed_in_one_node() {
    check(
        r#"
SELECT origin, delay, sum(delay) OVER (PARTITION BY origin ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS n FROM s
Sink result
└─ Map origin, delay, sum(delay) AS n
   └─ Over by origin on ts: range -10 s to 0 compute sum(delay)
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(delay) OVER (ORDER BY ts) FROM s
Sink result
└─ Map sum(delay) AS sum(delay) OVER (ORDER BY ts)
   └─ Over on ts: range the first to 0 compute sum(delay)
      └─ Map delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT origin, max(delay) OVER (PARTITION BY origin ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW), min(delay) OVER (PARTITION BY origin ORDER BY ts ROWS 3 PRECEDING), count(*) OVER (PARTITION BY origin ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM s
Sink result
└─ Map origin, max(delay) AS max(delay) OVER (PARTITION BY origin ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW), min(delay) AS min(delay) OVER (PARTITION BY origin ORDER BY ts ROWS 3 PRECEDING), count(*) AS n
   └─ Over by origin on ts: 4 rows compute max(delay), min(delay); rows from the first compute count(*)
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1:30' MINUTE TO SECOND PRECEDING AND INTERVAL '0.5' SECOND PRECEDING) AS a, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '1' SECOND FOLLOWING) AS b, count(*) OVER (ORDER BY ts RANGE UNBOUNDED PRECEDING) AS c FROM s
Sink result
└─ Map count(*) AS a, count(*):2 AS b, count(*):3 AS c
   └─ Over on ts: range -90 s to -500 ms compute count(*); range -1 min to +1 s compute count(*):2; range the first to 0 compute count(*):3
      └─ Map ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(k) OVER (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) AS n FROM z
Sink result
└─ Map sum(k) AS n
   └─ Over by k on at: range -1 d to 0 compute sum(k)
      └─ Position
         └─ Source z (stream, 2 partitions), watermark at - 0 s

SELECT count(*) OVER (ORDER BY ts RANGE INTERVAL 5 SECOND PRECEDING) AS a, count(*) OVER (ORDER BY ts RANGE (INTERVAL '5 seconds') PRECEDING) AS b, count(*) OVER (ORDER BY ts RANGE '5 seconds' PRECEDING) AS c FROM s
Sink result
└─ Map count(*) AS a, count(*):2 AS b, count(*):2 AS c
   └─ Over on ts: range -5 s to 0 compute count(*), count(*):2
      └─ Map ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn windows_have_names_and_build_on_one_another() {
    check(
        r#"
SELECT *, count(*) OVER w, avg(fare) OVER w + 1 AS a, max(delay) OVER (w ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM s WHERE delay > 1 WINDOW w AS (PARTITION BY origin, upper(dest) ORDER BY ts)
Sink result
└─ Map origin, dest, delay, fare, ts, count(*) AS count(*) OVER w, avg(fare) + 1 AS a, max(delay) AS max(delay) OVER (w ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)
   └─ Over by origin, upper(dest) on ts: range the first to 0 compute count(*), avg(fare); 4 rows compute max(delay)
      └─ Filter delay > 1
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(delay) OVER v AS n FROM s WINDOW w AS (PARTITION BY origin), v AS (w ORDER BY ts ROWS 2 PRECEDING)
Sink result
└─ Map sum(delay) AS n
   └─ Over by origin on ts: 3 rows compute sum(delay)
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(delay) OVER (PARTITION BY dest ORDER BY ts) AS a, sum(delay) OVER (PARTITION BY origin ORDER BY ts) AS b, count(*) OVER (ORDER BY ts) AS c FROM s
Sink result
└─ Map sum(delay):2 AS a, sum(delay) AS b, count(*) AS c
   └─ Over on ts: range the first to 0 compute count(*)
      └─ Map ts, position, sum(delay), sum(delay):2
         └─ Over by dest on ts: range the first to 0 compute sum(delay):2
            └─ Map dest, delay, ts, position, sum(delay)
               └─ Over by origin on ts: range the first to 0 compute sum(delay)
                  └─ Map origin, dest, delay, ts, position
                     └─ Position
                        └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn aggregates_are_those_of_groups() {
    check(
        r#"
SELECT sum(delay) FILTER (WHERE fare > 1) OVER w AS a, count(DISTINCT dest) OVER w AS b, median(delay) OVER w AS c, mean(fare) OVER w AS d, sum(delay + 1) OVER w / 2 AS e FROM s WINDOW w AS (ORDER BY ts)
Sink result
└─ Map sum(delay) FILTER (WHERE fare > 1) AS a, count(DISTINCT dest) AS b, median(delay) AS c, avg(fare) AS d, sum(delay + 1) / 2 AS e
   └─ Over on ts: range the first to 0 compute sum(delay) FILTER (WHERE fare > 1), count(DISTINCT dest), median(delay), avg(fare), sum(delay + 1)
      └─ Map dest, delay, fare, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT last_value(dest) OVER w AS a, first_value(dest) IGNORE NULLS OVER w AS b, string_agg(dest, ',') OVER w AS c, nth_value(dest, 2) OVER w AS d FROM s WINDOW w AS (ORDER BY ts ROWS 5 PRECEDING)
Sink result
└─ Map last_value(dest ORDER BY ts) AS a, first_value(dest ORDER BY ts) IGNORE NULLS AS b, string_agg(dest, ',' ORDER BY ts) AS c, nth_value(dest, 2 ORDER BY ts) AS d
   └─ Over on ts: 6 rows compute last_value(dest ORDER BY ts), first_value(dest ORDER BY ts) IGNORE NULLS, string_agg(dest, ',' ORDER BY ts), nth_value(dest, 2 ORDER BY ts)
      └─ Map dest, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT percentile_cont(delay, 0.5) OVER (ORDER BY ts) AS p FROM s
Sink result
└─ Map percentile_cont(delay, 0.5 ORDER BY delay) AS p
   └─ Over on ts: range the first to 0 compute percentile_cont(delay, 0.5 ORDER BY delay)
      └─ Map delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT lag(delay) OVER w AS a, lag(delay, 3) OVER w AS b, row_number() OVER w AS c, rank() OVER w AS d, dense_rank() OVER w AS e FROM s WINDOW w AS (PARTITION BY origin ORDER BY ts)
Sink result
└─ Map nth_value(delay, -2 ORDER BY ts) AS a, nth_value(delay, -4 ORDER BY ts) AS b, count(*) AS c, count(*):2 + 1 AS d, count(DISTINCT ts) AS e
   └─ Over by origin on ts: 2 rows compute nth_value(delay, -2 ORDER BY ts); 4 rows compute nth_value(delay, -4 ORDER BY ts); rows from the first compute count(*); range the first to -1 us compute count(*):2; range the first to 0 compute count(DISTINCT ts)
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn what_is_asked_of_keys_is_asked_of_the_rows() {
    check(
        r#"
SELECT * FROM (SELECT origin, dest, sum(delay) OVER (PARTITION BY origin ORDER BY ts) AS n FROM s) WHERE origin = 'JFK' AND dest = 'EWR' AND n > 3
Sink result
└─ Map origin, dest, sum(delay) AS n
   └─ Filter dest = 'EWR' AND sum(delay) > 3
      └─ Over by origin on ts: range the first to 0 compute sum(delay)
         └─ Map origin, dest, delay, ts, position
            └─ Filter origin = 'JFK'
               └─ Position
                  └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT origin FROM (SELECT origin, sum(delay) OVER (PARTITION BY origin ORDER BY ts) AS n FROM s) WHERE origin = 'JFK' AND random() > 0.5 AND n > 3
Sink result
└─ Map origin
   └─ Filter origin = 'JFK' AND random() > 0.5 AND sum(delay) > 3
      └─ Over by origin on ts: range the first to 0 compute sum(delay)
         └─ Map origin, delay, ts, position
            └─ Position
               └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT origin, delay FROM s QUALIFY sum(delay) OVER (PARTITION BY origin ORDER BY ts) > 3
Sink result
└─ Map origin, delay
   └─ Filter sum(delay) > 3
      └─ Over by origin on ts: range the first to 0 compute sum(delay)
         └─ Map origin, delay, ts, position
            └─ Position
               └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn what_nobody_reads_is_not_computed() {
    check(
        r#"
SELECT origin FROM (SELECT *, sum(delay) OVER (ORDER BY ts) AS n FROM f)
Sink result
└─ Map origin
   └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT origin, n FROM (SELECT *, sum(delay) OVER (ORDER BY ts) AS n, sum(fare) OVER (PARTITION BY origin ORDER BY ts) AS m, max(fare) OVER (ORDER BY ts) AS l FROM f) WHERE l > 2
Sink result
└─ Map origin, sum(delay) AS n
   └─ Filter max(fare) > 2
      └─ Over on ts: range the first to 0 compute sum(delay), max(fare)
         └─ Map origin, delay, fare, ts, position
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT count(*) FROM (SELECT *, sum(delay) OVER (ORDER BY ts) AS n FROM f)
Sink result
└─ Aggregate compute count(*)
   └─ Map origin
      └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn positions_reach_over_through_what_keeps_rows() {
    check(
        r#"
SELECT d, sum(d) OVER (ORDER BY t) AS n FROM (SELECT delay * 2 AS d, ts AS t FROM s UNION ALL SELECT delay, ts FROM f) WHERE d > 1
Sink result
└─ Map d, sum(d) AS n
   └─ Over on t: range the first to 0 compute sum(d)
      └─ Union
         ├─ Map delay * 2 AS d, ts AS t, position
         │  └─ Filter delay * 2 > 1
         │     └─ Position
         │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
         └─ Map delay AS d, ts AS t, position
            └─ Filter delay > 1
               └─ Position
                  └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT sum(n) OVER (ORDER BY ts) AS m FROM (SELECT sum(delay) OVER (ORDER BY ts) AS n, ts FROM s)
Sink result
└─ Map sum(sum(delay)) AS m
   └─ Over on ts: range the first to 0 compute sum(sum(delay))
      └─ Over on ts: range the first to 0 compute sum(delay)
         └─ Map delay, ts, position
            └─ Position
               └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(position) OVER (ORDER BY ts) AS n, position FROM (SELECT delay AS position, ts FROM s)
Sink result
└─ Map sum(delay) AS n, delay AS position
   └─ Over on ts: range the first to 0 compute sum(delay)
      └─ Map delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT delay, window_start, sum(delay) OVER (PARTITION BY window_start ORDER BY window_time) AS n FROM TUMBLE(s, ts, INTERVAL '1' HOUR)
Sink result
└─ Map delay, window_start, sum(delay) AS n
   └─ Over by window_start on window_time: range the first to 0 compute sum(delay)
      └─ Map delay, position, window_start, window_time
         └─ Window tumble 1 h on ts
            └─ Position
               └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn aggregates_leave_positions_behind() {
    check(
        r#"
SELECT origin, sum(sum(delay)) OVER (PARTITION BY origin ORDER BY window_time) AS n FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end, window_time, origin
Sink result
└─ Map origin, sum(sum(delay)) AS n
   └─ Over by origin on window_time: range the first to 0 compute sum(sum(delay))
      └─ Map window_time, origin, sum(delay)
         └─ Aggregate tumble 1 h on ts by origin compute sum(delay)
            └─ Map origin, delay, ts
               └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT sum(delay) OVER (ORDER BY ts) AS n FROM (SELECT delay, ts FROM s UNION ALL SELECT count(*), window_time FROM TUMBLE(f, ts, INTERVAL '1' HOUR) GROUP BY window_time)
Sink result
└─ Map sum(delay) AS n
   └─ Over on ts: range the first to 0 compute sum(delay)
      └─ Union
         ├─ Map delay, ts
         │  └─ Map delay AS delay, ts, position
         │     └─ Position
         │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
         └─ Map count(*) AS delay, window_time AS ts
            └─ Aggregate tumble 1 h on ts compute count(*)
               └─ Map ts
                  └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT window_start, max(n) FROM TUMBLE((SELECT ts, sum(delay) OVER (ORDER BY ts) AS n FROM s), ts, INTERVAL '1' HOUR) GROUP BY window_start
Sink result
└─ Map window_start, max(n)
   └─ Aggregate tumble 1 h on ts compute max(n)
      └─ Over on ts: range the first to 0 compute sum(delay)
         └─ Map delay, ts, position
            └─ Position
               └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn results_of_over_go_anywhere() {
    check(
        r#"
INSERT INTO out SELECT origin, row_number() OVER (PARTITION BY origin ORDER BY ts) FROM s
Sink out (file)
└─ Map origin, count(*) AS n
   └─ Over by origin on ts: rows from the first compute count(*)
      └─ Map origin, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT delay FROM f ORDER BY sum(delay) OVER (ORDER BY ts) LIMIT 3
Sink result
└─ Map delay
   └─ Limit 3
      └─ Sort sum(delay) asc nulls first
         └─ Map delay, sum(delay)
            └─ Over on ts: range the first to 0 compute sum(delay)
               └─ Map delay, ts, position
                  └─ Position
                     └─ Source f (file, 2 partitions), watermark ts - 5 s

CREATE VIEW v (o, n) AS SELECT origin, sum(delay) OVER w FROM s WINDOW w AS (PARTITION BY origin ORDER BY ts); SELECT n FROM v WHERE o = 'JFK'
Sink result
└─ Map sum(delay) AS n
   └─ Over by origin on ts: range the first to 0 compute sum(delay)
      └─ Map origin, delay, ts, position
         └─ Filter origin = 'JFK'
            └─ Position
               └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn over_is_ordered_by_the_event_time() {
    refuses(
        r#"
SELECT sum(delay) OVER () FROM s
  [sum(delay)] OVER has no ORDER BY: rows around a row are those of times around its own
    order by the event time: OVER (PARTITION BY … ORDER BY ts)

SELECT row_number() OVER (PARTITION BY origin) FROM s
  [row_number() OVER (PARTITION BY origin)] OVER has no ORDER BY: rows around a row are those of times around its own
    order by the event time: OVER (PARTITION BY … ORDER BY ts)

SELECT sum(delay) OVER (PARTITION BY origin RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) FROM s
  [RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW] a frame of RANGE asks for one ORDER BY: that of the event time
    write OVER (PARTITION BY … ORDER BY ts RANGE …)

SELECT sum(delay) OVER (ORDER BY ts DESC) FROM s
  [ts] OVER is ordered from the latest row to the earliest
    order by the event time alone, earliest first: OVER (PARTITION BY … ORDER BY ts)

SELECT sum(delay) OVER (ORDER BY delay) FROM s
  [delay] column "delay" does not carry the event time of its stream
    order by "ts", which does

SELECT sum(delay) OVER (ORDER BY ts, delay) FROM s
  [sum(delay) OVER (ORDER BY ts, delay)] OVER is ordered by several values
    order by the event time alone, earliest first: OVER (PARTITION BY … ORDER BY ts)

SELECT sum(delay) OVER (ORDER BY ts + INTERVAL '1' SECOND) FROM s
  [sum(delay) OVER (ORDER BY ts + INTERVAL '1' SECOND)] OVER is ordered by something that is computed
    order by the event time alone, earliest first: OVER (PARTITION BY … ORDER BY ts)

SELECT sum(delay) OVER (ORDER BY t) FROM (SELECT delay, ts + INTERVAL '1' SECOND AS t FROM s)
  [t] column "t" does not carry the event time of its stream
    "ts" carried it before: take that, as it is

SELECT sum(n) OVER (ORDER BY n) FROM out
  [n] column "n" does not carry the event time of its stream
    add a computed column: event_time AS to_timestamp_millis(n) (or _seconds, or _micros), and watermark that one

CREATE TABLE u (v INT, ts TIMESTAMP(3)) WITH ('connector' = 'stream'); SELECT sum(v) OVER (ORDER BY ts) FROM u
  [ts] column "ts" does not carry the event time of its stream
    declare it in CREATE TABLE: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND; it must reach OVER as it is, and be the same column in all inputs of UNION ALL

CREATE VIEW v AS SELECT sum(delay) OVER (ORDER BY ts DESC) AS n FROM s
  [ts] OVER is ordered from the latest row to the earliest
    order by the event time alone, earliest first: OVER (PARTITION BY … ORDER BY ts)
"#,
    );
}

#[test]
fn frames_end_where_the_row_does_or_in_a_known_time() {
    refuses(
        r#"
SELECT sum(delay) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING) FROM s
  [ROWS BETWEEN 1 PRECEDING AND 3 PRECEDING] the frame ends before it begins: from 1 row before the row to 3 rows before the row
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM s
  [ROWS BETWEEN CURRENT ROW AND 1 PRECEDING] the frame ends before it begins: from the row itself to 1 row before the row
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING) FROM s
  [ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING] frames of ROWS look back: they begin and end at the current row or before it
    write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW, or AND 1 PRECEDING; or bounds in time: RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '1' SECOND FOLLOWING

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 0d FOLLOWING AND 1s PRECEDING) FROM s
  [ROWS_RANGE BETWEEN 0d FOLLOWING AND 1s PRECEDING] the frame ends before it begins: from the row's own time to 1 s before the row
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN -1s PRECEDING AND CURRENT ROW) FROM s
  [-] a bound of a frame is not negative: PRECEDING or FOLLOWING says to which side it lies
    leave the minus out, and write the other one of them

SELECT sum(delay) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING) FROM s
  [ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING] frames of ROWS look back: they begin and end at the current row or before it
    write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW, or AND 1 PRECEDING; or bounds in time: RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '1' SECOND FOLLOWING

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) FROM s
  [RANGE BETWEEN 3 PRECEDING AND CURRENT ROW] the frame reaches 3, expected an interval
    write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN 3s PRECEDING AND CURRENT ROW) FROM s
  [3] units of one letter belong to ROWS_RANGE
    write ROWS_RANGE for RANGE, or INTERVAL '3' SECOND

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM s
  [RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING] a frame up to the last row would have to wait for the end of the stream
    say how far it reaches: RANGE BETWEEN … AND INTERVAL '1' SECOND FOLLOWING

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW) FROM s
  [RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW] the frame reaches 1 MONTH: months and years differ in length
    write how many days are meant: INTERVAL '30' DAY

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '-1' SECOND PRECEDING AND CURRENT ROW) FROM s
  [RANGE BETWEEN INTERVAL '-1' SECOND PRECEDING AND CURRENT ROW] the frame reaches -1 SECOND, which is less than nothing
    write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND INTERVAL '5' SECOND PRECEDING) FROM s
  [RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND INTERVAL '5' SECOND PRECEDING] the frame ends before it begins: from 1 s before the row to 5 s before the row
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts ROWS_RANGE BETWEEN 0s OPEN PRECEDING AND CURRENT ROW) FROM s
  [ROWS_RANGE BETWEEN 0s OPEN PRECEDING AND CURRENT ROW] the frame ends before it begins: from just behind the row to the row's own time
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '0.000003' SECOND FOLLOWING AND CURRENT ROW) FROM s
  [RANGE BETWEEN INTERVAL '0.000003' SECOND FOLLOWING AND CURRENT ROW] the frame ends before it begins: from 3 us behind the row to the row's own time
    the bound that is earlier stands first; OPEN leaves out the rows at the bound itself

SELECT sum(delay) OVER (ORDER BY ts ROWS 1.5 PRECEDING) FROM s
  [1.5] 1.5 is no bound of a frame
    write a whole number: ROWS BETWEEN 9 PRECEDING AND CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts ROWS delay PRECEDING) FROM s
  [ROWS delay PRECEDING] ROWS counts rows, and no whole number of them stands here
    write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts RANGE delay PRECEDING) FROM s
  [RANGE delay PRECEDING] a frame of RANGE reaches a span of time that is written in the query
    write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts RANGE INTERVAL delay SECOND PRECEDING) FROM s
  [RANGE INTERVAL delay SECOND PRECEDING] a frame of RANGE reaches a span of time that is written in the query
    write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts RANGE INTERVAL '0.0000001' SECOND PRECEDING) FROM s
  [RANGE INTERVAL '0.0000001' SECOND PRECEDING] the frame reaches 0.0000001 SECOND: time is counted in whole microseconds
    write RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW) FROM s
  [RANGE BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW] the frame begins behind the last row
    begin it with UNBOUNDED PRECEDING, or a span before the row

SELECT sum(delay) OVER (ORDER BY ts RANGE BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING) FROM s
  [RANGE BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING] the frame ends before the first row
    end it with CURRENT ROW, or a span around the row

SELECT sum(delay) OVER (ORDER BY ts GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM s
  [GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW] GROUPS is not there
    write RANGE or ROWS

CREATE VIEW v AS SELECT sum(delay) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING) AS n FROM s
  [ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING] frames of ROWS look back: they begin and end at the current row or before it
    write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW, or AND 1 PRECEDING; or bounds in time: RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND INTERVAL '1' SECOND FOLLOWING
"#,
    );
}

#[test]
fn names_of_windows_are_looked_for_where_they_are_declared() {
    refuses(
        r#"
SELECT sum(delay) OVER w FROM s
  [w] window "w" not found
    declare it behind FROM: WINDOW w AS (PARTITION BY … ORDER BY …)

SELECT sum(delay) OVER late FROM s WINDOW later AS (ORDER BY ts)
  [late] window "late" not found
    did you mean "later"?

SELECT sum(delay) OVER w FROM s WINDOW w AS (ORDER BY ts), w AS (ORDER BY ts)
  [w] two windows are named "w"
    name one of them anew

SELECT sum(delay) OVER (w ORDER BY ts) FROM s WINDOW w AS (ORDER BY ts)
  [w] window "w" has an ORDER BY already
    leave one of them out

SELECT sum(delay) OVER (w PARTITION BY origin) FROM s WINDOW w AS (ORDER BY ts)
  [w] window "w" has its PARTITION BY, or clauses of its own, already
    leave one of them out

SELECT sum(delay) OVER (w ROWS 3 PRECEDING) FROM s WINDOW w AS (ORDER BY ts ROWS 2 PRECEDING)
  [w] window "w" has a frame already
    leave one of them out

SELECT sum(delay) OVER v FROM s WINDOW w AS v, v AS w
  [w] window "w" stands for itself
    say what one of them is: WINDOW w AS (PARTITION BY … ORDER BY …)

SELECT sum(delay) OVER v FROM s WINDOW w AS (v), v AS (w)
  [w] window "w" not found
    declare it behind FROM: WINDOW w AS (PARTITION BY … ORDER BY …)
"#,
    );
}

#[test]
fn calls_with_over_look_at_rows() {
    refuses(
        r#"
SELECT abs(delay) OVER (ORDER BY ts) FROM s
  [abs] abs is of one row, and OVER looks at others
    leave OVER out, or compute an aggregate

SELECT nope(delay) OVER (ORDER BY ts) FROM s
  [nope] function "nope" not found
    SHOW FUNCTIONS lists those that are there

SELECT lead(delay) OVER (ORDER BY ts) FROM s
  [lead(delay) OVER (ORDER BY ts)] lead is not there: it would have to wait for rows of any time
    look ahead in time: first_value(x) OVER (… RANGE BETWEEN INTERVAL '0.000001' SECOND FOLLOWING AND INTERVAL '1' MINUTE FOLLOWING)

SELECT ntile(3) OVER (ORDER BY ts) FROM s
  [ntile(3) OVER (ORDER BY ts)] ntile is not there yet
    the functions of OVER are lag, row_number, rank, dense_rank and all aggregates

SELECT lag(delay, -1) OVER (ORDER BY ts) FROM s
  [lag(delay, -1) OVER (ORDER BY ts)] lag looks a number of rows back that is written in the query, from 0 on
    write lag(x, 2)

SELECT lag(delay, 1, 0, 2) OVER (ORDER BY ts) FROM s
  [lag(delay, 1, 0, 2) OVER (ORDER BY ts)] lag takes a value, perhaps how many rows to look back, and what stands before the first row
    write lag(x, 2, 0)

SELECT rank() FILTER (WHERE delay > 1) OVER (ORDER BY ts) FROM s
  [rank() FILTER (WHERE delay > 1) OVER (ORDER BY ts)] rank looks at all rows: FILTER and DISTINCT belong to aggregates
    leave it out, or filter in a subquery in FROM

SELECT first_value(delay ORDER BY fare) OVER (ORDER BY ts) FROM s
  [first_value(delay ORDER BY fare) OVER (ORDER BY ts)] a call with OVER has no order of its own
    leave ORDER BY out: rows stand in the order of the window

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY delay) OVER (ORDER BY ts) FROM s
  [percentile_cont(0.5) WITHIN GROUP (ORDER BY delay) OVER (ORDER BY ts)] WITHIN GROUP and OVER do not stand behind one call
    write the value as the first argument: percentile_cont(x, 0.5) OVER (…)

SELECT sum(sum(delay) OVER (ORDER BY ts)) OVER (ORDER BY ts) FROM s
  [OVER] OVER stands in a call of an aggregate
    compute the inner one in a subquery in FROM

SELECT * FROM s WHERE sum(delay) OVER (ORDER BY ts) > 3
  [OVER] OVER looks at the rows around a row, and here single rows are looked at
    compute it in a subquery in FROM

SELECT sum(origin) OVER (ORDER BY ts) FROM s
  [sum] function "sum" does not take STRING
    give it as many arguments as it takes, and cast them: CAST(x AS DOUBLE)

SELECT sum(delay) FILTER (WHERE fare) OVER (ORDER BY ts) FROM s
  [FILTER] the condition is DOUBLE, expected BOOLEAN
    compare it with something: x > 0

SELECT sum(nope) OVER (ORDER BY ts) FROM s
  [nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

SELECT sum(delay) OVER (PARTITION BY nope ORDER BY ts) FROM s
  [nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

SELECT array_agg(delay) OVER (ORDER BY ts) FROM s
  [array_agg(delay) OVER (ORDER BY ts)] column "array_agg(delay) OVER (ORDER BY ts)" contains other values, and columns are flat
    string_agg(…) and concat(…) give one text

CREATE TABLE t (a INT, b AS sum(a) OVER (ORDER BY a)) WITH ('connector' = 'stream')
  [OVER] OVER looks at the rows around a row, and here single rows are looked at
    compute it in a subquery in FROM
"#,
    );
}

#[test]
fn corrections_are_looked_at_again_where_some_may_change_nothing() {
    let is_normalized = |query: &str| plan_text(&format!("{query} EMIT EAGER")).contains("Normalize");
    let window = "WINDOW w AS (PARTITION BY origin ORDER BY ts ROWS_RANGE BETWEEN 1h PRECEDING AND 1h FOLLOWING)";
    for (query, expected) in [
        (format!("SELECT delay, sum(delay) OVER w AS a FROM s {window}"), false),
        (format!("SELECT sum(delay) OVER w AS a, max(delay) OVER w AS b FROM s {window}"), false),
        (format!("SELECT sum(delay) OVER w > 9 AS a FROM s {window}"), true),
        (format!("SELECT a FROM (SELECT delay, sum(delay) OVER w AS a FROM s {window}) WHERE delay > 1"), false),
        (format!("SELECT a FROM (SELECT delay, sum(delay) OVER w AS a FROM s {window}) WHERE a > 1"), true),
        ("SELECT s.delay FROM s JOIN f ON s.origin = f.origin AND f.ts = s.ts".to_string(), false),
    ] {
        assert_eq!(is_normalized(&query), expected, "{query}");
    }
}

#[test]
fn where_rows_stand_is_not_asked_for_sums_of_others_at_once() {
    let asks = |query: &str| plan_text(query).contains("Position");
    let query = |call: &str, clauses: &str| {
        format!("SELECT {call} OVER (UNION f PARTITION BY origin ORDER BY ts {clauses}) AS n FROM s")
    };
    let hour = "ROWS_RANGE BETWEEN 1h PRECEDING AND 1s FOLLOWING INSTANCE_NOT_IN_WINDOW";
    let (sum, all) =
        (query("sum(delay)", hour), "ROWS_RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW INSTANCE_NOT_IN_WINDOW");
    let rows = "ROWS BETWEEN 9 PRECEDING AND CURRENT ROW INSTANCE_NOT_IN_WINDOW";
    let whole = "ROWS_RANGE BETWEEN 1h PRECEDING AND CURRENT ROW";
    let results = "FROM (SELECT *, sum(delay) OVER (ORDER BY ts) AS a FROM s)";
    for (query, expected) in [
        (sum.clone() + " EMIT EAGER", false),
        (query("avg(delay) FILTER (WHERE delay > 1)", hour) + " EMIT EAGER", false),
        (query("count(*)", hour) + " EMIT EAGER", false),
        (sum.clone(), true),
        (query("first_value(delay)", hour) + " EMIT EAGER", true),
        (query("sum(DISTINCT delay)", hour) + " EMIT EAGER", true),
        (query("sum(delay)", &format!("{hour} MAXSIZE 5")) + " EMIT EAGER", true),
        (query("sum(delay)", all) + " EMIT EAGER", true),
        (query("sum(delay)", rows) + " EMIT EAGER", true),
        (query("sum(delay)", whole) + " EMIT EAGER", true),
        (sum.replace("SELECT", "SELECT a,").replace("FROM s", results) + " EMIT EAGER", true),
    ] {
        assert_eq!(asks(&query), expected, "{query}");
    }
}
