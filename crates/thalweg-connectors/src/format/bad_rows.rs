//! What becomes of malformed rows.

use thalweg_core::{Error, Result, connector::Options};

/// `'bad.rows' = 'fail' | 'skip'`, and how many were skipped.
#[derive(Clone, Debug)]
pub(crate) struct BadRows {
    input: String,
    are_skipped: bool,
    count: u64,
}

impl BadRows {
    /// As a table's options say, for an input that messages name.
    pub(crate) fn new(options: &Options, input: &str) -> Result<Self> {
        let are_skipped = match options.get("bad.rows") {
            None | Some("fail") => false,
            Some("skip") => true,
            Some(other) => {
                return Err(Error::query(format!("option 'bad.rows' is '{other}', expected 'fail' or 'skip'")));
            }
        };
        Ok(Self { input: input.into(), are_skipped, count: 0 })
    }

    /// What messages call the input.
    pub(crate) fn input(&self) -> &str {
        &self.input
    }

    /// How many rows were skipped.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A row is malformed: counts it, or says so.
    pub(crate) fn add(&mut self, line: u64, what: &str) -> Result<()> {
        let message = format!("{} line {line}: {what}", self.input);
        if !self.are_skipped {
            return Err(Error::data(message).with_hint("'bad.rows' = 'skip' drops such rows and counts them"));
        }
        tracing::debug!("skipped a malformed row: {message}");
        self.count += 1;
        Ok(())
    }
}
