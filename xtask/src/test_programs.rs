//! Test programs of the crates: most have one, `tests/main.rs`, since each further one is linked with everything again.
//!
//! Cargo finds no file by itself in such a crate (`autotests = false`), so a file that is in no program would never run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of all crates that list their test programs.
fn listing(folder: &Path, found: &mut Vec<PathBuf>) {
    let manifest = folder.join("Cargo.toml");
    if manifest.exists() {
        if fs::read_to_string(manifest).unwrap().contains("autotests = false") {
            found.push(folder.to_owned());
        }
        return;
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            listing(&path, found);
        }
    }
}

/// The names in all `mod name;` of a file.
fn modules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'))
}

/// Files directly in `tests`, and folders there that begin with a `main.rs` or `mod.rs`, that no program has.
fn forgotten(folder: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let mut named = BTreeSet::new();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.join("tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let is_there = |first: &&str| path.join(first).exists();
            files.extend(["main.rs", "mod.rs"].into_iter().find(is_there).map(|first| format!("{name}/{first}")));
        } else if let Some(stem) = name.strip_suffix(".rs") {
            named.extend(modules(&fs::read_to_string(&path).unwrap()).map(str::to_owned));
            files.push(format!("{stem}.rs"));
        }
    }
    let is_forgotten = |file: &String| {
        let module = file.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        !named.contains(module) && !manifest.contains(&format!("\"tests/{file}\""))
    };
    files.into_iter().filter(is_forgotten).map(|file| format!("{}/tests/{file}", folder.display())).collect()
}

#[test]
fn every_file_of_tests_is_part_of_a_program() {
    let mut crates = Vec::new();
    listing(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"), &mut crates);
    assert!(crates.len() > 10, "only {crates:?} list their test programs");
    let forgotten: Vec<String> = crates.iter().flat_map(|folder| forgotten(folder)).collect();
    assert!(forgotten.is_empty(), "add `mod NAME;` to tests/main.rs: {forgotten:#?}");
}
