//! `seaworthy diff`: compares two sets of manifests or rendered MachineConfigs.

mod json;
mod pool_diff;
mod side;
mod text;

use std::io::{self, Write};

use seaworthy_ignition::node::Node;

use self::pool_diff::PoolDiff;
use self::side::{RenderedPool, Side};
use crate::cli::{Diff, ReportFormat};
use crate::failure::{EXIT_FAILED, EXIT_INVALID, EXIT_OK, Failure};
use crate::output;

pub fn run(options: &Diff) -> Result<u8, Failure> {
    let Some((old, new)) = side::both(options)? else { return Ok(EXIT_INVALID) };
    let empty = Node::empty_config("3.5.0");
    let reports = PoolDiff::all(&old, &new, &empty);
    match options.output {
        ReportFormat::Text => text::print(&reports)?,
        ReportFormat::Json => {
            // A value always has a JSON form.
            let json = seaworthy_manifest::pretty(&json::of(&reports));
            writeln!(output::plain(), "{json}")?;
        }
    }
    Ok(if reports.iter().any(PoolDiff::differs) { EXIT_FAILED } else { EXIT_OK })
}

/// Comparison of a pool's current and future target, for other commands.
pub struct Comparison {
    old: Side,
    new: Side,
}

impl Comparison {
    /// Of two specs of rendered MachineConfigs, each with its name; one may be missing.
    pub fn new(pool: &str, old: Option<(String, Node<'static>)>, new: Option<(String, Node<'static>)>) -> Self {
        let side = |given: Option<(String, Node<'static>)>| {
            let outcome = |(name, spec)| (pool.to_owned(), RenderedPool { name, spec, pool: pool.to_owned() });
            given.map(outcome).into_iter().collect()
        };
        Comparison { old: side(old), new: side(new) }
    }

    /// Writes what differs as `seaworthy diff` does; whether anything does. In a summary contents are only counted.
    pub fn write(&self, out: &mut dyn Write, is_summary: bool) -> io::Result<bool> {
        let empty = Node::empty_config("3.5.0");
        let reports = PoolDiff::all(&self.old, &self.new, &empty);
        for report in reports.iter().filter(|report| report.differs()) {
            text::write_report(out, report, is_summary)?;
        }
        Ok(reports.iter().any(PoolDiff::differs))
    }

    /// What differs as JSON, as in `seaworthy diff`; whether anything does.
    pub fn json(&self) -> (serde_json::Value, bool) {
        let empty = Node::empty_config("3.5.0");
        let reports = PoolDiff::all(&self.old, &self.new, &empty);
        (json::of(&reports), reports.iter().any(PoolDiff::differs))
    }
}
