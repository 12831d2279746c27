//! Whatever the text, there is an answer or an error: no panic, and no plan that is much longer than the text.

use thalweg_core::error::Fault;

use super::*;

const SEED: u64 = 0x7a1;

const STATEMENTS: [&str; 26] = [
    "SELECT origin, delay + 1 AS d FROM s WHERE delay > 10 AND origin = 'JFK' LIMIT 5",
    "SELECT window_start, window_end, origin, count(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, origin",
    "SELECT window_end, sum(delay) FILTER (WHERE delay > 0) FROM HOP(s, ts, INTERVAL '5' MINUTE, INTERVAL '1' HOUR) WHERE window_start > TIMESTAMP '2013-01-01 00:00:00' GROUP BY window_end HAVING count(*) > 3",
    "SELECT origin, count(DISTINCT dest), avg(fare) FROM f GROUP BY origin ORDER BY 2 DESC NULLS LAST LIMIT 3 OFFSET 1",
    "WITH a AS (SELECT ts, delay FROM s UNION ALL SELECT ts, delay FROM f) SELECT window_start, max(delay) FROM TUMBLE(a, ts, INTERVAL '1' DAY, INTERVAL '6' HOUR) GROUP BY window_start",
    "SELECT CASE WHEN delay > 10 THEN 'late' ELSE coalesce(origin, '?') END, CAST(ts AS TIMESTAMP_LTZ(3)) FROM s",
    "VALUES (1, 'a', NULL), (2, 'b', 3.5)",
    "INSERT INTO out (origin, n) SELECT origin, count(*) FROM f GROUP BY origin",
    "CREATE TABLE t (a INT NOT NULL COMMENT 'x', b AS a + 1, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'file', 'format' = 'csv')",
    "CREATE OR REPLACE VIEW v (a, b) AS SELECT origin, delay FROM s WHERE delay IS NOT NULL",
    "SELECT DISTINCT origin FROM f UNION SELECT dest FROM f WHERE dest LIKE 'J%' AND delay BETWEEN 1 AND 5",
    "DROP TABLE IF EXISTS f",
    "DESCRIBE s",
    "SET 'late.allowed' = '1 min'",
    "EXPLAIN (FORMAT JSON) SELECT extract(hour FROM ts), date_trunc('day', ts), substring(origin FROM 1 FOR 2) FROM s",
    "SELECT origin, sum(delay) OVER w AS n, lag(fare, 2) OVER w FROM s WINDOW w AS (PARTITION BY origin ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
    "SELECT sum(delay) OVER ( UNION f , (SELECT origin, delay, ts FROM s) PARTITION BY origin ORDER BY ts ROWS_RANGE BETWEEN 1s OPEN PRECEDING AND 2m FOLLOWING MAXSIZE 9 EXCLUDE CURRENT_TIME EXCLUDE CURRENT_ROW INSTANCE_NOT_IN_WINDOW ) FROM s",
    "SELECT last_value(dest) FILTER (WHERE delay > 0) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND INTERVAL '1' SECOND FOLLOWING) FROM s QUALIFY rank() OVER (ORDER BY ts) > 1",
    "CREATE VIEW w AS SELECT max(delay) OVER v AS m, ts FROM s WINDOW u AS ( UNION f ), v AS ( u ORDER BY ts MAXSIZE 3 )",
    "SELECT a.origin, b.delay FROM s AS a LEFT JOIN f AS b ON a.origin = b.origin AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '2' SECOND AND a.delay < b.delay",
    "SELECT a.origin, b.delay FROM s AS a LAST JOIN f AS b ORDER BY b.ts ASC ON a.origin = b.origin AND b.ts <= a.ts AND b.delay > 0 LAST JOIN ( SELECT * FROM f ) c ON a.dest = c.dest",
    "SELECT sum_where(delay, delay > 1) FILTER (WHERE delay < 9) OVER w, distinct_count(dest) OVER w, topn_frequency(origin, 3) OVER w FROM s WINDOW w AS ( ORDER BY ts )",
    "WITH a AS ( SELECT max(k) OVER ( UNION (SELECT k, at AS ts FROM z), (SELECT 1 AS x, ts FROM s) ORDER BY ts ) AS m, ts FROM f ) SELECT sum(x) OVER v AS y FROM a WINDOW v AS ( UNION (SELECT 1 AS x, ts FROM s) ORDER BY ts )",
    "SELECT * FROM s AS a , f AS b WHERE a.origin = b.origin AND b.ts - a.ts <= INTERVAL '1' MINUTE AND a.ts < b.ts",
    "SELECT * FROM s WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.origin = s.origin AND f.ts BETWEEN s.ts AND s.ts + INTERVAL '1' HOUR) AND dest IN (SELECT dest FROM f WHERE f.ts = s.ts)",
    "SELECT ts + INTERVAL '1' MONTH, -delay, NOT (delay > 1), delay::BIGINT, now() FROM s WHERE delay IN (1, 2, 3)",
];

/// Small, fast and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// How many nodes the plan has that answers a text; none where it is refused, or answered at once.
#[track_caller]
fn answers(text: &str) -> usize {
    match run(&mut session(), text) {
        Ok(Outcome::Plan(plan) | Outcome::Explain(plan, _) | Outcome::Analyze(plan, _)) => plan.nodes().count(),
        Ok(_) => 0,
        Err(error) => {
            // The caret stands somewhere, and whatever went wrong is the text's fault.
            assert!(!caret(text, &error).is_empty());
            assert_eq!(error.fault(), Fault::Query, "{text}\n{error}");
            0
        }
    }
}

fn words() -> Vec<&'static str> {
    let mut words: Vec<_> = STATEMENTS.iter().flat_map(|statement| statement.split(' ')).collect();
    words.extend([
        "(", ")", ",", ";", ".", "*", "'", "\"", "`", "--", "/*", "$1", "?", "::", "=>", "JOIN", "OVER", "0", "1e400",
        "''",
    ]);
    words.extend([
        "9223372036854775808",
        "INTERVAL",
        "TABLE",
        "TUMBLE(",
        "DESCRIPTOR(ts)",
        "é",
        "\n",
        "\t",
        "NULL",
        "EXISTS",
        "UNION",
        "ROWS_RANGE",
        "RIGHT ANTI JOIN",
        "USING (origin)",
        "NATURAL",
        "UNBOUNDED",
        "FOLLOWING",
        "OPEN",
        "1d",
        "[",
        "{",
        "@x",
    ]);
    words
}

#[test]
fn mutated_statements_are_answered() {
    let (mut random, vocabulary) = (Random(SEED), words());
    for _ in 0..1500 {
        let mut words: Vec<_> = random.pick(&STATEMENTS).split(' ').collect();
        for _ in 0..1 + random.below(4) {
            let at = random.below(words.len());
            match random.below(4) {
                0 if words.len() > 1 => drop(words.remove(at)),
                1 => words.insert(at, random.pick(&vocabulary)),
                2 => words[at] = random.pick(&vocabulary),
                _ => {
                    let other = random.below(words.len());
                    words.swap(at, other);
                }
            }
        }
        answers(&words.join(" "));
    }
}

#[test]
fn token_soup_is_answered() {
    let (mut random, vocabulary) = (Random(SEED), words());
    for _ in 0..1500 {
        let start = random.pick(&["", "SELECT", "SELECT * FROM", "CREATE TABLE t (", "INSERT INTO out", "WITH a AS ("]);
        let length = random.below(20);
        let soup: Vec<_> = (0..length).map(|_| random.pick(&vocabulary)).collect();
        answers(&format!("{start} {}", soup.join(" ")));
    }
}

#[test]
fn characters_out_of_order_are_answered() {
    let mut random = Random(SEED);
    for _ in 0..1000 {
        let mut letters: Vec<char> = random.pick(&STATEMENTS).chars().collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(letters.len());
            let strange = ['\'', '"', '`', '(', ')', ';', '\\', '\0', 'ß', '🦀', '-', '/', '*', '%', '\n'];
            match random.below(3) {
                0 if letters.len() > 1 => drop(letters.remove(at)),
                1 => letters.insert(at, strange[random.below(strange.len())]),
                _ => letters[at] = strange[random.below(strange.len())],
            }
        }
        answers(&letters.into_iter().collect::<String>());
    }
}

#[test]
fn deep_and_long_statements_have_plans_in_proportion() {
    let repeat =
        |open: &str, inner: &str, close: &str, n: usize| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
    let statements = [
        format!("SELECT {} FROM s", repeat("(", "delay", ")", 1000)),
        format!("SELECT {} FROM s", repeat("(", "delay", ")", 30)),
        format!("SELECT * FROM {}", repeat("(", "s", ")", 1000)),
        format!("SELECT * FROM {}", repeat("(", "s", ")", 30)),
        format!("SELECT * FROM {}", repeat("(", "SELECT * FROM s", ")", 30)),
        format!("SELECT * FROM {} s", repeat("(SELECT * FROM ", "s", ") t", 200)),
        format!("SELECT * FROM {} s", repeat("(SELECT * FROM ", "s", ") t", 20)),
        format!("SELECT {} FROM s", repeat("abs(", "delay", ")", 1000)),
        format!("SELECT {} FROM s", repeat("abs(", "delay", ")", 30)),
        format!("SELECT {}delay FROM s", "- ".repeat(3000)),
        format!("SELECT * FROM s WHERE {}true", "NOT ".repeat(3000)),
        format!("SELECT {} FROM s", vec!["delay"; 3000].join(" + ")),
        format!("SELECT * FROM s WHERE {}", vec!["delay > 1"; 3000].join(" AND ")),
        format!("SELECT * FROM s WHERE {}", vec!["delay = 1"; 3000].join(" OR ")),
        format!("SELECT {}", repeat("CASE WHEN true THEN ", "1", " END", 300)),
        vec!["SELECT origin, dest FROM s"; 400].join(" UNION ALL "),
        vec!["SELECT origin, dest FROM s"; 250].join(" UNION ALL "),
        format!("SELECT {} FROM s", vec!["delay"; 250].join(" + ")),
        format!("SELECT {} FROM s", vec!["(delay"; 45].join(" + ") + &")".repeat(45)),
        format!("SELECT {} FROM s", vec!["delay"; 1000].join("::INT = ")),
        vec!["SELECT origin FROM s"; 400].join(" UNION ALL "),
        format!("VALUES {}", vec!["(1, 'a')"; 2000].join(", ")),
        format!("SELECT {} FROM s", (0..500).map(|i| format!("delay + {i} AS c{i}")).collect::<Vec<_>>().join(", ")),
        format!("SELECT * FROM s WHERE delay IN ({})", vec!["1"; 3000].join(", ")),
        format!("{} SELECT * FROM s", ";".repeat(3000)),
        format!(
            "SELECT {} FROM s",
            repeat("sum(delay) OVER (UNION (SELECT ", "1", " AS delay FROM s) ORDER BY ts)", 40)
        ),
        format!("SELECT {} FROM s", repeat("sum(delay) OVER (UNION ", "f", " ORDER BY ts)", 1000)),
        format!("WITH r0 AS (SELECT * FROM f){} SELECT * FROM r30", {
            let next =
                |i| format!(", r{} AS (SELECT ts, sum(delay) OVER (UNION r{i} ORDER BY ts) AS delay FROM s)", i + 1);
            (0..30).map(next).collect::<String>()
        }),
        format!("SELECT * FROM s AS a0{}", {
            let next = |i| format!(" JOIN f AS a{i} ON a{i}.ts BETWEEN a0.ts AND a0.ts + INTERVAL '1' HOUR");
            (1..40).map(next).collect::<String>()
        }),
        format!(
            "SELECT {} FROM s",
            (0..200)
                .map(|i| format!("sum(delay + {i}) OVER (ORDER BY ts ROWS {i} PRECEDING) AS c{i}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        format!("SELECT * FROM {}", repeat("TUMBLE(", "s", ", ts, INTERVAL '1' HOUR)", 40)),
    ];
    for statement in &statements {
        let nodes = answers(statement);
        let start: String = statement.chars().take(60).collect();
        // What grows with the square of what is nested is enough for ever.
        assert!(nodes <= statement.len(), "{start}… has {nodes} nodes, and {} letters", statement.len());
    }
}
