//! Which type values of several types have where they meet: in a column of a union, in CASE, between operators. It depends on which
//! types there are, and not on their order.
//!
//! A float and a decimal are a DOUBLE, as in Flink and PostgreSQL, where DataFusion would cut the float to 15 digits. A DATE beside a
//! time is its midnight on the session's clock, where DataFusion would take an instant's clock to be that of UTC.

use arrow_schema::{DataType, TimeUnit};
use datafusion_expr::{Cast, Expr};

/// Those of several types that give way to another, and the type that they become.
#[derive(Debug)]
pub(crate) struct Together {
    gives_way: fn(&DataType) -> bool,
    becomes: DataType,
}

impl Together {
    /// What becomes of these types, or nothing if DataFusion's rules are right for them.
    pub fn of<'a>(kinds: impl Iterator<Item = &'a DataType> + Clone) -> Option<Self> {
        let has = |test: fn(&DataType) -> bool| kinds.clone().any(test);
        if has(DataType::is_floating) && has(DataType::is_decimal) {
            return Some(Self { gives_way: DataType::is_decimal, becomes: DataType::Float64 });
        }
        let mut zones = kinds.clone().filter_map(|kind| match kind {
            DataType::Timestamp(_, zone) => Some(zone.clone()),
            _ => None,
        });
        let first = zones.next()?;
        has(is_date).then(|| Self {
            gives_way: is_date,
            becomes: DataType::Timestamp(TimeUnit::Microsecond, first.or_else(|| zones.flatten().next())),
        })
    }

    /// Whether values of this type are cast.
    pub fn changes(&self, kind: &DataType) -> bool {
        (self.gives_way)(kind)
    }

    /// The value as what it becomes; a constant at once.
    pub fn cast(&self, value: Expr) -> Expr {
        if let Expr::Literal(constant, _) = &value
            && let Ok(constant) = constant.cast_to(&self.becomes)
        {
            return Expr::Literal(constant, None);
        }
        Expr::Cast(Cast::new(Box::new(value), self.becomes.clone()))
    }
}

fn is_date(kind: &DataType) -> bool {
    matches!(kind, DataType::Date32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_types_does_not_matter() {
        let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
        let becomes = |kinds: [&DataType; 3]| {
            let mut found = Vec::new();
            for [a, b, c] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                found.push(Together::of([kinds[a], kinds[b], kinds[c]].into_iter()).map(|together| together.becomes));
            }
            found.dedup();
            assert_eq!(found.len(), 1, "{kinds:?}");
            found.remove(0)
        };
        let decimal = DataType::Decimal128(2, 1);
        assert_eq!(becomes([&decimal, &DataType::Float64, &DataType::Int64]), Some(DataType::Float64));
        assert_eq!(becomes([&decimal, &DataType::Float32, &DataType::Null]), Some(DataType::Float64));
        assert_eq!(becomes([&DataType::Date32, &timestamp, &instant]), Some(instant.clone()));
        assert_eq!(becomes([&DataType::Date32, &timestamp, &timestamp]), Some(timestamp.clone()));
        assert_eq!(becomes([&timestamp, &instant, &DataType::Null]), None);
        assert_eq!(becomes([&decimal, &DataType::Int64, &DataType::Utf8]), None);
    }
}
