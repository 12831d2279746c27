-- A year of departures from New York's airports, in the order in which the planes left: by the scheduled time, which is the event
-- time, three rows in five are out of order. 22 hours cover the longest delay of the year, so no row is late.

CREATE TABLE departures (
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '22' HOUR
) WITH (
  'connector' = 'file',
  'path' = 'examples/data/departures.csv.gz'
);

SELECT
  window_start,
  origin,
  count(*) AS departures,
  round(avg(dep_delay), 1) AS mean_delay,
  max(dep_delay) AS worst_delay,
  count(*) FILTER (WHERE dep_delay IS NULL) AS cancelled
FROM TABLE(TUMBLE(TABLE departures, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, origin;
