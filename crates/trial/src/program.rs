//! Programs of the system that tests run or compare results with.

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Names the file with the list of skipped tests.
const SKIPPED: &str = "SEAWORTHY_SKIPPED";

/// A program: the one that `variable` names, one of `PATH`, or one of `folders`. If there is none, that is recorded as skipped with
/// the reason from `cargo xtask test`, or with the package to install.
pub fn program(variable: &str, name: &str, folders: &[&str], package: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Some(path.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).chain(folders.iter().map(PathBuf::from));
    let found = all.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()));
    if found.is_none() {
        let reason = env::var(format!("{variable}_MISSING"));
        skip(name, &reason.unwrap_or_else(|_| format!("not found in PATH; install Debian's package {package}")));
    }
    found
}

/// Records something as skipped.
///
/// # Panics
///
/// If that cannot be written: a test that is skipped silently would be taken for one that passed.
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
