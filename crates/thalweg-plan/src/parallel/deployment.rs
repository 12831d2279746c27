//! Where the instances of a plan run, as data: what is handed to who starts them.

use serde_json::{Value, json};
use thalweg_core::{Error, Result};

use super::{ParallelPlan, SubqueryId, costs::fingerprint};
use crate::Plan;

/// The version of deployments as JSON.
const VERSION: u64 = 1;

/// The machine that compiles.
pub const LOCAL: &str = "local";

/// Which instances of a plan run where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The plan that is run, by the number of its text.
    pub plan: String,
    /// The instances, by subquery and host.
    pub placements: Vec<Placement>,
}

/// Some instances of a subquery at one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The subquery.
    pub subquery: SubqueryId,
    /// How many of its instances run there.
    pub instances: usize,
    /// Where; [`LOCAL`] is the machine that compiles, which is all that is used yet.
    pub host: String,
}

impl Deployment {
    /// All instances on this machine.
    pub fn local(plan: &Plan, cut: &ParallelPlan) -> Self {
        let placement = |(number, subquery): (usize, &super::Subquery)| Placement {
            subquery: SubqueryId(number),
            instances: subquery.instances,
            host: LOCAL.to_string(),
        };
        Self { plan: fingerprint(plan), placements: cut.subqueries.iter().enumerate().map(placement).collect() }
    }

    /// The deployment as JSON.
    pub fn json(&self) -> Value {
        let placement = |p: &Placement| json!({"subquery": p.subquery.0, "instances": p.instances, "host": p.host});
        let placements: Vec<_> = self.placements.iter().map(placement).collect();
        json!({"version": VERSION, "plan": self.plan, "placements": placements})
    }

    /// Reads what [`Deployment::json`] gave.
    ///
    /// Errors: `Error::Query` if it is no deployment, or of another version.
    pub fn parse(value: &Value) -> Result<Self> {
        let wrong = |key: &str, value: &Value| Error::query(format!("this is no deployment: \"{key}\" is {value}"));
        if value["version"] != json!(VERSION) {
            return Err(wrong("version", &value["version"]));
        }
        let text = |of: &Value, key: &str| of[key].as_str().map(str::to_string).ok_or_else(|| wrong(key, &of[key]));
        let number = |of: &Value, key: &str| {
            let number = of[key].as_u64().and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| wrong(key, &of[key]))
        };
        let list = value["placements"].as_array().ok_or_else(|| wrong("placements", &value["placements"]))?;
        let placement = |p: &Value| {
            let (subquery, instances) = (SubqueryId(number(p, "subquery")?), number(p, "instances")?);
            Ok(Placement { subquery, instances, host: text(p, "host")? })
        };
        let placements = list.iter().map(placement).collect::<Result<_>>()?;
        Ok(Self { plan: text(value, "plan")?, placements })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_read_as_it_was_written() {
        let place = |subquery, instances, host: &str| Placement {
            subquery: SubqueryId(subquery),
            instances,
            host: host.to_string(),
        };
        let placements = vec![place(0, 2, LOCAL), place(1, 3, LOCAL), place(1, 5, "ten.example")];
        let deployment = Deployment { plan: "5c1f".to_string(), placements };
        let text = deployment.json().to_string();
        assert_eq!(Deployment::parse(&serde_json::from_str(&text).unwrap()).unwrap(), deployment);
        for (part, other) in
            [("\"version\":1", "\"version\":2"), ("\"local\"", "7"), ("\"instances\":5", "\"instances\":-5")]
        {
            let changed = text.replacen(part, other, 1);
            assert_ne!(changed, text);
            let error = Deployment::parse(&serde_json::from_str(&changed).unwrap()).unwrap_err();
            assert!(error.to_string().starts_with("this is no deployment: "), "{error}");
        }
    }
}
