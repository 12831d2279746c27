//! How queries are divided, by what the command line says.

use std::{fs, path::Path};

use thalweg::Engine;
use thalweg_core::{Error, Result};
use thalweg_plan::parallel::costs::CostFile;

use super::arguments::Parallel;

/// Lets an engine divide queries as was asked for; a script may change the strategy.
///
/// Errors: `Error::Query` if the file of costs is none; `Error::Environment` if it cannot be read.
pub fn place(engine: &mut Engine, arguments: &Parallel) -> Result<()> {
    strategy(engine, arguments)?;
    if let Some(path) = &arguments.costs {
        engine.use_costs(read(path)?);
    }
    Ok(())
}

/// Sets the strategy only.
pub fn strategy(engine: &mut Engine, arguments: &Parallel) -> Result<()> {
    let set = |strategy: &String| engine.sql(&format!("SET 'parallel.strategy' = '{strategy}'")).map(drop);
    arguments.strategy.iter().try_for_each(set)
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
