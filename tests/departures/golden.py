"""Computes with DuckDB, a batch engine, what the departures must give, and writes it beside this file.

    pip install duckdb && python tests/departures/golden.py

A departure counts for its hour unless it came too late: the latest scheduled time among the rows before it, minus the
watermark's delay, had reached the hour's end. `exact.csv.gz` has a delay of 22 hours, `late.csv.gz` one of 3; `hop.csv.gz`
has windows of 90 minutes every 40, with 3 hours; `late_rows.txt` says how many rows came too late for at least
one of their windows. `weather.csv.gz` has, per day, airport and carrier, what the weather was in the three hours before each departure,
both ends included.
"""

import gzip
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
DATA = HERE.parent.parent / "examples" / "data" / "departures.csv.gz"
WEATHER = DATA.parent / "weather.csv.gz"

# Event times as instants in UTC; `met` is the highest one among the rows before.
ROWS = f"""
CREATE TABLE departures AS
SELECT *, max(sched_dep) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS met
FROM (SELECT *, row_number() OVER () AS n FROM read_csv('{DATA}', columns = {{
  'sched_dep': 'TIMESTAMP', 'carrier': 'VARCHAR', 'flight': 'BIGINT', 'tailnum': 'VARCHAR', 'origin': 'VARCHAR',
  'dest': 'VARCHAR', 'dep_delay': 'BIGINT', 'arr_delay': 'BIGINT', 'air_time': 'BIGINT', 'distance': 'BIGINT'}}))
"""

# Each row once per window: the windows of `size` minutes that start every `slide` and contain it.
WINDOWED = """
SELECT d.*, to_timestamp(60 * (k.k * {slide}))::TIMESTAMP AS window_start,
       to_timestamp(60 * (k.k * {slide} + {size}))::TIMESTAMP AS window_end
FROM departures d, LATERAL (SELECT unnest(range(
  epoch(sched_dep)::BIGINT // 60 // {slide} - {size} // {slide} - 1, epoch(sched_dep)::BIGINT // 60 // {slide} + 1)) AS k) k
WHERE k.k * {slide} * 60 <= epoch(sched_dep)::BIGINT AND epoch(sched_dep)::BIGINT < (k.k * {slide} + {size}) * 60
"""

RESULT = """
SELECT strftime(window_start, '%Y-%m-%dT%H:%M:%SZ') AS window_start, {key}, count(*) AS departures,
       avg(dep_delay) AS mean_delay, sum(distance) AS distance, min(dep_delay) AS least_delay, max(dep_delay) AS worst_delay,
       count(*) - count(dep_delay) AS cancelled, count(DISTINCT dest) AS destinations
FROM ({windowed}) WHERE NOT {late}
GROUP BY window_start, window_end, {key} ORDER BY window_end, window_start, {key}
"""


# What was observed before each departure, added up.
BEFORE = f"""
SELECT strftime(date_trunc('day', sched_dep), '%Y-%m-%dT%H:%M:%SZ') AS day, origin, carrier, count(*) AS departures,
       sum(observations) AS observations, sum(wind) AS wind, sum(visibility) AS visibility, sum(rain) AS rain
FROM (
  SELECT any_value(d.sched_dep) AS sched_dep, any_value(d.origin) AS origin, any_value(d.carrier) AS carrier,
         count(w.wind_speed) AS observations, sum(w.wind_speed::DECIMAL(10, 4)) AS wind, min(w.visib::DECIMAL(10, 2)) AS visibility,
         sum(w.precip::DECIMAL(10, 2)) AS rain
  FROM departures d LEFT JOIN read_csv('{WEATHER}', columns = {{
    'observed': 'TIMESTAMP', 'origin': 'VARCHAR', 'temp': 'DOUBLE', 'wind_speed': 'DOUBLE', 'wind_gust': 'DOUBLE',
    'precip': 'DOUBLE', 'visib': 'DOUBLE'}}) w
  ON d.origin = w.origin AND w.observed BETWEEN d.sched_dep - INTERVAL 3 HOUR AND d.sched_dep
  GROUP BY d.n)
GROUP BY day, origin, carrier ORDER BY day, origin, carrier
"""


def put(name, rows):
    text = "".join(",".join("" if field is None else str(field) for field in row) + "\n" for row in rows)
    # No time of writing inside, so that the same rows give the same file.
    (HERE / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def late(hours):
    return f"coalesce(met - INTERVAL {hours} HOUR >= window_end, false)"


def write(db, name, key, size, slide, hours):
    windowed = WINDOWED.format(size=size, slide=slide)
    rows = db.execute(RESULT.format(key=key, windowed=windowed, late=late(hours))).fetchall()
    put(name, rows)
    (count,) = db.execute(f"SELECT count(DISTINCT n) FROM ({windowed}) WHERE {late(hours)}").fetchone()
    return f"{name} {count}\n"


def main():
    db = duckdb.connect()
    db.execute("SET threads = 1; SET preserve_insertion_order = true; SET TimeZone = 'UTC'")
    db.execute(ROWS)
    counts = [
        write(db, "exact", "origin", 60, 60, 22),
        write(db, "late", "origin", 60, 60, 3),
        write(db, "hop", "origin", 90, 40, 3),
    ]
    (HERE / "late_rows.txt").write_text("".join(counts) + "weather 0\n")
    put("weather", db.execute(BEFORE).fetchall())


main()
