//! Names of columns that nobody named: `avg(s.delay)` reads `avg(delay)`, `count(Int64(1))` reads `count(*)`.

use std::collections::HashSet;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::LogicalPlan;

/// The name without these tables and without the types of constants. Names that are no expressions stay as they are.
pub(super) fn readable(name: &str, tables: &HashSet<String>) -> String {
    if let Some((table, column)) = name.split_once('.')
        && tables.contains(table)
        && !column.contains(['(', ' ', '.'])
    {
        return column.to_string();
    }
    if !name.contains('(') && !name.contains(' ') {
        return name.to_string();
    }
    let name = name.replace("count(Int64(1))", "count(*)");
    let mut out = String::new();
    let mut rest = name.as_str();
    while let Some(first) = rest.chars().next() {
        if first == '\'' || first == '"' {
            // Texts and quoted names stay as they are.
            let end = rest[1..].find(first).map_or(rest.len(), |at| at + 2);
            out += &rest[..end];
            rest = &rest[end..];
            continue;
        }
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if word == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (before, after) = rest.split_at(word);
        if after.starts_with('.') && tables.contains(before) {
            rest = &after[1..];
        } else if let Some((constant, behind)) = constant(before, after) {
            out += &constant;
            rest = behind;
        } else {
            out += before;
            rest = after;
        }
    }
    out
}

/// The tables and aliases whose names columns may carry.
pub(super) fn tables(plan: &LogicalPlan) -> HashSet<String> {
    let mut tables = HashSet::new();
    let walked = plan.apply(|node| {
        match node {
            LogicalPlan::TableScan(scan) => drop(tables.insert(scan.table_name.table().to_string())),
            LogicalPlan::SubqueryAlias(alias) => drop(tables.insert(alias.alias.table().to_string())),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok(), "looking at a plan does not fail");
    tables
}

/// `Int64(5)` → `5`, `Utf8("x")` → `'x'`.
fn constant<'a>(type_name: &str, after: &'a str) -> Option<(String, &'a str)> {
    const PLAIN: [&str; 11] =
        ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "Boolean"];
    let inner = after.strip_prefix('(')?;
    if type_name == "Utf8" {
        let (text, behind) = inner.strip_prefix('"')?.split_once("\")")?;
        return Some((format!("'{text}'"), behind));
    }
    let (value, behind) = inner.split_once(')')?;
    PLAIN.contains(&type_name).then(|| (value.to_string(), behind))
}

#[cfg(test)]
mod tests {
    fn readable(name: &str) -> String {
        super::readable(name, &["s".to_string()].into())
    }

    #[test]
    fn expressions_are_named_without_tables_and_types() {
        assert_eq!(readable("avg(s.delay)"), "avg(delay)");
        assert_eq!(readable("count(Int64(1))"), "count(*)");
        assert_eq!(readable("s.delay + Int64(1) > Float64(0.5)"), "delay + 1 > 0.5");
        assert_eq!(readable("concat(s.a,Utf8(\"s.y\"))"), "concat(a,'s.y')");
        assert_eq!(readable("s.delay"), "delay");
    }

    #[test]
    fn names_stay_as_they_are() {
        assert_eq!(readable("a.b"), "a.b");
        assert_eq!(readable("1.5 h"), "1.5 h");
        assert_eq!(readable("grüße (ö)"), "grüße (ö)");
    }
}
