//! Corrections put together: the rows that are there in the end.

use std::collections::BTreeMap;

/// The rows, as text, that are left of those that begin with what becomes of them: `+I` and `+U` put a row in, `-U` and `-D` take it out. In
/// the order of their text.
///
/// Errors: a row that is taken out and is not there; one that says nothing else.
pub fn fold(rows: impl IntoIterator<Item = String>) -> Result<Vec<String>, String> {
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        let (op, rest) = row.split_once(" | ").ok_or_else(|| format!("{row:?} has nothing but an op"))?;
        match op {
            "+I" | "+U" => *left.entry(rest.to_string()).or_default() += 1,
            "-U" | "-D" => match left.get_mut(rest) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => drop(left.remove(rest)),
                None => return Err(format!("{row:?} takes out a row that is not there")),
            },
            _ => return Err(format!("{row:?} does not begin with an op")),
        }
    }
    Ok(left.into_iter().flat_map(|(row, count)| std::iter::repeat_n(row, count)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_in_and_taken_out() {
        let folded = |rows: &[&str]| fold(rows.iter().map(|row| row.to_string()));
        let rows =
            folded(&["+I | b | 1", "+I | a | 1", "-U | b | 1", "+U | b | 2", "+I | a | 1", "+I | c | 3", "-D | c | 3"]);
        assert_eq!(rows.unwrap(), ["a | 1", "a | 1", "b | 2"]);
        assert!(folded(&["+I | a", "-D | b"]).is_err());
        assert!(folded(&["+I | a", "-D | a", "-U | a"]).is_err());
        assert!(folded(&["I | a"]).is_err());
    }
}
