//! Program: a compiled expression that is evaluated any number of times, from any thread.

use std::sync::Arc;

use crate::budget::CostBudget;
use crate::check::Checked;
use crate::cost::estimate::{CostRange, Sizes, estimate};
use crate::error::EvalError;
use crate::eval::Evaluation;
use crate::plan::Node;
use crate::types::Type;
use crate::value::{Outcome, Val};

/// A compiled expression; cheap to clone.
#[derive(Debug, Clone)]
pub struct Program {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    checked: Checked,
    root: Node,
    slots: usize,
}

impl Program {
    pub(crate) fn new(checked: Checked, root: Node, slots: usize) -> Self {
        Program { inner: Arc::new(Inner { checked, root, slots }) }
    }

    /// The type of its value.
    pub fn result_type(&self) -> &Type {
        self.inner.checked.ty(&self.inner.checked.expr)
    }

    /// Whether it mentions a variable: rules that mention `oldSelf` apply to updates only.
    pub fn uses(&self, variable: &str) -> bool {
        crate::plan::mentions(&self.inner.checked.expr, variable)
    }

    /// The least and the most it can cost, given the sizes its variables can have.
    pub fn estimate(&self, sizes: &Sizes<'_>) -> CostRange {
        estimate(&self.inner.checked, sizes)
    }

    /// Its value for these variables. The cost is taken from the budget whether it succeeds or not.
    pub fn evaluate<'a>(&'a self, bindings: &Bindings<'a>, budget: &mut CostBudget) -> Result<Val<'a>, EvalError> {
        let mut evaluation = Evaluation::new(bindings, self.inner.slots, budget.per_call());
        let outcome = evaluation.run(&self.inner.root);
        budget.spend(evaluation.cost());
        outcome
    }
}

/// The values of variables for one evaluation.
#[derive(Debug, Clone, Default)]
pub struct Bindings<'a> {
    variables: Vec<(&'a str, Outcome<'a>)>,
}

impl<'a> Bindings<'a> {
    /// No variables.
    pub fn new() -> Self {
        Bindings::default()
    }

    /// With a variable. An error is met only by expressions that touch the variable.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: impl IntoOutcome<'a>) -> Self {
        self.variables.push((name, value.into_outcome()));
        self
    }

    pub(crate) fn get(&self, name: &str) -> Outcome<'a> {
        match self.variables.iter().find(|(bound, _)| *bound == name) {
            Some((_, value)) => value.clone(),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }
}

/// What can be bound: a value, or the error of having none.
pub trait IntoOutcome<'a> {
    /// The value or its error.
    fn into_outcome(self) -> Result<Val<'a>, EvalError>;
}

impl<'a> IntoOutcome<'a> for Val<'a> {
    fn into_outcome(self) -> Result<Val<'a>, EvalError> {
        Ok(self)
    }
}

impl<'a> IntoOutcome<'a> for Result<Val<'a>, EvalError> {
    fn into_outcome(self) -> Result<Val<'a>, EvalError> {
        self
    }
}
