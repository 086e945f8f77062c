//! Proof that a change is in force in the running system, for what was changed without a reboot.

use std::collections::BTreeMap;

use seaworthy_host::{Host, HostError};
use seaworthy_plan::disruption::Action;
use seaworthy_plan::knowledge::{MODULES, SYSCTL, lines, settings};

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
        if !host.is_active(unit)? {
            unproven.push(format!("{unit} does not run after it was asked to {action}"));
        }
    }
    Ok(unproven)
}

/// The running value of every setting in a file, unless a later file has another one.
fn of_settings(host: &dyn Host, path: &str) -> Result<Vec<String>, HostError> {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let folder = SYSCTL.trim_end_matches('/');
    for name in host.names(folder)?.iter().filter(|name| name.ends_with(".conf")) {
        let text = text(host, &format!("{folder}/{name}"))?;
        last.extend(settings(&text).map(|(key, value)| (key, value.to_owned())));
    }
    let mut unproven = Vec::new();
    let own = text(host, path)?;
    // Systemd reads files of this ending only.
    let own = if path.ends_with(".conf") { own.as_str() } else { "" };
    for (key, _) in settings(own) {
        let Some(wanted) = last.get(&key) else { continue };
        if key.contains('*') {
            continue;
        }
        let running = text(host, &format!("/proc/sys/{key}"))?;
        let same = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        if same(&running) != same(wanted) {
            let running = if running.is_empty() { "not there".to_owned() } else { same(&running) };
            unproven.push(format!("{path}: {key} should be {wanted} and is {running}"));
        }
    }
    Ok(unproven)
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
