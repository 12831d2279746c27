//! `thalweg explain`: the plans of queries, which are run only to be measured.

use std::{path::Path, sync::Arc};

use thalweg::{Engine, Plan, Query, backends::measured, engine::OTHERWISE, query::Kind};
use thalweg_connectors::unbuffered_stdout;
use thalweg_core::{Error, Progress, Result};
use thalweg_plan::parallel::costs::{CostFile, Costs};
use thalweg_runtime::metrics::NodeMetrics;
use thalweg_sql::ExplainFormat;

use super::{Ending, Failure, arguments::Explain, interrupt::Interrupt, output, placing, screen::Screen, script};

/// Prints the plan of each query that was given; other statements take effect.
pub fn explain(arguments: &Explain, screen: &Arc<Screen>) -> std::result::Result<Ending, Failure> {
    let scripts = script::read(&arguments.input, "explain")?;
    let mut engine = Engine::new();
    match arguments.analyze {
        true => placing::set(&mut engine, &arguments.placing)?,
        false => placing::place(&mut engine, &arguments.placing)?,
    }
    let costs = arguments.placing.costs.as_deref();
    let mut analysis = arguments.analyze.then(|| Analysis::new(screen, costs)).transpose()?;
    let mut plans = 0;
    for (number, statement) in script::statements(&engine, &scripts, screen)? {
        let failure = |error: Error| scripts[number].failure(&error, Some(statement.span()));
        let mut ran = Vec::new();
        let Some(mut plan) = engine.plan(&statement).map_err(failure)? else { continue };
        if let Some(analysis) = &mut analysis {
            let as_ran = plan.clone();
            (plan.costs, ran) = analysis.measure(&engine, &plan).map_err(failure)?;
            if !thalweg::engine::run_alike(&as_ran, &plan) {
                screen.say(&format!("{OTHERWISE} (--costs FILE keeps that for later runs)"));
            }
        }
        let lead = if plans > 0 && !arguments.json { "\n" } else { "" };
        let text = format!("{lead}{}\n", shown(&plan, &ran, arguments)?.trim_end());
        if output::write(&mut unbuffered_stdout()?, text.as_bytes())? == Progress::Finished {
            return Ok(Ending::Unread);
        }
        plans += 1;
        if analysis.as_ref().is_some_and(|analysis| analysis.interrupt.is_stopped()) {
            break;
        }
    }
    if plans == 0 {
        return Err(Error::query("nothing to explain").with_hint("only SELECT and INSERT have a plan").into());
    }
    match analysis {
        Some(analysis) if analysis.interrupt.is_stopped() => Ok(Ending::Stopped),
        _ => Ok(Ending::Done),
    }
}

/// Queries that are run to be measured.
struct Analysis<'a> {
    interrupt: Interrupt,
    costs: CostFile,
    /// Where they are kept.
    path: Option<&'a Path>,
}

impl<'a> Analysis<'a> {
    /// Costs are added to those that are kept there.
    fn new(screen: &Arc<Screen>, path: Option<&'a Path>) -> Result<Self> {
        Ok(Self { interrupt: Interrupt::install(screen)?, costs: placing::kept(path)?, path })
    }

    /// Runs a query to its end, or until it is interrupted, and keeps what was measured, with how its nodes did; nobody sees its rows.
    fn measure(&mut self, engine: &Engine, plan: &Plan) -> Result<(Costs, Vec<NodeMetrics>)> {
        let mut query = engine.analyze(plan)?;
        let running = query.control().map(|control| self.interrupt.stops(control));
        drain(&mut query)?;
        drop(running);
        let metrics = query.metrics();
        let costs = measured::costs(&metrics);
        self.costs.add(plan, costs.clone());
        self.path.iter().try_for_each(|path| placing::write(path, &self.costs))?;
        Ok((costs, metrics.nodes))
    }
}

fn drain(query: &mut Query) -> Result<()> {
    if query.kind() == Kind::Select {
        query.by_ref().try_for_each(|batch| batch.map(drop))?;
    }
    query.wait().map(drop)
}

/// A plan, and how its nodes did if it ran.
fn shown(plan: &Plan, ran: &[NodeMetrics], arguments: &Explain) -> Result<String> {
    let format = match arguments {
        Explain { json: true, .. } => ExplainFormat::Json,
        Explain { dot: true, .. } => ExplainFormat::Dot,
        _ => ExplainFormat::Text,
    };
    match arguments {
        Explain { analyze: true, .. } => thalweg::engine::explain_analyzed(plan, ran, format),
        Explain { parallel: true, .. } => Ok(thalweg::engine::explain_parallel(plan, format)),
        _ => Ok(thalweg::engine::explain(plan, format)),
    }
}
