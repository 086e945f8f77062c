//! `seaworthy diff`.

use similar::TextDiff;

use crate::cli::Diff;
use crate::command::explain::line_style;
use crate::failure::{Failure, OK};

pub fn run(_options: &Diff) -> Result<u8, Failure> {
    Ok(OK)
}

/// Writes the lines that differ, with a few around them.
pub fn write_text_difference(out: &mut impl std::io::Write, before: &str, after: &str, indent: &str) -> std::io::Result<()> {
    let diff = TextDiff::from_lines(before, after);
    for (nth, group) in diff.grouped_ops(2).iter().enumerate() {
        if nth > 0 {
            writeln!(out, "{indent}…")?;
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                similar::ChangeTag::Delete => '-',
                similar::ChangeTag::Insert => '+',
                similar::ChangeTag::Equal => ' ',
            };
            let style = line_style(sign);
            let line = change.value().trim_end_matches('\n');
            writeln!(out, "{indent}{style}{sign}{}{style:#}", printable(line))?;
        }
    }
    Ok(())
}

/// A line of a file for a terminal: control characters must not reach it.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}
