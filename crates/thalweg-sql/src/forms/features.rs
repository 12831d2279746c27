//! OpenMLDB's aggregates, as those that are there: `sum_where(x, c)` is `sum(x) FILTER (WHERE c)`.

use sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
        FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart, Spanned,
    },
    tokenizer::Span as TokenSpan,
};
use thalweg_core::{Error, Result};

use crate::{functions::FREQUENT, script};

/// Aggregates of the rows that a condition holds for, and the aggregates that they are.
const WHERE: [(&str, &str); 5] =
    [("avg_where", "avg"), ("count_where", "count"), ("max_where", "max"), ("min_where", "min"), ("sum_where", "sum")];

/// Shorter names.
const SHORT: [(&str, &str); 2] = [("first", "first_value"), ("last", "last_value")];

const DISTINCT: &str = "distinct_count";

/// As many values a text has at most: one that is filled up must not take all memory.
const MOST: u64 = 1024;

/// The aggregates that are written out here, in lower case.
pub(crate) fn aggregates() -> impl Iterator<Item = &'static str> {
    WHERE.iter().chain(&SHORT).map(|(name, _)| *name).chain([DISTINCT])
}

/// What a call of one of OpenMLDB's aggregates means.
///
/// Errors: `Error::Query` with the place, for calls that lack an argument.
pub(crate) fn feature(call: &Function) -> Result<Option<Expr>> {
    let name = call.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &call.args else { return Ok(None) };
    let refused =
        |message: String, hint: &str| Err(Error::query(message).with_hint(hint).at(script::span(call.name.span())));
    if let Some((_, plain)) = WHERE.iter().find(|(known, _)| *known == name) {
        let [value, FunctionArg::Unnamed(FunctionArgExpr::Expr(condition))] = list.args.as_slice() else {
            return refused(format!("{name} takes a value and a condition"), &format!("write {name}(x, x > 0)"));
        };
        return Ok(Some(filtered(call, plain, list, value, condition)));
    }
    if let Some((_, known)) = SHORT.iter().find(|(short, _)| *short == name) {
        return Ok(Some(renamed(call, known, list.clone())));
    }
    if name == DISTINCT {
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(_))] = list.args.as_slice() else {
            return refused(format!("{name} takes a value"), &format!("write {name}(x), which is count(DISTINCT x)"));
        };
        let list = FunctionArgumentList { duplicate_treatment: Some(DuplicateTreatment::Distinct), ..list.clone() };
        return Ok(Some(renamed(call, "count", list)));
    }
    if name != FREQUENT {
        return Ok(None);
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), number] = list.args.as_slice() else {
        return refused(
            format!("{name} takes a value, and how many of the most frequent ones"),
            "write topn_frequency(x, 3)",
        );
    };
    if !number.to_string().parse::<u64>().is_ok_and(|count| (1..=MOST).contains(&count)) {
        return refused(
            format!("{name} gives a number of values that is written in the query, from 1 to {MOST}"),
            "write topn_frequency(x, 3)",
        );
    }
    // Values are ordered as what they are, and written as any value is.
    let text = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value.clone()),
        data_type: DataType::String(None),
        array: false,
        format: None,
    };
    let mut list = list.clone();
    list.args.insert(1, FunctionArg::Unnamed(FunctionArgExpr::Expr(text)));
    Ok(Some(renamed(call, FREQUENT, list)))
}

/// The aggregate of the rows for which the condition holds too.
fn filtered(call: &Function, plain: &str, list: &FunctionArgumentList, value: &FunctionArg, condition: &Expr) -> Expr {
    let nested = |part: &Expr| Box::new(Expr::Nested(Box::new(part.clone())));
    let filter = match &call.filter {
        // What stands in FILTER is asked first, as it would be of any argument.
        Some(filter) => {
            Box::new(Expr::BinaryOp { left: nested(filter), op: BinaryOperator::And, right: nested(condition) })
        }
        None => Box::new(condition.clone()),
    };
    let list = FunctionArgumentList { args: vec![value.clone()], ..list.clone() };
    match renamed(call, plain, list) {
        Expr::Function(call) => Expr::Function(Function { filter: Some(filter), ..call }),
        other => other,
    }
}

fn renamed(call: &Function, name: &str, list: FunctionArgumentList) -> Expr {
    let at = call.name.0.first().map_or(TokenSpan::empty(), ObjectNamePart::span);
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_span(at, name)]),
        args: FunctionArguments::List(list),
        ..call.clone()
    })
}
