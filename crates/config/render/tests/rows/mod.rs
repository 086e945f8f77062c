//! Tests by row of the table of upstream behaviours, as far as they need MachineConfigs and pools. Their numbers are
//! those of the table. Where the table calls a row an upstream defect, it is tested as it is done here.

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
