//! Joins of streams: what becomes of their conditions.

use super::*;

#[test]
fn bounds_on_event_times_stand_in_any_arrangement() {
    check(
        r#"
SELECT a.origin, b.delay FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '2' SECOND AND a.delay < b.delay
Sink result
└─ Map origin, delay:2 AS delay
   └─ IntervalJoin inner on origin = origin, ts from -1 s to +2 s of ts where delay < delay:2
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s a JOIN f b ON a.ts <= b.ts + INTERVAL '5' MINUTE AND b.ts < a.ts
Sink result
└─ Map origin
   └─ IntervalJoin inner, ts from -5 min to -1 us of ts
      ├─ Map origin, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s a JOIN f b ON b.ts - a.ts <= INTERVAL '1' SECOND AND b.ts - a.ts >= INTERVAL '0' SECOND
Sink result
└─ Map origin
   └─ IntervalJoin inner, ts from 0 to +1 s of ts
      ├─ Map origin, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s a JOIN f b ON a.ts - INTERVAL '1' SECOND > b.ts AND INTERVAL '1' DAY + b.ts > a.ts
Sink result
└─ Map origin
   └─ IntervalJoin inner, ts from -86399999999 us to -1000001 us of ts
      ├─ Map origin, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s a JOIN f b ON a.ts = b.ts
Sink result
└─ Map origin
   └─ IntervalJoin inner, ts from 0 to 0 of ts
      ├─ Map origin, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s a JOIN f b ON b.ts - INTERVAL '1' SECOND BETWEEN a.ts AND a.ts + INTERVAL '1:30' MINUTE TO SECOND AND b.ts < a.ts + INTERVAL '1' MINUTE
Sink result
└─ Map origin
   └─ IntervalJoin inner, ts from +1 s to +59999999 us of ts
      ├─ Map origin, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM f b JOIN s a ON a.ts BETWEEN b.ts AND b.ts + INTERVAL '90' SECOND
Sink result
└─ Map origin
   └─ IntervalJoin inner, ts from 0 to +90 s of ts
      ├─ Map ts, position
      │  └─ Position
      │     └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map origin, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn each_kind_of_join_has_its_rows() {
    check(
        r#"
SELECT * FROM s AS a LEFT JOIN s AS b ON upper(a.origin) = b.dest AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR AND a.delay > 3 AND b.delay > 4
Sink result
└─ Map origin, dest, delay, fare, ts, origin:2, dest:2, delay:2, fare:2, ts:2
   └─ IntervalJoin left on upper(origin) = dest, ts from 0 to +1 h of ts where delay > 3
      ├─ Position
      │  └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Filter delay > 4
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT a.origin, b.origin AS o FROM s AS a RIGHT JOIN f AS b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR AND a.delay > 3 AND b.delay > 4
Sink result
└─ Map origin, origin:2 AS o
   └─ IntervalJoin right on origin = origin, ts from 0 to +1 h of ts where delay > 4
      ├─ Map origin, ts, position
      │  └─ Filter delay > 3
      │     └─ Position
      │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin, b.origin AS o FROM s AS a FULL OUTER JOIN f AS b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR AND a.delay > 3 AND b.delay > 4
Sink result
└─ Map origin, origin:2 AS o
   └─ IntervalJoin full on origin = origin, ts from 0 to +1 h of ts where delay > 3 AND delay:2 > 4
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT * FROM s AS a LEFT SEMI JOIN f AS b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map origin, dest, delay, fare, ts
   └─ IntervalJoin semi on origin = origin, ts from 0 to +1 h of ts
      ├─ Position
      │  └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s AS a LEFT ANTI JOIN f AS b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR AND a.fare > b.fare
Sink result
└─ Map origin
   └─ IntervalJoin anti on origin = origin, ts from 0 to +1 h of ts where fare > fare:2
      ├─ Map origin, fare, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, fare, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT * FROM s AS a RIGHT SEMI JOIN f AS b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map origin, dest, delay, fare, ts
   └─ IntervalJoin semi on origin = origin, ts from -1 h to 0 of ts
      ├─ Position
      │  └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map origin, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT b.dest FROM s AS a RIGHT ANTI JOIN f AS b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map dest
   └─ IntervalJoin anti on origin = origin, ts from -1 h to 0 of ts
      ├─ Map origin, dest, ts, position
      │  └─ Position
      │     └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map origin, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn conditions_may_stand_in_where() {
    check(
        r#"
SELECT a.origin FROM s a, f b WHERE a.origin = b.origin AND b.ts >= a.ts AND b.ts <= a.ts + INTERVAL '1' HOUR AND a.delay > 3 AND b.fare + a.fare > 2
Sink result
└─ Map origin
   └─ IntervalJoin inner on origin = origin, ts from 0 to +1 h of ts where fare:2 + fare > 2
      ├─ Map origin, fare, ts, position
      │  └─ Filter delay > 3
      │     └─ Position
      │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, fare, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s a CROSS JOIN f b WHERE abs(a.delay) = b.delay AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map origin
   └─ IntervalJoin inner on abs(delay) = delay, ts from 0 to +1 h of ts
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT s.origin, dest FROM s JOIN f USING (origin, dest) WHERE s.ts BETWEEN f.ts AND f.ts + INTERVAL '1' HOUR
Sink result
└─ Map origin, dest
   └─ IntervalJoin inner on origin = origin, dest = dest, ts from -1 h to 0 of ts
      ├─ Map origin, dest, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, dest, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT origin FROM s NATURAL JOIN f
Sink result
└─ Map origin
   └─ IntervalJoin inner on origin = origin, dest = dest, delay = delay, fare = fare, ts from 0 to 0 of ts
      ├─ Position
      │  └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Position
         └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin FROM s a LEFT JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR WHERE b.delay IS NULL AND a.delay > 1
Sink result
└─ Map origin
   └─ Filter delay IS NULL
      └─ IntervalJoin left on origin = origin, ts from 0 to +1 h of ts
         ├─ Map origin, ts, position
         │  └─ Filter delay > 1
         │     └─ Position
         │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
         └─ Map origin, delay, ts, position
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn queries_in_conditions_become_joins() {
    check(
        r#"
SELECT * FROM s WHERE EXISTS (SELECT 1 FROM f WHERE f.origin = s.origin AND f.ts BETWEEN s.ts AND s.ts + INTERVAL '1' HOUR)
Sink result
└─ Map origin, dest, delay, fare, ts
   └─ IntervalJoin semi on origin = origin, ts from 0 to +1 h of ts
      ├─ Position
      │  └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT s.delay FROM s WHERE NOT EXISTS (SELECT * FROM f WHERE f.origin = s.origin AND f.delay > s.delay AND f.ts BETWEEN s.ts AND s.ts + INTERVAL '1' HOUR AND f.fare > 3) AND s.fare > 2
Sink result
└─ Map delay
   └─ IntervalJoin anti on origin = origin, ts from 0 to +1 h of ts where delay:2 > delay
      ├─ Map origin, delay, ts, position
      │  └─ Filter fare > 2
      │     └─ Position
      │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Filter fare > 3
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT delay FROM s a WHERE origin IN (SELECT origin FROM f WHERE f.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR)
Sink result
└─ Map delay
   └─ IntervalJoin semi on origin = origin, ts from 0 to +1 h of ts
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT origin FROM s WHERE EXISTS (SELECT 1 FROM (SELECT *, sum(delay) OVER (ORDER BY ts) AS n FROM f) AS b WHERE b.n > s.delay AND b.ts BETWEEN s.ts AND s.ts + INTERVAL '1' HOUR)
Sink result
└─ Map origin
   └─ IntervalJoin semi, ts from 0 to +1 h of ts where sum(delay) > delay
      ├─ Map origin, delay, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Over on ts: range the first to 0 compute sum(delay)
         └─ Map delay, ts, position
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn results_of_joins_have_an_event_time() {
    check(
        r#"
SELECT window_start, count(*) FROM TUMBLE((SELECT a.ts AS ts FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR), ts, INTERVAL '1' HOUR) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 h on ts compute count(*)
      └─ Map ts
         └─ IntervalJoin inner on origin = origin, ts from 0 to +1 h of ts
            ├─ Map origin, ts, position
            │  └─ Position
            │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
            └─ Map origin, ts, position
               └─ Position
                  └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT window_start, count(*) FROM TUMBLE((SELECT b.ts AS ts FROM s a RIGHT JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR), ts, INTERVAL '1' HOUR) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 h on ts:2 compute count(*)
      └─ Map ts:2
         └─ IntervalJoin right on origin = origin, ts from 0 to +1 h of ts
            ├─ Map origin, ts, position
            │  └─ Position
            │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
            └─ Map origin, ts, position
               └─ Position
                  └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.origin, c.delay FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR JOIN s c ON c.dest = b.dest AND c.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map origin, delay
   └─ IntervalJoin inner on dest = dest, ts from 0 to +1 h of ts
      ├─ Map origin, ts, dest
      │  └─ IntervalJoin inner on origin = origin, ts from 0 to +1 h of ts
      │     ├─ Map origin, ts, position
      │     │  └─ Position
      │     │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      │     └─ Map origin, dest, ts, position
      │        └─ Position
      │           └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map dest, delay, ts, position
         └─ Position
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT a.origin, sum(b.delay) OVER (PARTITION BY a.origin ORDER BY a.ts) AS n FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map origin, sum(delay) AS n
   └─ Over by origin on ts: range the first to 0 compute sum(delay)
      └─ Map origin, ts, delay
         └─ IntervalJoin inner on origin = origin, ts from 0 to +1 h of ts
            ├─ Map origin, ts, position
            │  └─ Position
            │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
            └─ Map origin, delay, ts, position
               └─ Position
                  └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT count(*) FROM f a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Aggregate compute count(*)
   └─ Map origin
      └─ IntervalJoin inner on origin = origin, ts from 0 to +1 h of ts
         ├─ Map origin, ts, position
         │  └─ Position
         │     └─ Source f (file, 2 partitions), watermark ts - 5 s
         └─ Map origin, ts, position
            └─ Position
               └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn anything_with_an_event_time_is_joined() {
    check(
        r#"
CREATE VIEW v AS SELECT a.origin AS o, b.delay AS d, a.ts AS t FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR; SELECT d FROM v WHERE o = 'JFK'
Sink result
└─ Map delay AS d
   └─ IntervalJoin inner on origin = origin, ts from 0 to +1 h of ts
      ├─ Map origin, ts, position
      │  └─ Filter origin = 'JFK'
      │     └─ Position
      │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.n FROM (SELECT *, sum(delay) OVER (ORDER BY ts) AS n FROM s) a JOIN f b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map sum(delay) AS n
   └─ IntervalJoin inner, ts from 0 to +1 h of ts
      ├─ Over on ts: range the first to 0 compute sum(delay)
      │  └─ Map delay, ts, position
      │     └─ Position
      │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.delay FROM (SELECT * FROM s UNION ALL SELECT * FROM f) AS a JOIN f AS b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink result
└─ Map delay
   └─ IntervalJoin inner, ts from 0 to +1 h of ts
      ├─ Union
      │  ├─ Map delay, ts, position
      │  │  └─ Position
      │  │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      │  └─ Map delay, ts, position
      │     └─ Position
      │        └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT a.n, b.n AS m FROM (SELECT window_time AS t, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_time) a JOIN (SELECT window_time AS t, count(*) AS n FROM TUMBLE(f, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_time) b ON a.t = b.t
Sink result
└─ Map count(*) AS n, count(*):2 AS m
   └─ IntervalJoin inner, window_time from 0 to 0 of window_time
      ├─ Map window_time, count(*)
      │  └─ Aggregate tumble 1 h on ts compute count(*)
      │     └─ Map ts
      │        └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map window_time, count(*)
         └─ Aggregate tumble 1 h on ts compute count(*)
            └─ Map ts
               └─ Source f (file, 2 partitions), watermark ts - 5 s

INSERT INTO out SELECT a.origin, b.delay FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
Sink out (file)
└─ Map origin, delay AS n
   └─ IntervalJoin inner on origin = origin, ts from 0 to +1 h of ts
      ├─ Map origin, ts, position
      │  └─ Position
      │     └─ Source s (stream, 2 partitions), watermark ts - 5 s
      └─ Map origin, delay, ts, position
         └─ Position
            └─ Source f (file, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn joins_have_bounds_on_both_event_times() {
    refuses(
        r#"
SELECT * FROM s JOIN f ON s.origin = f.origin
  [JOIN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND f.ts BETWEEN s.ts - INTERVAL '1' MINUTE AND s.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s, f
  [FROM] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add WHERE f.ts BETWEEN s.ts - INTERVAL '1' MINUTE AND s.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts > a.ts
  [JOIN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND b.ts <= a.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts < a.ts + INTERVAL '1' HOUR
  [JOIN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND b.ts >= a.ts - INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s a CROSS JOIN f b WHERE a.delay = 1
  [JOIN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND b.ts BETWEEN a.ts - INTERVAL '1' MINUTE AND a.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND abs(a.ts - b.ts) < INTERVAL '1' SECOND
  [abs(a.ts - b.ts)] abs takes a number, and a span of time is none
    write both bounds: b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '1' SECOND

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + 1000
  [a.ts + 1000] cannot compute TIMESTAMP(6) + BIGINT
    write a span of time as an interval: ts + INTERVAL '1' MINUTE

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + 10m
  [m] units like "m" belong to ROWS_RANGE
    write a span of time as an interval: INTERVAL '10' MINUTE

SELECT * FROM s SEMI JOIN f
  [JOIN] a join has no condition
    write which rows belong together: ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '1' MINUTE AND a.ts

SELECT * FROM s JOIN f USING (origin)
  [JOIN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND f.ts BETWEEN s.ts - INTERVAL '1' MINUTE AND s.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR OR a.delay = 1
  [JOIN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND b.ts BETWEEN a.ts - INTERVAL '1' MINUTE AND a.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s JOIN out ON s.origin = out.origin
  [JOIN] a join of streams needs bounds on both event times, and "out" has none
    declare it in CREATE TABLE out: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND

SELECT * FROM s a JOIN z b ON a.ts BETWEEN b.at AND b.at + INTERVAL '1' SECOND
  [JOIN] the event times of a join are TIMESTAMP(6) and TIMESTAMP_LTZ(6), which are not one type
    declare both columns with one type in CREATE TABLE

SELECT * FROM s a LEFT JOIN f b ON a.origin = b.origin WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
  [JOIN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add to the condition behind ON: AND b.ts BETWEEN a.ts - INTERVAL '1' MINUTE AND a.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT a.origin FROM (SELECT origin, ts + INTERVAL '1' SECOND AS t FROM s) a JOIN f b ON b.ts BETWEEN a.t AND a.t + INTERVAL '1' HOUR
  [JOIN] a join of streams needs bounds on both event times, and one side has none any more
    "ts" carried it before: take that, as it is

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts - INTERVAL '1' MONTH AND a.ts
  [JOIN] the event times of a join are bounded by b.ts >= a.ts - INTERVAL '1' MONTH: months and years differ in length
    write a span of days, hours, minutes or seconds

SELECT window_start, count(*) FROM TUMBLE((SELECT a.ts AS ts FROM s a FULL JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR), ts, INTERVAL '1' HOUR) GROUP BY window_start
  [ts] column "ts" does not carry the event time of its stream
    the rows of a FULL JOIN have none: a LEFT JOIN's have that of the left row

SELECT a.origin, count(*) FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR GROUP BY a.origin
  [GROUP] GROUP BY over an unbounded stream would have to keep every group for ever
    group by windows: FROM TUMBLE(t, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end

SELECT * FROM s WHERE origin IN (SELECT origin FROM f)
  [IN] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND f.ts BETWEEN s.ts - INTERVAL '1' MINUTE AND s.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts - INTERVAL '10000000000' SECOND AND a.ts
  [INTERVAL '10000000000' SECOND] an interval that is written in hours, minutes and seconds is no longer than 292 years
    write days: INTERVAL '200000' DAY

SELECT * FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts - INTERVAL '99999999999 hours' AND a.ts
  [INTERVAL '99999999999 hours'] an interval that is written in hours, minutes and seconds is no longer than 292 years
    write days: INTERVAL '200000' DAY

SELECT a.origin FROM s a RIGHT SEMI JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
  [a.origin] table "a" of column "origin" is not in FROM
    of a SEMI or ANTI JOIN the rows of one side come out, with its columns: the left one's, or the right one's if it is a RIGHT one

SELECT * FROM s WHERE EXISTS (SELECT 1 FROM f WHERE f.origin = s.nope AND f.ts BETWEEN s.ts AND s.ts + INTERVAL '1' HOUR)
  [s.nope] table "s" of column "nope" is not in FROM
    "s" is outside of this subquery: EXISTS and IN see the columns that it has, and others none

SELECT * FROM s AS a WHERE EXISTS (SELECT 1 FROM f WHERE f.origin = a.nope AND f.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR)
  [a.nope] table "a" of column "nope" is not in FROM
    "a" is outside of this subquery: EXISTS and IN see the columns that it has, and others none

SELECT * FROM s WHERE EXISTS (SELECT 1 FROM f WHERE f.origin = s.origin)
  [EXISTS] a join of streams needs bounds on both event times: else each row would have to wait for partners for ever
    add AND f.ts BETWEEN s.ts - INTERVAL '1' MINUTE AND s.ts + INTERVAL '1' MINUTE, of the columns that carry the event times, as they are
"#,
    );
}

#[test]
fn joins_say_which_columns_are_meant() {
    refuses(
        r#"
SELECT origin FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
  [origin] column "origin" is there more than once
    write the table's name before it, or name one of them anew with AS

SELECT a.nope FROM s a JOIN f b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
  [a.nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

SELECT * FROM s a JOIN f b ON a.origin = b.delay AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR AND a.delay = b.ts
  [a.delay = b.ts] cannot compare INT = TIMESTAMP(6)
    cast one side to the other's type

SELECT * FROM s a JOIN f b ON a.ts
  [a.ts] the condition is TIMESTAMP(6), expected BOOLEAN
    compare it with something: x > 0

SELECT * FROM s JOIN nope ON s.origin = nope.origin
  [nope] table "nope" not found
    the tables and views here are f, out, s, z

SELECT * FROM s LEFT JOIN f USING (origin, ts)
  [USING] USING and NATURAL are not there for outer joins: it is not clear which side's value is meant
    write ON a.k = b.k AND …

SELECT * FROM s NATURAL FULL JOIN f
  [NATURAL] USING and NATURAL are not there for outer joins: it is not clear which side's value is meant
    write ON a.k = b.k AND …
"#,
    );
}

#[test]
fn times_that_cancel_bound_nothing() {
    let of = |bound: &str| {
        format!(
            "SELECT a.delay FROM s a JOIN s b ON a.origin = b.origin AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR
             JOIN f c ON a.origin = c.origin AND c.ts >= b.ts AND {bound}"
        )
    };
    let distance = plan_text(&of("c.ts <= b.ts + INTERVAL '1' HOUR"));
    assert!(distance.contains("0 to +2 h"), "{distance}");
    assert!(refusal(&of("c.ts <= a.ts + (b.ts - b.ts)")).contains("needs bounds on both event times"));
}
