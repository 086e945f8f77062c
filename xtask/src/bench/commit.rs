//! Commit: what results call a checkout.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::workspace::stdout_of;

/// The commit of a checkout, in short. The name of one with changes that are not committed ends in `-dirty`: its numbers are not
/// those of the commit.
pub fn commit(checkout: &Path) -> Result<String> {
    let mut git = Command::new("git");
    let name = stdout_of(git.args(["describe", "--always", "--dirty"]).current_dir(checkout))?;
    Ok(String::from_utf8_lossy(&name).trim().to_owned())
}
