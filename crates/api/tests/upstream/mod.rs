//! Our definitions against the upstreams': every difference is found, and every difference is explained.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p seaworthy-api upstream` writes `docs/reference/api-differences.md`.

mod compare;
mod explanations;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use compare::Difference;
use explanations::Explanation;
use serde_json::Value;

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn theirs() -> BTreeMap<String, Value> {
    std::fs::read_dir(tests_folder().join("upstream-crds"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap())
        .map(|crd| (crd["metadata"]["name"].as_str().unwrap().to_owned(), crd))
        .collect()
}

fn ours() -> BTreeMap<String, Value> {
    seaworthy_api::crds::all()
        .into_iter()
        .map(|crd| (crd.metadata.name.clone().unwrap(), serde_json::to_value(crd).unwrap()))
        .collect()
}

fn all_differences() -> Vec<Difference> {
    compare::definitions(&theirs(), &ours())
}

fn explanations() -> Vec<Explanation> {
    let file = tests_folder().join("differences.txt");
    explanations::parse(&std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn every_difference_from_the_upstreams_is_explained() {
    let explanations = explanations();
    let unexplained: Vec<String> = all_differences()
        .iter()
        .filter(|difference| !explanations.iter().any(|explanation| explanation.covers(difference)))
        .map(ToString::to_string)
        .collect();
    assert!(
        unexplained.is_empty(),
        "{} differences without an explanation in tests/differences.txt:\n{}",
        unexplained.len(),
        unexplained.join("\n")
    );
}

#[test]
fn every_explanation_explains_a_difference() {
    let differences = all_differences();
    let idle: Vec<String> = explanations()
        .iter()
        .filter(|explanation| !differences.iter().any(|difference| explanation.covers(difference)))
        .map(|explanation| format!("line {}: {} | {}", explanation.line, explanation.crd, explanation.path))
        .collect();
    assert!(idle.is_empty(), "explanations in tests/differences.txt that match nothing:\n{}", idle.join("\n"));
}

#[test]
fn the_documentation_lists_every_difference() {
    let page = page(&all_differences(), &explanations());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/api-differences.md");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/api-differences.md is stale; regenerate it with `UPDATE_SNAPSHOTS=1 cargo test -p seaworthy-api upstream`"
    );
}

/// A walk that silently skipped a keyword would find too few differences.
#[test]
fn the_comparison_sees_a_change_of_every_keyword() {
    let mut seen = BTreeSet::new();
    let mut missed = Vec::new();
    for (name, crd) in &theirs() {
        for pointer in compare::keyword_pointers(crd) {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            // Once for each keyword, and once for fields.
            let keyword = if parent.ends_with("/properties") { "a field" } else { key };
            if !seen.insert(keyword.to_owned()) {
                continue;
            }
            let mut changed = crd.clone();
            changed.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
            let one = |crd: &Value| BTreeMap::from([(name.clone(), crd.clone())]);
            if compare::definitions(&one(crd), &one(&changed)).is_empty() {
                missed.push(format!("{name} {pointer}"));
            }
        }
    }
    assert!(seen.len() > 30, "only {seen:?} were tried");
    assert!(missed.is_empty(), "removing these goes unnoticed:\n{}", missed.join("\n"));
}

fn page(differences: &[Difference], explanations: &[Explanation]) -> String {
    let mut page = String::from(
        "# Where our definitions differ from the upstreams'\n\n\
         Written by `UPDATE_SNAPSHOTS=1 cargo test -p seaworthy-api upstream` from the comparison itself and from\n\
         `crates/api/tests/differences.txt`. Definitions and fields that are not listed are equal: names, scope, versions,\n\
         subresources, columns, types, formats, required fields, defaults, enums, bounds, patterns, rules and list types.\n",
    );
    let mut crd = "";
    for explanation in explanations {
        let covered: Vec<&Difference> =
            differences.iter().filter(|difference| explanation.covers(difference)).collect();
        if crd != explanation.crd {
            crd = &explanation.crd;
            write!(page, "\n## {crd}\n").unwrap();
        }
        write!(page, "\n{}\n\n", explanation.reason).unwrap();
        for difference in covered {
            writeln!(
                page,
                "- `{} {}`: theirs {}, ours {}",
                difference.version, difference.path, difference.theirs, difference.ours
            )
            .unwrap();
        }
    }
    page
}
