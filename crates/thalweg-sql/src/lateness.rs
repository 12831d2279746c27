//! How far rows may be out of order where the table's options say it: `'lateness'`, or `'accuracy'`, for which it is learnt.

use thalweg_core::{Error, Interval, Result, connector::Options};
use thalweg_plan::Accuracy;

use crate::catalog::Watermark;

/// Completes a table's watermark by its options.
///
/// Errors: an option without a watermark, with a value that means nothing, or that says what was said before.
pub(crate) fn complete(watermark: Option<Watermark>, options: &Options) -> Result<Option<Watermark>> {
    let Some(mut watermark) = watermark else {
        let Some(option) = Options::OF_TABLES.iter().find(|key| options.get(key).is_some()) else { return Ok(None) };
        return Err(Error::query(format!("option '{option}' is for tables with a WATERMARK"))
            .with_hint("declare which column is event time: WATERMARK FOR ts AS ts"));
    };
    if let Some(text) = options.get("accuracy") {
        if options.get("lateness").is_some() {
            return Err(
                Error::query("option 'accuracy' learns what option 'lateness' says").with_hint("leave one of them out")
            );
        }
        let accuracy: Accuracy = text.parse().map_err(|()| {
            Error::query(format!("option 'accuracy' is '{text}', expected a share of results such as '0.999'"))
                .with_hint("from 0.5 on, below 1: no lateness is enough for all rows that may ever come")
        })?;
        watermark.accuracy = Some(accuracy);
    }
    if let Some(lateness) = options.interval("lateness")? {
        if watermark.delay != Interval(0) {
            let message = format!("option 'lateness' is said twice: the watermark is {}", watermark.text);
            return Err(
                Error::query(message).with_hint("write the WATERMARK without an interval, or leave the option out")
            );
        }
        watermark.delay = lateness;
    }
    Ok(Some(watermark))
}
