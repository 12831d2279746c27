//! Complete files or none: rows go to a hidden file beside the target, which takes the target's name at the end.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use arrow_schema::SchemaRef;
use thalweg_core::{Batch, Error, Progress, Result, connector::Sink, error::Fault};

use super::compression::{Compression, Output};
use crate::{format::Encoder, row_writer::RowWriter};

/// Where the rows go in the end.
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) compression: Compression,
    pub(super) overwrite: bool,
}

impl Target {
    /// Refuses to take the place of what must stay.
    fn check(&self) -> Result<()> {
        let path = self.path.display();
        match fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => Err(Error::query(format!("{path} is not a regular file"))
                .with_hint("give the path of a file; 'connector' = 'stdout' and 'blackhole' are for what is none")),
            Ok(_) if !self.overwrite => Err(Error::query(format!("the file {path} exists already"))
                .with_hint("'overwrite' = 'true' replaces it when the query has ended")),
            _ => Ok(()),
        }
    }

    fn directory(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    fn error(&self, error: &io::Error) -> Error {
        let is_misnamed = error.kind() == io::ErrorKind::NotFound;
        let fault = if is_misnamed { Fault::Query } else { Fault::Environment };
        Error::new(fault, format!("cannot write {}: {error}", self.path.display()))
    }
}

/// Writes rows to a file.
pub(super) struct FileSink {
    target: Target,
    schema: SchemaRef,
    hidden: PathBuf,
    writer: Option<RowWriter<Output>>,
}

impl FileSink {
    /// Makes the hidden file.
    pub(super) fn new(target: Target, encoder: Box<dyn Encoder>, schema: SchemaRef) -> Result<Self> {
        target.check()?;
        let (hidden, file) = create_beside(&target)?;
        let output = Output::new(file, target.compression);
        // From here on, dropping the sink removes the hidden file.
        let mut sink = Self { target, schema, hidden, writer: None };
        let output = output.map_err(|error| sink.target.error(&error))?;
        sink.writer = Some(RowWriter::new(output, encoder, &sink.target.path.display().to_string()));
        Ok(sink)
    }

    fn give_name(&self) -> Result<()> {
        self.target.check()?;
        let named = fs::rename(&self.hidden, &self.target.path);
        // The name lasts when the directory is on the disk.
        let synced = named.and_then(|()| File::open(self.target.directory())?.sync_all());
        synced.map_err(|error| self.target.error(&error))
    }
}

impl Sink for FileSink {
    fn write(&mut self, batch: &Batch) -> Result<Progress> {
        let writer = self.writer.as_mut().ok_or_else(|| Error::bug("a file was written to after its end"))?;
        writer.begin(&self.schema)?;
        writer.write(batch)
    }

    fn finish(&mut self) -> Result<()> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        writer.begin(&self.schema)?;
        writer.into_inner().finish().map_err(|error| self.target.error(&error))?;
        self.give_name()
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        // After a finish the hidden file is gone, and nothing can be done about any other reason.
        let _ = fs::remove_file(&self.hidden);
    }
}

/// A new file `.name.PROCESS-NUMBER.part` in the target's directory.
fn create_beside(target: &Target) -> Result<(PathBuf, File)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let Some(name) = target.path.file_name() else {
        return Err(Error::query(format!("{} is not a path of a file", target.path.display())));
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let hidden = format!(".{}.{}-{number}.part", name.to_string_lossy(), process::id());
    let hidden = target.directory().join(hidden);
    let file = File::create(&hidden).map_err(|error| {
        target.error(&error).with_hint("the directory must be there, and rows are written into it from the beginning")
    })?;
    Ok((hidden, file))
}
