//! Verification that a change without a reboot is in effect in the running system.

use seaworthy_host::{Host, HostError};
use seaworthy_plan::disruption::Action;
use seaworthy_plan::disruption::known_effect::{MODULES, SYSCTL, lines, settings};

use super::sysctl::{effective_settings, is_pattern};

/// The changes that are not in effect although all actions were done, each as a sentence.
pub fn not_in_effect(host: &dyn Host, paths: &[String], actions: &[Action]) -> Result<Vec<String>, HostError> {
    let mut missing = Vec::new();
    if !host.is_running() {
        return Ok(missing);
    }
    for path in paths {
        if path.starts_with(SYSCTL) {
            missing.extend(missing_settings(host, path)?);
        } else if path.starts_with(MODULES) {
            missing.extend(missing_modules(host, path)?);
        }
    }
    for action in actions {
        let (Action::Reload(unit) | Action::Restart(unit)) = action else { continue };
        if host.has_failed(unit)? {
            missing.push(format!("{unit} has failed after {action}"));
        }
    }
    Ok(missing)
}

/// Compares the running value of every setting in a file, unless a later file sets it too and so determines it.
fn missing_settings(host: &dyn Host, path: &str) -> Result<Vec<String>, HostError> {
    let mut missing = Vec::new();
    // Systemd reads files of this ending only.
    if !path.ends_with(".conf") {
        return Ok(missing);
    }
    let effective = effective_settings(host)?;
    for (key, _) in settings(&text(host, path)?) {
        let ours = effective.get(&key).filter(|setting| setting.path == path && !is_pattern(&key));
        let Some(wanted) = ours.map(|setting| &setting.value) else { continue };
        // Some settings are write-only.
        let Ok(running) = text(host, &format!("/proc/sys/{key}")) else { continue };
        let same = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        if same(&running) != same(wanted) {
            let running = if running.is_empty() { "not there".to_owned() } else { same(&running) };
            missing.push(format!("{path}: {key} should be {wanted} and is {running}"));
        }
    }
    Ok(missing)
}

fn missing_modules(host: &dyn Host, path: &str) -> Result<Vec<String>, HostError> {
    let loaded = text(host, "/proc/modules")?;
    let own = text(host, path)?;
    let mut missing = Vec::new();
    for name in lines(&own) {
        let kernel_name = name.replace('-', "_");
        let is_loaded = loaded.lines().any(|line| line.split(' ').next() == Some(kernel_name.as_str()));
        // Built-in modules are in no list.
        if !is_loaded && !name.contains('/') && !host.exists(&format!("/sys/module/{kernel_name}"))? {
            missing.push(format!("{path}: module {name} is not loaded"));
        }
    }
    Ok(missing)
}

fn text(host: &dyn Host, path: &str) -> Result<String, HostError> {
    Ok(String::from_utf8_lossy(&host.read(path)?.unwrap_or_default()).into_owned())
}
