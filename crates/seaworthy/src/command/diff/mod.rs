//! `seaworthy diff`.

mod json;
mod report;
mod side;
mod text;

use std::io::{self, Write};

use seaworthy_ignition::node::Node;

use self::report::Report;
use self::side::{Outcome, Side};
use crate::cli::{Diff, ReportFormat};
use crate::failure::{Failure, OK, UNREADABLE, WRONG};
use crate::output;

pub fn run(options: &Diff) -> Result<u8, Failure> {
    let Some((old, new)) = side::both(options)? else { return Ok(UNREADABLE) };
    let empty = Node::empty_config("3.5.0");
    let reports = Report::all(&old, &new, &empty);
    match options.output {
        ReportFormat::Text => text::print(&reports)?,
        ReportFormat::Json => {
            // A value always has a JSON form.
            let json = serde_json::to_string_pretty(&json::of(&reports)).unwrap_or_default();
            writeln!(output::plain(), "{json}")?;
        }
    }
    Ok(if reports.iter().any(Report::differs) { WRONG } else { OK })
}

/// What the target of a pool is and what it would be, compared: for whoever has both.
pub struct Comparison {
    old: Side,
    new: Side,
}

impl Comparison {
    /// Of two specs of rendered MachineConfigs, each with its name; one may be missing.
    pub fn new(pool: &str, old: Option<(String, Node<'static>)>, new: Option<(String, Node<'static>)>) -> Self {
        let side = |given: Option<(String, Node<'static>)>| {
            let outcome = |(name, spec)| (pool.to_owned(), Outcome { name, spec, pool: pool.to_owned() });
            given.map(outcome).into_iter().collect()
        };
        Comparison { old: side(old), new: side(new) }
    }

    /// Writes what differs as `seaworthy diff` does; whether anything does. In a summary contents are only counted.
    pub fn write(&self, out: &mut impl Write, is_summary: bool) -> io::Result<bool> {
        let empty = Node::empty_config("3.5.0");
        let reports = Report::all(&self.old, &self.new, &empty);
        for report in reports.iter().filter(|report| report.differs()) {
            text::write_report(out, report, is_summary)?;
        }
        Ok(reports.iter().any(Report::differs))
    }

    /// What differs, for programs, as `seaworthy diff` has it; whether anything does.
    pub fn json(&self) -> (serde_json::Value, bool) {
        let empty = Node::empty_config("3.5.0");
        let reports = Report::all(&self.old, &self.new, &empty);
        (json::of(&reports), reports.iter().any(Report::differs))
    }
}
