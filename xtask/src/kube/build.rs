//! Builds the real programs from their sources, once for each machine.
//!
//! - `tests/kubernetes/go.mod` says which versions; `go.sum` that they are what they were when it was written.
//! - The programs go to the user's cache folder, in a folder named after a digest of everything that decides what
//!   comes out. So another checkout, or an emptied target folder, does not build again.
//! - What Go compiles on the way is kept beside them until they are done, so that a build that is interrupted goes on.
//! - A folder with that name is complete: it is made under another name and renamed at the end.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::kube::binaries::{APISERVER, CONTROLLER_MANAGER, ETCD, KUBECTL, Policy};
use crate::tool;
use crate::workspace::{Workspace, shown};

/// The programs and the packages that they are made from.
const PROGRAMS: [(&str, &str); 4] = [
    (ETCD, "go.etcd.io/etcd/server/v3"),
    (APISERVER, "k8s.io/kubernetes/cmd/kube-apiserver"),
    (CONTROLLER_MANAGER, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    (KUBECTL, "k8s.io/kubernetes/cmd/kubectl"),
];

/// `go.sum` decides what is compiled, not the newest there is; nothing of this machine ends up in the programs; no
/// more than two compilers at a time, because one can take a gigabyte.
const FLAGS: [&str; 4] = ["-mod=readonly", "-trimpath", "-p", "2"];

/// The folder with the programs; the inner error says why there is none.
pub fn provide(workspace: &Workspace, policy: Policy) -> Result<Result<PathBuf, String>> {
    let module = Module::load(&workspace.root.join("tests").join("kubernetes"))?;
    let cache = match cache_folder(env::var_os("XDG_CACHE_HOME").map(PathBuf::from), env::home_dir()) {
        Some(cache) => cache,
        None => return Ok(Err("there is neither XDG_CACHE_HOME nor a home folder to keep the programs in".to_owned())),
    };
    let folder = cache.join(&module.digest);
    if folder.is_dir() {
        return Ok(Ok(folder));
    }
    let by_hand = "build it with `cargo xtask kube`, or set KUBEBUILDER_ASSETS";
    if policy == Policy::Find {
        return Ok(Err(format!(
            "kube-apiserver has not been built on this machine, and --no-install was given; {by_hand}"
        )));
    }
    let Some(go) = tool::find("go") else {
        return Ok(Err("there is no Go on this machine to build kube-apiserver with; install Go, or set \
             KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd"
            .to_owned()));
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&cache)
        .with_context(|| format!("cannot make the folder {}", cache.display()))?;
    let lock = cache.join("lock");
    let lock = File::create(&lock).with_context(|| format!("cannot make {}", lock.display()))?;
    // Whoever comes second finds the programs of the first.
    if lock.try_lock().is_err() {
        println!("Waiting for another build in {}", cache.display());
        lock.lock().with_context(|| format!("cannot lock {}", cache.display()))?;
    }
    if folder.is_dir() {
        return Ok(Ok(folder));
    }
    if let Err(reason) = module.fetch(&go)? {
        return Ok(Err(format!("the sources of kube-apiserver cannot be had: {reason}")));
    }
    // One that was interrupted left its folder behind; nobody else can be at work in it now.
    let partial = cache.join(format!("{}.partial", module.digest));
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
    }
    DirBuilder::new().mode(0o700).create(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    let compiled = cache.join("compiled");
    for (name, package) in PROGRAMS {
        module.build(&go, package, &partial.join(name), &compiled)?;
    }
    fs::rename(&partial, &folder).with_context(|| format!("cannot rename {}", partial.display()))?;
    // Four gigabytes that nothing else can use.
    fs::remove_dir_all(&compiled).with_context(|| format!("cannot remove {}", compiled.display()))?;
    Ok(Ok(folder))
}

/// The Go module that names the versions.
struct Module {
    folder: PathBuf,
    /// What the programs say they are, set at link time as a release does.
    link_flags: String,
    /// Of everything that decides what is built, but for the Go that builds it.
    digest: String,
}

impl Module {
    fn load(folder: &Path) -> Result<Module> {
        let read = |name: &str| {
            let file = folder.join(name);
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        let requirements = read("go.mod")?;
        let version = version_of("k8s.io/kubernetes", &requirements)
            .with_context(|| format!("{} does not require k8s.io/kubernetes", folder.join("go.mod").display()))?;
        let link_flags = link_flags(version)?;
        let mut digest = Sha256::new();
        let recipe = format!("{PROGRAMS:?} {FLAGS:?} {link_flags} {} {}", env::consts::OS, env::consts::ARCH);
        for part in [&requirements, &read("go.sum")?, &recipe] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        let digest = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(Module { folder: folder.to_path_buf(), link_flags, digest })
    }

    /// Downloads the sources. That there is no network, or a Go that is too old, is no fault of ours; sources that
    /// are not what they were are.
    fn fetch(&self, go: &Path) -> Result<Result<(), String>> {
        println!("Fetching the sources of kube-apiserver, etcd and kubectl");
        let mut command = self.go(go);
        command.args(["list", "-mod=readonly", "-deps"]).args(PROGRAMS.map(|(_, package)| package));
        let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        if said.contains("checksum mismatch") {
            bail!("`{}` ended with {}:\n{said}", shown(&command), output.status);
        }
        Ok(Err(said.lines().last().unwrap_or("go gave no reason").to_owned()))
    }

    fn build(&self, go: &Path, package: &str, program: &Path, compiled: &Path) -> Result<()> {
        println!("Building {package}");
        let begun = Instant::now();
        let mut command = self.go(Path::new("nice"));
        command.env("GOCACHE", compiled).args(["-n", "10"]).arg(go).arg("build").args(FLAGS);
        command.arg("-ldflags").arg(&self.link_flags).arg("-o").arg(program).arg(package);
        let status = command.status().with_context(|| format!("cannot start {}", shown(&command)))?;
        if !status.success() {
            bail!("`{}` ended with {status}", shown(&command));
        }
        println!("    {:.0} s", begun.elapsed().as_secs_f64());
        Ok(())
    }

    fn go(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder);
        // No C compiler is needed, and the programs run wherever they are copied. A workspace around the checkout
        // would bring its own versions.
        command.env("CGO_ENABLED", "0").env("GOWORK", "off").env("GOFLAGS", "");
        command
    }
}

/// The version that a go.mod requires of a module.
fn version_of<'a>(module: &str, requirements: &'a str) -> Option<&'a str> {
    requirements.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next()? == module).then(|| words.next()).flatten().filter(|version| version.starts_with('v'))
    })
}

/// No symbol tables, and the version for `/version` and `--version`, which a build from a repository would know.
fn link_flags(version: &str) -> Result<String> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("{version} is no version of Kubernetes");
    };
    let mut flags = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (name, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
            flags.push_str(&format!(" -X {package}.{name}={value}"));
        }
        flags.push_str(&format!(" -X {package}.gitCommit=released -X {package}.gitTreeState=archive"));
    }
    Ok(flags)
}

fn cache_folder(cache: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // An XDG folder that is not absolute is to be ignored, says its specification.
    let cache = cache.filter(|cache| cache.is_absolute()).or_else(|| Some(home?.join(".cache")))?;
    Some(cache.join("seaworthy").join("kube"))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Module, cache_folder, link_flags, version_of};

    #[test]
    fn version_is_the_required_one_not_the_replaced_one() {
        let text =
            "replace (\n\tk8s.io/api => k8s.io/api v0.37.1\n)\nrequire (\n\tk8s.io/kubernetes v1.37.1 // indirect\n)\n";
        assert_eq!(version_of("k8s.io/kubernetes", text), Some("v1.37.1"));
        assert_eq!(version_of("k8s.io/api", text), None);
        assert_eq!(version_of("a.b/c", "require a.b/c v2.0.0"), Some("v2.0.0"));
    }

    #[test]
    fn version_is_told_to_the_programs() {
        let flags = link_flags("v1.37.1").unwrap();
        assert!(flags.contains("-X k8s.io/component-base/version.gitMinor=37 "), "{flags}");
        assert!(link_flags("v1").is_err());
    }

    #[test]
    fn cache_is_the_users() {
        let home = || Some(PathBuf::from("/home/ann"));
        let folder = |cache: Option<&str>, home| cache_folder(cache.map(PathBuf::from), home);
        assert_eq!(folder(None, home()), Some("/home/ann/.cache/seaworthy/kube".into()));
        assert_eq!(folder(Some("/var/cache"), home()), Some("/var/cache/seaworthy/kube".into()));
        assert_eq!(folder(Some("cache"), home()), Some("/home/ann/.cache/seaworthy/kube".into()));
        assert_eq!(folder(None, None), None);
    }

    #[test]
    fn digest_follows_the_module_of_the_checkout() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let module = Module::load(&root.join("tests").join("kubernetes")).unwrap();
        assert_eq!(module.digest.len(), 32);
        assert!(Module::load(root).is_err());
    }
}
