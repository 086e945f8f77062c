//! Settings of the running kernel: what all files together say of them, and how one file is brought into force without the
//! others.
//!
//! Applying every file again would undo what the network, the kubelet and whoever tunes the machine have set since it booted.

use std::collections::BTreeMap;

use seaworthy_host::{Entry, Host, HostError, Kind};
use seaworthy_plan::disruption::knowledge::{lines, settings};

/// Where files with settings lie; of two with the same name the one in the earlier folder counts.
const FOLDERS: [&str; 4] = ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"];
/// More links than anybody puts behind each other.
const LINKS: usize = 8;

/// A setting that counts.
pub struct Setting {
    /// Its value.
    pub value: String,
    /// The file that it comes from.
    pub path: String,
}

/// What all files together set, by key, as systemd reads them: by name, whichever folder they are in.
pub fn in_force(host: &dyn Host) -> Result<BTreeMap<String, Setting>, HostError> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in FOLDERS {
        for name in host.names(folder)?.into_iter().filter(|name| name.ends_with(".conf")) {
            let path = format!("{folder}/{name}");
            files.entry(name).or_insert(path);
        }
    }
    let mut all = BTreeMap::new();
    for path in files.into_values() {
        // Not ours, and not readable: what it sets is not known, so nothing is judged by it.
        let Ok(text) = text(host, &behind(host, &path)?) else { continue };
        all.extend(settings(&text).map(|(key, value)| (key, Setting { value: value.to_owned(), path: path.clone() })));
    }
    Ok(all)
}

/// Brings the settings of one file into force, as far as no other file has the last word.
pub fn apply(host: &dyn Host, path: &str) -> Result<(), HostError> {
    let all = in_force(host)?;
    let text = text(host, path)?;
    let mut ours = String::new();
    let mut has_pattern = false;
    for line in lines(&text) {
        // What is no setting is an exception to a pattern.
        let key = settings(line).next().map(|(key, _)| key);
        let is_ours = key.as_ref().is_none_or(|key| all.get(key).is_some_and(|setting| setting.path == path));
        has_pattern |= key.is_some_and(|key| is_pattern(&key));
        if is_ours {
            ours.push_str(line);
            ours.push('\n');
        }
    }
    if has_pattern {
        // A pattern is not for what another file sets by name.
        for (key, _) in all.iter().filter(|(key, setting)| setting.path != path && !is_pattern(key)) {
            ours.push_str(&format!("-{key}\n"));
        }
    }
    if ours.is_empty() { Ok(()) } else { host.apply_settings(path, &ours) }
}

/// The running values of what a text sets, as a text that sets them again. Those that cannot be read are left out.
pub fn running(host: &dyn Host, text_of_file: &[u8]) -> String {
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

/// Whether a key stands for several.
pub fn is_pattern(key: &str) -> bool {
    key.contains(['*', '?', '['])
}

/// Where a link in the end leads to; distributions link `/etc/sysctl.conf` into the folder.
fn behind(host: &dyn Host, path: &str) -> Result<String, HostError> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Some(Entry { kind: Kind::Link(target), .. }) = host.entry(&path)? else { break };
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
