//! JSON lines: one object a line.
//!
//! Keys are matched with column names exactly, or else in any case; of two equal keys the last counts. A key that is absent or
//! null is null, and keys of no column are ignored. Values are read as their text would be in any other format, so that
//! `"12"` is a number where one is declared, as in Flink and DuckDB. In a STRING column, numbers and truth values are kept as
//! they are written, and objects and arrays as their JSON. Anything else is malformed, as are bare numbers in a BYTES column.
//! Bytes are hexadecimal, and `"NaN"`, `"Infinity"` and `"-Infinity"` are strings. Blank lines are skipped.

#[cfg(test)]
mod agreement;
mod block;
mod decode;
mod encode;
mod infer;
mod keys;
mod object;
#[cfg(test)]
mod tests;

pub(crate) use decode::JsonDecoder;
pub(crate) use encode::JsonEncoder;
pub(crate) use infer::infer;
