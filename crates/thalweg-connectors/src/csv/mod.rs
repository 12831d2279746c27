//! Comma-separated values.
//!
//! | option | meaning |
//! | --- | --- |
//! | `'csv.header'` | `auto` (default), `true` or `false` |
//! | `'csv.delimiter'` | the character between fields, default `,`; `\t` is a tab |
//! | `'csv.quote'` | the character around fields that hold special characters, default `"`; empty for none |
//! | `'csv.escape'` | a character that takes the next one literally inside quotes; a doubled quote works always |
//! | `'csv.null'` | the unquoted text that means null, default the empty one |
//! | `'csv.comment'` | lines that begin with this character are skipped |
//!
//! **Header.** With a header, columns are found by name (trimmed, in any case), in any order, and others are ignored. Without,
//! they are found by position, and every record has as many fields as the table has columns. `auto` takes the first record
//! for a header if its fields name all columns of the table; or if they name some, and it cannot be a row, or names most of
//! them while no number or date or such speaks for a row. If the columns are inferred, it is one if it does not fit the types
//! of the records below, or if all columns are text.
//!
//! **Null.** In a STRING column, the unquoted null text is null, and a quoted field never is: `""` is the empty string. In any
//! other column an empty field and the null text are null, quoted or not, since no value is written like that.
//!
//! **Lines** end with LF or CRLF. Blank ones are skipped, but in a table of one column they are a null row. A record may hold
//! line ends inside quotes; messages name the line on which it begins. After a quote that is never closed, a reader that skips
//! malformed rows goes on with the next line.

mod block;
mod cut;
mod decode;
mod encode;
mod header;
mod infer;
mod split;

use thalweg_core::{Error, Result, connector::Options};

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use decode::CsvDecoder;
pub(crate) use encode::CsvEncoder;
pub(crate) use infer::infer;

/// A CSV dialect.
#[derive(Clone, Debug)]
pub(crate) struct Csv {
    pub(crate) header: Option<bool>,
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) comment: Option<u8>,
    pub(crate) null: String,
}

impl Default for Csv {
    fn default() -> Self {
        Self { header: None, delimiter: b',', quote: Some(b'"'), escape: None, comment: None, null: String::new() }
    }
}

impl Csv {
    /// The options that say how.
    pub(crate) const OPTIONS: &[&str] =
        &["csv.header", "csv.delimiter", "csv.quote", "csv.escape", "csv.null", "csv.comment"];

    /// The dialect that a table's options describe.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let header = match options.get("csv.header") {
            None | Some("auto") => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(other) => {
                let message = format!("option 'csv.header' is '{other}', expected 'auto', 'true' or 'false'");
                return Err(Error::query(message));
            }
        };
        let delimiter = character(options, "csv.delimiter", Some(b','))?
            .ok_or_else(|| Error::query("option 'csv.delimiter' is empty, expected one character"))?;
        let quote = character(options, "csv.quote", Some(b'"'))?;
        let escape = character(options, "csv.escape", None)?.filter(|escape| Some(*escape) != quote);
        let comment = character(options, "csv.comment", None)?;
        if quote == Some(delimiter) || escape == Some(delimiter) || comment == Some(delimiter) {
            return Err(Error::query("option 'csv.delimiter' is the same character as another option of csv"));
        }
        let null = options.get("csv.null").unwrap_or_default().to_string();
        Ok(Self { header, delimiter, quote, escape, comment, null })
    }
}

/// An option that is one ASCII character, or none if it is empty.
fn character(options: &Options, key: &str, default: Option<u8>) -> Result<Option<u8>> {
    match options.get(key).map(str::as_bytes) {
        None => Ok(default),
        Some([]) => Ok(None),
        Some(b"\\t") => Ok(Some(b'\t')),
        Some([byte]) if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(Some(*byte)),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            Err(Error::query(format!("option '{key}' is '{other}', expected one ASCII character")))
        }
    }
}
