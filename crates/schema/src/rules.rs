//! Rules of a schema, `x-kubernetes-validations`: compiled once, judged against values.

use serde_json::Value;

use crate::cause::Cause;
use crate::document::Schema;
use crate::path::Path;

/// What is wrong with a rule.
pub(crate) enum RuleMistake {
    /// It is not there.
    #[allow(dead_code)]
    Missing(String),
    /// It does not compile.
    #[allow(dead_code)]
    Wrong(String),
}

/// A rule after compilation.
pub(crate) struct CompiledRule {
    pub(crate) mistake: Option<RuleMistake>,
    pub(crate) message_mistake: Option<String>,
    pub(crate) uses_old_self: bool,
    pub(crate) cost: u64,
    pub(crate) message_cost: Option<u64>,
    pub(crate) cardinality: u64,
}

/// Compiles the rules of one schema.
pub(crate) fn compile(_schema: Schema<'_>, _is_object: bool) -> Vec<CompiledRule> {
    Vec::new()
}

/// What is left of the cost that all rules together may have.
pub(crate) struct Budget;

impl Budget {
    pub(crate) fn full() -> Budget {
        Budget
    }
}

/// Judges a value by the rules of its schema and of all inside it.
pub(crate) fn check(
    _schema: Schema<'_>,
    _value: &Value,
    _old: Option<&Value>,
    _path: &Path<'_>,
    _is_object: bool,
    _budget: &mut Budget,
) -> Vec<Cause> {
    Vec::new()
}
