//! Who may use what: the table of ARCHITECTURE.md, held by `cargo metadata`. A new arrow between our crates, or to a heavy crate
//! of others, is a change of the design: make it there first.

use std::process::Command;

use serde_json::Value;

/// Each crate of ours, which of ours it may use, and which heavy crates of others (a `*` at the end stands for anything).
const ALLOWED: [(&str, &[&str], &[&str]); 12] = [
    ("thalweg-core", &[], &["arrow-array", "arrow-buffer", "arrow-ipc", "arrow-schema", "arrow-select"]),
    (
        "thalweg-memory",
        &["thalweg-core"],
        &["arrow-array", "arrow-buffer", "arrow-data", "arrow-schema", "libc", "loom", "shuttle"],
    ),
    ("thalweg-plan", &["thalweg-core"], &["arrow-schema", "datafusion-common", "datafusion-expr", "serde_json"]),
    (
        "thalweg-expressions",
        &["thalweg-core", "thalweg-memory", "thalweg-plan"],
        &["arrow-*", "datafusion-common", "datafusion-expr", "datafusion-physical-expr", "datafusion-functions*"],
    ),
    (
        "thalweg-operators",
        &["thalweg-core", "thalweg-memory", "thalweg-plan"],
        &["arrow-*", "chrono", "hashbrown", "postcard", "serde"],
    ),
    (
        "thalweg-shuffle",
        &["thalweg-core", "thalweg-memory"],
        &["arrow-array", "arrow-buffer", "arrow-data", "arrow-select", "loom"],
    ),
    (
        "thalweg-runtime",
        &["thalweg-core", "thalweg-memory", "thalweg-plan", "thalweg-shuffle"],
        &[
            "arrow-array",
            "arrow-buffer",
            "arrow-cast",
            "arrow-row",
            "arrow-schema",
            "arrow-select",
            "hdrhistogram",
            "parking_lot",
            "rtrb",
            "rustix",
            "tracing",
        ],
    ),
    (
        "thalweg-connectors",
        &["thalweg-core", "thalweg-memory"],
        &[
            "arrow-*",
            "chrono",
            "chrono-tz",
            "flate2",
            "glob",
            "memchr",
            "parking_lot",
            "serde",
            "serde_json",
            "tracing",
            "zstd",
        ],
    ),
    (
        "thalweg-sql",
        &["thalweg-core", "thalweg-plan"],
        &[
            "arrow-*",
            "chrono",
            "chrono-tz",
            "datafusion-common",
            "datafusion-expr",
            "datafusion-functions*",
            "datafusion-optimizer",
            "datafusion-sql",
            "sqlparser",
        ],
    ),
    ("thalweg", &["thalweg-*"], &["*"]),
    ("benchmarks", &["thalweg", "thalweg-core", "thalweg-memory", "thalweg-shuffle"], &["*"]),
    ("testkit", &["thalweg", "thalweg-core"], &["arrow-*", "chrono", "chrono-tz", "flate2", "rand", "serde_json"]),
];

fn allows(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|p| p.strip_suffix('*').map_or(*p == name, |prefix| name.starts_with(prefix)))
}

#[test]
fn every_crate_uses_only_what_the_table_allows() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some((_, ours, others)) = ALLOWED.iter().find(|(known, ..)| *known == name) else {
            wrong.push(format!("{name} is not in the table"));
            continue;
        };
        // What only tests use is no arrow of the house.
        let real = |dependency: &&Value| dependency["kind"].as_str() != Some("dev");
        for dependency in package["dependencies"].as_array().unwrap().iter().filter(real) {
            let used = dependency["name"].as_str().unwrap();
            if !allows(if used.starts_with("thalweg") { ours } else { others }, used) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_filter_with_its_tests_fits_in_a_hundred_lines() {
    let filter = include_str!("../../crates/thalweg-operators/src/filter.rs");
    assert!(filter.lines().count() < 100, "if the filter grows, the operator trait is wrong");
}
