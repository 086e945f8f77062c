//! How a machine differs from its configuration, line by line.
//!
//! There may be secrets in it: it is for whoever may read the machine's files and asks for it there, never for a log, a status
//! or an annotation.

use std::fmt;
use std::time::Duration;

use seaworthy_host::{Entry, Host, HostError, Kind};
use similar::{Algorithm, TextDiff};

use super::validate::{Aspect, Finding, validate};
use crate::decide::target::{Target, Wanted};

/// Larger files are not compared line by line.
const LARGEST: u64 = 1024 * 1024;
/// More lines of one file are of no use to anybody.
const LINES: usize = 500;
/// A comparison that takes longer is finished coarsely.
const PATIENCE: Duration = Duration::from_secs(2);

/// A respect in which a machine differs from its configuration, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub finding: Finding,
    /// The lines that differ, as a unified diff from what is wanted to what is there.
    pub lines: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.finding)?;
        f.write_str(self.lines.as_deref().unwrap_or_default())
    }
}

/// Compares a machine with its configuration.
///
/// # Errors
///
/// If the machine cannot be looked at.
pub fn differences(host: &dyn Host, target: &Target) -> Result<Vec<Difference>, HostError> {
    let with_lines = |finding: Finding| {
        let lines = if finding.aspect == Aspect::Content { lines(host, target, &finding.subject)? } else { None };
        Ok(Difference { finding, lines })
    };
    validate(host, target)?.into_iter().map(with_lines).collect()
}

fn lines(host: &dyn Host, target: &Target, path: &str) -> Result<Option<String>, HostError> {
    let Some(Wanted::File { bytes: wanted, .. }) = target.paths.get(path) else { return Ok(None) };
    let size = match host.entry(path)? {
        Some(Entry { kind: Kind::File, size, .. }) => size,
        _ => return Ok(None),
    };
    let not_shown = || Ok(Some("(not shown: it is not text, or too long)\n".to_owned()));
    // What somebody lets grow is not read.
    if size > LARGEST || wanted.len() as u64 > LARGEST {
        return not_shown();
    }
    let there = host.read(path)?.unwrap_or_default();
    let (Ok(wanted), Ok(there)) = (std::str::from_utf8(wanted), std::str::from_utf8(&there)) else {
        return not_shown();
    };
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(PATIENCE).diff_lines(wanted, there);
    let text = diff.unified_diff().header(&format!("{path} in {}", target.name), path).to_string();
    let rest = text.lines().count().saturating_sub(LINES);
    if rest == 0 {
        return Ok(Some(text));
    }
    let shown: Vec<&str> = text.lines().take(LINES).collect();
    Ok(Some(format!("{}\n({rest} more lines)\n", shown.join("\n"))))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use seaworthy_host::{Attributes, FakeHost};
    use serde_json::json;

    use super::*;

    fn target() -> Target {
        let many = (0..2000).fold(String::new(), |mut text, n| {
            let _ = writeln!(text, "{n}");
            text
        });
        let file = |path: &str, text: &str| json!({"path": path, "mode": 0o600, "contents": {"source": seaworthy_ignition::data_url::encode(text.as_bytes())}});
        let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
            file("/etc/a", "one\ntwo\n"), file("/etc/binary", "x"), file("/etc/many", &many), file("/etc/mode", "m"),
        ]}}});
        Target::parse("rendered", &serde_json::from_value(spec).unwrap(), None).unwrap()
    }

    #[test]
    fn a_difference_is_shown_by_lines_with_bounds_and_what_is_right_is_not_mentioned() {
        let (host, target) = (FakeHost::new("m"), target());
        for (path, wanted) in &target.paths {
            if let Wanted::File { bytes, mode, .. } = wanted {
                host.put_of(path, bytes, Attributes::of_root(*mode));
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
        assert!(text[2].lines().count() < LINES + 5 && text[2].contains("more lines"), "{}", text[2]);
        assert!(text[3].contains("/etc/mode") && text[3].contains("644") && !text[3].contains("+++"), "{}", text[3]);
    }
}
