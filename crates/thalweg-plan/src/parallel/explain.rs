//! The parallel plan for people and programs: text, JSON and DOT.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    Exchange, ParallelPlan, Route, Subquery, SubqueryId,
    costs::Measured,
    cut,
    deployment::Deployment,
    load::{Load, idle, loads},
    parallelize,
};
use crate::{
    Node, NodeId, Plan,
    render::{Notes, describe, described, exchange, how, how_json},
    settings::Merge,
    written,
};

/// A parallel plan, and what is known of it.
struct Explained<'a> {
    plan: &'a Plan,
    cut: ParallelPlan,
    loads: Vec<Load>,
    idle: f64,
}

/// The subqueries in their order, each with its instances, its share of the workers, the rows that arrive, what a row costs, where
/// rows come from, and its nodes.
///
/// ```text
/// subquery-cluster, parallelism 4, 52 % idle
///
/// subquery  instances  workers    rows    ns/row
///        0          4     1.31   100 %       7.0  estimated  reads 4 partitions
///           Source s (memory, 4 partitions)
///        1          4     2.60    33 %      10.6  estimated  0 by key k, 128 key groups; merged by arrival
///           Aggregate by k compute count(*)  [kernels]
/// ```
pub fn text(plan: &Plan, notes: &Notes) -> String {
    let explained = Explained::new(plan);
    let settings = &plan.settings;
    let (strategy, idle) = (settings.strategy.name(), percent(explained.idle));
    let mut out = format!("{strategy}, parallelism {}, {idle} idle\n\n", settings.parallelism);
    out += "subquery  instances  workers    rows    ns/row\n";
    for (number, subquery) in explained.cut.subqueries.iter().enumerate() {
        let load = explained.loads[number];
        writeln!(
            out,
            "{number:>8}  {:>9}  {:>7.2}  {:>6}  {:>8.1}  {:<9}  {}",
            subquery.instances,
            explained.workers(number),
            percent(load.rows),
            load.nanos_per_row,
            costs_are(load),
            explained.comes_from(subquery),
        )
        .expect("a string takes all");
        for id in &subquery.nodes {
            let fused = explained.fused(SubqueryId(number), *id).map(|how| format!("  [{how}]")).unwrap_or_default();
            let measured =
                plan.costs.get(&plan.label(*id)).map(|node| measured(node, plan.copies(*id))).unwrap_or_default();
            let how = how(plan, *id, notes).map(|how| format!("  [{how}]")).unwrap_or_default();
            writeln!(out, "{:8}  {}{how}{fused}{measured}", "", describe(plan, *id)).expect("a string takes all");
        }
    }
    out
}

/// The parallel plan as JSON: `strategy`, `parallelism`, `idle`, `subqueries`, `deployment`.
pub fn json(plan: &Plan, notes: &Notes) -> Value {
    let explained = Explained::new(plan);
    let subqueries = explained.cut.subqueries.iter().enumerate().map(|(number, subquery)| {
        let load = explained.loads[number];
        let node = |id: &NodeId| {
            let mut node = json!({
                "id": id.0,
                "label": plan.label(*id),
                "does": describe(plan, *id),
                "measured": plan.costs.get(&plan.label(*id)).map(Measured::json),
                "fused": explained.fused(SubqueryId(number), *id),
            });
            how_json(plan, *id, notes, &mut node);
            node
        };
        let input = |(input, from): (usize, &Exchange)| {
            let mut object = exchange(plan, from, notes.scattered.get(&(subquery.nodes[0], input)));
            object["balancer"] = json!(balancer(from));
            object["merger"] = json!(explained.merger(from));
            object
        };
        json!({
            "id": number,
            "instances": subquery.instances,
            "workers": explained.workers(number),
            "rows": load.rows,
            "nanoseconds_per_row": load.nanos_per_row,
            "costs": costs_are(load),
            "nodes": subquery.nodes.iter().map(node).collect::<Vec<_>>(),
            "inputs": subquery.inputs.iter().enumerate().map(input).collect::<Vec<_>>(),
        })
    });
    json!({
        "strategy": plan.settings.strategy.name(),
        "parallelism": plan.settings.parallelism,
        "idle": explained.idle,
        "subqueries": subqueries.collect::<Vec<_>>(),
        "deployment": Deployment::local(plan, &explained.cut).json(),
    })
}

/// The parallel plan as a graph in Graphviz's language: a box per subquery, and exchanges between them.
pub fn dot(plan: &Plan, notes: &Notes) -> String {
    let explained = Explained::new(plan);
    let mut out = String::from("digraph parallel {\n  rankdir=BT;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (number, subquery) in explained.cut.subqueries.iter().enumerate() {
        let load = explained.loads[number];
        let nodes = subquery.nodes.iter().map(|id| described(plan, *id, notes)).collect::<Vec<_>>().join("\n");
        let label = format!(
            "subquery {number} × {}, {:.2} workers\n{} of the rows, {:.1} ns each, {}\n\n{nodes}",
            subquery.instances,
            explained.workers(number),
            percent(load.rows),
            load.nanos_per_row,
            costs_are(load),
        );
        writeln!(out, "  s{number} [label={label:?}];").expect("a string takes all");
        for from in &subquery.inputs {
            let merger = explained.merger(from).map(|how| match how {
                "slack" => format!("ordered within a slack of {}", plan.settings.merge_slack),
                how => how.to_string(),
            });
            let how = [Some(balancer(from)), merger];
            let how = how.into_iter().flatten().collect::<Vec<_>>().join("; ");
            writeln!(out, "  s{} -> s{number} [label={how:?}];", from.from.0).expect("a string takes all");
        }
    }
    out + "}\n"
}

impl<'a> Explained<'a> {
    fn new(plan: &'a Plan) -> Self {
        let cut = parallelize(plan);
        let loads = loads(plan, &cut);
        let idle = idle(plan.settings.strategy, &cut, &loads);
        Self { plan, cut, loads, idle }
    }

    /// How many of the workers the work of a subquery takes, where rows come as fast as workers and instances can take them: an
    /// instance has one worker at a time.
    fn workers(&self, subquery: usize) -> f64 {
        let all: f64 = self.loads.iter().map(|load| load.work()).sum();
        let instances = self.cut.subqueries.iter().map(|subquery| subquery.instances as f64);
        let limits = instances.zip(&self.loads).map(|(instances, load)| instances / load.work());
        let rows = limits.fold(self.plan.settings.parallelism as f64 / all, f64::min);
        if all > 0.0 { rows * self.loads[subquery].work() } else { 0.0 }
    }

    /// Where the rows of a subquery come from: from whom, by which balancer and which merger.
    fn comes_from(&self, subquery: &Subquery) -> String {
        let from = |exchange: &Exchange| {
            let port = if exchange.port > 0 { format!(" output {}", exchange.port) } else { String::new() };
            let merged = |how| match how {
                "ordered" => "; merged in order".to_string(),
                "slack" => format!("; merged in order within a slack of {}", self.plan.settings.merge_slack),
                "in turn" => "; merged in turn".to_string(),
                _ => "; merged by arrival".to_string(),
            };
            let merger = self.merger(exchange).map(merged).unwrap_or_default();
            format!("{}{port} {}{merger}", exchange.from.0, balancer(exchange))
        };
        match &self.plan.node(subquery.nodes[0]).node {
            Node::Source(source) if source.partitions == 1 => "reads 1 partition".to_string(),
            Node::Source(source) => format!("reads {} partitions", source.partitions),
            _ if subquery.inputs.is_empty() => "has its rows".to_string(),
            _ => subquery.inputs.iter().map(from).collect::<Vec<_>>().join(", "),
        }
    }

    /// In which order an instance takes what several send (StreamCloud's input merger); `None` if there is one.
    fn merger(&self, exchange: &Exchange) -> Option<&'static str> {
        let senders = self.cut.subqueries[exchange.from.0].instances;
        let merger = match exchange.route {
            Route::Forward | Route::RoundRobin => return None,
            Route::InTurn => "in turn",
            Route::Gather(merge) => merge.name(),
            Route::Keyed { .. } => Merge::Arrival.name(),
        };
        (senders > 1).then_some(merger)
    }

    /// How a node comes to be in its subquery that would begin one by itself.
    fn fused(&self, subquery: SubqueryId, node: NodeId) -> Option<String> {
        let keyed = &self.cut.subqueries[subquery.0].keyed;
        let (first, behind) = keyed.split_first()?;
        behind.iter().find(|keyed| keyed.node == node)?;
        let all_keys = cut::keys(self.plan.node(first.node), 0)?;
        let all = match first.by.len() == all_keys.len() {
            true => String::new(),
            false => {
                let keys = first.by.iter().map(|key| written(all_keys[*key])).collect::<Vec<_>>();
                format!(", by {} alone", keys.join(", "))
            }
        };
        Some(format!("fused with subquery {}: same keys{all}", subquery.0))
    }
}

/// Who receives which rows (StreamCloud's load balancer).
fn balancer(exchange: &Exchange) -> String {
    match &exchange.route {
        Route::Gather(_) | Route::InTurn => "all to one".to_string(),
        Route::RoundRobin => "dealt in turn".to_string(),
        Route::Forward => "one to one".to_string(),
        Route::Keyed { keys, groups } => {
            let keys = keys.iter().map(written).collect::<Vec<_>>().join(", ");
            format!("by key {keys}, {} key groups", groups.count())
        }
    }
}

fn measured(node: &Measured, copies: usize) -> String {
    let per_row = node.nanos as f64 / node.rows_in.max(1) as f64;
    let together = if copies > 1 { format!(", {copies} copies together") } else { String::new() };
    format!("  [{per_row:.1} ns/row, {} rows in, {} out{together}]", node.rows_in, node.rows_out)
}

fn costs_are(load: Load) -> &'static str {
    if load.is_measured { "measured" } else { "estimated" }
}

/// A share in hundredths, with two digits at least where it is small.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent >= 9.95 || percent == 0.0 => format!("{percent:.0} %"),
        _ if percent >= 0.095 => format!("{percent:.1} %"),
        _ if percent >= 0.0095 => format!("{percent:.2} %"),
        _ => "<0.01 %".to_string(),
    }
}
