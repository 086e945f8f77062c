//! Metadata of the workspace's crates and their declared dependencies, from `cargo metadata --no-deps`.
//!
//! Declared is not compiled: optional and platform-bound dependencies are listed as well. What really gets
//! compiled is in [`crate::tree`].

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The part of cargo's answer that is used here.
#[derive(Deserialize)]
pub struct Metadata {
    /// The workspace's own crates.
    pub packages: Vec<Package>,
    /// Where cargo builds.
    pub target_directory: String,
    #[serde(default)]
    pub workspace_root: String,
}

/// One crate of the workspace.
#[derive(Deserialize)]
pub struct Package {
    pub name: String,
    #[serde(default)]
    pub manifest_path: String,
    /// What it declares.
    pub dependencies: Vec<Dependency>,
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// A library, program, test or example of a crate.
#[derive(Deserialize)]
pub struct Target {
    pub name: String,
    pub kind: Vec<String>,
}

/// One declared dependency, features inherited from the workspace included.
#[derive(Deserialize)]
pub struct Dependency {
    /// The name of the crate, before any renaming.
    pub name: String,
    /// `dev` or `build`; nothing for a normal dependency.
    pub kind: Option<String>,
    /// Whether the other crate's default features are asked for.
    pub uses_default_features: bool,
    /// The features asked for besides.
    #[serde(default)]
    pub features: Vec<String>,
}

impl Metadata {
    /// Reads cargo's JSON.
    pub fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("cannot read the output of cargo metadata")
    }

    /// The crate with this name.
    #[cfg(test)]
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

impl Package {
    /// Whether it has an example with this name.
    pub fn has_example(&self, name: &str) -> bool {
        self.targets.iter().any(|target| target.name == name && target.kind.iter().any(|kind| kind == "example"))
    }

    /// Its folder, relative to the workspace's root.
    pub fn folder(&self, root: &str) -> Option<&str> {
        let folder = self.manifest_path.strip_prefix(root)?.strip_prefix('/')?;
        Some(folder.strip_suffix("Cargo.toml")?.trim_end_matches('/'))
    }
}

impl Dependency {
    /// Whether only tests, examples and benches see it.
    pub fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[cfg(test)]
mod tests {
    use super::Metadata;

    #[test]
    fn kinds_and_features_are_read() {
        let json = br#"{"target_directory": "/t", "version": 1, "packages": [{"name": "a", "id": "x",
            "dependencies": [
              {"name": "b", "kind": null, "uses_default_features": false, "features": ["f"], "optional": true},
              {"name": "c", "kind": "dev", "uses_default_features": true, "features": []}]}]}"#;
        let metadata = Metadata::parse(json).unwrap();
        let declared = &metadata.package("a").unwrap().dependencies;
        assert!(!declared[0].is_for_tests() && !declared[0].uses_default_features);
        assert_eq!(declared[0].features, ["f"]);
        assert!(declared[1].is_for_tests());
    }
}
