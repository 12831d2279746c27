//! What queries become.

use super::*;

#[test]
fn filters_and_projections_stand_on_the_source() {
    check(
        "SELECT origin, delay + 1 AS d FROM s WHERE delay > 10",
        "Sink result
        └─ Map origin, delay + 1 AS d
           └─ Filter delay > 10
              └─ Source s (stream, 2 partitions), watermark ts - 5 s",
    );
}

#[test]
fn a_window_function_and_its_group_by_are_one_aggregate() {
    check(
        "SELECT window_start, window_end, origin, count(*) AS n, avg(delay)
         FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, origin",
        "Sink result
        └─ Map window_start, window_end, origin, count(*) AS n, avg(delay)
           └─ Aggregate tumble 10 min on ts by origin compute count(*), avg(delay)
              └─ Map origin, delay, ts
                 └─ Source s (stream, 2 partitions), watermark ts - 5 s",
    );
}
