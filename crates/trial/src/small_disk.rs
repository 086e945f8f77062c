//! Small disk: a file system that a test can fill or remount read-only without affecting other tests.
//!
//! The test starts its own program again in a mount namespace with a small tmpfs; both are gone when that ends.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skip;

/// The path of the disk, for the child.
const FOLDER: &str = "SEAWORTHY_SMALL_DISK";
/// Printed by the child when all checks were made.
const DONE: &str = "all checks of the child were made";

/// Runs this ignored test of the program with a disk of so many megabytes, or records it as skipped.
///
/// # Panics
///
/// If the child fails, or has not called [`done`].
pub fn run_child(test: &str, megabytes: u32) {
    let Ok(folder) = tempfile::tempdir() else { panic!("there is no room for a folder") };
    let mount = |size: u32| format!("mount -t tmpfs -o size={size}m tmpfs \"$1\"");
    if !with_private_mounts(&mount(1), folder.path()).is_some_and(|output| output.status.success()) {
        let missing = env::var("SEAWORTHY_UNSHARE_MISSING");
        skip("unshare", missing.as_deref().unwrap_or("no private mounts for this user, so no small disk to fill"));
        return;
    }
    let script = format!("{} && exec \"$2\" {test} --exact --ignored --nocapture", mount(megabytes));
    let Some(output) = with_private_mounts(&script, folder.path()) else { panic!("unshare is gone") };
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains(DONE), "{text}\n{errors}");
}

/// In the child: the path of the disk. `None` in any other run.
pub fn folder() -> Option<PathBuf> {
    env::var_os(FOLDER).map(PathBuf::from)
}

/// In the child: reports that it has completed.
pub fn done() {
    println!("{DONE}");
}

/// Runs a shell script where mounts are private. `$1` is the folder, `$2` this program.
fn with_private_mounts(script: &str, folder: &Path) -> Option<Output> {
    let program = env::var_os("SEAWORTHY_UNSHARE").unwrap_or_else(|| "unshare".into());
    let mut command = Command::new(program);
    command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(folder).arg(env::current_exe().ok()?).env(FOLDER, folder).output().ok()
}
