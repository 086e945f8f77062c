//! `seaworthy diff`.

mod json;
mod report;
mod side;
mod text;

use std::io::Write as _;

use seaworthy_ignition::node::Node;

use self::report::Report;
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
