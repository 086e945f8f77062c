//! The expression language of Kubernetes rules (CEL): parse, check against types, estimate the cost, evaluate.
