//! Links of all Markdown files: every relative link and anchor resolves, and every path that the documentation names exists.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::markdown;
use crate::step::{Outcome, Run};

/// What a path in a code span begins with.
const ROOTS: [&str; 5] = ["crates/", "docs/", "examples/", "tests/kubernetes/", "xtask/"];

/// Pages whose code spans name paths of the repository.
fn names_paths(page: &Path) -> bool {
    page.starts_with("docs") || page.parent() == Some(Path::new(""))
}

/// All pages of the repository, by their path from its root.
struct Pages {
    root: PathBuf,
    texts: BTreeMap<PathBuf, String>,
}

impl Pages {
    fn read(root: &Path) -> Result<Pages> {
        let mut texts = BTreeMap::new();
        for file in markdown::files(root, "md")? {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            texts.insert(file.strip_prefix(root)?.to_owned(), text);
        }
        Ok(Pages { root: root.to_owned(), texts })
    }

    /// Everything that is wrong.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (page, text) in &self.texts {
            for line in markdown::prose(text) {
                let mut add = |what: String| problems.push(format!("{}:{}: {what}", page.display(), line.number));
                for link in markdown::links(line.text) {
                    if let Some(what) = self.problem_of_link(page, &link) {
                        add(format!("link {link:?}: {what}"));
                    }
                }
                if names_paths(page) {
                    for span in markdown::spans(line.text).into_iter().skip(1).step_by(2) {
                        for path in paths(span).iter().filter(|path| !self.root.join(path).exists()) {
                            add(format!("`{path}` does not exist"));
                        }
                    }
                }
            }
        }
        problems
    }

    fn problem_of_link(&self, page: &Path, link: &str) -> Option<String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let target = if path.is_empty() { page.to_owned() } else { normal(&page.parent()?.join(path)) };
        if !self.texts.contains_key(&target) && !self.root.join(&target).exists() {
            return Some(format!("{} does not exist", target.display()));
        }
        let text = self.texts.get(&target)?;
        let anchor = anchor?;
        let anchors = markdown::anchors(text);
        if anchors.iter().any(|known| known == anchor) {
            return None;
        }
        Some(format!("{} has no heading #{anchor}; it has: {}", target.display(), anchors.join(", ")))
    }
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The paths of the repository that a code span names: none for a pattern, several for `a/{b,c}`.
fn paths(span: &str) -> Vec<String> {
    if !ROOTS.iter().any(|root| span.starts_with(root)) {
        return Vec::new();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-{},".contains(c);
    if !span.chars().all(is_plain) {
        return Vec::new();
    }
    match span.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        None => vec![span.to_owned()],
        Some((head, (names, tail))) => names.split(',').map(|name| format!("{head}{name}{tail}")).collect(),
    }
}

pub fn step(run: &mut Run<'_>) -> Result<Outcome> {
    let pages = Pages::read(&run.workspace.root)?;
    let problems = pages.problems();
    for problem in &problems {
        println!("{problem}");
    }
    println!("{} Markdown files", pages.texts.len());
    Ok(match problems.len() {
        0 => Outcome::Passed,
        count => Outcome::Failed(format!("{count} links or paths lead nowhere: see above")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(texts: &[(&str, &str)]) -> Pages {
        let texts = texts.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        Pages { root: Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(), texts }
    }

    #[test]
    fn links_resolve_from_their_page() {
        let there = "[a](../README.md) [b](#b-c) [c](https://example.org/x) [d](../LICENSE)\n## B, c\n";
        assert_eq!(pages(&[("docs/x.md", there)]).problems(), Vec::<String>::new());
    }

    #[test]
    fn missing_files_anchors_and_paths_are_named_with_their_line() {
        let text = "\n[a](nowhere.md)\n[b](#nothing)\n`crates/nowhere.rs` and `xtask/src/{main,nowhere}.rs`\n";
        let problems = pages(&[("docs/x.md", text)]).problems();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(
            problems[0].starts_with("docs/x.md:2: link \"nowhere.md\": docs/nowhere.md does not exist"),
            "{problems:?}"
        );
        assert!(problems[1].contains("no heading #nothing"), "{problems:?}");
        assert!(problems[3].contains("`xtask/src/nowhere.rs` does not exist"), "{problems:?}");
    }

    #[test]
    fn patterns_and_foreign_paths_are_not_looked_up() {
        assert!(paths("crates/*/src").is_empty());
        assert!(paths("/etc/chrony.conf").is_empty());
        assert_eq!(paths("crates/api"), ["crates/api"]);
    }

    #[test]
    fn every_link_of_the_repository_resolves() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let problems = Pages::read(root).unwrap().problems();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
