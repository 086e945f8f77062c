//! Workspace: its root and target folder, and cargo's command line there.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::metadata::Metadata;

/// The checkout that this run works on.
pub struct Workspace {
    /// The folder with the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Where cargo builds; the files that xtask makes go below it, too.
    pub target: PathBuf,
    /// What the crates declare about themselves.
    pub metadata: Metadata,
}

impl Workspace {
    /// Asks cargo about the workspace that this xtask belongs to.
    pub fn load() -> Result<Self> {
        // Cargo sets the variable for `cargo run`. The path baked in at compile time would be another
        // checkout's when two of them share a target folder.
        let xtask = env::var_os("CARGO_MANIFEST_DIR")
            .map(PathBuf::from)
            .context("CARGO_MANIFEST_DIR is not set: start this as `cargo xtask`")?;
        let root = xtask.parent().with_context(|| format!("{} has no parent folder", xtask.display()))?;
        Workspace::at(root)
    }

    /// Asks cargo about the workspace in a folder.
    pub fn at(root: &Path) -> Result<Self> {
        let root = root.to_path_buf();
        let mut command = Command::new(cargo());
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        command.current_dir(&root);
        let metadata = Metadata::parse(&stdout_of(&mut command)?)?;
        let target = PathBuf::from(&metadata.target_directory);
        Ok(Self { root, target, metadata })
    }

    /// A cargo call in the workspace's root.
    pub fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.args(args).current_dir(&self.root);
        command
    }

    /// A folder below the target folder, made when it is not there.
    pub fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = self.target.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(folder)
    }
}

/// Runs a command whose output is wanted, and fails with its output on stderr.
pub fn stdout_of(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!(
            "{} ended with {}:\n{}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(output.stdout)
}

/// A command as a person would type it, for messages.
pub fn shown(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}

/// The cargo that runs this, or the one on the path.
pub fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
