//! What queries become.

use super::*;

#[test]
fn everything_is_the_source_itself() {
    check(
        r#"
SELECT * FROM s
Sink result
└─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT * FROM (SELECT * FROM s AS a) AS b
Sink result
└─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT * EXCEPT (origin) FROM s
Sink result
└─ Map dest, delay, fare, ts
   └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn filters_and_projections_stand_on_the_source() {
    check(
        r#"
SELECT origin, delay + 1 AS d FROM s WHERE delay > 10 AND origin = 'JFK'
Sink result
└─ Map origin, delay + 1 AS d
   └─ Filter delay > 10 AND origin = 'JFK'
      └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT t.id FROM (SELECT delay AS id, fare FROM s) t WHERE fare > 1.5
Sink result
└─ Map delay AS id
   └─ Filter fare > 1.5
      └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT * FROM s WHERE false
Sink result
└─ Filter false
   └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn bounded_input_is_grouped_sorted_and_cut() {
    check(
        r#"
SELECT count(*), avg(delay) FROM f
Sink result
└─ Aggregate compute count(*), avg(delay)
   └─ Map delay
      └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT count(*) FROM (SELECT 1 FROM f)
Sink result
└─ Aggregate compute count(*)
   └─ Map origin
      └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT max(origin), sum(fare) / count(*) AS mean FROM f
Sink result
└─ Map max(origin), sum(fare) / count(*) AS mean
   └─ Aggregate compute max(origin), sum(fare), count(*)
      └─ Map origin, fare
         └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT origin, count(*) AS n FROM f GROUP BY origin ORDER BY n DESC, origin LIMIT 3 OFFSET 1
Sink result
└─ Map origin, count(*) AS n
   └─ Limit 3 after 1
      └─ Sort count(*) desc nulls last, origin asc nulls first keep 4
         └─ Aggregate by origin compute count(*)
            └─ Map origin
               └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT DISTINCT origin FROM f
Sink result
└─ Aggregate by origin
   └─ Map origin
      └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT origin FROM f UNION SELECT dest FROM f
Sink result
└─ Aggregate by origin
   └─ Union
      ├─ Map origin
      │  └─ Source f (file, 2 partitions), watermark ts - 5 s
      └─ Map dest AS origin
         └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT * FROM (SELECT * FROM f ORDER BY delay LIMIT 3) WHERE fare > 1
Sink result
└─ Filter fare > 1
   └─ Limit 3
      └─ Sort delay asc nulls first keep 3
         └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT * FROM s LIMIT 3 OFFSET 2
Sink result
└─ Limit 3 after 2
   └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn unions_keep_the_time_that_all_share() {
    check(
        r#"
SELECT origin FROM s UNION ALL SELECT dest FROM f UNION ALL SELECT origin FROM s
Sink result
└─ Union
   ├─ Map origin
   │  └─ Source s (stream, 2 partitions), watermark ts - 5 s
   ├─ Map dest AS origin
   │  └─ Source f (file, 2 partitions), watermark ts - 5 s
   └─ Map origin
      └─ Source s (stream, 2 partitions), watermark ts - 5 s

SELECT window_start, count(*) FROM TUMBLE((SELECT ts FROM s UNION ALL SELECT ts FROM f), ts, INTERVAL '1' HOUR) GROUP BY window_start
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 h on ts compute count(*)
      └─ Union
         ├─ Map ts
         │  └─ Source s (stream, 2 partitions), watermark ts - 5 s
         └─ Map ts
            └─ Source f (file, 2 partitions), watermark ts - 5 s

SELECT 1 AS a UNION ALL SELECT 2.5
Sink result
└─ Union
   ├─ Values 1 rows
   └─ Values 1 rows
"#,
    );
}

#[test]
fn values_and_constants_need_no_source() {
    check(
        r#"
SELECT 1 AS a, 'x' AS b
Sink result
└─ Values 1 rows

VALUES (1, 'a'), (2, NULL)
Sink result
└─ Values 2 rows

SELECT id FROM (VALUES (1, 'a'), (2, 'b')) AS t(id, name) WHERE id > 1
Sink result
└─ Map column1 AS id
   └─ Filter column1 > 1
      └─ Values 2 rows

SELECT 1 AS one WHERE false
Sink result
└─ Map 1 AS one
   └─ Filter false
      └─ Values 1 rows
"#,
    );
}

#[test]
fn rows_go_into_tables_under_their_columns() {
    check(
        r#"
INSERT INTO out SELECT origin, count(*) FROM f GROUP BY origin
Sink out (file)
└─ Map origin, count(*) AS n
   └─ Aggregate by origin compute count(*)
      └─ Map origin
         └─ Source f (file, 2 partitions), watermark ts - 5 s

INSERT INTO out (n) SELECT delay FROM s
Sink out (file)
└─ Map NULL AS origin, delay AS n
   └─ Source s (stream, 2 partitions), watermark ts - 5 s

INSERT INTO out VALUES ('JFK', 1), ('EWR', 2)
Sink out (file)
└─ Map column1 AS origin, column2 AS n
   └─ Values 2 rows

INSERT INTO out (SELECT origin, delay FROM s)
Sink out (file)
└─ Map origin, delay AS n
   └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}

#[test]
fn views_are_their_queries() {
    check(
        r#"
CREATE VIEW v (o, d2, at) AS SELECT origin, delay * 2, ts FROM s; SELECT window_start, o, sum(d2) FROM TUMBLE(v, at, INTERVAL '1' HOUR) WHERE o = 'JFK' GROUP BY window_start, o
Sink result
└─ Map window_start, o, sum(d2)
   └─ Aggregate tumble 1 h on at by o compute sum(d2)
      └─ Map origin AS o, delay * 2 AS d2, ts AS at
         └─ Filter origin = 'JFK'
            └─ Source s (stream, 2 partitions), watermark ts - 5 s

CREATE VIEW w AS SELECT * FROM TUMBLE(s, ts, INTERVAL '1' HOUR); SELECT window_start, count(*) FROM w GROUP BY window_start, window_end
Sink result
└─ Map window_start, count(*)
   └─ Aggregate tumble 1 h on ts compute count(*)
      └─ Map ts
         └─ Source s (stream, 2 partitions), watermark ts - 5 s
"#,
    );
}
