//! Rendering, by number of the upstream behaviour (`row_`), as far as it needs MachineConfigs and pools. An upstream defect is
//! tested as it is done here. docs/reference/upstream-behaviour.md says what the numbers mean.

mod examples;
mod fields;
mod manifests;
mod merging;
mod metadata;
mod reading;
mod references;
mod selection;
mod spec_2;
mod streams;
