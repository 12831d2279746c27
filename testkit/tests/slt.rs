//! Behaviour as text: every case in `tests/slt`, over the matrix of batch sizes, workers and reloads.
//!
//! `make product` runs every case in every way there is.
//! `make goldens` writes what comes out into the files instead; read the difference before you commit it.

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
};

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
    let is_whole = std::env::var_os("THALWEG_PRODUCT").is_some();
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/slt"), &mut found);
    found.sort();
    let (waiting, results) = (Mutex::new(found.iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = next() {
                    let checked = testkit::slt::check_file(path, bless, is_whole).unwrap();
                    results.lock().unwrap().push((path, checked));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort();
    let cases: usize = results.iter().map(|(_, (count, _))| count).sum();
    let failures: String = results.into_iter().map(|(_, (_, wrong))| wrong).collect();
    println!("{cases} cases in {} files", found.len());
    assert!(failures.is_empty(), "\n{failures}");
    assert!(cases >= 150, "only {cases} cases");
}
