//! Behaviour as text: every case in `tests/slt`, over the matrix of batch sizes, workers and reloads.
//!
//! `make product` runs every case in every way there is.
//! `make goldens` writes what comes out into the files instead; read the difference before you commit it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Instant,
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
    // Long files first, so that none is left over for one thread at the end.
    found.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |of| of.len())));
    let (waiting, results) = (Mutex::new(found.iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(path) = next() {
                    let began = Instant::now();
                    let checked = testkit::slt::check_file(path, bless, is_whole).unwrap();
                    if is_whole {
                        // That takes long. What is printed otherwise is kept until the test is over.
                        let ((count, wrong), took) = (&checked, began.elapsed().as_secs());
                        writeln!(std::io::stderr(), "{}: {count} cases in {took} s{wrong}", path.display()).unwrap();
                    }
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
    assert!(cases >= 1_100, "only {cases} cases");
}

#[test]
fn what_corrections_leave_is_what_comes_out_in_the_end() {
    let mut found = Vec::new();
    ["over", "interval_join"].iter().for_each(|folder| {
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/slt").join(folder), &mut found);
    });
    // A sum that is too large at first and not in the end is an error at first.
    found.retain(|path| !path.ends_with("overflow.slt"));
    found.sort();
    let checked = found.iter().map(|path| testkit::slt::check_eager(path).unwrap());
    let (counts, failures): (Vec<usize>, String) = checked.unzip();
    assert!(failures.is_empty(), "\n{failures}");
    let cases: usize = counts.iter().sum();
    assert!(cases >= 100, "only {cases} cases can be eager");
}
