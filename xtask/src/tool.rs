//! Tools: programs from Debian's packages that suites need; found, or installed where possible.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::shown;

/// A program that some step or test needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// The program's name; also the name under which it is listed when it is missing.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// Variable with the program's path, for tests. With `_MISSING` appended: why there is none.
    pub variable: &'static str,
}

/// Checks an Ignition config the way a booting machine does.
pub const IGNITION_VALIDATE: Tool =
    Tool { program: "ignition-validate", package: "ignition", variable: "SEAWORTHY_IGNITION_VALIDATE" };

/// Counts instructions.
pub const VALGRIND: Tool = Tool { program: "valgrind", package: "valgrind", variable: "SEAWORTHY_VALGRIND" };

/// Runs a test where mounts are its own, so that it can have a small disk to fill.
pub const UNSHARE: Tool = Tool { program: "unshare", package: "util-linux", variable: "SEAWORTHY_UNSHARE" };

/// Enables units of a folder, for comparison with what ours does.
pub const SYSTEMCTL: Tool = Tool { program: "systemctl", package: "systemd", variable: "SEAWORTHY_SYSTEMCTL" };

/// A bus for the tests of units.
pub const DBUS_DAEMON: Tool = Tool { program: "dbus-daemon", package: "dbus", variable: "SEAWORTHY_DBUS_DAEMON" };

/// Serves files, for comparison with our endpoint.
pub const NGINX: Tool = Tool { program: "nginx", package: "nginx", variable: "SEAWORTHY_NGINX" };

/// Drives requests.
pub const WRK: Tool = Tool { program: "wrk", package: "wrk", variable: "SEAWORTHY_WRK" };

/// Makes certificates.
pub const OPENSSL: Tool = Tool { program: "openssl", package: "openssl", variable: "SEAWORTHY_OPENSSL" };

/// Where a tool is, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The program's path.
    At(PathBuf),
    /// The reason, with what to do about it.
    Missing(String),
}

/// Looks tools up and installs the missing ones; the package lists are refreshed at most once.
pub struct Toolbox {
    may_install: bool,
    lists: Option<Result<(), String>>,
    known: Vec<(&'static Tool, Availability)>,
}

impl Toolbox {
    /// A toolbox that installs nothing when `may_install` is false.
    pub fn new(may_install: bool) -> Self {
        Self { may_install, lists: None, known: Vec::new() }
    }

    /// Whether something that is missing may be brought to this machine.
    pub fn may_install(&self) -> bool {
        self.may_install
    }

    /// Finds the tool, installing it when that is needed and possible.
    pub fn ensure(&mut self, tool: &'static Tool) -> Availability {
        if let Some((_, availability)) = self.known.iter().find(|(known, _)| *known == tool) {
            return availability.clone();
        }
        let availability = match find(tool.program) {
            Some(path) => Availability::At(path),
            None => match self.install(tool) {
                Ok(()) => find(tool.program).map_or_else(
                    || {
                        Availability::Missing(format!(
                            "package {} is installed but has no program {}",
                            tool.package, tool.program
                        ))
                    },
                    Availability::At,
                ),
                Err(reason) => Availability::Missing(reason),
            },
        };
        self.known.push((tool, availability.clone()));
        availability
    }

    fn install(&mut self, tool: &Tool) -> Result<(), String> {
        let by_hand = format!("install it with `apt-get install {}`", tool.package);
        if !self.may_install {
            return Err(format!("not found, and --no-install was given; {by_hand}"));
        }
        if find("apt-get").is_none() {
            return Err(format!("not found, and there is no apt-get here; on Debian {by_hand}"));
        }
        if !nix::unistd::geteuid().is_root() {
            return Err(format!("not found, and only root may install packages; as root {by_hand}"));
        }
        println!("Installing {} (for {})", tool.package, tool.program);
        if self.lists.is_none() {
            self.lists = Some(apt_get(&["update"]));
        }
        // A failed refresh alone decides nothing: the lists that are there may know the package.
        let refreshed = self.lists.clone().unwrap_or(Ok(()));
        apt_get(&["install", "--yes", "--no-install-recommends", tool.package]).map_err(|error| {
            let why = refreshed.err().map(|update| format!(" (before: {update})")).unwrap_or_default();
            format!("not found, and {error}{why}; {by_hand}")
        })
    }

    /// Sets the variables of every tool looked up so far for a child process.
    pub fn export_to(&self, command: &mut Command) {
        for (tool, availability) in &self.known {
            match availability {
                Availability::At(path) => command.env(tool.variable, path),
                Availability::Missing(reason) => command.env(format!("{}_MISSING", tool.variable), reason),
            };
        }
    }
}

/// The program's full path. Debian keeps some programs where only root's `PATH` looks.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]), program)
}

fn find_in(folders: impl Iterator<Item = PathBuf>, program: &str) -> Option<PathBuf> {
    folders.map(|folder| folder.join(program)).find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn apt_get(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    // Another package manager at work is waited for, and no question is asked.
    command.args(["--quiet", "--option", "DPkg::Lock::Timeout=120"]).args(args);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    let output = command.output().map_err(|error| format!("apt-get did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("`{}` ended with {}: {last}", shown(&command), output.status))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Availability, Tool, Toolbox, find, find_in};

    const ABSENT: Tool = Tool { program: "no-such-program", package: "no-such-package", variable: "SEAWORTHY_ABSENT" };

    #[test]
    fn folder_and_plain_file_are_not_programs() {
        let root = env!("CARGO_MANIFEST_DIR");
        assert_eq!(find_in([root.into()].into_iter(), "src"), None);
        assert_eq!(find_in([root.into()].into_iter(), "Cargo.toml"), None);
        assert!(find("sh").is_some());
    }

    #[test]
    fn missing_tool_is_named_with_the_way_to_get_it() {
        let mut toolbox = Toolbox::new(false);
        let Availability::Missing(reason) = toolbox.ensure(&ABSENT) else {
            panic!("no-such-program was found");
        };
        assert!(reason.contains("apt-get install no-such-package"), "{reason}");

        let mut child = Command::new("true");
        toolbox.export_to(&mut child);
        let names: Vec<_> = child.get_envs().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["SEAWORTHY_ABSENT_MISSING"]);
    }
}
