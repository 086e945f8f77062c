//! Build of the Kubernetes programs from their sources, once per machine.
//!
//! - `tests/kubernetes/go.mod` says which versions; `go.sum` that they are what they were when it was written.
//! - The programs go to the user's cache folder, in a folder named after a digest of everything that decides what
//!   comes out. So another checkout, or an emptied target folder, does not build again.
//! - What Go compiles on the way is kept beside them until they are done, so that a build that is interrupted goes on.
//! - A folder with that name is complete: it is made under another name and renamed at the end.
//! - A program of our own that talks to them, [`BOATMAN`], is built from the same sources and kept beside them.

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

/// A controller written with client-go; its sources are in the folder of this name.
pub const BOATMAN: &str = "boatman";

/// `go.sum` decides what is compiled, not the newest there is; nothing of this machine ends up in the programs; no
/// more than two compilers at a time, because one can take a gigabyte; no debug information, which the linker drops.
const FLAGS: [&str; 5] = ["-mod=readonly", "-trimpath", "-p", "2", "-gcflags=all=-dwarf=false"];

/// The folder with the programs; the inner error says why there is none.
pub fn provide(workspace: &Workspace, policy: Policy) -> Result<Result<PathBuf, String>> {
    let module = Module::of(workspace)?;
    let Some(cache) = users_cache() else { return Ok(Err(NO_CACHE.to_owned())) };
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
    let _lock = lock(&cache)?;
    if folder.is_dir() {
        return Ok(Ok(folder));
    }
    println!("Fetching the sources of kube-apiserver, etcd and kubectl");
    let ours = format!("./{BOATMAN}");
    let packages: Vec<&str> = PROGRAMS.iter().map(|(_, package)| *package).chain([ours.as_str()]).collect();
    if let Err(reason) = module.fetch(&go, &packages)? {
        return Ok(Err(format!("the sources of kube-apiserver cannot be had: {reason}")));
    }
    // One that was interrupted left its folder behind; no other build can be at work in it now.
    let partial = cache.join(format!("{}.partial", module.digest));
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
    }
    DirBuilder::new().mode(0o700).create(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    let compiled = cache.join("compiled");
    for (name, package) in PROGRAMS {
        module.build(&go, package, &partial.join(name), Some(&compiled))?;
    }
    // Now it is a matter of seconds.
    module.build_boatman(&go, &cache, Some(&compiled))?;
    fs::rename(&partial, &folder).with_context(|| format!("cannot rename {}", partial.display()))?;
    // Four gigabytes that nothing else can use.
    fs::remove_dir_all(&compiled).with_context(|| format!("cannot remove {}", compiled.display()))?;
    Ok(Ok(folder))
}

/// The version of Kubernetes that is built, without a `v`: the one that recordings are compared with.
pub fn version(workspace: &Workspace) -> Result<String> {
    Ok(Module::of(workspace)?.version)
}

/// Our own controller; the inner error says why there is none.
pub fn boatman(workspace: &Workspace, policy: Policy) -> Result<Result<PathBuf, String>> {
    let module = Module::of(workspace)?;
    let Some(cache) = users_cache() else { return Ok(Err(NO_CACHE.to_owned())) };
    let program = module.boatman_in(&cache)?;
    if program.is_file() {
        return Ok(Ok(program));
    }
    let Some(go) = tool::find("go").filter(|_| policy == Policy::Build) else {
        return Ok(Err(
            "it has not been built, and there is no Go on this machine, or --no-install was given".to_owned()
        ));
    };
    let _lock = lock(&cache)?;
    if let Err(reason) = module.fetch(&go, &[&format!("./{BOATMAN}")])? {
        return Ok(Err(format!("its sources cannot be had: {reason}")));
    }
    module.build_boatman(&go, &cache, None).map(Ok)
}

/// A second build waits, and finds the programs of the first.
fn lock(cache: &Path) -> Result<File> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(cache).with_context(|| format!("cannot make the folder {}", cache.display()))?;
    let file = cache.join("lock");
    let lock = File::create(&file).with_context(|| format!("cannot make {}", file.display()))?;
    if lock.try_lock().is_err() {
        println!("Waiting for another build in {}", cache.display());
        lock.lock().with_context(|| format!("cannot lock {}", cache.display()))?;
    }
    Ok(lock)
}

/// The Go module that names the versions.
struct Module {
    folder: PathBuf,
    version: String,
    /// The version that the programs report, set at link time as a release does.
    link_flags: String,
    /// Of everything that decides what is built, but for the Go that builds it.
    digest: String,
}

impl Module {
    fn of(workspace: &Workspace) -> Result<Module> {
        Module::load(&workspace.root.join("tests").join("kubernetes"))
    }

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
        let build_inputs = format!("{PROGRAMS:?} {FLAGS:?} {link_flags} {} {}", env::consts::OS, env::consts::ARCH);
        for part in [&requirements, &read("go.sum")?, &build_inputs] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        let version = version.trim_start_matches('v').to_owned();
        Ok(Module { folder: folder.to_path_buf(), version, link_flags, digest: short(digest) })
    }

    /// Where our controller is kept: a name for each state of its sources.
    fn boatman_in(&self, cache: &Path) -> Result<PathBuf> {
        let folder = self.folder.join(BOATMAN);
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        files.sort_unstable();
        let mut digest = Sha256::new();
        digest.update(&self.digest);
        for file in files {
            let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            digest.update(text.len().to_le_bytes());
            digest.update(text);
        }
        Ok(cache.join(format!("{BOATMAN}-{}", short(digest))))
    }

    fn build_boatman(&self, go: &Path, cache: &Path, compiled: Option<&Path>) -> Result<PathBuf> {
        let program = self.boatman_in(cache)?;
        let partial = cache.join(format!("{BOATMAN}.partial"));
        self.build(go, &format!("./{BOATMAN}"), &partial, compiled)?;
        fs::rename(&partial, &program).with_context(|| format!("cannot rename {}", partial.display()))?;
        Ok(program)
    }

    /// Downloads the sources. That there is no network, or a Go that is too old, is no fault of ours; sources that
    /// are not what they were are, and so is a module that does not name all it needs.
    fn fetch(&self, go: &Path, packages: &[&str]) -> Result<Result<(), String>> {
        let mut command = self.go(go);
        command.args(["list", "-mod=readonly", "-deps"]).args(packages);
        let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let message = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        if is_our_fault(&message) {
            bail!("`{}` ended with {}:\n{message}", shown(&command), output.status);
        }
        Ok(Err(message.lines().last().unwrap_or("go gave no reason").to_owned()))
    }

    fn build(&self, go: &Path, package: &str, program: &Path, compiled: Option<&Path>) -> Result<()> {
        println!("Building {package}");
        let begun = Instant::now();
        let mut command = self.go(Path::new("nice"));
        command.args(["-n", "10"]).arg(go).arg("build").args(FLAGS);
        if let Some(compiled) = compiled {
            command.env("GOCACHE", compiled);
        }
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

/// Whether what Go reports is about our module, not about the network or about Go.
fn is_our_fault(message: &str) -> bool {
    [
        "checksum mismatch",
        "missing go.sum entry",
        "updates to go.mod needed",
        "errors parsing go.mod",
        "no required module provides package",
        "is not in std",
        "no Go files in",
        "syntax error",
    ]
    .iter()
    .any(|ours| message.contains(ours))
}

fn short(digest: Sha256) -> String {
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
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

const NO_CACHE: &str = "there is neither XDG_CACHE_HOME nor a home folder to keep the programs in";

fn users_cache() -> Option<PathBuf> {
    cache_folder(env::var_os("XDG_CACHE_HOME").map(PathBuf::from), env::home_dir())
}

fn cache_folder(cache: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    // An XDG folder that is not absolute is to be ignored, says its specification.
    let cache = cache.filter(|cache| cache.is_absolute()).or_else(|| Some(home?.join(".cache")))?;
    Some(cache.join("seaworthy").join("kube"))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{BOATMAN, Module, cache_folder, is_our_fault, link_flags, version_of};

    #[test]
    fn version_is_the_required_one_not_the_replaced_one() {
        let text =
            "replace (\n\tk8s.io/api => k8s.io/api v0.37.1\n)\nrequire (\n\tk8s.io/kubernetes v1.37.1 // indirect\n)\n";
        assert_eq!(version_of("k8s.io/kubernetes", text), Some("v1.37.1"));
        assert_eq!(version_of("k8s.io/api", text), None);
        assert_eq!(version_of("a.b/c", "require a.b/c v2.0.0"), Some("v2.0.0"));
    }

    #[test]
    fn version_is_passed_to_the_programs() {
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
        let boatman = module.boatman_in(Path::new("/cache")).unwrap();
        assert!(boatman.to_str().unwrap().starts_with(&format!("/cache/{BOATMAN}-")));
        assert!(Module::load(root).is_err());
    }

    #[test]
    fn unreachable_sources_are_no_fault_of_ours_and_changed_ones_are() {
        let unreachable = "go: k8s.io/api@v0.37.1: Get \"https://goproxy.example/k8s.io/api/@v/v0.37.1.mod\": dial tcp: \
            lookup goproxy.example: no such host";
        for message in [unreachable, "go: go.mod requires go >= 1.26.0 (running go 1.21.1; GOTOOLCHAIN=local)"] {
            assert!(!is_our_fault(message), "{message}");
        }
        for message in ["verifying module: checksum mismatch", "a.go:3:8: no required module provides package a.b/c"] {
            assert!(is_our_fault(message), "{message}");
        }
    }
}
