//! Differences between a machine and its configuration, line by line.
//!
//! They may contain secrets: they are only for a user who may read the machine's files, never for a log, a status or an
//! annotation.

use std::fmt;
use std::time::Duration;

use seaworthy_host::{Entry, EntryKind, Host, HostError};
use similar::{Algorithm, TextDiff};

use super::validate::{Aspect, Mismatch, validate};
use crate::decide::target::{TargetEntry, TargetState};

/// Larger files are not compared line by line.
const MAX_COMPARED_BYTES: u64 = 1024 * 1024;
/// Lines that are shown of one file.
const MAX_LINES: usize = 500;
/// A comparison that takes longer is completed with a coarser result.
const DIFF_TIMEOUT: Duration = Duration::from_secs(2);

/// A mismatch with the lines that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub mismatch: Mismatch,
    /// The lines that differ, as a unified diff from the configuration to the machine.
    pub lines: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.mismatch)?;
        f.write_str(self.lines.as_deref().unwrap_or_default())
    }
}

/// Compares a machine with its configuration.
///
/// # Errors
///
/// If the machine's state cannot be read.
pub fn differences(host: &dyn Host, target: &TargetState) -> Result<Vec<Difference>, HostError> {
    let with_lines = |mismatch: Mismatch| {
        let lines = if mismatch.aspect == Aspect::Content { lines(host, target, &mismatch.subject)? } else { None };
        Ok(Difference { mismatch, lines })
    };
    validate(host, target)?.into_iter().map(with_lines).collect()
}

fn lines(host: &dyn Host, target: &TargetState, path: &str) -> Result<Option<String>, HostError> {
    let Some(TargetEntry::File { bytes: wanted, .. }) = target.paths.get(path) else { return Ok(None) };
    let size = match host.entry(path)? {
        Some(Entry { kind: EntryKind::File, size, .. }) => size,
        _ => return Ok(None),
    };
    let not_shown = || Ok(Some("(not shown: it is not text, or too long)\n".to_owned()));
    if size > MAX_COMPARED_BYTES || wanted.len() as u64 > MAX_COMPARED_BYTES {
        return not_shown();
    }
    let found = host.read(path)?.unwrap_or_default();
    let (Ok(wanted), Ok(found)) = (std::str::from_utf8(wanted), std::str::from_utf8(&found)) else {
        return not_shown();
    };
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(DIFF_TIMEOUT).diff_lines(wanted, found);
    let text = diff.unified_diff().header(&format!("{path} in {}", target.name), path).to_string();
    let rest = text.lines().count().saturating_sub(MAX_LINES);
    if rest == 0 {
        return Ok(Some(text));
    }
    let shown: Vec<&str> = text.lines().take(MAX_LINES).collect();
    Ok(Some(format!("{}\n({rest} more lines)\n", shown.join("\n"))))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use seaworthy_api::machineconfiguration::MachineConfigSpec;
    use seaworthy_host::{Attributes, FakeHost};
    use serde_json::json;

    use super::*;

    fn target() -> TargetState {
        let many = (0..2000).fold(String::new(), |mut text, n| {
            let _ = writeln!(text, "{n}");
            text
        });
        let file = |path: &str, text: &str| json!({"path": path, "mode": 0o600, "contents": {"source": seaworthy_ignition::data_url::encode(text.as_bytes())}});
        let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
            file("/etc/a", "one\ntwo\n"), file("/etc/binary", "x"), file("/etc/many", &many), file("/etc/mode", "m"),
        ]}}});
        TargetState::parse("rendered", serde_json::from_value::<MachineConfigSpec>(spec).unwrap().into(), None).unwrap()
    }

    #[test]
    fn a_difference_is_shown_by_lines_with_bounds_and_what_is_right_is_not_mentioned() {
        let (host, target) = (FakeHost::new("m"), target());
        for (path, wanted) in &target.paths {
            if let TargetEntry::File { bytes, mode, .. } = wanted {
                host.put_owned(path, bytes, Attributes::of_root(*mode));
            }
        }
        assert_eq!(differences(&host, &target).unwrap(), []);
        host.put("/etc/a", b"one\n2\n", 0o600);
        host.put("/etc/binary", b"\xff", 0o600);
        host.put("/etc/many", b"", 0o600);
        host.put("/etc/mode", b"m", 0o644);
        let found = differences(&host, &target).unwrap();
        let text: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 4, "{text:#?}");
        assert!(
            text[0].ends_with("--- /etc/a in rendered\n+++ /etc/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"),
            "{}",
            text[0]
        );
        assert!(text[1].contains("/etc/binary") && text[1].contains("not shown"), "{}", text[1]);
        assert!(text[2].lines().count() < MAX_LINES + 5 && text[2].contains("more lines"), "{}", text[2]);
        assert!(text[3].contains("/etc/mode") && text[3].contains("644") && !text[3].contains("+++"), "{}", text[3]);
    }
}
