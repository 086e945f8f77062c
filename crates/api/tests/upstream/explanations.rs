//! Explanations of differences: lines of `crd | path | reason`, where `*` in the path matches any text.

use super::compare::Difference;

/// Why some differences of one definition are meant.
pub struct Explanation {
    pub line: usize,
    pub crd: String,
    pub path: String,
    pub reason: String,
}

impl Explanation {
    pub fn covers(&self, difference: &Difference) -> bool {
        self.crd == difference.crd && glob(&self.path, &difference.path)
    }
}

pub fn parse(text: &str) -> Result<Vec<Explanation>, String> {
    let mut explanations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut parts = line.splitn(3, " | ").map(str::trim);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(crd), Some(path), Some(reason)) if !reason.is_empty() => explanations.push(Explanation {
                line: line_number,
                crd: crd.to_owned(),
                path: path.to_owned(),
                reason: reason.to_owned(),
            }),
            _ => return Err(format!("line {line_number}: expected `crd | path | reason`, found `{line}`")),
        }
    }
    Ok(explanations)
}

/// Whether the text has the form of the pattern, where `*` matches any text.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).filter(|&at| text.is_char_boundary(at)).any(|at| glob(rest, &text[at..]))
        }),
    }
}

#[test]
fn a_star_matches_any_text() {
    assert!(glob("spec.*#enum", "spec.a.b#enum"));
    assert!(glob("spec.a", "spec.a"));
    assert!(glob("*", ""));
    assert!(!glob("spec.a", "spec.ab"));
    assert!(!glob("spec.*#enum", "spec.a#type"));
}
