//! Names that somebody nearly wrote.

/// `did you mean "b"?`, for a name that is nearly one of these.
///
/// ```
/// let hint = thalweg_core::near::near("vlaue", ["key", "value"].into_iter());
/// assert_eq!(hint.as_deref(), Some("did you mean \"value\"?"));
/// ```
pub fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted = name.to_lowercase();
    let allowed = (wanted.chars().count() / 3).max(1);
    let ranked = names.map(|known| (distance(&wanted, &known.to_lowercase()), known));
    let (steps, nearest) = ranked.min()?;
    (steps <= allowed.min(3) && steps < wanted.chars().count()).then(|| format!("did you mean \"{nearest}\"?"))
}

/// How many letters must be changed, added, dropped, or swapped with their neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(row[j - 1] + 1).min(rows[i - 1][j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_changed_added_dropped_and_swapped() {
        assert_eq!(["form", "fro", "frome", "rfom", "year", ""].map(|word| distance(word, "from")), [1, 1, 1, 1, 4, 4]);
    }

    #[test]
    fn what_is_far_off_is_not_meant() {
        let near = |word| near(word, ["mean", "count", "date_trunc"].into_iter());
        assert_eq!(near("year"), None);
        assert_eq!(near("maen").as_deref(), Some("did you mean \"mean\"?"));
        assert_eq!(near("datetrunc").as_deref(), Some("did you mean \"date_trunc\"?"));
    }
}
