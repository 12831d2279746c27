//! What is not there: each with the reason, and the way out where there is one.

mod conditions;

use arrow_schema::DataType;
use datafusion_common::{
    DFSchema, NullEquality,
    tree_node::{TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{Distinct, Expr, ExprSchemable, JoinConstraint, LogicalPlan, utils::split_conjunction};
use sqlparser::{
    ast::{Query, Spanned, TableFactor},
    tokenizer::TokenWithSpan,
};
use thalweg_core::{Error, Result, error::Span};

use crate::{
    diagnose,
    over::OverNode,
    script::{self, Words, is_word},
    types,
};

pub(crate) use conditions::remains;
use conditions::{becomes_join, no_join};

/// The words that give it away, what is said, and what to do.
type Refusal = (&'static str, &'static str, &'static str);

const STATEMENTS: [Refusal; 28] = [
    (
        "UPDATE",
        "UPDATE is not there: a stream is only ever added to",
        "SELECT the changed rows, and INSERT them INTO another table",
    ),
    ("DELETE", "DELETE is not there: a stream is only ever added to", "SELECT the rows to keep with WHERE"),
    ("MERGE", "MERGE is not there: a stream is only ever added to", "INSERT INTO another table"),
    ("TRUNCATE", "TRUNCATE is not there: tables belong to their connectors", "remove the data where it is kept"),
    ("COPY", "COPY is not there", "CREATE TABLE with a connector for the file, and INSERT INTO it"),
    ("ALTER", "ALTER is not there", "CREATE OR REPLACE TABLE changes a table"),
    ("USE", "USE is not there: there are no catalogs and databases", "leave it out"),
    ("BEGIN STATEMENT SET", "statement sets are not there yet", "run the INSERT statements one after another"),
    ("EXECUTE STATEMENT SET", "statement sets are not there yet", "run the INSERT statements one after another"),
    ("BEGIN", "transactions are not there yet", "leave it out"),
    ("START TRANSACTION", "transactions are not there yet", "leave it out"),
    ("COMMIT", "transactions are not there yet", "leave it out"),
    ("ROLLBACK", "transactions are not there yet", "leave it out"),
    ("CREATE FUNCTION", "functions cannot be defined in SQL yet", "SHOW FUNCTIONS lists those that are there"),
    ("CREATE CATALOG", "there are no catalogs and databases", "leave it out"),
    ("CREATE DATABASE", "there are no catalogs and databases", "leave it out"),
    ("CREATE SCHEMA", "there are no catalogs and databases", "leave it out"),
    ("CREATE MATERIALIZED", "materialized views are not there yet", "CREATE VIEW, or INSERT INTO a table"),
    ("CREATE INDEX", "indexes are not there: streams are read once", "leave it out"),
    (
        "CREATE EXTERNAL",
        "CREATE EXTERNAL TABLE is not there: every table is external",
        "write CREATE TABLE … WITH ('connector' = …)",
    ),
    (
        "CREATE STREAM",
        "CREATE STREAM is not there: every table is a stream",
        "write CREATE TABLE … WITH ('connector' = …)",
    ),
    (
        "CREATE SOURCE",
        "CREATE SOURCE is not there: a table can be read and written",
        "write CREATE TABLE … WITH ('connector' = …)",
    ),
    (
        "CREATE SINK",
        "CREATE SINK is not there: a table can be read and written",
        "write CREATE TABLE … WITH ('connector' = …), and INSERT INTO it",
    ),
    ("ANALYZE", "ANALYZE is not there: streams have no statistics", "leave it out"),
    ("PREPARE", "prepared statements are not there yet", "write the values into the statement"),
    ("EXECUTE", "prepared statements are not there yet", "write the values into the statement"),
    ("ADD JAR", "ADD JAR is not there: connectors are part of the engine", "leave it out"),
    ("TABLE", "TABLE t is not there as a statement", "write SELECT * FROM t"),
];

const CLAUSES: [Refusal; 30] = [
    (
        "MATCH_RECOGNIZE",
        "MATCH_RECOGNIZE is not there yet",
        "find single rows with WHERE, or count them per window with TUMBLE",
    ),
    (
        "FOR SYSTEM_TIME",
        "temporal joins are not there yet",
        "the last row before another one is a LAST JOIN: LAST JOIN r ORDER BY r.ts ON s.k = r.k AND r.ts <= s.ts",
    ),
    ("ASOF JOIN", "ASOF JOIN is LAST JOIN here", "write LAST JOIN r ORDER BY r.ts ON s.k = r.k AND r.ts <= s.ts"),
    ("RECURSIVE", "WITH RECURSIVE is not there: a stream is read once", "write the steps one after another"),
    ("LATERAL", "LATERAL is not there yet", "compute the columns in a subquery in FROM"),
    ("UNNEST", "UNNEST is not there yet: columns are flat", "write one row per element where the data comes from"),
    ("PIVOT", "PIVOT is not there", "write one aggregate with FILTER (WHERE …) per column"),
    ("UNPIVOT", "UNPIVOT is not there", "write one SELECT per column, and UNION ALL between them"),
    ("TABLESAMPLE", "TABLESAMPLE is not there", "write WHERE random() < 0.1"),
    (
        "EMIT",
        "EMIT is EAGER or ON WATERMARK, and stands behind the whole query",
        "EMIT EAGER gives results at once, and corrects them; without it they are final",
    ),
    ("INTERSECT", "INTERSECT is not there: it would have to remember every row for ever", "filter with WHERE"),
    ("EXCEPT", "EXCEPT is not there: it would have to remember every row for ever", "filter with WHERE"),
    ("MINUS", "MINUS is not there: it would have to remember every row for ever", "filter with WHERE"),
    ("EXISTS", "EXISTS stands in WHERE, by itself or between ANDs", "join with LEFT JOIN, and filter what comes of it"),
    ("GROUPING SETS", "GROUPING SETS are not there yet", "write one SELECT per grouping, and UNION ALL between them"),
    ("ROLLUP", "ROLLUP is not there yet", "write one SELECT per grouping, and UNION ALL between them"),
    ("CUBE", "CUBE is not there yet", "write one SELECT per grouping, and UNION ALL between them"),
    (
        "DISTINCT ON",
        "DISTINCT ON is not there yet",
        "group by the keys, and take first_value(x ORDER BY …) of the other columns",
    ),
    ("SORT BY", "SORT BY is not there", "write ORDER BY"),
    ("CLUSTER BY", "CLUSTER BY is not there", "leave it out"),
    ("DISTRIBUTE BY", "DISTRIBUTE BY is not there", "leave it out"),
    ("CONNECT BY", "CONNECT BY is not there: a stream is read once", "write the steps one after another"),
    ("FETCH", "FETCH is not there", "write LIMIT"),
    ("FOR UPDATE", "FOR UPDATE is not there: a query changes nothing", "leave it out"),
    ("ANY (", "ANY is not there", "write IN (…) with values"),
    ("ALL (", "ALL is not there", "write the comparisons with AND between them"),
    ("ARRAY [", "arrays are not there yet: columns are flat", "write one column per element"),
    ("MAP [", "maps are not there yet: columns are flat", "write one column per entry"),
    ("ROW (", "rows as values are not there yet: columns are flat", "write one column per part"),
    ("STRUCT (", "structs are not there yet: columns are flat", "write one column per part"),
];

const TABLE_CLAUSES: [Refusal; 4] = [
    ("PARTITIONED", "PARTITIONED BY is not there yet", "leave it out: a file source has one partition per file"),
    (
        "LIKE",
        "CREATE TABLE … LIKE is not there yet",
        "write the columns and options again; SHOW CREATE TABLE shows them",
    ),
    ("AS", "CREATE TABLE … AS SELECT is not there yet", "CREATE TABLE first, then INSERT INTO it"),
    ("DISTRIBUTED", "DISTRIBUTED BY is not there yet", "leave it out"),
];

const COLUMN_CLAUSES: [Refusal; 6] = [
    ("METADATA", "METADATA columns are not there yet", "leave the column out"),
    ("DEFAULT", "columns have no DEFAULT", "write the value in INSERT INTO … SELECT"),
    ("UNIQUE", "UNIQUE would have to remember every value for ever", "leave it out"),
    ("CHECK", "CHECK is not there", "filter with WHERE"),
    ("REFERENCES", "foreign keys are not there", "leave it out"),
    ("GENERATED", "GENERATED ALWAYS AS is not there", "write a computed column: name AS expression"),
];

fn refusal((_, message, hint): &Refusal) -> Error {
    Error::query(*message).with_hint(*hint)
}

/// A statement that is refused by its first words.
pub(crate) fn statement(words: &Words) -> Option<Error> {
    let begins_so = |refusal: &&Refusal| {
        let mut tokens = words.tokens.iter();
        // CREATE OR REPLACE TEMPORARY X begins like CREATE X.
        let mut next = move || tokens.find(|t| !["OR", "REPLACE", "TEMPORARY"].iter().any(|w| is_word(t, w)));
        refusal.0.split(' ').all(|word| next().is_some_and(|token| is_word(token, word)))
    };
    STATEMENTS.iter().find(begins_so).map(|found| refusal(found).at(words.start()))
}

/// A clause that is refused, wherever it stands. Asked only when something went wrong, so that columns may have these names.
pub(crate) fn clause(words: &Words) -> Option<Error> {
    CLAUSES.iter().find_map(|found| Some(refusal(found).at(words.find_keywords(found.0)?)))
}

/// What DataFusion would pass over in silence behind a table.
pub(crate) fn table_factor(factor: &TableFactor) -> Result<()> {
    let at = script::span(factor.span());
    let is_plain = match factor {
        TableFactor::Table {
            with_hints, version, with_ordinality, partitions, json_path, sample, index_hints, ..
        } => {
            if sample.is_some() {
                return Err(by_name("TABLESAMPLE").at(at));
            }
            with_hints.is_empty()
                && version.is_none()
                && !with_ordinality
                && partitions.is_empty()
                && json_path.is_none()
                && index_hints.is_empty()
        }
        TableFactor::Derived { sample, .. } => sample.is_none(),
        _ => true,
    };
    if is_plain { Ok(()) } else { Err(Error::query("tables have no such clause").with_hint("leave it out").at(at)) }
}

/// What DataFusion would pass over in silence behind a query.
pub(crate) fn query(query: &Query, words: &Words) -> Result<()> {
    let refused = [
        ("FETCH", query.fetch.is_some()),
        ("FOR UPDATE", !query.locks.is_empty()),
        ("FOR", query.for_clause.is_some()),
        ("SETTINGS", query.settings.is_some()),
        ("FORMAT", query.format_clause.is_some()),
    ];
    match refused.into_iter().find(|(_, is_there)| *is_there) {
        None => Ok(()),
        Some((clause, _)) => Err(by_word(clause, words)),
    }
}

/// What cannot stand behind a table's columns.
pub(crate) fn table_clause(next: &TokenWithSpan, at: Span) -> Option<Error> {
    TABLE_CLAUSES.iter().find(|found| is_word(next, found.0)).map(|found| refusal(found).at(at))
}

/// What cannot stand behind a column's type.
pub(crate) fn column_clause(next: &TokenWithSpan, at: Span) -> Option<Error> {
    COLUMN_CLAUSES.iter().find(|found| is_word(next, found.0)).map(|found| refusal(found).at(at))
}

/// What cannot stand between a table's columns.
pub(crate) fn table_element(next: &TokenWithSpan, behind: &TokenWithSpan, at: Span) -> Option<Error> {
    let is_clause = matches!(behind.token, sqlparser::tokenizer::Token::LParen);
    let found = COLUMN_CLAUSES.iter().find(|found| is_clause && is_word(next, found.0))?;
    Some(refusal(found).at(at))
}

/// What is said of a clause that begins with this word.
pub(crate) fn by_name(word: &str) -> Error {
    let found = CLAUSES.iter().find(|found| found.0 == word);
    found.map_or_else(|| Error::query(format!("{word} is not there yet")), refusal)
}

fn by_word(word: &str, words: &Words) -> Error {
    by_name(word).at(words.find_keywords(word).unwrap_or(words.start()))
}

/// Refuses what DataFusion can plan and we cannot run.
pub(crate) fn check(plan: &LogicalPlan, words: &Words) -> Result<()> {
    let refused = refuse(plan, false, words).map_err(|error| diagnose::planning(error, words))?;
    refused.map_or(Ok(()), Err)
}

/// The first refusal in a plan, or in the query of EXISTS or IN, which may name columns of the query around it.
fn refuse(plan: &LogicalPlan, is_inner: bool, words: &Words) -> datafusion_common::Result<Option<Error>> {
    let mut refused = None;
    plan.apply(|node| {
        refused = refuse_node(node, words);
        // A group is not there where no row is, but an aggregate of all rows is: DataFusion takes one for the other.
        if is_inner
            && matches!(node, LogicalPlan::Aggregate(_))
            && node.exists(|below| Ok(below.contains_outer_reference()))?
        {
            refused = refused.take().or_else(|| Some(no_join(words)));
        }
        let mut parts = node.expressions();
        if let LogicalPlan::Filter(filter) = node {
            parts.clear();
            for part in split_conjunction(&filter.predicate) {
                let Some((query, value)) = becomes_join(part) else {
                    parts.push(part.clone());
                    continue;
                };
                parts.extend(value.cloned());
                refused = refused.take().map_or_else(|| refuse(query, true, words), |found| Ok(Some(found)))?;
            }
        }
        for expression in parts {
            expression.apply(|part| {
                let is_outer_column = is_inner && matches!(part, Expr::OuterReferenceColumn(..));
                let found = || refuse_expression(part, words).filter(|_| !is_outer_column);
                refused = refused.take().or_else(found);
                Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
        }
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(refused)
}

/// Refuses what cannot be computed from one row.
pub(crate) fn check_expressions(expressions: &[Expr], words: &Words) -> Result<()> {
    let mut refused = None;
    for expression in expressions {
        let walked = expression.apply(|part| {
            if let Expr::AggregateFunction(call) = part {
                let name = call.func.name();
                let at = words.find_identifier(name).unwrap_or(words.start());
                let error = Error::query(format!("a computed column is of one row, and {name} is of many"));
                refused = Some(error.with_hint("aggregate in a query, with GROUP BY").at(at));
            }
            refused = refused.take().or_else(|| refuse_expression(part, words));
            Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        walked.map_err(|error| diagnose::planning(error, words))?;
    }
    refused.map_or(Ok(()), Err)
}

fn refuse_node(node: &LogicalPlan, words: &Words) -> Option<Error> {
    let by = |word| Some(by_word(word, words));
    match node {
        // Only what these are made of takes two nulls for one value.
        LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => {
            ["INTERSECT", "EXCEPT"].into_iter().find(|word| words.find_keywords(word).is_some()).map_or_else(
                || Some(Error::query("a view has INTERSECT or EXCEPT, which are not there").at(words.start())),
                by,
            )
        }
        // Of the two columns it would show the one whose table's name comes first, and that one may be null.
        LogicalPlan::Join(join) if join.join_type.is_outer() && join.join_constraint == JoinConstraint::Using => {
            let at = words.find_keywords("USING").or_else(|| words.find_keywords("NATURAL"));
            Some(
                Error::query(
                    "USING and NATURAL are not there for outer joins: it is not clear which side's value is meant",
                )
                .with_hint("write ON a.k = b.k AND …")
                .at(at.unwrap_or(words.start())),
            )
        }
        LogicalPlan::Unnest(_) => by("UNNEST"),
        LogicalPlan::RecursiveQuery(_) => by("RECURSIVE"),
        LogicalPlan::Subquery(_) => by("LATERAL"),
        LogicalPlan::Distinct(Distinct::On(_)) => by("DISTINCT ON"),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.aggr_expr.iter().find_map(|call| refuse_filter(call, aggregate.input.schema(), words))
        }
        LogicalPlan::Extension(extension) => {
            let over = extension.node.as_any().downcast_ref::<OverNode>()?;
            over.calls.iter().find_map(|call| refuse_filter(&call.function, &over.schema, words))
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => None,
        other => Some(Error::query(format!("this cannot be run on a stream: {}", other.display())).at(words.start())),
    }
}

/// DataFusion looks at the type of a condition in WHERE and HAVING, and not at that of one in FILTER.
fn refuse_filter(call: &Expr, input: &DFSchema, words: &Words) -> Option<Error> {
    let Expr::AggregateFunction(function) = call.clone().unalias() else { return None };
    let kind = function.params.filter?.get_type(input).ok()?;
    let is_condition = matches!(kind, DataType::Boolean | DataType::Null);
    (!is_condition).then(|| {
        Error::query(format!("the condition is {}, expected BOOLEAN", types::flink_name(&kind)))
            .with_hint("compare it with something: x > 0")
            .at(words.find_keywords("FILTER").unwrap_or(words.start()))
    })
}

fn refuse_expression(expression: &Expr, words: &Words) -> Option<Error> {
    const SUBQUERY: &str = "write the values into the query, or filter where the data comes from";
    let at_subquery = || words.find_subquery().unwrap_or(words.start());
    match expression {
        Expr::WindowFunction(_) => Some(
            Error::query("OVER looks at the rows around a row, and here single rows are looked at")
                .with_hint("compute it in a subquery in FROM")
                .at(words.find_keywords("OVER").unwrap_or(words.start())),
        ),
        Expr::Unnest(_) => Some(by_word("UNNEST", words)),
        Expr::GroupingSet(set) => Some(by_word(
            match set {
                datafusion_expr::GroupingSet::Rollup(_) => "ROLLUP",
                datafusion_expr::GroupingSet::Cube(_) => "CUBE",
                datafusion_expr::GroupingSet::GroupingSets(_) => "GROUPING SETS",
            },
            words,
        )),
        Expr::Exists(_) => Some(by_word("EXISTS", words)),
        Expr::InSubquery(found) => {
            let error = match found.negated {
                true => {
                    Error::query("NOT IN (SELECT …) is not there: a null among the values would make it never true")
                        .with_hint("write NOT EXISTS (SELECT * FROM … WHERE …)")
                }
                false => Error::query("IN (SELECT …) stands in WHERE, by itself or between ANDs").with_hint(SUBQUERY),
            };
            Some(error.at(words.find_keywords("IN ( SELECT").unwrap_or_else(at_subquery)))
        }
        Expr::SetComparison(_) => Some(
            Error::query("comparisons with ANY and ALL of a subquery are not there yet")
                .with_hint(SUBQUERY)
                .at(at_subquery()),
        ),
        Expr::ScalarSubquery(_) => Some(
            Error::query("a subquery as a value is not there yet: it is a join").with_hint(SUBQUERY).at(at_subquery()),
        ),
        Expr::OuterReferenceColumn(..) => Some(by_word("LATERAL", words)),
        Expr::Placeholder(found) => Some(
            Error::query(format!("there is no value for {}", found.id))
                .with_hint("write the value into the query")
                .at(words.find_keywords(&found.id).unwrap_or(words.start())),
        ),
        _ => None,
    }
}
