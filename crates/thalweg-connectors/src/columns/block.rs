//! Many values of one column at once.
//!
//! Texts in the usual form are read in one loop over a column, which knows its type before it begins. Where one is not, the
//! column ends, and the caller goes on row by row, which decides. Tests of the formats hold both ways to the same rows.

use arrow_buffer::NullBufferBuilder;
use thalweg_core::Timestamp;

use super::{
    Column, Columns,
    values::{Values, general_instant},
};
use crate::text::{digits, number};

/// The texts of one column in consecutive rows.
pub(crate) trait Texts: Copy {
    /// Whether a bare text is a value of JSON, whose numbers are fewer than those that we read.
    const ARE_JSON: bool;

    /// What the texts are parts of.
    fn text(&self) -> &[u8];

    /// Whether all of that is ASCII.
    fn is_ascii(&self) -> bool;

    /// What there is in a row, for a column in which an empty text is a value or one in which it is not.
    fn value(&self, row: usize, is_text: bool) -> Value;
}

/// What there is in one row of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Nothing.
    Null,
    /// A text from here to there; `is_bare` says that it is not in quotes.
    Text { start: usize, end: usize, is_bare: bool },
    /// Something that is not in the usual form.
    Unusual,
}

impl Columns {
    /// Adds rows, of which `texts` are those of each column, up to the first one with a value that is not in the usual form. Says
    /// how many.
    pub(crate) fn extend<T: Texts>(&mut self, mut rows: usize, texts: impl Fn(usize) -> T) -> usize {
        for (number, column) in self.columns.iter_mut().enumerate() {
            if rows == 0 {
                break;
            }
            rows = column.extend(rows, texts(number));
        }
        self.rows += rows;
        // Columns before the one that ended have more.
        self.roll_back();
        rows
    }
}

impl Column {
    /// Adds the values of rows up to the first one that is not in the usual form, and says how many.
    fn extend<T: Texts>(&mut self, rows: usize, texts: T) -> usize {
        let before = self.present.len();
        let mut nulls = Nulls { present: &mut self.present, waiting: 0, is_required: self.is_required };
        let text = texts.text();
        let added = match &mut self.values {
            Values::Integer(values, min, max) => {
                let (min, max) = (*min, *max);
                each(rows, texts, &mut nulls, values, |start, end, is_bare| {
                    let value = match digits::integer(text, start, end) {
                        Some(value) if !(T::ARE_JSON && is_bare && begins_odd(text, start, end)) => value,
                        _ => number::integer(general::<T>(&text[start..end], is_bare)?).ok()?,
                    };
                    (value >= min && value <= max).then_some(value)
                })
            }
            Values::Double(values) => {
                each(rows, texts, &mut nulls, values, |start, end, is_bare| match digits::double(text, start, end) {
                    Some(value) if !(T::ARE_JSON && is_bare && begins_odd(text, start, end)) => Some(value),
                    _ => number::double(general::<T>(&text[start..end], is_bare)?).ok(),
                })
            }
            Values::Timestamp(values, zone, moments) => {
                let added = each(rows, texts, &mut nulls, values, |start, end, is_bare| {
                    if T::ARE_JSON && is_bare {
                        return None;
                    }
                    match moments.read(text, start, end) {
                        Some((clock, true)) => Some(clock),
                        Some((clock, false)) => Some(zone.instant(clock)),
                        None => general_instant(&text[start..end], zone).ok(),
                    }
                });
                let is_late = |instant: &i64| !Timestamp(*instant).is_in_range();
                let late = self.is_time.then(|| values[before..before + added].iter().position(is_late)).flatten();
                late.unwrap_or(added)
            }
            Values::Text(values) => {
                let is_text = |own: &[u8]| texts.is_ascii() || std::str::from_utf8(own).is_ok();
                let add = |row: &usize| match texts.value(*row, true) {
                    Value::Text { start, end, is_bare } => {
                        let own = &text[start..end];
                        let is_usual = is_text(own) && !(T::ARE_JSON && is_bare && !is_scalar(own));
                        if is_usual {
                            values.push_from(text, start, end);
                            nulls.waiting += 1;
                        }
                        is_usual
                    }
                    Value::Null => {
                        values.push(b"");
                        nulls.add()
                    }
                    Value::Unusual => false,
                };
                (0..rows).take_while(add).count()
            }
            _ => return self.extend_one_by_one(rows, texts),
        };
        nulls.end();
        self.truncate(before + added);
        added
    }

    fn extend_one_by_one<T: Texts>(&mut self, rows: usize, texts: T) -> usize {
        let add = |row: &usize| match texts.value(*row, false) {
            Value::Text { start, end, is_bare } => {
                let own = &texts.text()[start..end];
                let is_usual = !(T::ARE_JSON && is_bare && (self.is_binary() || !is_scalar(own)));
                is_usual && self.push(own).is_ok()
            }
            Value::Null => self.push_null().is_ok(),
            Value::Unusual => false,
        };
        (0..rows).take_while(add).count()
    }
}

/// Adds the value of each text that is in the usual form, up to the first one that is not, and says how many. There may be more
/// values then.
#[inline(always)]
fn each<T: Texts, V: Copy + Default>(
    rows: usize,
    texts: T,
    nulls: &mut Nulls<'_>,
    values: &mut Vec<V>,
    mut read: impl FnMut(usize, usize, bool) -> Option<V>,
) -> usize {
    let before = values.len();
    values.resize(before + rows, V::default());
    for (row, place) in values[before..].iter_mut().enumerate() {
        let is_usual = match texts.value(row, false) {
            Value::Text { start, end, is_bare } => match read(start, end, is_bare) {
                Some(value) => {
                    *place = value;
                    nulls.waiting += 1;
                    true
                }
                None => false,
            },
            Value::Null => nulls.add(),
            Value::Unusual => false,
        };
        if !is_usual {
            return row;
        }
    }
    rows
}

/// The text for the reader of any text, if it has one.
fn general<T: Texts>(text: &[u8], is_bare: bool) -> Option<&[u8]> {
    let is_foreign = T::ARE_JSON && is_bare && !is_scalar(text);
    (!is_foreign).then(|| text.trim_ascii())
}

/// Whether a number begins with a zero that more digits follow, which it does not in JSON.
#[inline(always)]
fn begins_odd(text: &[u8], start: usize, end: usize) -> bool {
    let start = start + usize::from(text[start] == b'-');
    text[start] == b'0' && start + 1 < end && text[start + 1] != b'.'
}

/// Whether this is a number or a truth value of JSON.
pub(crate) fn is_scalar(text: &[u8]) -> bool {
    if text == b"true" || text == b"false" {
        return true;
    }
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (rest[0] == b'0' && whole > 1) {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        let count = digits(exponent);
        if count == 0 {
            return false;
        }
        rest = &exponent[count..];
    }
    rest.is_empty()
}

/// Which values are there; those are counted, and written down when a null comes.
struct Nulls<'a> {
    present: &'a mut NullBufferBuilder,
    waiting: usize,
    is_required: bool,
}

impl Nulls<'_> {
    /// Adds a null, if one may be there.
    fn add(&mut self) -> bool {
        if !self.is_required {
            self.end();
            self.present.append_null();
        }
        !self.is_required
    }

    fn end(&mut self) {
        self.present.append_n_non_nulls(std::mem::take(&mut self.waiting));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn scalars_are_those_of_serde_json() {
        let (mut yes, mut no) = (0, 0);
        for seed in 0..50_000 {
            let mut random = Random::new(seed);
            let pieces = ["0", "12", "-", "+", ".", "e", "E", "5", "true", "false", "null", " ", "\"", "x", "[]"];
            let most = if random.below(2) == 0 { 8 } else { pieces.len() as u64 };
            let text: String = (0..random.below(7)).map(|_| pieces[random.below(most) as usize]).collect();
            let value = serde_json::from_str::<&serde_json::value::RawValue>(&text).map(|raw| raw.get());
            let is_one = value.is_ok_and(|raw| raw == text && !raw.starts_with(['"', '[', 'n']));
            assert_eq!(is_scalar(text.as_bytes()), is_one, "{text:?}");
            *(if is_one { &mut yes } else { &mut no }) += 1;
        }
        assert!(yes > 2_000 && no > 2_000, "{yes} were scalars and {no} were not");
    }
}
