//! Policy kinds: PodDisruptionBudget, ValidatingAdmissionPolicy and its binding.

pub mod admission_policy;
pub mod disruption_budget;
