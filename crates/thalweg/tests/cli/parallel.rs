//! Plans with instances, and what is measured of them.

use std::{fs, path::PathBuf};

use thalweg_plan::parallel::deployment::Deployment;

use super::{check, check_stderr, file, thalweg};

/// A query of two aggregates, of which the second has other keys.
const CASCADE: &str = "SET 'merge' = 'arrival'; SET 'parallelism' = '8';
    CREATE TABLE g (k BIGINT) WITH ('connector' = 'generator', 'number-of-rows' = '1000', 'fields.k.kind' = 'sequence');
    SELECT n, count(*) AS m FROM (SELECT k % 10 AS k, count(*) AS n FROM g GROUP BY k % 10) GROUP BY n";

fn parallel(arguments: &[&str]) -> serde_json::Value {
    let all = [&["explain", "--json"], arguments, &["-c", CASCADE]].concat();
    let done = thalweg(&all);
    // Costs that are measured place these aggregates otherwise than they were.
    let is_otherwise = done.stderr.starts_with("it ran otherwise than it is shown");
    assert_eq!((done.code, is_otherwise), (Some(0), arguments.contains(&"--analyze")), "{}", done.stderr);
    serde_json::from_str(&done.stdout).expect("it is JSON")
}

fn instances(plan: &serde_json::Value) -> Vec<u64> {
    plan["subqueries"].as_array().unwrap().iter().map(|subquery| subquery["instances"].as_u64().unwrap()).collect()
}

#[test]
fn the_parallel_plan_is_explained_in_every_format() {
    let text = thalweg(&["explain", "--parallel", "-c", CASCADE]).stdout;
    assert!(text.starts_with("subquery-cluster, parallelism 8, "), "{text}");
    assert!(
        text.contains("0 dealt in turn\n          Partial by k % 10 compute count(*)  [kernels and DataFusion]\n"),
        "{text}"
    );
    assert!(text.contains("1 by key k % 10, 128 key groups; merged by arrival\n"), "{text}");
    assert!(text.contains("          Partial by count(*) compute count(*)  [kernels]\n"), "{text}");
    assert!(text.contains("2 by key n, 128 key groups; merged by arrival\n"), "{text}");
    assert!(text.contains("3 all to one; merged by arrival\n          Sink result\n"), "{text}");
    let dot = thalweg(&["explain", "--parallel", "--dot", "-c", CASCADE]).stdout;
    assert!(dot.starts_with("digraph parallel {\n") && dot.contains("  s2 -> s3 [label=\"by key n, 128"), "{dot}");
    let slack = CASCADE.replace("'arrival'", "'slack'; SET 'merge.slack' = '250 ms'");
    let text = thalweg(&["explain", "--parallel", "-c", &slack]).stdout;
    assert!(text.contains("3 all to one; merged in order within a slack of 250 ms\n          Sink result\n"), "{text}");
    let dot = thalweg(&["explain", "--parallel", "--dot", "-c", &slack]).stdout;
    assert!(dot.contains("  s3 -> s4 [label=\"all to one; ordered within a slack of 250 ms\"];"), "{dot}");
    for format in [&["explain", "--parallel", "--json", "-c", &slack][..], &["explain", "--json", "-c", &slack]] {
        let json: serde_json::Value = serde_json::from_str(&thalweg(format).stdout).unwrap();
        let input = &json["subqueries"][4]["inputs"][0];
        assert_eq!((&input["merge"], &input["slack"]), (&"slack".into(), &"250 ms".into()), "{input}");
    }
    let json = parallel(&["--parallel"]);
    assert_eq!((json["strategy"].as_str(), instances(&json)), (Some("subquery-cluster"), vec![1, 8, 8, 8, 1]));
    let deployed = Deployment::parse(&json["deployment"]).unwrap();
    assert_eq!(deployed.json(), json["deployment"]);
    let placed: Vec<_> = deployed.placements.iter().map(|p| (p.subquery.0, p.instances, p.host.as_str())).collect();
    assert_eq!(placed, [(0, 1, "local"), (1, 8, "local"), (2, 8, "local"), (3, 8, "local"), (4, 1, "local")]);
    let each = parallel(&["--parallel", "--strategy", "operator-cluster"]);
    assert_eq!(each["strategy"], "operator-cluster");
    assert!(instances(&each).len() > 4, "{each}");
}

#[test]
fn parallelism_is_an_option_and_a_setting() {
    let keyed =
        "CREATE TABLE s (k INT) WITH ('connector' = 'generator', 'number-of-rows' = '1000', 'partitions' = '4');
                 SELECT k, count(DISTINCT k) AS n FROM s GROUP BY k";
    let plan = |arguments: &[&str], set: &str| {
        let sql = format!("{set} {keyed}");
        let done = thalweg(&[&["explain", "--parallel", "--json"], arguments, &["-c", &sql]].concat());
        let json: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        (json["parallelism"].as_u64().unwrap(), instances(&json))
    };
    let [three, four, cores] =
        [plan(&["--parallelism", "3"], ""), plan(&[], "SET 'parallelism' = '4';"), plan(&[], "")];
    assert_eq!((three, &four), ((3, vec![3, 3, 1]), &(4, vec![4, 4, 1])));
    assert_eq!(plan(&["--parallelism", "3"], "SET 'parallelism' = '4';"), four, "what the script says comes later");
    for reset in ["RESET 'parallelism';", "RESET;"] {
        assert_eq!(plan(&[], &format!("SET 'parallelism' = '4'; {reset}")), cores, "as if it had not been set");
    }
    for wrong in ["0", "1025", "many"] {
        let done = thalweg(&["run", "--parallelism", wrong, "-c", keyed]);
        assert!(done.code == Some(2) && done.stderr.contains("'--parallelism <N>'"), "{}", done.stderr);
    }
}

#[test]
fn what_is_measured_is_added_to_what_was() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("costs-of-two.json");
    let path = path.to_str().unwrap();
    fs::remove_file(path).ok();
    let sql = ["SELECT 1 AS a", "SELECT 2 AS b"];
    for one in sql {
        assert_eq!(thalweg(&["explain", "--analyze", "--costs", path, "-c", one]).code, Some(0));
    }
    check(&["--costs", path, "-o", "csv", "-c", &sql.join(";")], "a\n1\nb\n2\n");
    let foreign = file("no-costs.json", "[1]");
    let done = thalweg(&["explain", "--analyze", "--costs", foreign, "-c", sql[0]]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(foreign);
    assert_eq!(fs::read_to_string(kept).unwrap(), "[1]", "what is something else is not written over");
}

#[test]
fn costs_are_measured_and_divide_the_workers() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("costs.json");
    let path = path.to_str().unwrap();
    fs::remove_file(path).ok();
    let analyzed = parallel(&["--analyze", "--costs", path]);
    let (label, measured) =
        (&analyzed["subqueries"][1]["nodes"][0]["label"], &analyzed["subqueries"][1]["nodes"][0]["measured"]);
    assert_eq!((measured["rows_in"].as_u64(), measured["rows_out"].as_u64()), (Some(1000), Some(10)));
    assert!(measured["nanoseconds"].as_u64().unwrap() > 0);
    let mut file: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let plan = analyzed["deployment"]["plan"].as_str().unwrap();
    assert_eq!(&file["plans"][plan][label.as_str().unwrap()], measured);
    assert_eq!(parallel(&["--parallel", "--costs", path])["subqueries"][1]["costs"], "measured");
    // What is in the file decides: twice as much work before the exchange of the first aggregate as behind it.
    for (place, nanos) in [(1, 2_000_000_000_000_u64), (2, 1_000_000_000_000)] {
        let label = analyzed["subqueries"][place]["nodes"][0]["label"].as_str().unwrap();
        file["plans"][plan][label]["nanoseconds"] = nanos.into();
    }
    fs::write(path, file.to_string()).unwrap();
    assert_eq!(instances(&parallel(&["--parallel", "--costs", path])), [1, 5, 3, 1, 1]);
    assert_eq!(instances(&parallel(&["--parallel"])), [1, 8, 8, 8, 1]);
    let rows = |arguments: &[&str]| {
        let mut lines: Vec<_> = thalweg(&[&["run", "-q"], arguments, &["-c", CASCADE]].concat())
            .stdout
            .lines()
            .map(str::to_string)
            .collect();
        lines.sort();
        lines
    };
    assert!(!rows(&[]).is_empty());
    assert_eq!(rows(&["--costs", path]), rows(&[]));
    let first_row = "SET 'window.anchor' = 'first-row';
        CREATE TABLE s (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'generator', 'number-of-rows' = '1000',
            'fields.ts.step' = '1 s');
        SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '100' SECOND) GROUP BY window_start, window_end";
    let two_operators = thalweg(&["explain", "--analyze", "-c", first_row]).stdout;
    assert!(two_operators.contains(" ns/row, 1000 rows in, 10 out]\n"), "a node of two operators\n{two_operators}");
    assert_eq!(thalweg(&["explain", "--analyze", "-c", "SELECT 1 AS a"]).stderr, "");
    let union = "SET 'parallelism' = 2;
        CREATE TABLE s (k BIGINT) WITH ('connector' = 'generator', 'number-of-rows' = '100', 'fields.k.max' = '9', 'fields.k.min' = '0');
        SELECT k, count(*) AS n FROM (SELECT k FROM s UNION ALL SELECT k + 1 FROM s) WHERE abs(k) < 100 GROUP BY k";
    let spread = thalweg(&["explain", "--analyze", "-c", union]).stdout;
    let of_both = spread.matches(" ns/row, 200 rows in, ").count();
    assert_eq!((of_both, spread.matches(", 2 copies together]").count()), (of_both, of_both), "{spread}");
    assert!(of_both >= 2, "{spread}");
    let other = thalweg(&["run", "--costs", path, "-c", "SELECT 1 AS a"]);
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.starts_with("error: the costs are those of another plan\n"), "{}", other.stderr);
    fs::write(path, "{}").unwrap();
    let hint = "hint: move the file away, and measure anew: thalweg explain --analyze --costs FILE\n";
    let wrong = format!("error: these are no costs of a plan: the version is null, expected 1 in {path}\n{hint}");
    check_stderr(&["run", "--costs", path, "-c", "SELECT 1 AS a"], 2, &wrong);
    let node = "{\"Map 1\": {\n\"rows_in\": 5,\n\"rows_out\": 5,\n\"nanoseconds\": 0}}";
    fs::write(path, format!("{{\"version\": 1, \"plans\": {{\"5c1f\": {node}}}}}")).unwrap();
    let what = "line 4: \"nanoseconds\" of \"Map 1\" is 0, expected a whole number from 1 on, since rows take time";
    let wrong = format!("error: these are no costs of a plan: {what} in {path}\n{hint}");
    check_stderr(&["run", "--costs", path, "-c", "SELECT 1 AS a"], 2, &wrong);
}
