//! What rows cost in each node, and how many it gives: as measured in an earlier run, or estimated.
//!
//! Measured costs are an input of the compiler, read from a file, so that the same plan, settings and file give the same cut.

use std::{collections::BTreeMap, sync::Arc};

use arrow_schema::{DataType, FieldRef};
use datafusion_common::{
    DFSchema,
    tree_node::{TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{Expr, ExprSchemable, function::StateFieldsArgs};
use serde_json::{Value, json};
use thalweg_core::{Error, Result};

use crate::{
    Node, NodeId, Plan,
    node::{Aggregate, AggregateCall, Sink, Source, Windowing, Windows},
    render::describe,
};

/// The version of files of costs.
const VERSION: u64 = 1;

/// What was measured of a node, all its instances together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Rows that it took; of a source, those that it read.
    pub rows_in: u64,
    /// Rows that it gave.
    pub rows_out: u64,
    /// The time within its calls, in nanoseconds.
    pub nanos: u64,
}

/// What was measured of the nodes of a plan, by label; empty if nothing was.
pub type Costs = BTreeMap<String, Measured>;

/// What a node does with a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Nanoseconds per row that it takes.
    pub nanos: f64,
    /// Rows that it gives per row that it takes.
    pub rows: f64,
}

impl Measured {
    /// As a file has it.
    pub fn json(&self) -> Value {
        json!({"rows_in": self.rows_in, "rows_out": self.rows_out, "nanoseconds": self.nanos})
    }
}

/// Measured costs of any number of plans, as a file has them.
///
/// ```text
/// {"version": 1, "plans": {"5c1f…": {"Filter 1": {"rows_in": 1000, "rows_out": 10, "nanoseconds": 4711}, …}, …}}
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostFile(BTreeMap<String, Costs>);

impl CostFile {
    /// Reads what [`CostFile::json`] wrote.
    ///
    /// Errors: `Error::Query` if it is no such file, or of another version, or has a number that cannot have been measured, with its line.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: String| {
            Error::query(format!("these are no costs of a plan: {what}"))
                .with_hint("move the file away, and measure anew: thalweg explain --analyze --costs FILE")
        };
        let value: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if value["version"] != json!(VERSION) {
            return Err(wrong(format!("the version is {}, expected {VERSION}", value["version"])));
        }
        // JSON has no numbers that are infinite or none, and those that are too large are no JSON to the parser.
        let number = |node: &Value, path: [&str; 3], least: u64| {
            let [_, label, key] = path;
            node[key].as_u64().filter(|number| *number >= least).ok_or_else(|| {
                let expected =
                    if least == 0 { "a whole number" } else { "a whole number from 1 on, since rows take time" };
                let line = line_of(text, &path);
                wrong(format!("line {line}: \"{key}\" of {label:?} is {}, expected {expected}", node[key]))
            })
        };
        let mut file = Self::default();
        let plans = value["plans"].as_object().ok_or_else(|| wrong("\"plans\" is no object".to_string()))?;
        for (plan, nodes) in plans {
            let nodes = nodes.as_object().ok_or_else(|| wrong(format!("plan {plan} is no object")))?;
            let mut costs = Costs::new();
            for (label, node) in nodes {
                let number = |key, least| number(node, [plan, label, key], least);
                let (rows_in, rows_out) = (number("rows_in", 0)?, number("rows_out", 0)?);
                let nanos = number("nanoseconds", rows_in.min(1))?;
                costs.insert(label.clone(), Measured { rows_in, rows_out, nanos });
            }
            file.0.insert(plan.clone(), costs);
        }
        Ok(file)
    }

    /// All of it as JSON.
    pub fn json(&self) -> Value {
        let nodes = |costs: &Costs| costs.iter().map(|(label, cost)| (label.clone(), cost.json())).collect::<Value>();
        let plans = self.0.iter().map(|(plan, costs)| (plan.clone(), nodes(costs))).collect::<Value>();
        json!({"version": VERSION, "plans": plans})
    }

    /// Takes in what was measured of a plan.
    pub fn add(&mut self, plan: &Plan, costs: Costs) {
        self.0.insert(fingerprint(plan), costs);
    }

    /// What was measured of a plan.
    ///
    /// Errors: `Error::Query` if it is not among those that were measured.
    pub fn of(&self, plan: &Plan) -> Result<Costs> {
        let none = || {
            Error::query("the costs are those of another plan")
                .with_hint("measure this one: thalweg explain --analyze --costs FILE")
        };
        self.0.get(&fingerprint(plan)).cloned().ok_or_else(none)
    }
}

/// The line, counted from 1, of what is found by these keys, or of the last of them that is there.
fn line_of(text: &str, keys: &[&str]) -> usize {
    let mut at = 0;
    for key in keys {
        let Some(found) = text[at..].find(&Value::from(*key).to_string()) else { break };
        at += found;
    }
    text[..at].matches('\n').count() + 1
}

/// A number for a plan's text: that of its nodes with their inputs, whatever the settings and phases, and whether it was spread.
pub fn fingerprint(plan: &Plan) -> String {
    if let Some(origin) = &plan.origin {
        return origin.clone();
    }
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for (id, _) in plan.nodes().filter(|(id, _)| !plan.is_of_first_phase(*id)) {
        let inputs = plan.inputs_in_one_phase(id);
        let inputs: Vec<_> = inputs.iter().map(|input| plan.node(*input).number).collect();
        for byte in format!("{} {inputs:?}\n", describe(plan, id)).bytes() {
            // FNV-1a: the same everywhere and always.
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

/// What is guessed of nodes, in nanoseconds of CPU time per row. Where a figure is measured it is from docs/book/performance.md, on
/// the machine described there; the others are set beside those.
mod guess {
    /// A row that stays in memory: selection, all kept, 0.00064 CPU s/M rows.
    pub const READ: f64 = 0.64;
    /// Ingestion of CSV, departures.
    pub const CSV: f64 = 120.0;
    /// Ingestion of JSON lines, departures.
    pub const JSON: f64 = 280.0;
    /// A predicate: selection of 10 %, 0.00105.
    pub const PREDICATE: f64 = 1.05;
    /// An operation on numbers; set as a predicate.
    pub const OPERATION: f64 = 1.05;
    /// A row that is copied: the best case of the shuffle's page, 16 bytes, 0.0034.
    pub const COPY: f64 = 3.4;
    /// An average over all, out of order, exact sums: 0.0082.
    pub const AGGREGATE: f64 = 8.2;
    /// An average of 10 k keys, exact sums: 0.0106.
    pub const KEYED: f64 = 10.6;
    /// An average of 10 k keys of text: 0.0269. A row that is sorted is set as one.
    pub const TEXT: f64 = 26.9;
    /// A value that an aggregate keeps, as those of `count(DISTINCT …)` and medians do; set as a text.
    pub const KEPT_VALUE: f64 = 26.9;
    /// A row that is joined with those around it, or aggregated with them; set as one that is sorted twice.
    pub const AROUND: f64 = 53.8;
    /// A call of a function, of the program or of SQL; set as a text.
    pub const CALL: f64 = 26.9;
    /// An exchange by key, 16 bytes to 32 instances: `exchange-buffered` of the shuffle's page, 0.0064.
    pub const EXCHANGE: f64 = 6.4;
    /// What dividing rows takes beside that, in smaller batches and on the way back into order: averages of 10 k keys took 0.0096 in one
    /// instance and 0.022 in two (docs/book/parallelism.md).
    pub const DIVIDED: f64 = 6.0;
    /// What a predicate keeps, of which nothing is known: Selinger et al., "Access Path Selection", table 1, for a comparison.
    pub const KEPT: f64 = 1.0 / 3.0;
    /// Groups per row, of keys of which nothing is known: as many as 10 k keys give in a window of a million rows.
    pub const GROUPS: f64 = 0.01;
    /// The same where each instant has groups of its own: few rows have the same time.
    pub const INSTANTS: f64 = 0.5;
}

/// What a row costs that is divided by its key, at the sender.
pub const EXCHANGE: f64 = guess::EXCHANGE;

/// What it costs more, sender and receiver together, than one that stays.
pub const DIVIDED: f64 = guess::EXCHANGE + guess::DIVIDED;

/// What a node is guessed to cost.
pub fn estimated(plan: &Plan, id: NodeId) -> Cost {
    let cost = |nanos, rows| Cost { nanos, rows };
    match &plan.node(id).node {
        Node::Source(source) => cost(read(source), 1.0),
        Node::Values(_) => cost(guess::READ, 1.0),
        Node::Filter(filter) => cost(computed(plan, id, &filter.predicate).max(guess::PREDICATE), guess::KEPT),
        Node::Map(map) => cost(map.expressions.iter().map(|expression| computed(plan, id, expression)).sum(), 1.0),
        Node::Window(windows) => cost(guess::COPY * overlap(windows), overlap(windows)),
        Node::Aggregate(_) if plan.first_phase(id).is_some() => cost(grouped(plan, id), 1.0),
        Node::Aggregate(_) | Node::Partial(_) => cost(grouped(plan, id), groups(plan, id)),
        Node::Split(split) => cost(split.predicates.iter().map(|e| computed(plan, id, e)).sum(), 1.0),
        // Branches share the rows of their split, of which nothing is known.
        Node::Branch(_) => cost(0.0, 1.0),
        Node::Position | Node::Normalize => cost(guess::OPERATION, 1.0),
        Node::IntervalJoin(_) | Node::Over(_) => cost(guess::AROUND, 1.0),
        Node::Union | Node::Limit(_) => cost(guess::READ, 1.0),
        Node::Batch(_) => cost(guess::COPY, 1.0),
        Node::Function(_) => cost(guess::CALL, 1.0),
        Node::Sort(_) => cost(guess::TEXT, 1.0),
        Node::Sink(Sink::Discard) => cost(0.0, 1.0),
        Node::Sink(_) => cost(guess::READ, 1.0),
    }
}

/// What it takes to compute an expression: each of its operations, and more where these make or look at texts, or call functions.
fn computed(plan: &Plan, id: NodeId, expression: &Expr) -> f64 {
    let input = &plan.node(plan.node(id).inputs[0]).schema.columns;
    let mut nanos = 0.0;
    let visited = expression.apply(|part| {
        nanos += match part {
            Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) => 0.0,
            Expr::ScalarFunction(_) => guess::CALL,
            Expr::Like(_) | Expr::SimilarTo(_) => guess::TEXT,
            part if makes_text(part, input) => guess::TEXT,
            _ => guess::OPERATION,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    // A visit that never fails has no error to pass on.
    visited.map_or(0.0, |_| nanos)
}

fn makes_text(part: &Expr, input: &DFSchema) -> bool {
    let kind = part.get_type(input);
    kind.is_ok_and(|kind| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View))
}

fn read(source: &Source) -> f64 {
    let options = &source.table.options;
    let path = options.get("path").unwrap_or_default();
    match options.get("format") {
        Some("csv") => guess::CSV,
        Some("json") => guess::JSON,
        // The format of a file follows from its name.
        None if path.contains(".csv") => guess::CSV,
        None if path.contains(".json") => guess::JSON,
        _ => guess::READ,
    }
}

fn overlap(windows: &Windows) -> f64 {
    windows.size.0 as f64 / windows.step.unwrap_or(windows.slide).0.max(1) as f64
}

/// What it takes to find the group of a row, and to keep the values that aggregates keep.
fn grouped(plan: &Plan, id: NodeId) -> f64 {
    let kind = |(input, key): (NodeId, &Expr)| key.get_type(&plan.node(input).schema.columns);
    let Some((input, aggregate)) = plan.aggregated(id) else { return 0.0 };
    let mut kinds = aggregate.keys.iter().map(|key| kind((input, key)));
    let found = match aggregate.keys.is_empty() {
        true => guess::AGGREGATE,
        false if kinds.any(|kind| kind.is_ok_and(|kind| !kind.is_primitive())) => guess::TEXT,
        false => guess::KEYED,
    };
    let columns = &plan.node(input).schema.columns;
    let keeping = aggregate.aggregates.iter().filter(|call| keeps_values(call, columns));
    found + guess::KEPT_VALUE * keeping.count() as f64
}

/// Whether each instant has groups of its own.
pub fn are_instants(aggregate: &Aggregate) -> bool {
    matches!(&aggregate.windowing, Windowing::Assigned(windows) if windows.are_instants())
}

/// Whether an aggregate keeps each value that it sees, or each that differs: its states are lists.
fn keeps_values(call: &AggregateCall, input: &DFSchema) -> bool {
    let params = &call.function.params;
    if params.distinct || !params.order_by.is_empty() {
        return true;
    }
    let fields = params.args.iter().map(|argument| Ok(argument.to_field(input)?.1));
    let Ok(fields) = fields.collect::<datafusion_common::Result<Vec<FieldRef>>>() else { return false };
    let state = StateFieldsArgs {
        name: call.output.name(),
        input_fields: &fields,
        return_field: Arc::clone(&call.output),
        ordering_fields: &[],
        is_distinct: false,
    };
    let state = call.function.func.state_fields(state);
    state.is_ok_and(|state| state.iter().any(|field| field.data_type().is_nested()))
}

/// How many groups a row makes.
fn groups(plan: &Plan, id: NodeId) -> f64 {
    match plan.aggregated(id) {
        Some((_, aggregate)) if are_instants(aggregate) => guess::INSTANTS,
        Some((_, aggregate)) if !aggregate.keys.is_empty() => guess::GROUPS,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_costs_are_read_as_they_were_written() {
        let measured = Measured { rows_in: 1000, rows_out: 10, nanos: u64::MAX };
        let nodes = Costs::from([("Filter 1".to_string(), measured), ("Map 2".to_string(), Measured::default())]);
        let file = CostFile([("5c1f".to_string(), nodes), ("0".to_string(), Costs::new())].into());
        let text = file.json().to_string();
        assert_eq!(CostFile::parse(&text).unwrap(), file);
        for (part, other, why) in [
            ("\"version\":1", "\"version\":2", "the version is 2, expected 1"),
            (
                "\"rows_in\":1000",
                "\"rows_in\":-1",
                "line 1: \"rows_in\" of \"Filter 1\" is -1, expected a whole number",
            ),
            ("\"rows_in\":1000", "\"rows_in\":1e3", "\"rows_in\" of \"Filter 1\" is 1000.0, expected a whole number"),
            ("\"rows_in\":1000", "\"rows_in\":NaN", "expected value at line 1"),
            ("\"rows_in\":1000", "\"rows_in\":1e999", "number out of range at line 1"),
            ("\"rows_out\":10", "\"rows_out\":null", "\"rows_out\" of \"Filter 1\" is null, expected a whole number"),
            (
                "18446744073709551615",
                "0",
                "\"nanoseconds\" of \"Filter 1\" is 0, expected a whole number from 1 on, since",
            ),
            ("\"plans\"", "\"plan\"", "\"plans\" is no object"),
            ("{", "[", ""),
        ] {
            assert!(text.contains(part));
            let error = CostFile::parse(&text.replacen(part, other, 1)).unwrap_err().to_string();
            assert!(error.starts_with("these are no costs of a plan: ") && error.contains(why), "{error}");
        }
        // Where it stands in a file as it is written: "Map 2" took no rows, and no time.
        let lines = format!("{:#}", file.json()).replacen("\"rows_out\": 0", "\"rows_out\": -7", 1);
        let error = CostFile::parse(&lines).unwrap_err();
        let line = lines.lines().position(|line| line.contains("-7")).unwrap() + 1;
        assert!(error.to_string().contains(&format!("line {line}: \"rows_out\" of \"Map 2\" is -7")), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("measure anew")));
    }
}
