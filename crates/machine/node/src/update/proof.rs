//! Proof that a change is in force in the running system, for what was changed without a reboot.

use seaworthy_host::{Host, HostError};
use seaworthy_plan::disruption::Action;
use seaworthy_plan::disruption::knowledge::{MODULES, SYSCTL, lines, settings};

use super::sysctl::{in_force, is_pattern};

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

/// The running value of every setting in a file, unless a later file sets it too: then it was not applied, and what runs is
/// somebody else's.
fn of_settings(host: &dyn Host, path: &str) -> Result<Vec<String>, HostError> {
    let mut unproven = Vec::new();
    // Systemd reads files of this ending only.
    if !path.ends_with(".conf") {
        return Ok(unproven);
    }
    let last = in_force(host)?;
    for (key, _) in settings(&text(host, path)?) {
        let ours = last.get(&key).filter(|setting| setting.path == path && !is_pattern(&key));
        let Some(wanted) = ours.map(|setting| &setting.value) else { continue };
        // Some can be set and not read: that it was set is all that there is to know.
        let Ok(running) = text(host, &format!("/proc/sys/{key}")) else { continue };
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
