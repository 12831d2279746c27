//! What is refused, with the place, what is said, and what to do.

use super::*;

#[test]
fn an_unknown_table_or_column_is_marked_with_what_is_there() {
    refuses(
        r#"
SELECT * FROM nope
  [nope] table "nope" not found
    the tables and views here are f, out, s, z

SELECT * FROM a.b.s
  [a.b.s] table "a.b.s" not found
    names of tables have one part: there are no catalogs and databases

SELECT Origin FROM s
  [Origin] column "Origin" not found
    did you mean "origin"?

SELECT x.origin FROM f
  [x.origin] table "x" of column "origin" is not in FROM
    the tables here are f

SELECT f.nope FROM f
  [f.nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

SELECT max(delay) FILTER (WHERE nope) FROM f
  [nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

SELECT window_start FROM s
  [window_start] column "window_start" not found
    the columns here are origin, dest, delay, fare, ts

DESCRIBE nope
  [nope] table "nope" not found
    the tables and views here are f, out, s, z

DROP TABLE nope
  [nope] table "nope" not found
    the tables and views here are f, out, s, z

DROP VIEW s
  [s] "s" is a table
    write DROP TABLE s

INSERT INTO nope SELECT 1
  [nope] table "nope" not found
    the tables and views here are f, out, s, z
"#,
    );
}

#[test]
fn syntax_errors_say_what_was_expected_where() {
    refuses(
        r#"
SELEC * FROM s
  [SELEC] "SELEC" does not begin a statement
    did you mean "SELECT"?

SELECT * FORM s
  [FORM] unexpected "FORM" after the end of the statement
    did you mean "FROM"?

SELECT count(*) OVER w FILTER (WHERE v > 0) FROM s WINDOW w AS (ORDER BY ts)
  [FILTER] FILTER stands behind OVER
    write it before: sum(v) FILTER (WHERE v > 0) OVER w

SELECT * FROM s WHERE
  [] expected an expression, found the end of the statement

SELECT (1 + 2 FROM s
  [FROM] expected ), found "FROM"

SELECT 'abc FROM s
  ['] unterminated string literal

SELECT * FROM s; SELECT * FROM s extra words
  [words] unexpected "words" after the end of the statement
    statements are separated by semicolons

CREATE TABLE t (a INT b INT) WITH ('connector' = 'file')
  [b] expected ), found "b"

CREATE TABLE t (a INT) WITH ('connector' 'file')
  ['file'] expected =, found "'file'"

SHOW COLUMNS
  [COLUMNS] expected TABLES, VIEWS, FUNCTIONS, CREATE TABLE or CREATE VIEW after SHOW, found "COLUMNS"

EXPLAIN (FORMAT XML) SELECT 1
  [XML] unknown format "XML" of EXPLAIN
    the formats are TEXT, JSON and DOT

EXPLAIN DROP TABLE s
  [DROP] only SELECT and INSERT have a plan to explain
"#,
    );
}

#[test]
fn groups_without_end_are_refused_with_the_way_out() {
    refuses(
        r#"
SELECT origin, count(*) FROM s GROUP BY origin
  [GROUP] GROUP BY over an unbounded stream would have to keep every group for ever
    group by windows: FROM TUMBLE(t, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end

SELECT count(*) FROM s
  [count(*)] an aggregate over an unbounded stream would never be complete
    group by windows: FROM TUMBLE(t, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end

SELECT DISTINCT origin FROM s
  [DISTINCT] DISTINCT over an unbounded stream would have to remember every row for ever
    group by windows: FROM TUMBLE(t, ts, INTERVAL '1' HOUR) GROUP BY window_start, window_end

SELECT origin, count(*) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY origin
  [GROUP] GROUP BY over an unbounded stream would have to keep every group for ever
    add the window to it: GROUP BY window_start, window_end

SELECT origin FROM s UNION SELECT origin FROM s
  [UNION] UNION over an unbounded stream would have to remember every row for ever
    write UNION ALL

SELECT * FROM s ORDER BY ts
  [ORDER] ORDER BY over an unbounded stream would have to wait for its end
    leave it out: windows come in the order of their ends; bounded tables can be sorted

SELECT window_start, count(*) FROM TUMBLE(s, ts, INTERVAL '1' HOUR) GROUP BY window_start ORDER BY window_start
  [ORDER] ORDER BY over an unbounded stream would have to wait for its end
    leave it out: windows come in the order of their ends; bounded tables can be sorted
"#,
    );
}

#[test]
fn what_is_not_there_yet_is_refused_with_the_way_out() {
    refuses(
        r#"
SELECT origin FROM s INTERSECT SELECT origin FROM f
  [INTERSECT] INTERSECT is not there: it would have to remember every row for ever
    filter with WHERE

SELECT origin FROM f EXCEPT SELECT origin FROM f
  [EXCEPT] EXCEPT is not there: it would have to remember every row for ever
    filter with WHERE

SELECT * FROM s WHERE origin NOT IN (SELECT origin FROM f)
  [IN] NOT IN (SELECT …) is not there: a null among the values would make it never true
    write NOT EXISTS (SELECT * FROM … WHERE …)

SELECT origin IN (SELECT origin FROM f) AS e FROM s
  [IN] IN (SELECT …) stands in WHERE, by itself or between ANDs
    write the values into the query, or filter where the data comes from

SELECT * FROM s WHERE delay > 1 OR EXISTS (SELECT 1 FROM f WHERE f.ts = s.ts)
  [EXISTS] EXISTS stands in WHERE, by itself or between ANDs
    join with LEFT JOIN, and filter what comes of it

SELECT * FROM s WHERE EXISTS (SELECT count(*) FROM f WHERE f.ts = s.ts)
  [EXISTS] the query in EXISTS or IN is none that rows can be joined with
    select rows with WHERE alone: EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.ts BETWEEN a.ts AND …)

SELECT * FROM s WHERE EXISTS (SELECT 1 FROM f WHERE f.ts = s.ts AND f.delay > (SELECT max(delay) FROM f))
  [(] a subquery as a value is not there yet: it is a join
    write the values into the query, or filter where the data comes from

SELECT * FROM s WHERE delay > (SELECT max(delay) FROM f)
  [(] a subquery as a value is not there yet: it is a join
    write the values into the query, or filter where the data comes from

SELECT * FROM s WHERE delay > ALL (SELECT 1)
  [(] comparisons with ANY and ALL of a subquery are not there yet
    write the values into the query, or filter where the data comes from

WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT * FROM r
  [RECURSIVE] WITH RECURSIVE is not there: a stream is read once
    write the steps one after another

SELECT * FROM UNNEST(ARRAY[1,2])
  [UNNEST] UNNEST is not there yet: columns are flat
    write one row per element where the data comes from

SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY origin ORDER BY ts MEASURES A.delay AS d PATTERN (A B+) DEFINE B AS B.delay > 1)
  [MATCH_RECOGNIZE] MATCH_RECOGNIZE is not there yet
    find single rows with WHERE, or count them per window with TUMBLE

SELECT origin, count(*) FROM f GROUP BY ROLLUP(origin, dest)
  [ROLLUP] ROLLUP is not there yet
    write one SELECT per grouping, and UNION ALL between them

SELECT origin, count(*) FROM f GROUP BY CUBE(origin)
  [CUBE] CUBE is not there yet
    write one SELECT per grouping, and UNION ALL between them

SELECT origin, count(*) FROM f GROUP BY GROUPING SETS ((origin), ())
  [GROUPING] GROUPING SETS are not there yet
    write one SELECT per grouping, and UNION ALL between them

SELECT DISTINCT ON (origin) origin FROM f
  [DISTINCT] DISTINCT ON is not there yet
    group by the keys, and take first_value(x ORDER BY …) of the other columns

SELECT * FROM s FOR SYSTEM_TIME AS OF ts
  [FOR] temporal joins are not there yet
    the last row before another one is a LAST JOIN: LAST JOIN r ORDER BY r.ts ON s.k = r.k AND r.ts <= s.ts

SELECT s.ts FROM s ASOF JOIN f MATCH_CONDITION (s.ts >= f.sched_dep) ON true
  [ASOF] ASOF JOIN is LAST JOIN here
    write LAST JOIN r ORDER BY r.ts ON s.k = r.k AND r.ts <= s.ts

SELECT * FROM s TABLESAMPLE BERNOULLI (10)
  [s] TABLESAMPLE is not there
    write WHERE random() < 0.1

SELECT * FROM s FETCH FIRST 3 ROWS ONLY
  [FETCH] FETCH is not there
    write LIMIT

SELECT * FROM s FOR UPDATE
  [FOR] FOR UPDATE is not there: a query changes nothing
    leave it out

SELECT array_agg(delay) FROM f
  [array_agg(delay)] column "array_agg(delay)" contains other values, and columns are flat
    string_agg(…) and concat(…) give one text

SELECT ARRAY[1,2]
  [ARRAY] arrays are not there yet: columns are flat
    write one column per element

SELECT $1 FROM s
  [$1] there is no value for $1
    write the value into the query

SELECT TABLE x FROM s
  [x] this expression is not there
    SHOW FUNCTIONS lists the functions
"#,
    );
}

#[test]
fn statements_that_are_not_there_are_refused_by_their_first_words() {
    refuses(
        r#"
UPDATE s SET delay = 1
  [UPDATE] UPDATE is not there: a stream is only ever added to
    SELECT the changed rows, and INSERT them INTO another table

DELETE FROM s
  [DELETE] DELETE is not there: a stream is only ever added to
    SELECT the rows to keep with WHERE

MERGE INTO s USING f ON true WHEN MATCHED THEN DELETE
  [MERGE] MERGE is not there: a stream is only ever added to
    INSERT INTO another table

COPY s TO 'x'
  [COPY] COPY is not there
    CREATE TABLE with a connector for the file, and INSERT INTO it

ALTER TABLE s ADD x INT
  [ALTER] ALTER is not there
    CREATE OR REPLACE TABLE changes a table

USE CATALOG c
  [USE] USE is not there: there are no catalogs and databases
    leave it out

BEGIN
  [BEGIN] transactions are not there yet
    leave it out

EXECUTE STATEMENT SET BEGIN INSERT INTO out SELECT 1 END
  [EXECUTE] statement sets are not there yet
    run the INSERT statements one after another

CREATE OR REPLACE TEMPORARY FUNCTION f AS 'x'
  [CREATE] functions cannot be defined in SQL yet
    SHOW FUNCTIONS lists those that are there

CREATE DATABASE d
  [CREATE] there are no catalogs and databases
    leave it out

CREATE MATERIALIZED VIEW v AS SELECT 1
  [CREATE] materialized views are not there yet
    CREATE VIEW, or INSERT INTO a table

INSERT OVERWRITE out SELECT 1
  [OVERWRITE] INSERT OVERWRITE is not there: a stream is only ever added to
    write INSERT INTO
"#,
    );
}

#[test]
fn functions_and_types_are_named_as_users_know_them() {
    refuses(
        r#"
SELECT foo(origin) FROM s
  [foo] function "foo" not found
    SHOW FUNCTIONS lists those that are there

SELECT uper(origin) FROM s
  [uper] function "uper" not found
    did you mean "upper"?

SELECT DATE_FORMAT(ts, origin) FROM s
  [DATE_FORMAT] the pattern of DATE_FORMAT is no constant
    write it as a text, as in 'yyyy-MM-dd'

SELECT PROCTIME() FROM s
  [PROCTIME] proctime is not there: results must not depend on when rows arrive
    use the event time of the rows; now() is fixed when the query starts

SELECT lag(delay) FROM s
  [lag] function "lag" not found
    it belongs to OVER: lag(x) OVER (PARTITION BY … ORDER BY ts)

SELECT sum(origin) FROM f
  [sum] function "sum" does not take STRING
    give it as many arguments as it takes, and cast them: CAST(x AS DOUBLE)

SELECT abs(origin) FROM f
  [abs] function "abs" does not take STRING
    give it as many arguments as it takes, and cast them: CAST(x AS DOUBLE)

SELECT origin + 1 FROM s
  [origin] cannot compute STRING + BIGINT
    cast one side: CAST(x AS DOUBLE)

SELECT origin = true FROM f
  [origin] cannot compare STRING = BOOLEAN
    cast one side to the other's type

SELECT CAST(origin AS FOO) FROM s
  [FOO] unknown type FOO
    the types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BYTES, DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ

SELECT CAST(ts AS TIMESTAMP(9)) FROM s
  [TIMESTAMP] type TIMESTAMP(9) is finer than time is kept: microseconds are the finest
    declare it as TIMESTAMP(6)

SELECT origin, delay FROM f GROUP BY origin
  [delay] column "delay" is neither grouped by nor aggregated
    add it to GROUP BY, or put it into an aggregate such as max(…)

SELECT origin, origin FROM f
  [origin] two columns are named "origin"
    name one of them anew with AS

SELECT * FROM s LIMIT 'a'
  ['a'] LIMIT must be a whole number of rows, written as a number

SELECT ts + delay * INTERVAL '1' MINUTE FROM s
  [delay * INTERVAL '1' MINUTE] cannot compute INT * INTERVAL
    compute a number, and turn it into time: to_timestamp_seconds(…)

SELECT origin FROM s WHERE delay
  [WHERE] the condition is INT, expected BOOLEAN
    compare it with something: x > 0

SELECT CAST('x' AS INT)
  [CAST('x' AS INT)] "x" is not a value of type INT
    TRY_CAST gives null where a value does not fit

SELECT * FROM TABLE(s)
  [s] TABLE(…) holds s, expected a table function
    write FROM s, or FROM TABLE(TUMBLE(TABLE s, …))
"#,
    );
}
