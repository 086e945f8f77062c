//! Costs: the actual cost of an evaluation, and the estimated maximum. Units and factors are the API server's.

mod call;
pub(crate) mod estimate;
pub(crate) mod range;
pub(crate) mod runtime;

/// Reading one character of a string.
pub(crate) const STRING_FACTOR: f64 = 0.1;
/// One character of a pattern, for each unit of the text it is matched against.
pub(crate) const PATTERN_FACTOR: f64 = 0.25;
/// Making a list, a map.
pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;
pub(crate) const STRUCT_COST: u64 = 40;
/// One authorization check: an expression can afford two.
pub(crate) const CHECK_COST: u64 = 350_000;
