//! Programs of the system that tests compare us with.

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Names the file into which tests write what they left out.
const SKIPPED: &str = "SEAWORTHY_SKIPPED";

/// A program: the one that `variable` names, one of `PATH`, or one of the folders `elsewhere`. If there is none, that is put on
/// record with the reason that `cargo xtask test` knows, or with the package to install.
pub fn program(variable: &str, name: &str, elsewhere: &[&str], package: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Some(path.into());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&folders).chain(elsewhere.iter().map(PathBuf::from));
    let found = places.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()));
    if found.is_none() {
        let reason = env::var(format!("{variable}_MISSING"));
        skip(name, &reason.unwrap_or_else(|_| format!("not found in PATH; install Debian's package {package}")));
    }
    found
}

/// Puts on record that something was not tried.
///
/// # Panics
///
/// If it cannot be written: a test that is left out without a word would be taken for one that passed.
pub fn skip(what: &str, reason: &str) {
    let line = format!("SKIPPED {what}: {reason}\n");
    match env::var_os(SKIPPED) {
        Some(file) => append(Path::new(&file), &line),
        None => eprint!("{line}"),
    }
}

fn append(file: &Path, line: &str) {
    let written =
        File::options().create(true).append(true).open(file).and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("{}: {error}", file.display());
    }
}
