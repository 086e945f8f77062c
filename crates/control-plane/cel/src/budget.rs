//! Cost budgets of evaluations.

/// The most one evaluation of one expression may cost.
pub const MAX_COST_PER_CALL: u64 = 1_000_000;
/// The most all rules of one object may cost together.
pub const MAX_COST_PER_OBJECT: u64 = 10_000_000;
/// The most the match conditions of one object may cost together.
pub const MAX_MATCH_CONDITIONS_COST: u64 = MAX_COST_PER_OBJECT / 4;

/// The remaining cost, and the limit of one evaluation.
#[derive(Debug, Clone)]
pub struct CostBudget {
    per_call: u64,
    remaining: u64,
    last: u64,
    exhausted: bool,
}

impl CostBudget {
    /// The limits of the API server for the rules of one object.
    pub fn for_object() -> Self {
        CostBudget::new(MAX_COST_PER_CALL, MAX_COST_PER_OBJECT)
    }

    /// Other limits: for one evaluation, and for all that share this budget.
    pub fn new(per_call: u64, total: u64) -> Self {
        CostBudget { per_call, remaining: total, last: 0, exhausted: false }
    }

    /// What one evaluation may cost.
    pub fn per_call(&self) -> u64 {
        self.per_call
    }

    /// What the last evaluation cost.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// What is left.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Whether more was spent than there was: the caller must not evaluate further rules of the object.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    pub(crate) fn spend(&mut self, cost: u64) {
        self.last = cost;
        self.exhausted |= cost > self.remaining;
        self.remaining = self.remaining.saturating_sub(cost);
    }
}
