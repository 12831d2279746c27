//! What was measured of a plan while it ran, as the compiler takes it.

use thalweg_plan::parallel::costs::{Costs, Measured};
use thalweg_runtime::Metrics;

/// The costs of the nodes of a plan that was run by [`Engine::analyze`](crate::Engine::analyze).
pub fn costs(metrics: &Metrics) -> Costs {
    let measured = |node: &thalweg_runtime::metrics::NodeMetrics| Measured {
        rows_in: node.rows_in,
        rows_out: node.rows_out,
        // What took rows took time, even if the clock did not move meanwhile.
        nanos: (node.busy.as_nanos() as u64).max(node.rows_in.min(1)),
    };
    metrics.nodes.iter().map(|node| (node.label.clone(), measured(node))).collect()
}
