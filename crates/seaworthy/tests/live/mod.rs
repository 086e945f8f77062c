//! The commands that need a cluster, on the embedded server with the controllers running beside it: the pages in `pages`, and
//! common mistakes.
//!
//! `TRANSCRIPTS=overwrite` writes what is printed into the pages. What differs from run to run is there as a word:
//! `AGE`, or is left out.

mod fleet;
mod mistakes;
mod planning;
mod process;
mod watching;

use std::path::Path;

use crate::transcripts::page::{Answer, Page};
use fleet::Fleet;

/// The fleet, plan and status as the README and the pages show them. Each page begins with a fleet of its own.
#[test]
fn commands_print_what_the_pages_say() {
    if !fleet::has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live");
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join("pages")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let page = Page::read(&file);
        let fleet = Fleet::start();
        fleet.begin();
        let answers: Vec<_> = page
            .steps
            .iter()
            .map(|step| {
                let mut command = fleet.shell(&step.command);
                command.current_dir(folder.join("given"));
                Answer::of(command, reading)
            })
            .collect();
        wrong.extend(page.compare(&answers, true));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The blocks of the tutorial that need a cluster.
#[test]
fn the_tour_of_a_cluster_works_as_printed() {
    if !fleet::has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = Page::fenced(&root.join("docs/tutorial/first-cluster.md"), "```console cluster");
    assert!(page.steps.len() >= 3);
    // The page begins with a bare server and the controllers.
    let fleet = Fleet::start();
    let answers: Vec<_> = page
        .steps
        .iter()
        .map(|step| {
            let mut command = fleet.shell(&step.command);
            command.current_dir(&root);
            Answer::of(command, reading)
        })
        .collect();
    let wrong = page.compare(&answers, false);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What is printed, without what differs from run to run.
fn reading(text: &str) -> String {
    let replaced = [
        (r"\b\d+ s( +)", "AGE  "),
        (r"\b\d+ min {2,}", "AGE  "),
        (r"(?m)\b\d+m?\d*s$", "AGE"),
        (r", \d+ s\b", ""),
        (r"AGE {2,}", "AGE  "),
    ];
    replaced.into_iter().fold(text.to_owned(), |text, (pattern, by)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, by).into_owned()
    })
}
