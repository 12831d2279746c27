//! What is wrong with declarations, inserts and settings.

use super::*;

#[test]
fn inserts_name_the_column_that_does_not_fit() {
    refuses(
        r#"
INSERT INTO out SELECT n, origin FROM out
  [out] column "origin" is STRING, and column 1 of the query is BIGINT
    cast it: CAST(n AS STRING)

INSERT INTO out SELECT origin, fare FROM s
  [out] column "n" is BIGINT, and column 2 of the query is DOUBLE
    cast it: CAST(fare AS BIGINT)

INSERT INTO out SELECT 'a'
  [out] table "out" takes 2 columns, the query has 1
    the columns here are origin, n

INSERT INTO out (nope) SELECT 'a'
  [nope] column "nope" not found
    the columns here are origin, n

INSERT INTO out (n, n) SELECT 1, 2
  [n] column "n" is named twice

CREATE TABLE nn (a INT NOT NULL, b INT) WITH ('connector' = 'file'); INSERT INTO nn (b) VALUES (1)
  [nn] column "a" is NOT NULL and gets no value
    name it in INSERT INTO, and give it one

CREATE TABLE nn (a INT, b AS a + 1) WITH ('connector' = 'file'); INSERT INTO nn (b) SELECT 1
  [b] column "b" is computed and takes no values
    leave it out

CREATE VIEW v AS SELECT 1 AS one; INSERT INTO v SELECT 1
  [v] "v" is a view, and rows go into tables
    INSERT INTO a table
"#,
    );
}

#[test]
fn declarations_are_checked() {
    refuses(
        r#"
CREATE TABLE t (ms BIGINT, WATERMARK FOR ms AS ms) WITH ('connector' = 'stream')
  [ms] column "ms" is BIGINT, expected TIMESTAMP or TIMESTAMP_LTZ to carry event time
    add a computed column: event_time AS to_timestamp_millis(ms) (or _seconds, or _micros), and watermark that one

CREATE TABLE t (ts STRING, WATERMARK FOR ts AS ts) WITH ('connector' = 'stream')
  [ts] column "ts" is STRING, expected TIMESTAMP or TIMESTAMP_LTZ to carry event time
    it is STRING; add a computed column: event_time AS CAST(ts AS TIMESTAMP), and watermark that one

CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts + INTERVAL '1' SECOND) WITH ('connector' = 'stream')
  [ts] the watermark of "ts" is ts + INTERVAL '1' SECOND: it would run ahead of the rows
    write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND

CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MONTH) WITH ('connector' = 'stream')
  [ts] the watermark of "ts" is ts - INTERVAL '1' MONTH: months and years differ in length
    write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND

CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS now()) WITH ('connector' = 'stream')
  [now] the watermark of "ts" is now(): expected the column itself, or the column minus an interval
    write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND

CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector' = 'stream')
  [t] column "t" not found
    the columns here are ts

CREATE TABLE t (ts TIMESTAMP(9)) WITH ('connector' = 'stream')
  [TIMESTAMP] type TIMESTAMP(9) is finer than time is kept: microseconds are the finest
    declare it as TIMESTAMP(6)

CREATE TABLE t (a ARRAY<INT>) WITH ('connector' = 'stream')
  [ARRAY] type ARRAY is not there yet: columns are flat
    read the column as STRING, or declare its parts as columns of their own

CREATE TABLE t (a MAP<STRING, INT>) WITH ('connector' = 'stream')
  [MAP] type MAP is not there yet: columns are flat
    read the column as STRING, or declare its parts as columns of their own

CREATE TABLE t (a ROW<b INT>) WITH ('connector' = 'stream')
  [ROW] type ROW is not there yet: columns are flat
    read the column as STRING, or declare its parts as columns of their own

CREATE TABLE t (a FOO) WITH ('connector' = 'stream')
  [FOO] unknown type FOO
    the types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BYTES, DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ

CREATE TABLE t (a DECIMAL(50, 2)) WITH ('connector' = 'stream')
  [DECIMAL] type DECIMAL(50, 2) has no such precision or scale
    precision is from 1 to 38, and scale from 0 to precision

CREATE TABLE t (a INT METADATA FROM 'x') WITH ('connector' = 'stream')
  [METADATA] METADATA columns are not there yet
    leave the column out

CREATE TABLE t (a INT PRIMARY KEY) WITH ('connector' = 'stream')
  [)] a primary key cannot be enforced on a stream
    write PRIMARY KEY … NOT ENFORCED, or leave it out

CREATE TABLE t (a INT DEFAULT 3) WITH ('connector' = 'stream')
  [DEFAULT] columns have no DEFAULT
    write the value in INSERT INTO … SELECT

CREATE TABLE t (a INT, a INT) WITH ('connector' = 'stream')
  [a] column "a" is declared twice
    name one of them anew

CREATE TABLE t (a INT, b AS nope + 1) WITH ('connector' = 'stream')
  [nope] column "nope" not found
    the columns here are a

CREATE TABLE t (a INT, b AS sum(a)) WITH ('connector' = 'stream')
  [sum] a computed column is of one row, and sum is of many
    aggregate in a query, with GROUP BY

CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'stream')
  [b] column "b" not found
    the columns here are a

CREATE TABLE t (delay AS 1) WITH ('connector' = 'stream')
  [delay] column "delay" is declared twice
    the connector found a column of this name; choose another

CREATE TABLE t (a INT)
  [t] table "t" has no WITH ('connector' = …)
    say where its rows are: WITH ('connector' = 'file', 'path' = …, 'format' = 'csv')

CREATE TABLE t (a INT) WITH ('format' = 'csv')
  [WITH] option 'connector' is missing
    the connectors are 'stream', 'file'

CREATE TABLE t (a INT) WITH ('connector' = 'kafka')
  ['kafka'] unknown connector 'kafka'
    the connectors are 'stream', 'file'

CREATE TABLE t (a INT) WITH ('connector' = 'file', 'connector' = 'file')
  ['connector'] option 'connector' is given twice

CREATE TABLE t (a INT) WITH ('connector' = 'file', 'nope' = 'x'); SELECT * FROM t
  [t] unknown option 'nope'
    the options here are 'connector', 'format', 'path', 'lateness', 'accuracy'

CREATE TABLE s (a INT) WITH ('connector' = 'file')
  [s] table "s" is there already
    CREATE OR REPLACE TABLE changes it, CREATE TABLE IF NOT EXISTS keeps it

CREATE TABLE t AS SELECT * FROM s
  [AS] CREATE TABLE … AS SELECT is not there yet
    CREATE TABLE first, then INSERT INTO it

CREATE TABLE t (a INT) PARTITIONED BY (a) WITH ('connector' = 'file')
  [PARTITIONED] PARTITIONED BY is not there yet
    leave it out: a file source has one partition per file

CREATE TABLE a.b (a INT) WITH ('connector' = 'file')
  [a] names of tables have one part: there are no catalogs and databases
    leave out what stands before the last dot

CREATE VIEW s AS SELECT 1
  [s] "s" is a table
    choose another name, or DROP TABLE s first

CREATE OR REPLACE VIEW s AS SELECT 1
  [s] "s" is a table
    choose another name, or DROP TABLE s first

CREATE VIEW v (a) AS SELECT origin, delay FROM s
  [a] the view names 1 columns, its query has 2
    name every column, or none

CREATE VIEW v AS SELECT nope FROM s
  [nope] column "nope" not found
    the columns here are origin, dest, delay, fare, ts

CREATE VIEW v AS SELECT origin FROM s; CREATE OR REPLACE VIEW v AS SELECT * FROM v
  [v] view "v" cannot read itself
    give it another name

CREATE VIEW v AS SELECT origin FROM s; DROP TABLE s
  [s] table "s" is read by view "v"
    DROP VIEW v first

CREATE VIEW v AS SELECT delay FROM s; CREATE OR REPLACE TABLE s (a INT) WITH ('connector' = 'file'); SELECT * FROM v
  [v] view "v": column "delay" not found
    the columns here are a

SET 'parallelism' = 'x'
  ['x'] setting 'parallelism' is 'x', expected a whole number from 1 to 1024

SET 'adaptive.high' = '101 %'
  ['101 %'] setting 'adaptive.high' is '101 %', expected a percentage such as '70 %', above that of 'adaptive.low'

SET 'adaptive.high' = '10 %'; SHOW TABLES; SELECT origin FROM s
  [SELECT] setting 'adaptive.low' is '20 %', and not below 'adaptive.high', which is '10 %'
    SET one of them anew: instances become fewer below the first, and more above the second

SET 'nope' = 'x'
  ['nope'] unknown setting 'nope'
    the settings are 'parallelism', 'batch.rows', 'target.delay', 'batch.linger', 'watermark.idle', 'late.allowed', 'memory.limit', 'time.zone', 'float.sum', 'window.anchor', 'merge', 'merge.slack', 'exchange.memory', 'exchange.scatter', 'parallel.strategy', 'aggregate.phases', 'over.incremental', 'join.index', 'adaptive', 'adaptive.interval', 'adaptive.imbalance', 'adaptive.low', 'adaptive.high', 'adaptive.improvement'

SET 'late.alowed' = '1 s'
  ['late.alowed'] unknown setting 'late.alowed'
    did you mean "late.allowed"?

SET 'time.zone' = 'Mars/Phobos'
  ['Mars/Phobos'] setting 'time.zone' is 'Mars/Phobos', which is no time zone
    zones are named 'UTC', 'Europe/Berlin' or '+02:00'

RESET 'nope'
  ['nope'] unknown setting 'nope'
    the settings are 'parallelism', 'batch.rows', 'target.delay', 'batch.linger', 'watermark.idle', 'late.allowed', 'memory.limit', 'time.zone', 'float.sum', 'window.anchor', 'merge', 'merge.slack', 'exchange.memory', 'exchange.scatter', 'parallel.strategy', 'aggregate.phases', 'over.incremental', 'join.index', 'adaptive', 'adaptive.interval', 'adaptive.imbalance', 'adaptive.low', 'adaptive.high', 'adaptive.improvement'
"#,
    );
}
