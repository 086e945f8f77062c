//! Binaries of the control plane: found, or built.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context as _, Result};

use crate::kube::build;
use crate::table::{Align, Table};
use crate::tool;
use crate::workspace::{Workspace, stdout_of};

/// The programs. All in one folder below the target folder, as links.
pub struct Binaries {
    /// The API server.
    pub apiserver: PathBuf,
    /// What it keeps its objects in.
    pub etcd: PathBuf,
    /// The client.
    pub kubectl: PathBuf,
    /// The garbage collector and the namespace controller. Those who publish programs for tests leave it out.
    pub controller_manager: Option<PathBuf>,
}

/// What may be done to get them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Build what is not there.
    Build,
    /// Only look.
    Find,
}

/// Names a folder with the programs, as other Kubernetes projects do.
const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// From this version on etcd can do what streaming lists need; kube-apiserver switches them off with an older one.
const OLDEST_ETCD: (u64, u64) = (3, 6);

pub const APISERVER: &str = "kube-apiserver";
pub const ETCD: &str = "etcd";
pub const KUBECTL: &str = "kubectl";
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";

impl Binaries {
    /// Finds the programs or builds them; the inner error says why there are none, and what to do about it.
    pub fn provide(workspace: &Workspace, policy: Policy) -> Result<Result<Binaries, String>> {
        let found = match env::var_os(ASSETS).filter(|folder| !folder.is_empty()) {
            Some(folder) => in_assets(Path::new(&folder)),
            None => match build::provide(workspace, policy)? {
                Ok(folder) => in_folder(&folder),
                Err(reason) => Err(reason),
            },
        };
        let binaries = match found {
            Ok(binaries) => binaries,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(reason) = too_old(&version(&binaries.etcd, &["--version"])?) {
            return Ok(Err(format!("{}: {reason}", binaries.etcd.display())));
        }
        binaries.link(&workspace.scratch("kube")?).map(Ok)
    }

    /// Why the recordings cannot be compared with these programs, if they cannot: each release of Kubernetes words some
    /// answers differently, which is not a failure.
    pub fn of_another_release(&self, recorded: &str) -> Result<Option<String>> {
        let found = version(&self.apiserver, &["--version"])?;
        Ok((numbers(&found) != numbers(recorded)).then(|| {
            format!(
                "{ASSETS} has kube-apiserver {found}, and the recordings are of {recorded}; without it, Go builds that"
            )
        }))
    }

    /// The programs with their versions, for people.
    pub fn report(&self) -> Result<String> {
        let mut table = Table::new(&[("Program", Align::Left), ("Version", Align::Left), ("Where", Align::Left)]);
        let mut row = |path: &Path, args: &[&str]| -> Result<()> {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            table.row([name, version(path, args)?, path.display().to_string()]);
            Ok(())
        };
        row(&self.apiserver, &["--version"])?;
        row(&self.etcd, &["--version"])?;
        row(&self.kubectl, &["version", "--client"])?;
        match &self.controller_manager {
            Some(path) => row(path, &["--version"])?,
            None => table.row([CONTROLLER_MANAGER.to_owned(), "-".to_owned(), format!("not in {ASSETS}")]),
        }
        Ok(table.plain())
    }

    fn link(self, folder: &Path) -> Result<Binaries> {
        let place = |name: &str, program: &Path| -> Result<PathBuf> {
            let link = folder.join(name);
            if fs::read_link(&link).is_ok_and(|target| target == program) {
                return Ok(link);
            }
            // Renamed into place, since several of this program may be at it: tests start it for each of their clusters.
            let new = folder.join(format!("{name}.{}", process::id()));
            symlink(program, &new).with_context(|| format!("cannot make the link {}", new.display()))?;
            fs::rename(&new, &link).with_context(|| format!("cannot make the link {}", link.display()))?;
            Ok(link)
        };
        Ok(Binaries {
            apiserver: place(APISERVER, &self.apiserver)?,
            etcd: place(ETCD, &self.etcd)?,
            kubectl: place(KUBECTL, &self.kubectl)?,
            controller_manager: self.controller_manager.map(|path| place(CONTROLLER_MANAGER, &path)).transpose()?,
        })
    }
}

/// From a folder of programs that were built elsewhere. Nothing is added to them but an installed kubectl: a controller
/// manager must not be newer than its API server.
fn in_assets(folder: &Path) -> Result<Binaries, String> {
    let there = |name: &str| Some(folder.join(name)).filter(|path| path.is_file());
    let needed =
        |name: &str| there(name).ok_or_else(|| format!("{ASSETS} is {}, which has no {name}", folder.display()));
    Ok(Binaries {
        apiserver: needed(APISERVER)?,
        etcd: needed(ETCD)?,
        kubectl: needed(KUBECTL).or_else(|reason| tool::find(KUBECTL).ok_or(reason))?,
        controller_manager: there(CONTROLLER_MANAGER),
    })
}

fn in_folder(folder: &Path) -> Result<Binaries, String> {
    Ok(Binaries {
        apiserver: folder.join(APISERVER),
        etcd: folder.join(ETCD),
        kubectl: folder.join(KUBECTL),
        controller_manager: Some(folder.join(CONTROLLER_MANAGER)),
    })
}

/// The first version number in a program's output about itself.
pub fn version(program: &Path, args: &[&str]) -> Result<String> {
    let output = stdout_of(Command::new(program).args(args))?;
    Ok(number_in(&String::from_utf8_lossy(&output)).unwrap_or("unknown").to_owned())
}

fn number_in(text: &str) -> Option<&str> {
    text.split_whitespace().map(|word| word.strip_prefix('v').unwrap_or(word)).find(|word| numbers(word).is_some())
}

fn numbers(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn too_old(etcd: &str) -> Option<String> {
    let (major, minor) = OLDEST_ETCD;
    let is_new_enough = numbers(etcd).is_some_and(|found| found >= OLDEST_ETCD);
    (!is_new_enough).then(|| format!("etcd is {etcd}; {major}.{minor} or newer is needed"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{in_assets, number_in, too_old};

    #[test]
    fn version_is_found_in_the_output_of_programs() {
        assert_eq!(number_in("Kubernetes v1.37.1\n"), Some("1.37.1"));
        assert_eq!(number_in("etcd Version: 3.7.3\nGit SHA: abc\nGo Version: go1.26.8"), Some("3.7.3"));
        assert_eq!(
            number_in("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0"),
            Some("1.32.4-dispatcher")
        );
        assert_eq!(number_in("no number"), None);
    }

    #[test]
    fn etcd_without_streaming_lists_is_refused() {
        assert_eq!(too_old("3.6.0"), None);
        assert_eq!(too_old("4.0.0"), None);
        assert!(too_old("3.5.21").is_some_and(|reason| reason.contains("3.6")));
        assert!(too_old("unknown").is_some());
    }

    #[test]
    fn assets_without_an_api_server_name_what_is_missing() {
        let reason = in_assets(Path::new("/no/such/folder")).map(|_| ()).unwrap_err();
        assert!(reason.contains("/no/such/folder") && reason.contains("kube-apiserver"), "{reason}");
    }
}
