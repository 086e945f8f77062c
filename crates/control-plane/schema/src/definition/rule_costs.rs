//! Total cost of the rules of a schema.

use crate::cause::Cause;
use crate::path::Path;

/// The most that all rules of a schema may cost.
const MAX_TOTAL_COST: u64 = 100_000_000;
/// How many of the dearest rules are named.
const MAX_NAMED_RULES: usize = 4;

/// Adds up costs and remembers the dearest rules.
#[derive(Default)]
pub(super) struct RuleCosts {
    total: u64,
    dearest: Vec<(u64, String)>,
}

impl RuleCosts {
    pub(super) fn add(&mut self, path: &Path<'_>, cost: u64) {
        self.total = self.total.saturating_add(cost);
        // What is less than a hundredth of the limit is not to blame.
        if cost >= MAX_TOTAL_COST / 100 {
            self.dearest.push((cost, path.to_string()));
            self.dearest.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.dearest.truncate(MAX_NAMED_RULES);
        }
    }

    /// What to say when the rules cost too much.
    pub(super) fn mistakes(self, schema_path: &Path<'_>) -> Vec<Cause> {
        if self.total <= MAX_TOTAL_COST {
            return Vec::new();
        }
        let blame = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut found: Vec<Cause> = self.dearest.iter().map(|(_, path)| Cause::forbidden(path, blame)).collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        found.push(Cause::forbidden(schema_path, &super::keywords::too_expensive(what, self.total, MAX_TOTAL_COST)));
        found
    }
}
