//! `thalweg explain`: the plans of queries, which are not run.

use thalweg::{Engine, Plan};
use thalweg_connectors::unbuffered_stdout;
use thalweg_core::{Error, Progress};
use thalweg_sql::ExplainFormat;

use super::{Ending, Failure, arguments::Explain, output, screen::Screen, script};

/// Prints the plan of each query that was given; other statements take effect.
pub fn explain(arguments: &Explain, screen: &Screen) -> Result<Ending, Failure> {
    let scripts = script::read(&arguments.input, "explain")?;
    let mut engine = Engine::new();
    let mut plans = 0;
    for (number, statement) in script::statements(&engine, &scripts, screen)? {
        let plan = engine.plan(&statement);
        let plan = plan.map_err(|error| scripts[number].failure(&error, Some(statement.span())))?;
        let Some(plan) = plan else { continue };
        let lead = if plans > 0 && !arguments.json { "\n" } else { "" };
        let text = format!("{lead}{}\n", shown(&plan, arguments).trim_end());
        if output::write(&mut unbuffered_stdout()?, text.as_bytes())? == Progress::Finished {
            return Ok(Ending::Unread);
        }
        plans += 1;
    }
    if plans == 0 {
        return Err(Error::query("nothing to explain").with_hint("only SELECT and INSERT have a plan").into());
    }
    Ok(Ending::Done)
}

fn shown(plan: &Plan, arguments: &Explain) -> String {
    let format = match arguments {
        Explain { json: true, .. } => ExplainFormat::Json,
        Explain { dot: true, .. } => ExplainFormat::Dot,
        _ => ExplainFormat::Text,
    };
    thalweg::engine::explain(plan, format)
}
