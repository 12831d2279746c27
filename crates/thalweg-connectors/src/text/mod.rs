//! Values as text: how each type is read and written, the same in every format.

pub(crate) mod digits;
pub(crate) mod number;
pub(crate) mod time;
pub(crate) mod words;
pub(crate) mod write;
pub(crate) mod zone;

/// Why a value could not be read; [`Column::describe`](crate::columns::Column::describe) puts it into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The text is no value of the type.
    Type,
    /// It is one, but too large or too small.
    Range,
    /// The bytes are not UTF-8.
    Utf8,
    /// There is no value in a column that must have one.
    Null,
}

/// At most this many characters of a value are shown in a message.
const SHOWN: usize = 40;

/// A value as a message shows it: quoted, and cut where it is long.
pub(crate) fn shown(text: &[u8]) -> String {
    let head = &text[..text.len().min(4 * SHOWN)];
    let head = String::from_utf8_lossy(head);
    match head.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &head[..end]),
        None => format!("{head:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_bad_bytes_are_shown() {
        assert_eq!(shown(b"abc"), "\"abc\"");
        assert_eq!(shown("ä".repeat(50).as_bytes()), format!("\"{}\"…", "ä".repeat(40)));
        assert_eq!(shown(b"a\xff"), "\"a\u{fffd}\"");
    }
}
