//! Expressions as a person would write them in SQL: for EXPLAIN, and for errors that name the part that failed.

use arrow_schema::DataType;
use datafusion_common::{
    Column, ScalarValue,
    tree_node::{Transformed, TreeNode},
};
use datafusion_expr::{
    Expr, Operator,
    expr::{AggregateFunction, BinaryExpr, InList, Like, NullTreatment, Sort},
};

/// How tightly what is no operator holds together.
const WHOLE: u8 = u8::MAX;
/// Between the operators of arithmetic and the names.
const SIGN: u8 = 100;
/// NOT holds less than comparisons and more than AND.
const NOT: u8 = 11;
/// IS, LIKE, IN and BETWEEN hold like comparisons.
const TEST: u8 = 25;

/// The expression in SQL. Casts are left out: most of them nobody wrote. A column's table is written where another one's column has its name.
///
/// ```
/// use datafusion_expr::{col, lit};
/// assert_eq!(thalweg_plan::written(&((col("a") + lit(1)) * -col("b"))), "(a + 1) * -b");
/// assert_eq!(thalweg_plan::written(&(col("s.v") + col("r.v") + col("r.w"))), "s.v + r.v + w");
/// ```
pub fn written(expression: &Expr) -> String {
    let columns = expression.column_refs();
    let is_of_several =
        |column: &Column| columns.iter().any(|other| other.name == column.name && other.relation != column.relation);
    if !columns.iter().any(|column| is_of_several(column)) {
        return sql(expression);
    }
    let named = expression.clone().transform(|part| match part {
        Expr::Column(column) if is_of_several(&column) => {
            Ok(Transformed::yes(Expr::Column(Column::from_name(column.flat_name()))))
        }
        part => Ok(Transformed::no(part)),
    });
    named.map_or_else(|_| sql(expression), |named| sql(&named.data))
}

fn sql(expression: &Expr) -> String {
    match expression {
        Expr::Alias(alias) => sql(&alias.expr),
        Expr::Cast(cast) => sql(&cast.expr),
        Expr::TryCast(cast) => {
            format!("TRY_CAST({} AS {})", sql(&cast.expr), thalweg_core::types::sql_name(cast.field.data_type()))
        }
        Expr::Column(column) => column.name.clone(),
        Expr::Literal(value, _) => literal(value),
        Expr::BinaryExpr(binary) => infix(binary),
        Expr::Negative(inner) => format!("-{}", held(inner, SIGN + 1)),
        Expr::Not(inner) => format!("NOT {}", held(inner, NOT)),
        Expr::IsNull(inner) => format!("{} IS NULL", held(inner, TEST)),
        Expr::IsNotNull(inner) => format!("{} IS NOT NULL", held(inner, TEST)),
        Expr::IsTrue(inner) => format!("{} IS TRUE", held(inner, TEST)),
        Expr::IsFalse(inner) => format!("{} IS FALSE", held(inner, TEST)),
        Expr::IsUnknown(inner) => format!("{} IS UNKNOWN", held(inner, TEST)),
        Expr::IsNotTrue(inner) => format!("{} IS NOT TRUE", held(inner, TEST)),
        Expr::IsNotFalse(inner) => format!("{} IS NOT FALSE", held(inner, TEST)),
        Expr::IsNotUnknown(inner) => format!("{} IS NOT UNKNOWN", held(inner, TEST)),
        Expr::Between(between) => {
            let (low, high) = (held(&between.low, TEST + 1), held(&between.high, TEST + 1));
            format!("{} {}BETWEEN {low} AND {high}", held(&between.expr, TEST), not(between.negated))
        }
        Expr::InList(InList { expr, list, negated }) => {
            format!("{} {}IN ({})", held(expr, TEST), not(*negated), all(list))
        }
        Expr::Like(like) => matches(like, if like.case_insensitive { "ILIKE" } else { "LIKE" }),
        Expr::SimilarTo(like) => matches(like, "SIMILAR TO"),
        Expr::Case(case) => {
            let mut text = "CASE".to_string();
            text.extend(case.expr.iter().map(|operand| format!(" {}", sql(operand))));
            let branches = case.when_then_expr.iter();
            text.extend(branches.map(|(when, then)| format!(" WHEN {} THEN {}", sql(when), sql(then))));
            text.extend(case.else_expr.iter().map(|other| format!(" ELSE {}", sql(other))));
            text + " END"
        }
        Expr::ScalarFunction(call) => format!("{}({})", call.func.name(), all(&call.args)),
        Expr::AggregateFunction(call) => aggregate(call),
        other => other.human_display().to_string(),
    }
}

fn all(expressions: &[Expr]) -> String {
    expressions.iter().map(sql).collect::<Vec<_>>().join(", ")
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

/// In parentheses, unless it holds together at least so tightly.
fn held(expression: &Expr, tightness: u8) -> String {
    let text = sql(expression);
    let is_negative_number = text.starts_with('-') && tightness > SIGN;
    if tight(expression) < tightness || is_negative_number { format!("({text})") } else { text }
}

fn tight(expression: &Expr) -> u8 {
    match expression {
        Expr::Alias(alias) => tight(&alias.expr),
        Expr::Cast(cast) => tight(&cast.expr),
        Expr::BinaryExpr(binary) => binary.op.precedence().max(1),
        Expr::Negative(_) => SIGN,
        Expr::Not(_) => NOT,
        Expr::Between(_) | Expr::InList(_) | Expr::Like(_) | Expr::SimilarTo(_) => TEST - 1,
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::IsUnknown(_) => TEST - 1,
        Expr::IsNotTrue(_) | Expr::IsNotFalse(_) | Expr::IsNotUnknown(_) => TEST - 1,
        _ => WHOLE,
    }
}

fn infix(BinaryExpr { left, op, right }: &BinaryExpr) -> String {
    let here = op.precedence().max(1);
    let is_chain = matches!(op, Operator::And | Operator::Or);
    format!("{} {op} {}", held(left, here), held(right, if is_chain { here } else { here + 1 }))
}

fn matches(like: &Like, word: &str) -> String {
    let escape = like.escape_char.map(|letter| format!(" ESCAPE '{letter}'")).unwrap_or_default();
    let (value, pattern) = (held(&like.expr, TEST), held(&like.pattern, TEST + 1));
    format!("{value} {}{word} {pattern}{escape}", not(like.negated))
}

fn literal(value: &ScalarValue) -> String {
    match value {
        _ if value.is_null() => "NULL".to_string(),
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        ScalarValue::Date32(_) => format!("DATE '{value}'"),
        ScalarValue::TimestampMicrosecond(..) => match value.cast_to(&DataType::Utf8) {
            Ok(ScalarValue::Utf8(Some(text))) => format!("TIMESTAMP '{}'", text.replacen('T', " ", 1)),
            _ => value.to_string(),
        },
        ScalarValue::IntervalMonthDayNano(Some(span)) => interval(span.months, span.days, span.nanoseconds),
        other => other.to_string(),
    }
}

/// The span of time in the largest units that it is a whole number of.
fn interval(months: i32, days: i32, nanoseconds: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(i64, &str); 3] = [(3600 * SECOND, "HOUR"), (60 * SECOND, "MINUTE"), (SECOND, "SECOND")];
    match (months, days, nanoseconds) {
        (months, 0, 0) if months != 0 && months % 12 == 0 => format!("INTERVAL '{}' YEAR", months / 12),
        (months, 0, 0) if months != 0 => format!("INTERVAL '{months}' MONTH"),
        (0, days, 0) if days != 0 => format!("INTERVAL '{days}' DAY"),
        (0, 0, nanoseconds) => match UNITS.iter().find(|(unit, _)| nanoseconds != 0 && nanoseconds % unit == 0) {
            Some((unit, name)) => format!("INTERVAL '{}' {name}", nanoseconds / unit),
            None => format!("INTERVAL '{}' SECOND", nanoseconds as f64 / SECOND as f64),
        },
        _ => {
            let seconds = nanoseconds as f64 / SECOND as f64;
            format!("INTERVAL '{months} months {days} days {seconds} seconds'")
        }
    }
}

fn aggregate(AggregateFunction { func, params }: &AggregateFunction) -> String {
    let is_star = matches!(params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null());
    let arguments = if func.name() == "count" && is_star { "*".to_string() } else { all(&params.args) };
    let distinct = if params.distinct { "DISTINCT " } else { "" };
    let keys = params.order_by.iter().map(|Sort { expr, asc, .. }| sql(expr) + if *asc { "" } else { " DESC" });
    let keys = keys.collect::<Vec<_>>().join(", ");
    let order = if keys.is_empty() { keys } else { format!(" ORDER BY {keys}") };
    let filter = params.filter.iter().map(|filter| format!(" FILTER (WHERE {})", sql(filter))).collect::<String>();
    let nulls = match params.null_treatment {
        Some(NullTreatment::IgnoreNulls) => " IGNORE NULLS",
        _ => "",
    };
    format!("{}({distinct}{arguments}{order}){filter}{nulls}", func.name())
}

#[cfg(test)]
mod tests {
    use datafusion_expr::{col, lit, not, when};

    use super::written;

    #[test]
    fn parentheses_stand_where_they_are_needed() {
        let (a, b, c) = (|| col("a"), || col("b"), || col("c"));
        for (expression, text) in [
            ((a() + b()) * c(), "(a + b) * c"),
            (a() + b() * c(), "a + b * c"),
            (a() - (b() - c()), "a - (b - c)"),
            (a() - b() - c(), "a - b - c"),
            (-(a() + b()), "-(a + b)"),
            (-(-a()), "-(-a)"),
            (a() - lit(-1), "a - -1"),
            (a().gt(lit(1)).and(b().lt(lit(2)).or(c().eq(lit(3)))), "a > 1 AND (b < 2 OR c = 3)"),
            (not(a().gt(b())), "NOT a > b"),
            (not(a().and(b())), "NOT (a AND b)"),
            (a().between(lit(1), lit(2)), "a BETWEEN 1 AND 2"),
            (a().in_list(vec![lit("x"), lit("it's")], true), "a NOT IN ('x', 'it''s')"),
            (a().is_null(), "a IS NULL"),
            ((a() + b()).like(lit("%x")), "a + b LIKE '%x'"),
            (when(a().eq(lit(0)), lit(1)).otherwise(b()).unwrap(), "CASE WHEN a = 0 THEN 1 ELSE b END"),
            (datafusion_expr::cast(a(), arrow_schema::DataType::Int8) + lit(1i32), "a + 1"),
        ] {
            assert_eq!(written(&expression), text);
        }
    }
}
