//! Patterns of dates and times: Java's letters, as Flink has them, become strftime's.

/// The pattern in strftime's letters; one that has a `%` is in them already.
///
/// Errors: what cannot be said in them.
pub(crate) fn strftime(pattern: &str) -> Result<String, String> {
    if pattern.contains('%') {
        return Ok(pattern.to_string());
    }
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            // Two quotes are one; other text between quotes stands for itself.
            let (text, after) = quoted.split_once('\'').ok_or("a quote that is not closed")?;
            out += if text.is_empty() { "'" } else { text };
            if !text.is_empty() && after.starts_with('\'') {
                out.push('\'');
            }
            rest = after;
            continue;
        }
        let length = rest.chars().take_while(|letter| *letter == first).count();
        if !first.is_ascii_alphabetic() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let run = &rest[..length];
        out += match (first, length) {
            ('y' | 'u', 1 | 4) => "%Y",
            ('y' | 'u', 2) => "%y",
            ('M' | 'L', 1) => "%-m",
            ('M' | 'L', 2) => "%m",
            ('M' | 'L', 3) => "%b",
            ('M' | 'L', 4) => "%B",
            ('d', 1) => "%-d",
            ('d', 2) => "%d",
            ('D', 1) => "%-j",
            ('D', 3) => "%j",
            ('E', 1..=3) => "%a",
            ('E', 4) => "%A",
            ('H', 1) => "%-H",
            ('H', 2) => "%H",
            ('h', 1) => "%-I",
            ('h', 2) => "%I",
            ('m', 1) => "%-M",
            ('m', 2) => "%M",
            ('s', 1) => "%-S",
            ('s', 2) => "%S",
            ('S', 3) => "%3f",
            ('S', 6) => "%6f",
            ('S', 9) => "%9f",
            ('a', 1) => "%p",
            ('Z' | 'x', 1..=3) if run != "xxx" => "%z",
            ('X' | 'x', 3) => "%:z",
            _ => return Err(format!("the letters {run}")),
        };
        rest = &rest[length..];
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_letters_become_strftimes() {
        for (java, expected) in [
            ("yyyy-MM-dd HH:mm:ss.SSS", "%Y-%m-%d %H:%M:%S.%3f"),
            ("d.M.yy h:mm a", "%-d.%-m.%y %-I:%M %p"),
            ("EEE, dd MMM yyyy", "%a, %d %b %Y"),
            ("yyyy-MM-dd'T'HH:mm:ssXXX", "%Y-%m-%dT%H:%M:%S%:z"),
            ("h 'o''clock'", "%-I o'clock"),
            ("%Y/%m", "%Y/%m"),
        ] {
            assert_eq!(strftime(java).as_deref(), Ok(expected), "{java}");
        }
        assert_eq!(strftime("yyyy VV"), Err("the letters VV".into()));
        assert_eq!(strftime("yyyy 'at"), Err("a quote that is not closed".into()));
    }
}
