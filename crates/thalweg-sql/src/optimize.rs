//! The rules of DataFusion that are right for streams, and no others.
//!
//! Left out, among others: `single_distinct_to_groupby` (two aggregations for one), `eliminate_filter` and
//! `propagate_empty_relation` (they take a stream's event time away), `eliminate_group_by_constant`, and what is of use to other joins than ours: the conditions of a join
//! are looked at when it is lowered.

use std::sync::Arc;

use datafusion_common::{
    Result,
    config::ConfigOptions,
    plan_err,
    tree_node::{Transformed, TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{
    Expr, LogicalPlan,
    expr_rewriter::NamePreserver,
    utils::{merge_schema, split_conjunction},
};
use datafusion_optimizer::{
    Analyzer, ApplyOrder, Optimizer, OptimizerConfig, OptimizerContext, OptimizerRule,
    common_subexpr_eliminate::CommonSubexprEliminate, decorrelate_predicate_subquery::DecorrelatePredicateSubquery,
    eliminate_duplicated_expr::EliminateDuplicatedExpr, optimize_projections::OptimizeProjections,
    optimize_unions::OptimizeUnions, push_down_filter::PushDownFilter,
    replace_distinct_aggregate::ReplaceDistinctWithAggregate, simplify_expressions::SimplifyExpressions,
};

use crate::{
    days::Days,
    functions::Microseconds,
    guard,
    numbers::Numbers,
    over::{OverNode, PruneOver},
    settle::settle,
    unions,
};

/// The plan with the types of its expressions settled.
pub(crate) fn analyze(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    check_unions(&plan)?;
    // Operands of functions first: which unit a function gives may depend on them.
    let plan = settle(unions::rename(plan)?, &[&Numbers, &Days, &Microseconds], options)?;
    Analyzer::new().execute_and_check(plan, options, |_, _| {})
}

/// What is sorted behind UNION must be a column of its result: a planner that looks for it in the first input finds it there alone.
fn check_unions(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Union(union) = node {
            let columns = union.inputs.iter().map(|input| input.schema().fields().len());
            if columns.into_iter().any(|columns| columns != union.schema.fields().len()) {
                return plan_err!("ORDER BY behind UNION can only name columns of its result");
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}

/// A plan with the same rows that does less.
pub(crate) fn optimize(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    // What is asked of other rows is a join before anything else looks at it.
    let plan = run(plan, options, vec![Arc::new(DecorrelatePredicateSubquery::new())])?;
    let rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = vec![
        Arc::new(OptimizeUnions::new()),
        Arc::new(Simplify::default()),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        Arc::new(EliminateDuplicatedExpr::new()),
        Arc::new(EarlyFilters::default()),
        Arc::new(CommonParts::default()),
        Arc::new(PruneOver),
        Arc::new(OptimizeProjections::new()),
    ];
    run(plan, options, rules)
}

/// The plan with its expressions simplified: `now()` becomes the query's start, constants are computed.
pub(crate) fn simplify(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    run(plan, options, vec![Arc::new(Simplify::default())])
}

fn run(
    plan: LogicalPlan,
    options: &ConfigOptions,
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Result<LogicalPlan> {
    let context = OptimizerContext::new_with_config_options(Arc::new(options.clone()));
    Optimizer::with_rules(rules).optimize(plan, &context, |_, _| {})
}

/// DataFusion's simplification, with arithmetic that does not wrap around.
#[derive(Debug, Default)]
struct Simplify {
    inner: SimplifyExpressions,
}

impl OptimizerRule for Simplify {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let schema = merge_schema(&plan.inputs());
        let guarded = under_its_names(plan, |expression| guard::guarded(expression, &schema))?;
        let simple = self.inner.rewrite(guarded.data, config)?;
        if !guarded.transformed {
            return Ok(simple);
        }
        let open = under_its_names(simple.data, guard::unguarded)?;
        Ok(Transformed::new_transformed(open.data, simple.transformed))
    }
}

/// DataFusion's elimination of common parts, which leaves those alone that only some rows are asked for.
#[derive(Debug, Default)]
struct CommonParts {
    inner: CommonSubexprEliminate,
}

impl OptimizerRule for CommonParts {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let spared = plan.transform_down(|node| match &node {
            LogicalPlan::Aggregate(aggregate) => {
                let schema = Arc::clone(aggregate.input.schema());
                under_its_names(node, |expression| guard::spared(expression, &schema))
            }
            _ => Ok(Transformed::no(node)),
        })?;
        let rewritten = self.inner.rewrite(spared.data, config)?;
        if !spared.transformed {
            return Ok(rewritten);
        }
        let open = rewritten.data.transform_down(|node| under_its_names(node, guard::unguarded))?;
        Ok(Transformed::new_transformed(open.data, rewritten.transformed))
    }
}

/// DataFusion's filters as early as possible. What is not the same for all rows of a key is asked behind OVER: before it, other
/// rows would see fewer of them.
#[derive(Debug, Default)]
struct EarlyFilters {
    inner: PushDownFilter,
}

impl OptimizerRule for EarlyFilters {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Filter(filter) = &plan
            && let LogicalPlan::Extension(extension) = &*filter.input
            && extension.node.as_any().is::<OverNode>()
            && split_conjunction(&filter.predicate)
                .iter()
                .any(|part| part.is_volatile() || part.column_refs().is_empty())
        {
            return Ok(Transformed::no(plan));
        }
        self.inner.rewrite(plan, config)
    }
}

/// The plan with other expressions, whose columns keep their names.
fn under_its_names(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        let name = names.save(&expression);
        Ok(rewrite(expression)?.update_data(|expression| name.restore(expression)))
    })
}
