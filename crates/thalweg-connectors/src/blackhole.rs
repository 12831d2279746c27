//! A sink that takes everything and keeps nothing; the runtime counts what goes in.

use thalweg_core::{
    Batch, Progress, Result,
    connector::{Connector, Sink, TableDefinition},
};

/// `'connector' = 'blackhole'`.
pub(crate) struct Blackhole;

impl Connector for Blackhole {
    fn name(&self) -> &'static str {
        "blackhole"
    }

    fn check(&self, table: &TableDefinition) -> Result<()> {
        table.options.check(&["connector"])
    }

    fn sink(&self, table: &TableDefinition) -> Result<Box<dyn Sink>> {
        self.check(table)?;
        Ok(Box::new(Self))
    }
}

impl Sink for Blackhole {
    fn write(&mut self, _: &Batch) -> Result<Progress> {
        Ok(Progress::Done)
    }
}
