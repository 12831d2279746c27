//! Plans for people and programs: text, JSON and DOT.

use std::{collections::HashMap, fmt::Write};

use datafusion_expr::Expr;
use serde_json::{Value, json};
use thalweg_core::{Interval, types::sql_name};

use crate::{
    NodeId, Plan, PlanNode,
    node::{
        Anchor, Emission, Frame, FrameBounds, Function, IntervalJoin, JoinKind, Limit, Node, Over, Sink, Sort, Source,
        Windowing, Windows,
    },
    parallel::{Exchange, ParallelPlan, Route, parallelize},
    settings::Merge,
    written,
};

/// What computes a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputedBy {
    /// Kernels of ours.
    pub kernels: bool,
    /// DataFusion's expressions and aggregates.
    pub datafusion: bool,
}

/// What is known of how a plan runs.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// What computes each node, where there is something to compute.
    pub computed: HashMap<NodeId, ComputedBy>,
    /// How the rows of a node's input get into pages, by the input's number, where they are divided by keys.
    pub scattered: HashMap<(NodeId, usize), &'static str>,
    /// How each aggregate over the rows around each row is found, those of all frames one after the other.
    pub windows: HashMap<NodeId, Vec<&'static str>>,
    /// Where each join finds the partners of a row.
    pub partners: HashMap<NodeId, &'static str>,
}

impl ComputedBy {
    fn names(self) -> Vec<&'static str> {
        let names = [("kernels", self.kernels), ("DataFusion", self.datafusion)];
        names.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }
}

/// The plan as a tree of lines, the sink first, each node with what it does, where it runs, and what computes it.
///
/// ```text
/// Sink result  [subquery 1 × 1]
/// └─ Map origin, flights  [subquery 1 × 1]
///    └─ Aggregate tumble 1 h by origin: count(*)  [subquery 1 × 1, kernels]
///       └─ Source departures ...  [subquery 0 × 1]
/// ```
pub fn text(plan: &Plan, notes: &Notes) -> String {
    let cut = parallelize(plan);
    let mut out = String::new();
    for (sink, _) in plan.nodes().filter(|(_, planned)| matches!(planned.node, Node::Sink(_))) {
        lines(&Drawn { plan, cut: &cut, notes }, sink, "", "", &mut out);
    }
    out
}

struct Drawn<'a> {
    plan: &'a Plan,
    cut: &'a ParallelPlan,
    notes: &'a Notes,
}

fn lines(drawn: &Drawn<'_>, id: NodeId, lead: &str, below: &str, out: &mut String) {
    let planned = drawn.plan.node(id);
    let (number, subquery) = place(drawn.cut, id);
    let what = describe(drawn.plan, id);
    let how = how(drawn.plan, id, drawn.notes).map(|how| format!(", {how}")).unwrap_or_default();
    writeln!(out, "{lead}{what}  [subquery {number} × {subquery}{how}]").expect("a string takes all");
    let mut below = below.to_string();
    if let Some(how) = exchanged(drawn.plan, drawn.cut, id, drawn.notes) {
        writeln!(out, "{below}└─ {how}").expect("a string takes all");
        below.push_str("   ");
    }
    for (i, input) in planned.inputs.iter().enumerate() {
        let is_last = i + 1 == planned.inputs.len();
        let (branch, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines(drawn, *input, &format!("{below}{branch}"), &format!("{below}{rest}"), out);
    }
}

/// What computes a node, and where what it looks for is found: `kernels; sum(v), count(*) from running totals`.
pub(crate) fn how(plan: &Plan, id: NodeId, notes: &Notes) -> Option<String> {
    let by = notes.computed.get(&id).map(|by| by.names()).filter(|names| !names.is_empty());
    let by = by.map(|names| names.join(" and "));
    let partners = notes.partners.get(&id).map(|from| format!("partners from {from}"));
    let parts: Vec<String> = by.into_iter().chain(windows(plan, id, notes)).chain(partners).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The same as members of a node's object.
pub(crate) fn how_json(plan: &Plan, id: NodeId, notes: &Notes, node: &mut Value) {
    node["computed_by"] = json!(notes.computed.get(&id).map(|by| by.names()).unwrap_or_default());
    node["aggregates_from"] = json!(windows(plan, id, notes));
    node["partners_from"] = json!(notes.partners.get(&id));
}

/// What a node does and how, in the lines of a graph's box.
pub(crate) fn described(plan: &Plan, id: NodeId, notes: &Notes) -> String {
    let how = how(plan, id, notes).map(|how| format!("\n[{how}]")).unwrap_or_default();
    describe(plan, id) + &how
}

/// How aggregates over the rows around each row are found: `sum(v), count(*) from running totals`.
fn windows(plan: &Plan, id: NodeId, notes: &Notes) -> Vec<String> {
    let (Node::Over(over), Some(ways)) = (&plan.node(id).node, notes.windows.get(&id)) else { return Vec::new() };
    let calls = over.frames.iter().flat_map(|frame| &frame.aggregates);
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for (call, way) in calls.zip(ways) {
        let name = call.output.name().clone();
        match found.iter_mut().find(|(other, _)| other == way) {
            Some((_, names)) => names.push(name),
            None => found.push((way, vec![name])),
        }
    }
    found.into_iter().map(|(way, names)| format!("{} from {way}", list(names.into_iter()))).collect()
}

/// The plan as JSON: an object with `settings`, `nodes` and `subqueries`.
pub fn json(plan: &Plan, notes: &Notes) -> Value {
    let cut = parallelize(plan);
    let nodes = plan.nodes().map(|(id, planned)| {
        let field = |f: &arrow_schema::FieldRef| json!({"name": f.name(), "type": sql_name(f.data_type()), "nullable": f.is_nullable()});
        let mut node = json!({
            "id": id.0,
            "node": planned.node.name(),
            "detail": detail(plan, id),
            "inputs": planned.inputs.iter().map(|input| input.0).collect::<Vec<_>>(),
            "columns": planned.schema.columns.fields().iter().map(field).collect::<Vec<_>>(),
            "time": planned.schema.time.map(|column| planned.schema.columns.field(column).name()),
            "bounded": planned.schema.is_bounded,
            "subquery": place(&cut, id).0,
        });
        how_json(plan, id, notes, &mut node);
        node
    });
    let subqueries = cut.subqueries.iter().enumerate().map(|(number, subquery)| {
        json!({
            "id": number,
            "instances": subquery.instances,
            "nodes": subquery.nodes.iter().map(|id| id.0).collect::<Vec<_>>(),
            "inputs": subquery.inputs.iter().enumerate().map(|(input, from)| {
                exchange(plan, from, notes.scattered.get(&(subquery.nodes[0], input)))
            }).collect::<Vec<_>>(),
        })
    });
    json!({
        "settings": plan.settings.entries().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "nodes": nodes.collect::<Vec<_>>(),
        "subqueries": subqueries.collect::<Vec<_>>(),
    })
}

pub(crate) fn exchange(plan: &Plan, exchange: &Exchange, scattered: Option<&&str>) -> Value {
    let mut object = json!({"from": exchange.from.0, "port": exchange.port});
    match &exchange.route {
        Route::Gather(merge) => {
            object["route"] = json!("gather");
            object["merge"] = json!(merge.name());
            if *merge == Merge::Slack {
                object["slack"] = json!(plan.settings.merge_slack.to_string());
            }
        }
        Route::InTurn => {
            object["route"] = json!("gather");
            object["merge"] = json!("turn");
        }
        Route::Forward => object["route"] = json!("forward"),
        Route::RoundRobin => object["route"] = json!("dealt in turn"),
        Route::Keyed { keys, groups } => {
            object["route"] = json!("keyed");
            object["keys"] = keys.iter().map(written).collect();
            object["key_groups"] = json!(groups.count());
            object["scatter"] = json!(scattered);
        }
    }
    object
}

/// The plan as a graph in Graphviz's language, one box per subquery.
pub fn dot(plan: &Plan, notes: &Notes) -> String {
    let cut = parallelize(plan);
    let mut out = String::from("digraph plan {\n  rankdir=BT;\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (number, subquery) in cut.subqueries.iter().enumerate() {
        writeln!(out, "  subgraph cluster_{number} {{\n    label=\"subquery {number} × {}\";", subquery.instances)
            .expect("a string takes all");
        for id in &subquery.nodes {
            writeln!(out, "    n{} [label={:?}];", id.0, described(plan, *id, notes)).expect("a string takes all");
        }
        out.push_str("  }\n");
    }
    for (id, planned) in plan.nodes() {
        let how = exchanged(plan, &cut, id, notes).map(|how| format!(" [label={how:?}]")).unwrap_or_default();
        for input in &planned.inputs {
            writeln!(out, "  n{} -> n{}{how};", input.0, id.0).expect("a string takes all");
        }
    }
    out + "}\n"
}

/// A node's kind and what it does, in one line.
pub fn describe(plan: &Plan, id: NodeId) -> String {
    format!("{} {}", plan.node(id).node.name(), detail(plan, id)).trim_end().to_string()
}

/// How rows get to the instances of a node, where there are several instances that send, or take.
fn exchanged(plan: &Plan, cut: &ParallelPlan, id: NodeId, notes: &Notes) -> Option<String> {
    let subquery = cut.subqueries.iter().find(|subquery| subquery.nodes.first() == Some(&id))?;
    subquery.inputs.iter().enumerate().find_map(|(input, exchange)| match &exchange.route {
        Route::Forward => None,
        Route::InTurn => {
            Some(format!("gather rows of {} instances in turn", cut.subqueries[exchange.from.0].instances))
        }
        Route::RoundRobin => Some(format!("dealt in turn -> {} instances", subquery.instances)),
        Route::Gather(merge) => {
            // What comes from one instance has its order.
            let senders = cut.subqueries[exchange.from.0].instances;
            let how = match merge {
                Merge::Ordered => "in their order".to_string(),
                Merge::Slack => format!("in their order within a slack of {}", plan.settings.merge_slack),
                Merge::Arrival => "as they arrive".to_string(),
            };
            (senders > 1).then(|| format!("gather rows of {senders} instances {how}"))
        }
        Route::Keyed { keys, groups } => {
            let (keys, groups, instances) = (list(keys.iter().map(written)), groups.count(), subquery.instances);
            let scattered = notes.scattered.get(&(id, input)).map(|how| format!(" [{how}]")).unwrap_or_default();
            Some(format!("exchange by key {keys}, {groups} key groups -> {instances} instances{scattered}"))
        }
    })
}

fn place(cut: &ParallelPlan, id: NodeId) -> (usize, usize) {
    let number = cut.subqueries.iter().position(|s| s.nodes.contains(&id)).expect("each node has a subquery");
    (number, cut.subqueries[number].instances)
}

fn detail(plan: &Plan, id: NodeId) -> String {
    let planned = plan.node(id);
    match &planned.node {
        Node::Source(source) => source_detail(plan, id, source),
        Node::Values(values) => format!("{} rows", values.rows.len()),
        Node::Filter(filter) => written(&filter.predicate),
        Node::Map(map) => map_detail(plan, id, &map.expressions),
        Node::Window(windows) => windows_detail(plan, planned.inputs[0], windows),
        Node::Aggregate(_) | Node::Partial(_) => aggregate_detail(plan, id),
        Node::IntervalJoin(join) => join_detail(plan, id, join),
        Node::Over(over) => over_detail(plan, id, over),
        Node::Position | Node::Normalize | Node::Union => String::new(),
        Node::Split(split) => list(split.predicates.iter().map(written)),
        Node::Branch(output) => branch_detail(plan, planned.inputs[0], *output),
        Node::Batch(1) => "of 1 row".to_string(),
        Node::Batch(rows) => format!("of {rows} rows"),
        Node::Function(function) => function_detail(function),
        Node::Sort(sort) => sort_detail(sort),
        Node::Limit(Limit { skip, fetch }) => {
            let fetch = fetch.map_or("all".to_string(), |rows| rows.to_string());
            if *skip == 0 { fetch } else { format!("{fetch} after {skip}") }
        }
        Node::Sink(Sink::Result) => "result".to_string(),
        Node::Sink(Sink::Discard) => "nothing".to_string(),
        Node::Sink(Sink::Table(table)) => format!("{} ({})", table.name, table.options.get("connector").unwrap_or("?")),
    }
}

fn source_detail(plan: &Plan, id: NodeId, source: &Source) -> String {
    let columns = &plan.node(id).schema.columns;
    let connector = source.table.options.get("connector").unwrap_or("?");
    let watermark = source.watermark.map(|w| {
        let name = columns.field(w.column).name();
        match w.accuracy {
            None => format!(", watermark {name} - {}", w.delay),
            Some(accuracy) => format!(", watermark {name} - what is learnt for an accuracy of {accuracy}"),
        }
    });
    let plural = if source.partitions == 1 { "" } else { "s" };
    format!(
        "{} ({connector}, {} partition{plural}){}",
        source.table.name,
        source.partitions,
        watermark.unwrap_or_default()
    )
}

fn map_detail(plan: &Plan, id: NodeId, expressions: &[Expr]) -> String {
    let columns = &plan.node(id).schema.columns;
    let named = expressions.iter().zip(columns.fields()).map(|(expression, field)| {
        let text = written(expression);
        let bare = text.rsplit('.').next().unwrap_or(&text);
        if matches!(expression, Expr::Column(_)) && bare == field.name() {
            field.name().clone()
        } else if text.ends_with(&format!(" AS {}", field.name())) {
            text
        } else {
            format!("{text} AS {}", field.name())
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

fn windows_detail(plan: &Plan, input: NodeId, windows: &Windows) -> String {
    let time = plan.node(input).schema.columns.field(windows.time).name();
    if windows.are_instants() {
        return format!("each instant of {time}");
    }
    let shape = match windows.step {
        Some(step) => format!("cumulate {} by {step}", windows.size),
        None if windows.size == windows.slide => format!("tumble {}", windows.size),
        None => format!("hop {} every {}", windows.size, windows.slide),
    };
    let offset = if windows.offset.0 == 0 { String::new() } else { format!(" offset {}", windows.offset) };
    let anchor = if windows.anchor == Anchor::FirstRow { " from the first row" } else { "" };
    let zone = windows.zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
    format!("{shape}{offset}{anchor} on {time}{zone}")
}

fn aggregate_detail(plan: &Plan, id: NodeId) -> String {
    let Some((input, aggregate)) = plan.aggregated(id) else { return String::new() };
    let columns = &plan.node(input).schema.columns;
    let windows = match &aggregate.windowing {
        Windowing::Whole => String::new(),
        Windowing::Assigned(windows) => windows_detail(plan, input, windows),
        Windowing::Columns { start, end } => {
            format!("in the windows of {}, {}", columns.field(*start).name(), columns.field(*end).name())
        }
    };
    let keys = list(aggregate.keys.iter().map(written));
    let calls = list(aggregate.aggregates.iter().map(|call| call.output.name().clone()));
    let mut parts = Vec::new();
    parts.extend((!windows.is_empty()).then_some(windows));
    parts.extend((!keys.is_empty()).then(|| format!("by {keys}")));
    parts.extend((!calls.is_empty()).then(|| format!("compute {calls}")));
    parts.join(" ")
}

/// `left on a.k = b.k, b.ts within a.ts - 1 s … a.ts + 2 s, where a.x < b.x`
fn join_detail(plan: &Plan, id: NodeId, join: &IntervalJoin) -> String {
    let inputs = plan.node(id).first_of_sides();
    let time = |side: usize| plan.node(inputs[side]).schema.columns.field(join.times[side]).name().clone();
    let kind = match join.kind {
        JoinKind::Inner => "inner",
        JoinKind::Left => "left",
        JoinKind::Right => "right",
        JoinKind::Full => "full",
        JoinKind::Semi => "semi",
        JoinKind::Anti => "anti",
    };
    let keys = list(join.keys.iter().map(|(left, right)| format!("{} = {}", written(left), written(right))));
    let on = if keys.is_empty() { String::new() } else { format!(" on {keys}") };
    let (from, to) = (offset(Some(join.distance.from)), offset(Some(join.distance.to)));
    let condition = join.condition.as_ref().map(|condition| format!(" where {}", written(condition)));
    let several = several(plan.node(id));
    let (condition, eager) = (condition.unwrap_or_default(), eager(join.emission));
    format!("{kind}{on}, {} from {from} to {to} of {}{condition}{several}{eager}", time(1), time(0))
}

/// `by k on ts: range -2 s to 0 s compute sum(v); rows -3 to 0 compute count(*)`
fn over_detail(plan: &Plan, id: NodeId, over: &Over) -> String {
    let time = plan.node(plan.node(id).inputs[0]).schema.columns.field(over.times[0]).name();
    let keys = list(over.keys.iter().map(written));
    let by = if keys.is_empty() { String::new() } else { format!("by {keys} ") };
    let frame = |frame: &Frame| {
        let bounds = match frame.bounds {
            FrameBounds::Range { from, to } => format!("range {} to {}", offset(from), offset(Some(to))),
            FrameBounds::Rows { from: None, to: 0 } => "rows from the first".to_string(),
            FrameBounds::Rows { from: None, to } => format!("rows from the first to {to} before"),
            FrameBounds::Rows { from: Some(0), to: 0 } => "the row".to_string(),
            FrameBounds::Rows { from: Some(from), to: 0 } => format!("{} rows", from.saturating_add(1)),
            FrameBounds::Rows { from: Some(from), to } => format!("rows {from} to {to} before"),
        };
        let parts = [
            (frame.most.map(|most| format!("the last {most}"))),
            frame.excludes_row.then(|| "without the row".to_string()),
            frame.excludes_time.then(|| "without its time".to_string()),
            frame.excludes_base.then(|| "without others of the first input".to_string()),
        ];
        let kind = frame.pairs.as_ref().map(|pairs| if pairs.is_alone { "if it sees none" } else { "as pairs" });
        let condition = frame.pairs.iter().filter_map(|pairs| pairs.condition.as_ref());
        let condition = condition.map(|condition| format!("where {}", written(condition)));
        let parts = parts.into_iter().flatten().chain(kind.map(str::to_string)).chain(condition);
        let parts: String = parts.map(|part| format!(", {part}")).collect();
        let calls = list(frame.aggregates.iter().map(|call| call.output.name().clone()));
        format!("{bounds}{parts} compute {calls}")
    };
    let frames: Vec<String> = over.frames.iter().map(frame).collect();
    format!("{by}on {time}: {}{}{}", frames.join("; "), several(plan.node(id)), eager(over.emission))
}

/// `, emit eager` where results come out before they are final.
fn eager(emission: Emission) -> &'static str {
    match emission {
        Emission::OnWatermark => "",
        Emission::Eager => ", emit eager",
    }
}

/// How many inputs each side has, where one has several: ` (2 + 1 inputs)`.
fn several(planned: &PlanNode) -> String {
    let sides = planned.all_sides();
    let counts: Vec<_> = sides.chunk_by(|one, other| one == other).map(|side| side.len().to_string()).collect();
    if counts.len() == sides.len() { String::new() } else { format!(" ({} inputs)", counts.join(" + ")) }
}

/// How far behind something: `-2 s`, `+3 min`, `0`.
fn offset(interval: Option<Interval>) -> String {
    match interval {
        None => "the first".to_string(),
        Some(Interval(0)) => "0".to_string(),
        Some(interval) if interval.0 > 0 => format!("+{interval}"),
        Some(interval) => interval.to_string(),
    }
}

fn branch_detail(plan: &Plan, split: NodeId, output: usize) -> String {
    match &plan.node(split).node {
        Node::Split(split) if output < split.predicates.len() => {
            format!("{output}: {}", written(&split.predicates[output]))
        }
        _ => format!("{output}: the rest"),
    }
}

fn function_detail(function: &Function) -> String {
    let keys = list(function.keys.iter().map(written));
    if keys.is_empty() { function.name.clone() } else { format!("{} by {keys}", function.name) }
}

fn sort_detail(sort: &Sort) -> String {
    let keys = list(sort.keys.iter().map(|key| {
        let order = if key.descending { "desc" } else { "asc" };
        let nulls = if key.nulls_first { "first" } else { "last" };
        format!("{} {order} nulls {nulls}", written(&key.expression))
    }));
    keys + &sort.fetch.map(|rows| format!(" keep {rows}")).unwrap_or_default()
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
