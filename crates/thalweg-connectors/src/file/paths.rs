//! Which files a path means, and what their names say.

use std::{
    collections::HashSet,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use thalweg_core::{Error, Result, error::Fault};

/// What to do about a file that is not there.
const PATH: &str = "option 'path' of the table says which; a relative path begins at the working directory";

/// The files that a pattern means, sorted; at least one.
pub(super) fn find(pattern: &str) -> Result<Vec<String>> {
    let path = Path::new(pattern);
    let mut paths = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => files_in(pattern)?,
        // Pipes and devices can be read as well as regular files.
        Ok(_) => vec![pattern.to_string()],
        Err(_) if pattern.contains(['*', '?', '[']) => matching(pattern)?,
        Err(error) => return Err(cannot_read(pattern, &error)),
    };
    if paths.is_empty() {
        let what = if path.is_dir() { "there is no file in" } else { "no file matches" };
        return Err(Error::query(format!("{what} '{pattern}'")).with_hint(PATH));
    }
    paths.sort();
    Ok(paths)
}

fn files_in(directory: &str) -> Result<Vec<String>> {
    let mut paths = vec![];
    for entry in fs::read_dir(directory).map_err(|error| cannot_read(directory, &error))? {
        let path = entry.map_err(|error| cannot_read(directory, &error))?.path();
        let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.is_file() {
            paths.push(name(&path)?);
        }
    }
    Ok(paths)
}

fn matching(pattern: &str) -> Result<Vec<String>> {
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::default() };
    let found = glob::glob_with(pattern, options)
        .map_err(|error| Error::query(format!("option 'path' is '{pattern}', which is no pattern: {}", error.msg)))?;
    let mut paths = vec![];
    for path in found {
        let path = path.map_err(|error| cannot_read(&error.path().to_string_lossy(), error.error()))?;
        // Pipes too, of which each is a partition that may go on.
        if path.exists() && !path.is_dir() {
            paths.push(path);
        }
    }
    // Through links among directories, `**` comes to the same file on many ways: the shortest one counts.
    paths.sort_by_key(|path| path.components().count());
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(without_links(path)));
    paths.iter().map(|path| name(path)).collect()
}

/// The path through no linked directory; the file itself may be a link.
fn without_links(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = fs::canonicalize(parent).unwrap_or_else(|_| parent.to_path_buf());
    parent.join(path.file_name().unwrap_or_default())
}

/// Partitions are named by their paths, and names are text.
fn name(path: &Path) -> Result<String> {
    let name = path.to_str().map(str::to_string);
    name.ok_or_else(|| Error::environment(format!("the name of the file {path:?} is not valid UTF-8")))
}

fn cannot_read(path: &str, error: &std::io::Error) -> Error {
    // A path that is not there is a mistake in the table's options; what else goes wrong is not.
    let fault = if error.kind() == ErrorKind::NotFound { Fault::Query } else { Fault::Environment };
    Error::new(fault, format!("cannot read '{path}': {error}")).with_hint(PATH)
}

/// Whether a path is, or by its end must be, that of a directory.
pub(super) fn is_directory(path: &str) -> bool {
    path.ends_with('/') || Path::new(path).is_dir()
}

/// The extension that tells the format, without that of a compression.
pub(super) fn extension(path: &str) -> Option<&str> {
    let name = Path::new(path).file_name()?.to_str()?;
    let name = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    name.rsplit_once('.').map(|(_, extension)| extension)
}

/// The format that a name tells.
pub(super) fn format(path: &str) -> Option<&'static str> {
    match extension(path)?.to_ascii_lowercase().as_str() {
        "csv" | "tsv" => Some("csv"),
        "json" | "jsonl" | "ndjson" => Some("json"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        assert_eq!(format("a/b.csv"), Some("csv"));
        assert_eq!(format("data/*.JSONL.gz"), Some("json"));
        assert_eq!(extension("x.tsv.zst"), Some("tsv"));
        assert_eq!((format("a.b/c"), format("x.parquet"), format("csv")), (None, None, None));
    }
}
