//! Proof that a change is in force in the running system, for what was changed without a reboot.

use std::collections::BTreeMap;

use seaworthy_host::{Entry, Host, HostError, Kind};
use seaworthy_plan::disruption::Action;
use seaworthy_plan::knowledge::{MODULES, SYSCTL, lines, settings};

/// More links than anybody puts behind each other.
const LINKS: usize = 8;

/// What is not in force although everything was done, each as a sentence.
pub fn unproven(host: &dyn Host, paths: &[String], actions: &[Action]) -> Result<Vec<String>, HostError> {
    let mut unproven = Vec::new();
    if !host.is_running() {
        return Ok(unproven);
    }
    for path in paths {
        if path.starts_with(SYSCTL) {
            unproven.extend(of_settings(host, path)?);
        } else if path.starts_with(MODULES) {
            unproven.extend(of_modules(host, path)?);
        }
    }
    for action in actions {
        let (Action::Reload(unit) | Action::Restart(unit)) = action else { continue };
        if host.has_failed(unit)? {
            unproven.push(format!("{unit} has failed after {action}"));
        }
    }
    Ok(unproven)
}

/// The running value of every setting in a file, unless a later file has another one.
fn of_settings(host: &dyn Host, path: &str) -> Result<Vec<String>, HostError> {
    let mut unproven = Vec::new();
    // Systemd reads files of this ending only.
    if !path.ends_with(".conf") {
        return Ok(unproven);
    }
    let last = all_settings(host)?;
    for (key, _) in settings(&text(host, path)?) {
        let Some(wanted) = last.get(&key).filter(|_| !key.contains('*')) else { continue };
        // Some can be set and not read: that the service has set it is all that there is to know.
        let Ok(running) = text(host, &format!("/proc/sys/{key}")) else { continue };
        let same = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        if same(&running) != same(wanted) {
            let running = if running.is_empty() { "not there".to_owned() } else { same(&running) };
            unproven.push(format!("{path}: {key} should be {wanted} and is {running}"));
        }
    }
    Ok(unproven)
}

/// What all files together set, as systemd reads them: by name, whichever folder they are in, and one that is in several
/// folders from the first of these.
fn all_settings(host: &dyn Host) -> Result<BTreeMap<String, String>, HostError> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for folder in ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"] {
        for name in host.names(folder)?.into_iter().filter(|name| name.ends_with(".conf")) {
            let path = format!("{folder}/{name}");
            files.entry(name).or_insert(path);
        }
    }
    let mut last = BTreeMap::new();
    for path in files.values() {
        // Not ours, and not readable: what it sets is not known, so nothing is judged by it.
        let Ok(text) = text(host, &behind(host, path)?) else { continue };
        last.extend(settings(&text).map(|(key, value)| (key, value.to_owned())));
    }
    Ok(last)
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

fn of_modules(host: &dyn Host, path: &str) -> Result<Vec<String>, HostError> {
    let loaded = text(host, "/proc/modules")?;
    let own = text(host, path)?;
    let mut unproven = Vec::new();
    for name in lines(&own) {
        let kernel_name = name.replace('-', "_");
        let is_loaded = loaded.lines().any(|line| line.split(' ').next() == Some(kernel_name.as_str()));
        // One that is part of the kernel is in no list.
        if !is_loaded && !name.contains('/') && !host.exists(&format!("/sys/module/{kernel_name}"))? {
            unproven.push(format!("{path}: module {name} is not loaded"));
        }
    }
    Ok(unproven)
}

fn text(host: &dyn Host, path: &str) -> Result<String, HostError> {
    Ok(String::from_utf8_lossy(&host.read(path)?.unwrap_or_default()).into_owned())
}
