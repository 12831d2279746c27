//! DataFusion's and Arrow's errors in our words.

use arrow_schema::ArrowError;
use datafusion_common::DataFusionError;
use thalweg_core::{Error, error::lower_first};

/// The same error, by whose fault it is, without the wrapping.
pub fn from_datafusion(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::Plan(m) | DataFusionError::NotImplemented(m) | DataFusionError::Configuration(m) => {
            Error::query(bare(m))
        }
        DataFusionError::SchemaError(inner, _) => Error::query(bare(&inner.to_string())),
        DataFusionError::SQL(inner, _) => Error::query(bare(&inner.to_string())),
        DataFusionError::Execution(m) => Error::data(bare(m)),
        DataFusionError::ResourcesExhausted(m) => Error::environment(bare(m)),
        DataFusionError::IoError(inner) => Error::environment(bare(&inner.to_string())),
        DataFusionError::External(inner) => from_other(inner.as_ref()),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(inner),
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(all) if !all.is_empty() => from_datafusion(&all[0]),
        other => Error::bug(bare(&other.to_string())),
    }
}

/// Arrow's errors about data keep their text; the rest cannot happen on checked input.
pub fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => from_other(inner.as_ref()),
        ArrowError::DivideByZero => Error::data("division by zero"),
        ArrowError::NotYetImplemented(m) => Error::query(bare(m)),
        ArrowError::CastError(m) if m.contains("different timezone") => {
            Error::data("a local time that the session's clocks skip, or show twice, is no instant")
                .with_hint("write the time with its offset, or SET 'time.zone' = 'UTC'")
        }
        ArrowError::ParseError(m)
        | ArrowError::CastError(m)
        | ArrowError::ComputeError(m)
        | ArrowError::ArithmeticOverflow(m)
        | ArrowError::InvalidArgumentError(m) => Error::data(bare(m)),
        other => Error::bug(bare(&other.to_string())),
    }
}

fn from_other(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        return from_datafusion(inner);
    }
    if let Some(inner) = error.downcast_ref::<ArrowError>() {
        return from_arrow(inner);
    }
    error.downcast_ref::<Error>().cloned().unwrap_or_else(|| Error::data(bare(&error.to_string())))
}

/// The text without a backtrace, without the names of error kinds in front, without a full stop.
fn bare(text: &str) -> String {
    let text = text.split("\n\nbacktrace").next().unwrap_or(text);
    let mut text = text.split("\nThis issue was likely caused by a bug").next().unwrap_or(text).trim();
    while let Some((kind, rest)) = text.split_once(": ")
        && (kind.ends_with(" error") || kind.ends_with(" Error") || kind == "Error" || kind == "External")
    {
        text = rest;
    }
    lower_first(text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use thalweg_core::error::Fault;

    use super::*;

    #[test]
    fn wrapping_is_taken_off() {
        let arrow = ArrowError::CastError("Cannot cast string 'x' to value of Int64 type".into());
        let wrapped = DataFusionError::from(arrow).context("somewhere");
        let error = from_datafusion(&wrapped);
        assert_eq!(error.fault(), Fault::Data);
        assert_eq!(error.message(), "cannot cast string 'x' to value of Int64 type");
        assert_eq!(bare("Arrow error: Compute error: It failed."), "it failed");
        assert_eq!(bare("No such thing: a"), "no such thing: a");
    }

    #[test]
    fn faults_are_told_apart() {
        assert_eq!(from_datafusion(&DataFusionError::Plan("No".into())).fault(), Fault::Query);
        assert_eq!(from_datafusion(&DataFusionError::Internal("No".into())).fault(), Fault::Bug);
        assert_eq!(from_datafusion(&DataFusionError::Execution("No".into())).fault(), Fault::Data);
        let outer = DataFusionError::External(Box::new(ArrowError::DivideByZero));
        assert_eq!(from_datafusion(&outer).message(), "division by zero");
    }
}
