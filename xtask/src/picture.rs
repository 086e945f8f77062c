//! `cargo xtask picture`: the README's tour as an SVG of a terminal.
//!
//! The transcript is the `console up` blocks of README.md, which the tests execute, so the picture shows what the program
//! prints. A test checks that the picture is current.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

const PAGE: &str = "README.md";
const FENCE: &str = "```console up";
const PICTURE: &str = "docs/images/tour.svg";

const COLUMN_WIDTH: f64 = 8.4;
const LINE_HEIGHT: usize = 20;
const MARGIN: usize = 20;
const TITLE_HEIGHT: usize = 36;
/// Longer lines are cut: a terminal would wrap them, and nothing is lost that the page does not show.
const MAX_COLUMNS: usize = 110;
/// How long a command, and a line that it prints, takes to appear.
const COMMAND_DELAY_SECONDS: f64 = 1.2;
const LINE_DELAY_SECONDS: f64 = 0.12;

/// What a line is, which decides its colour.
fn class(line: &str) -> &'static str {
    match line.chars().next() {
        Some('$') => "command",
        Some('+') => "added",
        Some('-') => "removed",
        Some('[') => "progress",
        _ if line.trim_start().starts_with('+') => "added",
        _ if line.trim_start().starts_with("because") => "quiet",
        _ => "output",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn cut(line: &str) -> String {
    if line.chars().count() <= MAX_COLUMNS {
        return line.to_owned();
    }
    line.chars().take(MAX_COLUMNS - 1).chain(['…']).collect()
}

/// The lines of the transcript's blocks, with an empty one between commands.
fn transcript(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        match (is_inside, line) {
            (false, FENCE) => is_inside = true,
            (true, "```") => is_inside = false,
            (true, line) => {
                if line.starts_with("$ ") && lines.last().is_some_and(|last: &String| !last.is_empty()) {
                    lines.push(String::new());
                }
                lines.push(cut(line));
            }
            _ => {}
        }
    }
    lines
}

/// The picture of a page's transcript.
fn svg(page: &str) -> Result<String> {
    let lines = transcript(page);
    let Some(columns) = lines.iter().map(|line| line.chars().count()).max() else {
        bail!("{PAGE} has no block {FENCE}");
    };
    // Whole numbers: at most a hundred columns of a few pixels.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let width = (columns as f64 * COLUMN_WIDTH) as usize + 2 * MARGIN;
    let height = TITLE_HEIGHT + lines.len() * LINE_HEIGHT + MARGIN;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="Terminal: seaworthy plan, kubectl apply, seaworthy rollout status">
<!-- Generated from {PAGE} by `cargo xtask picture`. -->
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #c9d1d9; }}
.command {{ fill: #ffffff; font-weight: 600; }} .prompt {{ fill: #7ee787; }} .added, .progress {{ fill: #7ee787; }}
.removed {{ fill: #ffa198; }} .quiet {{ fill: #8b949e; }}
@media (prefers-reduced-motion: no-preference) {{ text {{ animation: show 0.01s both; }} }}
@keyframes show {{ from {{ opacity: 0; }} }}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/><circle cx="60" cy="18" r="6" fill="#28c840"/>
"##
    );
    let mut seconds = 0.0;
    for (nth, line) in lines.iter().enumerate() {
        let class = class(line);
        seconds += if class == "command" { COMMAND_DELAY_SECONDS } else { LINE_DELAY_SECONDS };
        if line.is_empty() {
            continue;
        }
        let y = TITLE_HEIGHT + (nth + 1) * LINE_HEIGHT - 4;
        let text = match line.strip_prefix("$ ") {
            Some(command) => format!(r#"<tspan class="prompt">$</tspan> {}"#, escaped(command)),
            None => escaped(line),
        };
        writeln!(
            svg,
            r#"<text x="{MARGIN}" y="{y}" class="{class}" style="animation-delay:{seconds:.2}s" xml:space="preserve">{text}</text>"#
        )?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn of(root: &Path) -> Result<String> {
    svg(&std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?)
}

/// `cargo xtask picture`.
pub fn run(workspace: &Workspace) -> Result<bool> {
    let file = workspace.root.join(PICTURE);
    std::fs::write(&file, of(&workspace.root)?).with_context(|| format!("cannot write {PICTURE}"))?;
    println!("{PICTURE}");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcript_is_drawn_line_by_line() {
        let page = "text\n```console up\n$ a <b\n+ c\n$ d\n```\n```console\n$ no\n```\n";
        assert_eq!(transcript(page), ["$ a <b", "+ c", "", "$ d"]);
        let svg = svg(page).unwrap();
        assert!(svg.contains(r#"<tspan class="prompt">$</tspan> a &lt;b</text>"#), "{svg}");
        assert_eq!(svg.matches("<text").count(), 3);
        assert!(super::svg("no block").is_err());
    }

    #[test]
    fn picture_is_current() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let written = std::fs::read_to_string(root.join(PICTURE)).unwrap_or_default();
        assert!(written == of(root).unwrap(), "{PICTURE} is stale; regenerate it with `cargo xtask picture`");
    }
}
