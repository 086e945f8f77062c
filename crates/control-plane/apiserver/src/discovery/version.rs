//! `/version`: the Kubernetes version that this server is compatible with.

use serde_json::{Value, json};

/// The version whose behaviour is matched. Clients choose by it what they may ask for.
const MINOR: &str = "37";

/// `/version`.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": MINOR,
        "gitVersion": git_version(),
        // Clients parse these and show them; there is no commit or build of Kubernetes behind them.
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform()),
    })
}

/// The version in full, in the form that clients parse.
pub fn git_version() -> String {
    format!("v1.{MINOR}.0+seaworthy-{}", env!("CARGO_PKG_VERSION"))
}

/// The architecture in the words of Kubernetes.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
