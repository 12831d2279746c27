//! Many fields of one column at once.
//!
//! Fields in the usual form are read in one loop over a column, which knows its type before it begins. If any is not, the loop
//! says so, and the caller takes back what it added and goes row by row, which decides. A test of the formats holds both ways
//! to the same rows.

use arrow_buffer::NullBufferBuilder;
use thalweg_core::Timestamp;

use super::{
    Column,
    values::{Values, general_instant},
};
use crate::text::{digits, number};

/// The fields of one column in consecutive records.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    /// The text of the records.
    pub(crate) text: &'a [u8],
    /// Where each field of each record ends; the next one begins one byte behind.
    pub(crate) ends: &'a [u32],
    /// How many fields a record has.
    pub(crate) width: usize,
    /// Which of them is the column's.
    pub(crate) index: usize,
    /// The byte around fields, if there is any in the text.
    pub(crate) quote: Option<u8>,
    /// What means null.
    pub(crate) null: &'a [u8],
    /// Whether all of the text is ASCII.
    pub(crate) is_ascii: bool,
}

/// A field that is not in the usual form.
pub(crate) struct Unusual;

impl Fields<'_> {
    fn rows(&self) -> usize {
        self.ends.len() / self.width
    }

    /// Where the text of a field is, and whether it was in quotes.
    #[inline(always)]
    fn place(&self, row: usize) -> Result<(usize, usize, bool), Unusual> {
        let at = row * self.width + self.index;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize + 1 };
        let mut end = self.ends[at] as usize;
        if self.index + 1 == self.width && end > start && self.text[end - 1] == b'\r' {
            end -= 1;
        }
        match self.quote {
            Some(quote) if end > start && self.text[start] == quote => {
                let is_closed = end - start >= 2 && self.text[end - 1] == quote;
                if is_closed { Ok((start + 1, end - 1, true)) } else { Err(Unusual) }
            }
            _ => Ok((start, end, false)),
        }
    }
}

impl Column {
    /// Adds the values of fields, if all are in the usual form; if not, some may have been added.
    pub(crate) fn extend(&mut self, fields: &Fields<'_>) -> Result<(), Unusual> {
        let mut nulls = Nulls { present: &mut self.present, waiting: 0, is_required: self.is_required };
        let text = fields.text;
        match &mut self.values {
            Values::Integer(values, min, max) => each(fields, &mut nulls, values, |start, end| {
                let value = digits::integer(text, start, end);
                let value = value.or_else(|| number::integer(text[start..end].trim_ascii()).ok()).ok_or(Unusual)?;
                if value < *min || value > *max { Err(Unusual) } else { Ok(value) }
            })?,
            Values::Double(values) => each(fields, &mut nulls, values, |start, end| {
                let value = digits::double(text, start, end);
                value.or_else(|| number::double(text[start..end].trim_ascii()).ok()).ok_or(Unusual)
            })?,
            Values::Timestamp(values, zone, moments) => {
                let from = values.len();
                each(fields, &mut nulls, values, |start, end| match moments.read(text, start, end) {
                    Some((clock, true)) => Ok(clock),
                    Some((clock, false)) => Ok(zone.instant(clock)),
                    None => general_instant(&text[start..end], zone).map_err(|_| Unusual),
                })?;
                if self.is_time && !values[from..].iter().all(|instant| Timestamp(*instant).is_in_range()) {
                    return Err(Unusual);
                }
            }
            Values::Text(values) => {
                for row in 0..fields.rows() {
                    let (start, end, is_quoted) = fields.place(row)?;
                    let own = &text[start..end];
                    if !is_quoted && own == fields.null {
                        nulls.add_null()?;
                        values.push(b"");
                        continue;
                    }
                    if !fields.is_ascii && std::str::from_utf8(own).is_err() {
                        return Err(Unusual);
                    }
                    values.push_from(text, start, end);
                    nulls.waiting += 1;
                }
            }
            _ => {
                nulls.end();
                return self.extend_one_by_one(fields);
            }
        }
        nulls.end();
        Ok(())
    }

    fn extend_one_by_one(&mut self, fields: &Fields<'_>) -> Result<(), Unusual> {
        for row in 0..fields.rows() {
            let (start, end, _) = fields.place(row)?;
            let own = &fields.text[start..end];
            let pushed = if own.is_empty() || own == fields.null { self.push_null() } else { self.push(own) };
            pushed.map_err(|_| Unusual)?;
        }
        Ok(())
    }
}

/// Which values are there; those are counted, and written down when a null comes.
struct Nulls<'a> {
    present: &'a mut NullBufferBuilder,
    waiting: usize,
    is_required: bool,
}

impl Nulls<'_> {
    fn add_null(&mut self) -> Result<(), Unusual> {
        if self.is_required {
            return Err(Unusual);
        }
        self.end();
        self.present.append_null();
        Ok(())
    }

    fn end(&mut self) {
        self.present.append_n_non_nulls(std::mem::take(&mut self.waiting));
    }
}

/// Adds the value of each field that is no text.
#[inline(always)]
fn each<T: Copy + Default>(
    fields: &Fields<'_>,
    nulls: &mut Nulls<'_>,
    values: &mut Vec<T>,
    mut read: impl FnMut(usize, usize) -> Result<T, Unusual>,
) -> Result<(), Unusual> {
    values.reserve(fields.rows());
    for row in 0..fields.rows() {
        let (start, end, _) = fields.place(row)?;
        if start == end || fields.text[start..end] == *fields.null {
            nulls.add_null()?;
            values.push(T::default());
        } else {
            values.push(read(start, end)?);
            nulls.waiting += 1;
        }
    }
    Ok(())
}
