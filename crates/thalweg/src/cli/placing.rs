//! How queries are divided, by what the command line says.

use std::{fs, path::Path};

use thalweg::Engine;
use thalweg_core::{Error, Result};
use thalweg_plan::parallel::costs::CostFile;

use super::arguments::Parallel;

/// Lets an engine divide queries as was asked for; a script may change all but the costs.
///
/// Errors: `Error::Query` if the file of costs is none; `Error::Environment` if it cannot be read.
pub fn place(engine: &mut Engine, arguments: &Parallel) -> Result<()> {
    set(engine, arguments)?;
    if let Some(path) = &arguments.costs {
        engine.use_costs(read(path)?);
    }
    Ok(())
}

/// Sets parallelism and strategy only.
pub fn set(engine: &mut Engine, arguments: &Parallel) -> Result<()> {
    let parallelism = arguments.parallelism.iter().map(|number| ("parallelism", number.to_string()));
    let strategy = arguments.strategy.iter().map(|strategy| ("parallel.strategy", strategy.clone()));
    parallelism.chain(strategy).try_for_each(|(key, value)| engine.sql(&format!("SET '{key}' = '{value}'")).map(drop))
}

/// The costs in a file to which others are added; none, if it is not there yet, or can only be written, as a terminal.
///
/// Errors: as [`place`].
pub fn kept(path: Option<&Path>) -> Result<CostFile> {
    path.filter(|path| path.is_file()).map_or_else(|| Ok(CostFile::default()), read)
}

/// Writes costs into a file.
///
/// Errors: `Error::Environment` if it cannot be written.
pub fn write(path: &Path, costs: &CostFile) -> Result<()> {
    let written = fs::write(path, format!("{:#}\n", costs.json()));
    written.map_err(|error| Error::environment(format!("cannot write {}: {error}", path.display())))
}

fn read(path: &Path) -> Result<CostFile> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Error::environment(format!("cannot read {}: {error}", path.display())))?;
    CostFile::parse(&text).map_err(|error| error.within(&path.display().to_string()))
}
