//! Release builds to be measured, made the same way on every machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;

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

/// Builds a program of a package. One package at a time: building two together would give each the
/// features that the other asks of their common dependencies.
pub fn release(workspace: &Workspace, package: &str, program: &str) -> Result<PathBuf> {
    let mut command = workspace.cargo(&["build", "--release", "--package", package]);
    command.args(["--bin", program, "--message-format", "json-render-diagnostics"]);
    for variable in UNSETTLING {
        command.env_remove(variable);
    }
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", shown(&command), output.status);
    }
    executable(&output.stdout).with_context(|| format!("`{}` named no program", shown(&command)))
}

/// The last program among cargo's messages, one JSON object a line.
fn executable(messages: &[u8]) -> Option<PathBuf> {
    messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::executable;

    #[test]
    fn program_is_found_among_cargos_messages() {
        let messages = b"{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"/t/release/seaworthy\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/release/seaworthy")));
        assert_eq!(executable(b"{\"reason\":\"build-finished\"}\n"), None);
    }
}
