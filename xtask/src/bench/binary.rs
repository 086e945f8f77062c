//! Binaries for benches and tests: release builds that are the same on every machine, and the build that cargo's tests use.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::workspace::{Workspace, shown};

/// Variables that change what the compiler makes of the same source. Numbers are compared with recorded ones, so
/// the release profile of the workspace alone decides.
const UNSETTLING: &[&str] = &[
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_PROFILE_RELEASE_LTO",
    "CARGO_PROFILE_RELEASE_DEBUG",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS",
    "CARGO_PROFILE_RELEASE_PANIC",
];

/// The program given by hand, or else a release build of the product.
pub fn product(workspace: &Workspace, given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => path.canonicalize().with_context(|| format!("--binary {}: cannot find it", path.display())),
        None => release(workspace, "seaworthy", "seaworthy"),
    }
}

/// Builds the product as cargo's tests have it: a build of its own would choose other features of common dependencies,
/// and compile those again.
pub fn tested(workspace: &Workspace) -> Result<PathBuf> {
    // A test that runs the program makes cargo build it.
    built(workspace.cargo(&["test", "--workspace", "--no-run", "--test", "kubectl"]), "bin", "seaworthy")
}

/// Builds a program of a package. One package at a time: building two together would give each the
/// features that the other asks of their common dependencies.
pub fn release(workspace: &Workspace, package: &str, program: &str) -> Result<PathBuf> {
    settled(workspace, package, "bin", program)
}

/// The same for an example, of the package that has one with this name: what may use the test kit.
pub fn example(workspace: &Workspace, program: &str) -> Result<PathBuf> {
    let package = workspace.metadata.packages.iter().find(|package| package.has_example(program));
    let package = package.with_context(|| format!("no package has an example {program}"))?;
    settled(workspace, &package.name, "example", program)
}

/// The build of [`product`].
pub fn product_build(workspace: &Workspace) -> Command {
    settled_build(workspace, "seaworthy", "bin", "seaworthy")
}

fn settled(workspace: &Workspace, package: &str, kind: &str, program: &str) -> Result<PathBuf> {
    built(settled_build(workspace, package, kind, program), kind, program)
}

fn settled_build(workspace: &Workspace, package: &str, kind: &str, program: &str) -> Command {
    let mut command = workspace.cargo(&["build", "--release", "--package", package]);
    command.arg(format!("--{kind}")).arg(program);
    remove_build_variables(&mut command);
    command
}

/// Removes from a command's environment what would change what the compiler makes.
pub fn remove_build_variables(command: &mut Command) {
    for variable in UNSETTLING {
        command.env_remove(variable);
    }
}

/// A program of tests that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestProgram {
    pub package: String,
    pub name: String,
    pub path: PathBuf,
    /// The folder of the package, in which cargo runs it.
    pub folder: PathBuf,
}

/// The programs of tests among cargo's messages, one JSON object a line.
pub fn test_programs(messages: &[u8]) -> Vec<TestProgram> {
    let messages = messages.split(|byte| *byte == b'\n');
    let messages = messages.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    messages
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| {
            let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
            Some(TestProgram {
                package: folder.file_name()?.to_string_lossy().into_owned(),
                name: message["target"]["name"].as_str()?.to_owned(),
                path: message["executable"].as_str()?.into(),
                folder,
            })
        })
        .collect()
}

fn built(mut command: Command, kind: &str, program: &str) -> Result<PathBuf> {
    command.args(["--message-format", "json-render-diagnostics"]);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", shown(&command), output.status);
    }
    executable(&output.stdout, kind, program).with_context(|| format!("`{}` named no program", shown(&command)))
}

/// The program of this name among cargo's messages, one JSON object a line.
fn executable(messages: &[u8], kind: &str, program: &str) -> Option<PathBuf> {
    messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == program && message["target"]["kind"][0] == kind)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{TestProgram, executable, test_programs};

    #[test]
    fn test_programs_are_distinguished_from_others() {
        let messages = br#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["test"],"name":"suite"},"profile":{"test":true},"executable":"/t/suite-1"}
"#;
        let suite = TestProgram {
            package: "a".to_owned(),
            name: "suite".to_owned(),
            path: "/t/suite-1".into(),
            folder: "/w/crates/a".into(),
        };
        assert_eq!(test_programs(messages), [suite]);
    }

    #[test]
    fn program_is_found_among_cargos_messages() {
        let messages =
            br#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"seaworthy"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"seaworthy"},"executable":"/t/debug/seaworthy"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"kubectl"},"executable":"/t/debug/deps/kubectl-1"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages, "bin", "seaworthy"), Some(PathBuf::from("/t/debug/seaworthy")));
        assert_eq!(executable(messages, "bin", "kubectl"), None);
        assert_eq!(executable(messages, "test", "kubectl"), Some(PathBuf::from("/t/debug/deps/kubectl-1")));
    }
}
