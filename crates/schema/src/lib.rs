//! Schemas of API objects: structure, defaults, pruning, validation, rules.
