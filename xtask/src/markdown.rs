//! Markdown, as far as the lints read it: lines outside of code blocks, code spans, links, headings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A line outside of code blocks.
pub struct Line<'a> {
    /// Counted from 1.
    pub number: usize,
    pub text: &'a str,
}

/// The lines outside of fenced code blocks.
pub fn prose(text: &str) -> Vec<Line<'_>> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (at, text) in text.lines().enumerate() {
        let trimmed = text.trim_start();
        match fence {
            Some(open) if trimmed.starts_with(open) => fence = None,
            Some(_) => {}
            None if trimmed.starts_with("```") => fence = Some("```"),
            None if trimmed.starts_with("~~~") => fence = Some("~~~"),
            None => lines.push(Line { number: at + 1, text }),
        }
    }
    lines
}

/// The lines inside of fenced code blocks.
pub fn fenced(text: &str) -> Vec<Line<'_>> {
    let prose: BTreeSet<usize> = prose(text).iter().map(|line| line.number).collect();
    let lines = text.lines().enumerate().map(|(at, text)| Line { number: at + 1, text });
    let is_fence = |line: &Line<'_>| matches!(line.text.trim_start().get(..3), Some("```" | "~~~"));
    lines.filter(|line| !prose.contains(&line.number) && !is_fence(line)).collect()
}

/// A line split into text (even positions) and code spans (odd positions).
pub fn spans(line: &str) -> Vec<&str> {
    line.split('`').collect()
}

/// The line with its code spans blanked out.
pub fn without_code(line: &str) -> String {
    let blank = |(at, part): (usize, &str)| if at % 2 == 0 { part.to_owned() } else { " ".to_owned() };
    spans(line).into_iter().enumerate().map(blank).collect::<Vec<_>>().join("`")
}

/// The destinations of inline links and images of a line.
pub fn links(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut links = Vec::new();
    let mut rest = line.as_str();
    while let Some((_, after)) = rest.split_once("](") {
        let Some((destination, left)) = after.split_once(')') else { break };
        links.push(destination.split_whitespace().next().unwrap_or_default().to_owned());
        rest = left;
    }
    links
}

/// The anchors that a renderer makes of the headings, as GitHub does.
pub fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for line in prose(text) {
        let Some(title) = line.text.trim_start_matches('#').strip_prefix(' ').filter(|_| line.text.starts_with('#'))
        else {
            continue;
        };
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect();
        let same = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    anchors
}

/// Every file below a folder whose name ends like this, sorted; build output and hidden folders are left out.
pub fn files(root: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') && !name.ends_with("-data") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_blocks_are_not_prose() {
        let text = "a\n```sh\n[b](c)\n```\n~~~\nd\n~~~\ne\n";
        let lines: Vec<(usize, &str)> = prose(text).iter().map(|line| (line.number, line.text)).collect();
        assert_eq!(lines, [(1, "a"), (8, "e")]);
        let lines: Vec<(usize, &str)> = fenced(text).iter().map(|line| (line.number, line.text)).collect();
        assert_eq!(lines, [(3, "[b](c)"), (6, "d")]);
    }

    #[test]
    fn links_are_found_outside_of_code() {
        assert_eq!(links("see [a](b.md#c), ![d](e.svg \"title\") and `[f](g)`"), ["b.md#c", "e.svg"]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# Why, rather than what you have\n## `--root`\n## Tests\n```\n# no\n```\n## Tests\n#hash\n";
        assert_eq!(anchors(text), ["why-rather-than-what-you-have", "--root", "tests", "tests-1"]);
    }
}
