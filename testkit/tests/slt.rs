//! Behaviour as text: every case in `tests/slt`, over the matrix of batch sizes, workers and reloads.
//!
//! `make goldens` writes what comes out into the files instead; read the difference before you commit it.

use std::path::{Path, PathBuf};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false if path.extension().is_some_and(|e| e == "slt") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn every_case_gives_its_rows_at_every_batch_size_and_parallelism() {
    let bless = std::env::var_os("THALWEG_BLESS").is_some();
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/slt"), &mut found);
    found.sort();
    let (mut cases, mut failures) = (0, String::new());
    for path in &found {
        let (count, wrong) = testkit::slt::check_file(path, bless).unwrap();
        cases += count;
        failures.push_str(&wrong);
    }
    println!("{cases} cases in {} files", found.len());
    assert!(failures.is_empty(), "\n{failures}");
    assert!(cases >= 150, "only {cases} cases");
}
