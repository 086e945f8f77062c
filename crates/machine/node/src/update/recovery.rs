//! Recovery before the kubelet starts: a unit of the machine that restores the files of an interrupted update.
//!
//! After a power cut the machine may have files of both configurations, the kubelet's own among them, so the recovery must not
//! need a kubelet. The daemon does the rest.

use seaworthy_host::{Attributes, Host, HostError};

use super::journal::{Journal, Phase};
use super::perform::restore;

/// The unit that runs before the kubelet.
pub const UNIT: &str = "seaworthy-before-kubelet.service";

/// Restores the files that an interrupted update has changed; returns the configuration of that update.
///
/// No service is reloaded, since those that read the files have not been started yet. The journal stays for the daemon, which
/// completes the revert. The call can be repeated.
///
/// # Errors
///
/// If a file cannot be restored; the daemon tries it again.
pub fn restore_files(host: &dyn Host) -> Result<Option<String>, HostError> {
    let Some(journal) = Journal::load(host)? else { return Ok(None) };
    if !matches!(journal.phase, Phase::Applying | Phase::Undoing) {
        return Ok(None);
    }
    restore(host, &journal)?;
    // Systemd has read the units as the power cut has left them.
    host.daemon_reload()?;
    Ok(Some(journal.to))
}

/// Installs the unit that runs `program` before the kubelet, from the next boot on.
///
/// # Errors
///
/// If the unit cannot be written or enabled.
pub fn install(host: &dyn Host, program: &str) -> Result<(), HostError> {
    let path = format!("/etc/systemd/system/{UNIT}");
    let text = unit(program);
    if host.read(&path)?.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    if host.exists("/sys/fs/selinux/enforce")? {
        // Systemd does not start a program that is labelled as data. One that cannot be labelled may be startable all the same.
        let _ = host.run("chcon", &["--type=bin_t", "--", program]);
    }
    host.write(&path, text.as_bytes(), Attributes::of_root(0o644))?;
    host.daemon_reload()?;
    host.enable(&[UNIT])?;
    host.sync()
}

fn unit(program: &str) -> String {
    format!(
        "[Unit]\n\
         Description=Restore files of an interrupted update, and complete a first boot\n\
         ConditionPathExists={program}\n\
         After=dbus.socket\n\
         Before=kubelet.service crio.service containerd.service\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={program} daemon --first-boot\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}
