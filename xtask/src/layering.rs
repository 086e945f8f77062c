//! Layering: which crate may depend on which, as data, and the check of the workspace against it.
//!
//! - The lower half decides and does no I/O: no runtime, no client, no clock, no randomness. That is what makes a
//!   preview, a test and the controller give the same answer.
//! - A crate that is not in [`LAYERS`] is a violation: a new crate starts with a row here.
//! - Dependencies for tests are free, except that nothing else may use the crates for tests.

use std::fmt;

use anyhow::Result;

use crate::metadata::{Dependency, Metadata};
use crate::step::{Outcome, Run};
use crate::tree::Tree;
use crate::workspace::Workspace;

/// One crate's place.
struct Layer {
    /// Below the workspace's root.
    folder: &'static str,
    name: &'static str,
    may_use: &'static [Use],
    is_pure: bool,
}

/// A crate of ours that another one may depend on.
enum Use {
    /// With any features.
    Whole(&'static str),
    /// Only without its default features, which leaves the part that does no I/O.
    Bare(&'static str),
    /// Every crate below this folder that has an earlier row.
    Below(&'static str),
}

use Use::{Bare, Below, Whole};

const API: Use = Whole("seaworthy-api");
const IGNITION: Use = Whole("seaworthy-ignition");
const FETCH: Use = Whole("seaworthy-fetch");
const FETCH_TYPES: Use = Bare("seaworthy-fetch");
const RENDER: Use = Whole("seaworthy-render");
const CHANGE: Use = Whole("seaworthy-change");
const DEPLOY: Use = Whole("seaworthy-deploy");
const GENERATE: Use = Whole("seaworthy-generate");
const PLAN: Use = Whole("seaworthy-plan");
const PREVIEW: Use = Whole("seaworthy-preview");
const FIELDS: Use = Whole("seaworthy-fields");
const CEL: Use = Whole("seaworthy-cel");
const SCHEMA: Use = Whole("seaworthy-schema");
const STORE: Use = Whole("seaworthy-store");
const LISTEN: Use = Whole("seaworthy-listen");
const HOST: Use = Whole("seaworthy-host");
const NODE: Use = Whole("seaworthy-node");
const RUNTIME: Use = Whole("seaworthy-runtime");

/// Bottom up, each crate with its folder: the table is the tree below `crates/`. A crate uses those of earlier rows only.
const LAYERS: &[Layer] = &[
    pure("crates/values", VALUES, &[]),
    pure("crates/api", "seaworthy-api", &[]),
    shell("crates/config/fetch", "seaworthy-fetch", &[]),
    pure("crates/config/ignition", "seaworthy-ignition", &[API, FETCH_TYPES]),
    pure("crates/config/render", "seaworthy-render", &[API, IGNITION, FETCH_TYPES]),
    pure("crates/config/manifest", "seaworthy-manifest", &[IGNITION]),
    pure("crates/operators/deploy", "seaworthy-deploy", &[]),
    pure("crates/decide/change", "seaworthy-change", &[]),
    pure("crates/config/generate", "seaworthy-generate", &[API, CHANGE, IGNITION, RENDER]),
    pure("crates/decide/plan", "seaworthy-plan", &[API, CHANGE, GENERATE, IGNITION, RENDER]),
    pure("crates/control-plane/cel", "seaworthy-cel", &[]),
    pure("crates/control-plane/schema", "seaworthy-schema", &[CEL]),
    pure("crates/control-plane/fields", "seaworthy-fields", &[SCHEMA]),
    pure("crates/decide/preview", "seaworthy-preview", &[CHANGE, FIELDS, IGNITION, SCHEMA]),
    shell("crates/control-plane/store", "seaworthy-store", &[]),
    shell("crates/control-plane/listen", "seaworthy-listen", &[]),
    shell("crates/resident", "seaworthy-resident", &[]),
    shell("crates/control-plane/apiserver", "seaworthy-apiserver", &[API, STORE, FIELDS, SCHEMA, CEL, LISTEN]),
    shell("crates/machine/host", "seaworthy-host", &[]),
    shell("crates/machine/node", "seaworthy-node", &[API, IGNITION, PLAN, HOST]),
    shell("crates/operators/runtime", "seaworthy-runtime", &[API, CHANGE, DEPLOY, FIELDS, PREVIEW]),
    shell(
        "crates/operators/machineconfig",
        "seaworthy-machineconfig",
        &[API, CHANGE, DEPLOY, IGNITION, FETCH, RENDER, GENERATE, PLAN, PREVIEW, RUNTIME],
    ),
    shell("crates/operators/machinepool", "seaworthy-machinepool", &[API, CHANGE, DEPLOY, PLAN, RUNTIME]),
    // The one crate that knows every operator; no operator knows another.
    shell("crates/operators/controllers", "seaworthy-controllers", &[LISTEN, PREVIEW, Below("crates/operators/")]),
    shell("crates/machine/serve", "seaworthy-serve", &[API, CHANGE, IGNITION, RENDER, LISTEN, RUNTIME]),
    shell("crates/machine/fleet", "seaworthy-fleet", &[API, FETCH, HOST, IGNITION, NODE]),
    shell("crates/trial", "seaworthy-trial", &[]),
    shell("crates/testkit", "seaworthy-testkit", &[Below("crates/")]),
    shell("crates/seaworthy", "seaworthy", &[Below("crates/")]),
    // xtask must build while the product does not compile.
    shell("xtask", "xtask", &[]),
];

/// The notations and texts that all crates share; only the developer commands do without it, as they must build when the product
/// does not.
const VALUES: &str = "seaworthy-values";

/// Compiled into tests only.
const FOR_TESTS: [&str; 2] = ["seaworthy-testkit", "seaworthy-trial"];

/// Crates that act, keep time or roll dice: not in a pure crate, however far down.
const IMPURE: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "hyper",
    "hyper-util",
    "reqwest",
    "object_store",
    "rustls",
    "kube-client",
    "kube-runtime",
    "axum",
    "redb",
    "zbus",
    "rustix",
    "nix",
    "rand",
    "getrandom",
    "fastrand",
];

/// Crates that are compiled nowhere, with the reason. `deny.toml` has the same list for cargo-deny, and chrono in
/// addition: that one may come along with crates that need it, but has no place in a manifest, see [`CONFINED`].
const BANNED: &[(&str, &str)] = &[
    ("openssl", "one crypto provider: rustls with aws-lc-rs"),
    ("openssl-sys", "one crypto provider: rustls with aws-lc-rs"),
    ("native-tls", "one crypto provider: rustls with aws-lc-rs"),
    ("ring", "one crypto provider: choose the aws-lc-rs feature of whatever brings it in"),
    ("serde_yaml", "abandoned by its author; one YAML library: serde-saphyr"),
    ("serde_yml", "known to be unsound; one YAML library: serde-saphyr"),
    ("async-std", "no longer maintained; one async runtime: tokio"),
];

/// Crates that only some of ours may name in their manifest, so that each has one owner, or none.
const CONFINED: &[(&str, &[&str], &str)] = &[
    ("reqwest", &["seaworthy-fetch"], "remote content is fetched by one crate"),
    ("object_store", &["seaworthy-fetch"], "remote content is fetched by one crate"),
    ("redb", &["seaworthy-store"], "the store's engine stays behind its trait"),
    ("zbus", &["seaworthy-host"], "the machine is touched through the Host trait"),
    ("rustix", &["seaworthy-host"], "the machine is touched through the Host trait"),
    ("chrono", &[], "one time library: jiff"),
    ("clap", &["seaworthy", "xtask"], "libraries have no command line"),
    ("anyhow", &["seaworthy", "xtask"], "libraries have typed errors: use thiserror"),
];

/// The folders of crates that may hold a Kubernetes client. `host` is not among them: a machine knows no cluster.
const KUBE_CLIENT_FOLDERS: &[&str] =
    &["crates/operators/", "crates/machine/fleet", "crates/machine/node", "crates/machine/serve", "crates/testkit"];

/// Features of `kube` that bring its client in.
const KUBE_CLIENT_FEATURES: &[&str] = &["client", "runtime", "ws", "oauth", "oidc"];

const fn pure(folder: &'static str, name: &'static str, may_use: &'static [Use]) -> Layer {
    Layer { folder, name, may_use, is_pure: true }
}

const fn shell(folder: &'static str, name: &'static str, may_use: &'static [Use]) -> Layer {
    Layer { folder, name, may_use, is_pure: false }
}

/// A dependency that is not allowed: the way to it, and the rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    path: Vec<String>,
    rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.join(" → "), self.rule)
    }
}

/// The step of the test command.
pub fn step(run: &mut Run<'_>) -> Result<Outcome> {
    let violations = check(run.workspace)?;
    for violation in &violations {
        println!("{violation}");
    }
    Ok(match violations.len() {
        0 => {
            println!("{} crates keep to their layers", run.workspace.metadata.packages.len());
            Outcome::Passed
        }
        count => Outcome::Failed(format!("{count} dependencies point the wrong way")),
    })
}

fn check(workspace: &Workspace) -> Result<Vec<Violation>> {
    let metadata = &workspace.metadata;
    let mut violations = declared(metadata);
    for selection in pure_selections(metadata) {
        let args: Vec<&str> = selection.iter().map(String::as_str).collect();
        violations.extend(impure(&Tree::load(workspace, &args)?));
    }
    violations.extend(banned(&Tree::load(workspace, &["--workspace", "--all-features"])?));
    Ok(violations)
}

/// Each pure crate by itself with all its features, and each crate of which only the bare part must be pure.
fn pure_selections(metadata: &Metadata) -> Vec<Vec<String>> {
    let is_bare_target = |name: &str| {
        let mut uses = LAYERS.iter().flat_map(|layer| layer.may_use);
        uses.any(|allowed| matches!(allowed, Bare(target) if *target == name))
    };
    let selection = |name: &str, features: &str| vec!["--package".to_owned(), name.to_owned(), features.to_owned()];
    let names = metadata.packages.iter().map(|package| package.name.as_str());
    names
        .filter_map(|name| match layer(name) {
            Some(layer) if layer.is_pure => Some(selection(name, "--all-features")),
            Some(_) if is_bare_target(name) => Some(selection(name, "--no-default-features")),
            _ => None,
        })
        .collect()
}

/// Checks what the manifests declare.
fn declared(metadata: &Metadata) -> Vec<Violation> {
    let is_ours = |name: &str| metadata.packages.iter().any(|package| package.name == name);
    let mut violations = Vec::new();
    for package in &metadata.packages {
        let Some(layer) = layer(&package.name) else {
            violations.push(Violation {
                path: vec![package.name.clone()],
                rule: "has no layer yet: give it a row in xtask/src/layering.rs".to_owned(),
            });
            continue;
        };
        if package.folder(&metadata.workspace_root).is_some_and(|folder| folder != layer.folder) {
            violations.push(Violation {
                path: vec![package.name.clone()],
                rule: format!("is not in {}: move it, or change its row in xtask/src/layering.rs", layer.folder),
            });
        }
        for dependency in package.dependencies.iter().filter(|it| !it.is_for_tests()) {
            let rule = if is_ours(&dependency.name) {
                broken_use(layer, dependency)
            } else {
                broken_confinement(layer, dependency)
            };
            violations
                .extend(rule.map(|rule| Violation { path: vec![package.name.clone(), dependency.name.clone()], rule }));
        }
    }
    violations
}

fn layer(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// Whether a crate has an earlier row than this layer, and is in this folder.
fn is_below(layer: &Layer, folder: &str, name: &str) -> bool {
    let earlier = LAYERS.iter().take_while(|it| it.name != layer.name);
    earlier.filter(|it| it.folder.starts_with(folder)).any(|it| it.name == name)
}

fn broken_use(layer: &Layer, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if FOR_TESTS.contains(&name) {
        return Some("it is for [dev-dependencies] only".to_owned());
    }
    if name == layer.name || (name == VALUES && layer.name != "xtask") {
        return None;
    }
    let allowed = layer.may_use.iter().find(|it| match it {
        Whole(target) | Bare(target) => *target == name,
        Below(folder) => is_below(layer, folder, name),
    });
    match allowed {
        Some(Whole(_) | Below(_)) => None,
        Some(Bare(_)) if dependency.uses_default_features => {
            Some("only with default-features = false, which leaves its pure part".to_owned())
        }
        // Single features may be fine; what they compile is checked in the tree.
        Some(Bare(_)) => None,
        None => {
            let names: Vec<_> = layer
                .may_use
                .iter()
                .map(|it| match it {
                    Whole(target) | Bare(target) | Below(target) => *target,
                })
                .collect();
            let list = if names.is_empty() { "none of ours".to_owned() } else { names.join(", ") };
            Some(format!("not below it; {} may use: {list}", layer.name))
        }
    }
}

fn broken_confinement(layer: &Layer, dependency: &Dependency) -> Option<String> {
    let may_hold_client = KUBE_CLIENT_FOLDERS.iter().any(|folder| layer.folder.starts_with(folder));
    if dependency.name == "kube" && !may_hold_client {
        let client = dependency.features.iter().find(|it| KUBE_CLIENT_FEATURES.contains(&it.as_str()));
        // kube's default features have the client in them.
        if client.is_some() || dependency.uses_default_features {
            return Some(format!(
                "brings the Kubernetes client (default features, or {}), which only crates in {} may hold",
                KUBE_CLIENT_FEATURES.join(", "),
                KUBE_CLIENT_FOLDERS.join(", ")
            ));
        }
    }
    let (_, owners, why) = CONFINED.iter().find(|(name, ..)| *name == dependency.name)?;
    if owners.is_empty() {
        return Some(format!("in none of ours: {why}"));
    }
    (!owners.contains(&layer.name)).then(|| format!("only in {}: {why}", owners.join(", ")))
}

/// Checks what is compiled into a pure crate.
fn impure(tree: &Tree) -> Vec<Violation> {
    tree.paths_to(IMPURE)
        .map(|(name, path)| Violation {
            path: path.to_vec(),
            rule: format!("{name} has no place below a crate that does no I/O"),
        })
        .collect()
}

/// Checks what is compiled into anything.
fn banned(tree: &Tree) -> Vec<Violation> {
    let names: Vec<&'static str> = BANNED.iter().map(|(name, _)| *name).collect();
    let reason = |name| BANNED.iter().find(|(known, _)| *known == name).map_or("", |(_, why)| *why);
    tree.paths_to(&names)
        .map(|(name, path)| Violation { path: path.to_vec(), rule: format!("banned: {}", reason(name)) })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{
        BANNED, Bare, Below, CONFINED, LAYERS, Violation, Whole, banned, declared, impure, layer, pure_selections,
    };
    use crate::metadata::Metadata;
    use crate::tree::Tree;

    /// A crate with one dependency, written the way cargo does.
    fn metadata(package: &str, dependency: &str) -> Metadata {
        let others = ["seaworthy-api", "seaworthy-fetch", "seaworthy-render", "seaworthy-testkit", "seaworthy-values"]
            .into_iter()
            .filter(|name| *name != package)
            .map(|name| format!(r#"{{"name": "{name}", "dependencies": []}}"#))
            .collect::<Vec<_>>()
            .join(", ");
        let json = format!(
            r#"{{"target_directory": "/t", "packages": [{{"name": "{package}", "dependencies": [{dependency}]}}, {others}]}}"#
        );
        Metadata::parse(json.as_bytes()).unwrap()
    }

    fn dependency(name: &str, kind: &str, defaults: bool, features: &str) -> String {
        format!(
            r#"{{"name": "{name}", "kind": {kind}, "uses_default_features": {defaults}, "features": [{features}]}}"#
        )
    }

    fn shown(violations: &[Violation]) -> Vec<String> {
        violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn crate_outside_of_its_folder_is_a_violation() {
        let json = |folder: &str| {
            format!(
                r#"{{"target_directory": "/t", "workspace_root": "/w", "packages": [
                    {{"name": "seaworthy-api", "manifest_path": "/w/{folder}/Cargo.toml", "dependencies": []}}]}}"#
            )
        };
        let check = |folder| shown(&declared(&Metadata::parse(json(folder).as_bytes()).unwrap()));
        assert!(check("crates/api").is_empty());
        assert!(check("crates/config/api")[0].starts_with("seaworthy-api: is not in crates/api"));
    }

    #[test]
    fn operator_uses_no_other_operator() {
        let is_operator = |layer: &super::Layer| {
            let shared = ["seaworthy-runtime", "seaworthy-deploy", "seaworthy-controllers"];
            layer.folder.starts_with("crates/operators/") && !shared.contains(&layer.name)
        };
        for layer in LAYERS.iter().filter(|layer| is_operator(layer)) {
            for allowed in layer.may_use {
                let (Whole(name) | Bare(name)) = allowed else { panic!("{} uses a whole folder", layer.name) };
                assert!(!is_operator(super::layer(name).unwrap()), "{} uses {name}", layer.name);
            }
        }
    }

    #[test]
    fn map_has_every_crate() {
        let map = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ARCHITECTURE.md")).unwrap();
        // The map is a tree: each line has the folder's own name.
        let names = LAYERS.iter().filter_map(|layer| layer.folder.rsplit('/').next());
        let words: BTreeSet<&str> = map.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
        let missing: Vec<&str> = names.filter(|name| !words.contains(name)).collect();
        assert!(missing.is_empty(), "not in ARCHITECTURE.md: {missing:?}");
    }

    #[test]
    fn folder_is_used_up_to_the_own_row() {
        let uses = |name: &str, used: &str| super::is_below(layer(name).unwrap(), "crates/operators/", used);
        assert!(uses("seaworthy-controllers", "seaworthy-machineconfig"));
        assert!(!uses("seaworthy-machineconfig", "seaworthy-controllers"), "it has a later row");
        assert!(!uses("seaworthy-controllers", "seaworthy-plan"), "it is in another folder");
    }

    #[test]
    fn upper_crate_may_use_lower_crate() {
        let it = metadata("seaworthy-render", &dependency("seaworthy-api", "null", true, ""));
        assert_eq!(declared(&it), []);
    }

    #[test]
    fn lowest_crate_may_be_used_by_all_and_uses_none() {
        let values = dependency("seaworthy-values", "null", true, "");
        assert_eq!(declared(&metadata("seaworthy-api", &values)), []);
        assert_eq!(declared(&metadata("seaworthy-fetch", &values)), []);
        assert_eq!(declared(&metadata("xtask", &values)).len(), 1);
        assert_eq!(declared(&metadata("seaworthy-values", &dependency("seaworthy-api", "null", true, ""))).len(), 1);
    }

    #[test]
    fn lower_crate_may_not_use_upper_crate() {
        let it = metadata("seaworthy-api", &dependency("seaworthy-render", "null", true, ""));
        assert_eq!(
            shown(&declared(&it)),
            ["seaworthy-api → seaworthy-render: not below it; seaworthy-api may use: none of ours"]
        );
    }

    #[test]
    fn build_dependency_counts_and_dev_dependency_does_not() {
        let build = metadata("seaworthy-api", &dependency("seaworthy-render", "\"build\"", true, ""));
        assert_eq!(declared(&build).len(), 1);
        let dev = metadata("seaworthy-api", &dependency("seaworthy-render", "\"dev\"", true, ""));
        assert_eq!(declared(&dev), []);
    }

    #[test]
    fn render_takes_fetch_only_bare() {
        let check = |defaults| {
            let it = dependency("seaworthy-fetch", "null", defaults, "");
            shown(&declared(&metadata("seaworthy-render", &it)))
        };
        assert!(check(false).is_empty());
        assert!(check(true)[0].contains("default-features = false"));
    }

    #[test]
    fn test_kit_is_for_tests_only() {
        let normal = metadata("seaworthy", &dependency("seaworthy-testkit", "null", true, ""));
        assert!(shown(&declared(&normal))[0].contains("[dev-dependencies] only"));
        let dev = metadata("seaworthy", &dependency("seaworthy-testkit", "\"dev\"", true, ""));
        assert_eq!(declared(&dev), []);
    }

    #[test]
    fn kube_is_free_until_its_client_is_switched_on() {
        let check = |package, defaults, features| {
            let it = dependency("kube", "null", defaults, features);
            declared(&metadata(package, &it)).len()
        };
        assert_eq!(check("seaworthy-api", false, "\"derive\""), 0);
        assert_eq!(check("seaworthy-api", false, "\"derive\", \"client\""), 1);
        assert_eq!(check("seaworthy-api", true, "\"derive\""), 1);
        assert_eq!(check("seaworthy-runtime", false, "\"client\""), 0);
        assert_eq!(check("seaworthy-node", false, "\"client\""), 0);
        assert_eq!(check("seaworthy-host", false, "\"client\""), 1);
    }

    #[test]
    fn confined_crate_is_named_with_its_owner() {
        let it = metadata("seaworthy-render", &dependency("reqwest", "null", true, ""));
        assert_eq!(
            shown(&declared(&it)),
            ["seaworthy-render → reqwest: only in seaworthy-fetch: remote content is fetched by one crate"]
        );
        let it = metadata("seaworthy-fetch", &dependency("reqwest", "null", true, ""));
        assert_eq!(declared(&it), []);
    }

    #[test]
    fn crate_without_a_layer_is_a_violation() {
        let it = metadata("seaworthy-new", "");
        assert!(shown(&declared(&it))[0].starts_with("seaworthy-new: has no layer yet"));
    }

    #[test]
    fn runtime_below_a_pure_crate_is_found_with_its_path() {
        let tree = Tree::parse("0seaworthy-render v0.1.0\n1helper v1.0.0\n2tokio v1.0.0\n").unwrap();
        assert_eq!(
            shown(&impure(&tree)),
            ["seaworthy-render → helper → tokio: tokio has no place below a crate that does no I/O"]
        );
    }

    #[test]
    fn banned_crate_is_found_anywhere() {
        let tree = Tree::parse("0seaworthy v0.1.0\n1tls v1.0.0\n2ring v0.17.0\n1serde v1.0.0\n").unwrap();
        let found = shown(&banned(&tree));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("seaworthy → tls → ring: banned: one crypto provider"));
    }

    #[test]
    fn bare_part_of_fetch_is_checked_as_pure() {
        let selections = pure_selections(&metadata("seaworthy", ""));
        let fetch: Vec<_> = selections.iter().filter(|it| it[1] == "seaworthy-fetch").collect();
        assert_eq!(fetch, [&["--package", "seaworthy-fetch", "--no-default-features"]]);
        assert!(!selections.iter().any(|it| it[1] == "seaworthy"));
    }

    #[test]
    fn every_name_in_the_table_has_a_row_and_pure_crates_use_pure_ones() {
        for it in LAYERS {
            for used in it.may_use {
                match used {
                    Whole(name) => {
                        let below = layer(name).unwrap_or_else(|| panic!("{name} has no row"));
                        assert!(below.is_pure || !it.is_pure, "{} uses {name}", it.name);
                    }
                    Bare(name) => assert!(layer(name).is_some(), "{name} has no row"),
                    Below(folder) => assert!(!it.is_pure, "{} uses all of {folder}", it.name),
                }
            }
        }
    }

    #[test]
    fn rows_are_bottom_up() {
        for (row, it) in LAYERS.iter().enumerate() {
            for used in it.may_use {
                let (Whole(name) | Bare(name)) = used else { continue };
                let is_earlier = LAYERS.iter().take(row).any(|below| below.name == *name);
                assert!(is_earlier, "{} uses {name}, which has no earlier row", it.name);
            }
        }
    }

    #[test]
    fn cargo_deny_bans_the_same_crates() {
        let lines = include_str!("../../deny.toml").lines();
        let denied = lines.filter_map(|line| line.trim().strip_prefix("{ crate = \"")?.split('"').next());
        let denied: BTreeSet<&str> = denied.collect();
        let unowned = CONFINED.iter().filter(|(_, owners, _)| owners.is_empty()).map(|(name, ..)| *name);
        let ours: BTreeSet<&str> = BANNED.iter().map(|(name, _)| *name).chain(unowned).collect();
        assert_eq!(denied, ours);
    }

    #[test]
    fn a_crate_without_an_owner_is_refused_to_all() {
        let metadata = metadata("seaworthy-fetch", &dependency("chrono", "null", true, ""));
        assert_eq!(shown(&declared(&metadata)), ["seaworthy-fetch → chrono: in none of ours: one time library: jiff"]);
    }
}
