//! Sysctl settings: the effective setting of each key among all files, and the application of one file without the others.
//!
//! Applying every file again would undo what the network, the kubelet and tuning tools have set since the machine booted.

use std::collections::BTreeMap;

use seaworthy_host::{Entry, EntryKind, Host, HostError};
use seaworthy_plan::disruption::known_effect::{lines, settings};

/// Folders of sysctl files; of two files with the same name the one in the earlier folder counts.
const SYSCTL_DIRS: [&str; 4] = ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];
/// The longest chain of links that is followed.
const MAX_LINKS: usize = 8;

/// The effective setting of a key.
pub struct SysctlSetting {
    pub value: String,
    /// The file that it comes from.
    pub path: String,
}

/// The effective settings, by key. As for systemd, a later file name takes precedence, whichever folder it is in.
pub fn effective_settings(host: &dyn Host) -> Result<BTreeMap<String, SysctlSetting>, HostError> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in SYSCTL_DIRS {
        for name in host.names(folder)?.into_iter().filter(|name| name.ends_with(".conf")) {
            let path = format!("{folder}/{name}");
            files.entry(name).or_insert(path);
        }
    }
    let mut all = BTreeMap::new();
    for path in files.into_values() {
        // A file that is not readable has unknown settings, so it is left out.
        let Ok(text) = text(host, &resolve_links(host, &path)?) else { continue };
        all.extend(
            settings(&text).map(|(key, value)| (key, SysctlSetting { value: value.to_owned(), path: path.clone() })),
        );
    }
    Ok(all)
}

/// Applies the settings of one file, except those that another file overrides.
pub fn apply(host: &dyn Host, path: &str) -> Result<(), HostError> {
    let all = effective_settings(host)?;
    let text = text(host, path)?;
    let mut ours = String::new();
    let mut has_pattern = false;
    for line in lines(&text) {
        // A line that is no setting excludes a key from a pattern.
        let key = settings(line).next().map(|(key, _)| key);
        let is_ours = key.as_ref().is_none_or(|key| all.get(key).is_some_and(|setting| setting.path == path));
        has_pattern |= key.is_some_and(|key| is_pattern(&key));
        if is_ours {
            ours.push_str(line);
            ours.push('\n');
        }
    }
    if has_pattern {
        // A pattern does not apply to keys that another file sets by name.
        for (key, _) in all.iter().filter(|(key, setting)| setting.path != path && !is_pattern(key)) {
            ours.push_str(&format!("-{key}\n"));
        }
    }
    if ours.is_empty() { Ok(()) } else { host.apply_settings(path, &ours) }
}

/// The running values of the keys that a file sets, as lines of such a file. Those that cannot be read are left out.
pub fn running_settings(host: &dyn Host, text_of_file: &[u8]) -> String {
    let mut running = String::new();
    for (key, _) in settings(&String::from_utf8_lossy(text_of_file)).filter(|(key, _)| !is_pattern(key)) {
        let path = format!("/proc/sys/{key}");
        if let Ok(Some(value)) = host.read(&path) {
            let value = String::from_utf8_lossy(&value);
            running.push_str(&format!("{key} = {}\n", value.trim()));
        }
    }
    running
}

/// Whether a key matches several.
pub fn is_pattern(key: &str) -> bool {
    key.contains(['*', '?', '['])
}

/// Follows links; distributions link `/etc/sysctl.conf` into the folder.
fn resolve_links(host: &dyn Host, path: &str) -> Result<String, HostError> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some(Entry { kind: EntryKind::Link(target), .. }) = host.entry(&path)? else { break };
        let start = if target.starts_with('/') { "" } else { path.rsplit_once('/').map_or("", |(folder, _)| folder) };
        let mut parts: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        path = format!("/{}", parts.join("/"));
    }
    Ok(path)
}

fn text(host: &dyn Host, path: &str) -> Result<String, HostError> {
    Ok(String::from_utf8_lossy(&host.read(path)?.unwrap_or_default()).into_owned())
}
