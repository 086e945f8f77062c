//! Dependency tree: the crates that are really compiled into one crate, with the path to each, from `cargo tree`.
//!
//! `cargo metadata` does not show this: it unites the features of all crates of the workspace, so a crate that takes
//! another one without its default features would seem to compile everything behind them.

use anyhow::{Context as _, Result};

use crate::workspace::{Workspace, stdout_of};

/// The platform that the product runs on. Fixed, so that the answer does not depend on the developer's machine.
pub const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Every dependency once, each with its way from the root.
#[derive(Debug, PartialEq, Eq)]
pub struct Tree {
    paths: Vec<Vec<String>>,
}

impl Tree {
    /// Asks cargo for the normal dependencies; `selection` says whose and with which features. Procedural macros
    /// run in the compiler and are left out.
    pub fn load(workspace: &Workspace, selection: &[&str]) -> Result<Self> {
        let mut command = workspace.cargo(&["tree", "--locked", "--target", PLATFORM]);
        command.args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "{p}"]);
        command.args(selection);
        let text = stdout_of(&mut command)?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Reads lines such as `2tokio v1.0.0 (*)`: the depth, the name, the version.
    pub fn parse(text: &str) -> Result<Self> {
        let mut here: Vec<String> = Vec::new();
        let mut paths = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
            let (depth, rest) = line.split_at(digits);
            let depth: usize = depth.parse().with_context(|| format!("no depth in cargo tree's line {line:?}"))?;
            let name =
                rest.split_whitespace().next().with_context(|| format!("no name in cargo tree's line {line:?}"))?;
            here.truncate(depth);
            here.push(name.to_owned());
            paths.push(here.clone());
        }
        Ok(Self { paths })
    }

    /// The shortest way from a root to each of these crates that is in the tree.
    pub fn paths_to<'a>(
        &'a self,
        names: &'a [&'static str],
    ) -> impl Iterator<Item = (&'static str, &'a [String])> + 'a {
        names.iter().filter_map(|name| {
            let ways = self.paths.iter().filter(|path| path.last().is_some_and(|last| last == name));
            ways.min_by_key(|path| path.len()).map(|path| (*name, path.as_slice()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    const TEXT: &str = "0render v0.1.0 (/w/render)\n1fetch v0.1.0 (/w/fetch)\n2http v1.0.0\n3tokio v1.0.0\n\
                        1tokio v1.0.0 (*)\n1serde v1.0.0\n\n0seaworthy v0.1.0 (/w/seaworthy)\n1ring v0.17.0\n";

    #[test]
    fn shortest_way_is_found() {
        let tree = Tree::parse(TEXT).unwrap();
        let ways: Vec<_> = tree.paths_to(&["tokio", "openssl", "ring"]).collect();
        assert_eq!(
            ways,
            [
                ("tokio", &["render".to_owned(), "tokio".to_owned()][..]),
                ("ring", &["seaworthy".to_owned(), "ring".to_owned()][..]),
            ]
        );
    }

    #[test]
    fn names_are_compared_whole() {
        let tree = Tree::parse("0a v1.0.0\n1tokio-util v1.0.0\n").unwrap();
        assert_eq!(tree.paths_to(&["tokio"]).count(), 0);
    }

    #[test]
    fn unknown_output_is_an_error() {
        assert!(Tree::parse("├── tokio v1.0.0").is_err());
    }
}
