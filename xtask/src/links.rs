//! Links of all Markdown files: every relative link and anchor resolves, and every path that the documentation names exists.
//!
//! A path in a code span is one from the root of the repository, or the end of one if it names a Rust source: `choice.rs` and
//! `rollout/mod.rs` must exist in some folder. The paths in the blocks of ARCHITECTURE.md are ends of paths below `crates`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::markdown;
use crate::step::{Outcome, Run};

/// What a path in a code span begins with.
const ROOTS: [&str; 5] = ["crates/", "docs/", "examples/", "tests/kubernetes/", "xtask/"];

/// The page whose blocks name paths below `crates`.
const MAP: &str = "ARCHITECTURE.md";

/// Pages whose code spans name paths of the repository.
fn names_paths(page: &Path) -> bool {
    page.starts_with("docs") || page.parent() == Some(Path::new(""))
}

/// All pages of the repository, by their path from its root.
struct Pages {
    root: PathBuf,
    texts: BTreeMap<PathBuf, String>,
    /// Every Rust source by its path from the root.
    sources: Vec<PathBuf>,
}

impl Pages {
    fn read(root: &Path) -> Result<Pages> {
        let mut texts = BTreeMap::new();
        for file in markdown::files(root, "md")? {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            texts.insert(file.strip_prefix(root)?.to_owned(), text);
        }
        Ok(Pages { root: root.to_owned(), texts, sources: sources(root)? })
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
                        if paths(span).is_empty()
                            && is_source(span)
                            && !self.sources.iter().any(|source| source.ends_with(span))
                        {
                            add(format!("`{span}` is no Rust source of the repository"));
                        }
                    }
                }
            }
            if page == Path::new(MAP) {
                for line in markdown::fenced(text) {
                    for path in mapped(line.text).filter(|path| !self.is_mapped(path)) {
                        problems.push(format!("{}:{}: no {path} below crates", page.display(), line.number));
                    }
                }
            }
        }
        problems
    }

    /// Whether a path below `crates` ends like this.
    fn is_mapped(&self, path: &str) -> bool {
        let below = self.sources.iter().filter(|source| source.starts_with("crates"));
        below.flat_map(|source| source.ancestors()).any(|source| source.ends_with(path))
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

/// Every Rust source below a folder, by its path from there.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let sources = markdown::files(root, "rs")?;
    Ok(sources.iter().map(|source| source.strip_prefix(root).map(Path::to_owned)).collect::<Result<_, _>>()?)
}

/// What a path may contain.
fn is_path_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-".contains(c)
}

/// Whether a code span names a Rust source by its name, or by the end of its path.
fn is_source(span: &str) -> bool {
    span.ends_with(".rs")
        && span.starts_with(|c: char| c.is_ascii_alphanumeric())
        && span.chars().all(is_path_character)
}

/// The paths in a line of a block: what has a slash or names a Rust source. Folders have small letters, which `HTTP/1.1` has not.
fn mapped(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c);
    let words = line.split([' ', ',', ';', ':', '(', ')', '`']);
    words.filter(move |word| (word.contains('/') || word.ends_with(".rs")) && word.chars().all(is_name))
}

/// The paths of the repository that a code span names: none for a pattern, several for `a/{b,c}`.
fn paths(span: &str) -> Vec<String> {
    if !ROOTS.iter().any(|root| span.starts_with(root)) {
        return Vec::new();
    }
    if !span.chars().all(|c| is_path_character(c) || "{},".contains(c)) {
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Pages { root: root.to_owned(), texts, sources: sources(root).unwrap() }
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
    fn sources_are_found_by_their_name_or_the_end_of_their_path() {
        let text =
            "`links.rs`, `xtask/src/links.rs`, `src/links.rs`, `nowhere.rs`, `elsewhere/links.rs`, `*.rs`, `a.go`\n";
        let problems = pages(&[("docs/x.md", text)]).problems();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("`nowhere.rs` is no Rust source"), "{problems:?}");
        assert!(problems[1].contains("`elsewhere/links.rs` is no Rust source"), "{problems:?}");
    }

    #[test]
    fn paths_in_blocks_of_the_map_are_looked_up_below_crates() {
        let text = "`nowhere/x`\n```\n1 HTTP/1.1 (api/src/lib.rs), config/render, rollout/drain.rs\n2 links.rs, api/nowhere\n```\n";
        let problems = pages(&[("ARCHITECTURE.md", text)]).problems();
        let expected =
            ["ARCHITECTURE.md:4: no links.rs below crates", "ARCHITECTURE.md:4: no api/nowhere below crates"];
        assert_eq!(problems, expected);
        assert!(pages(&[("README.md", text)]).problems().is_empty(), "other pages have blocks of other kinds");
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
