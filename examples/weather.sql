-- What the weather was in the three hours before each departure: one row per departure, in the order of schedules.

CREATE TABLE departures (
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '22' HOUR
) WITH (
  'connector' = 'file',
  'path' = 'examples/data/departures.csv.gz'
);

CREATE TABLE weather (
  WATERMARK FOR observed AS observed
) WITH (
  'connector' = 'file',
  'path' = 'examples/data/weather.csv.gz'
);

CREATE VIEW flights AS
SELECT sched_dep AS ts, origin, carrier, flight, dep_delay
FROM departures;

-- The window's key and time have the same names in both streams; what only the weather has is null in the departures.
SELECT
  ts, origin, carrier, flight, dep_delay,
  round(avg(wind) OVER before, 1) AS mean_wind,
  min(visibility) OVER before AS worst_visibility,
  sum(rain) OVER before AS rain
FROM flights
WINDOW before AS (
  UNION (SELECT observed AS ts, origin, wind_speed AS wind, visib AS visibility, precip AS rain FROM weather)
  PARTITION BY origin
  ORDER BY ts
  ROWS_RANGE BETWEEN 3h PRECEDING AND CURRENT ROW
  INSTANCE_NOT_IN_WINDOW
);
