//! A directory for large files, which does not outlive the process.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::Mutex,
};

/// What an interrupt removes.
static PRESENT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The exit code of what was interrupted, as shells have it: 128 and the number of the signal.
const INTERRUPTED: i32 = 130;

/// A directory that is removed with all that is in it: when dropped, and when the process is interrupted or asked to end.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory in the system's directory for temporary files.
    pub fn new(name: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("thalweg-benchmarks-{}-{name}", process::id()));
        // Known before it is there, so that an interrupt between the two leaves nothing behind.
        present().push(path.clone());
        let scratch = Self(path);
        let hint = "set TMPDIR to a directory with 1 GB of room";
        fs::create_dir(&scratch.0).map_err(|error| format!("cannot make {}: {error}; {hint}", scratch.0.display()))?;
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
        present().retain(|path| *path != self.0);
    }
}

/// Removes all that there is at an interrupt, and ends the process.
pub fn remove_at_interrupt() -> Result<(), String> {
    let handler = || {
        // Held until the end, so that no other thread makes a new one meanwhile.
        let present = present();
        present.iter().for_each(|path| remove(path));
        process::exit(INTERRUPTED);
    };
    ctrlc::set_handler(handler).map_err(|error| format!("cannot take interrupts: {error}"))
}

fn present() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    PRESENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            eprintln!("cannot remove {}: {error}", path.display());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_what_is_in_it() {
        let scratch = Scratch::new("test").unwrap();
        let path = scratch.path().to_path_buf();
        fs::write(path.join("file"), "text").unwrap();
        drop(scratch);
        assert!(!path.exists());
        assert!(!present().contains(&path));
    }
}
