//! After a power cut the machine may have files of both configurations, the kubelet's own among them. Whoever repairs that must
//! not need a kubelet: a unit of the machine's own runs before it and puts the old files back. The daemon does the rest.

use seaworthy_host::{Attributes, Host, HostError};

use super::journal::{Journal, Phase};
use super::perform::restore;

/// The unit that runs before the kubelet.
pub const UNIT: &str = "seaworthy-before-kubelet.service";

/// Puts back what an update that was cut off half-way has changed; says which configuration that was.
///
/// No service is told: those that read the files have not been started yet. The journal stays, and with it what the daemon
/// does about it; doing this twice is doing it once.
///
/// # Errors
///
/// If the machine does not do what it is asked; what is not put back is tried again by the daemon.
pub fn put_back(host: &dyn Host) -> Result<Option<String>, HostError> {
    let Some(journal) = Journal::load(host)? else { return Ok(None) };
    if !matches!(journal.phase, Phase::Applying | Phase::Undoing) {
        return Ok(None);
    }
    restore(host, &journal)?;
    // Systemd has read the units as the cut has left them.
    host.daemon_reload()?;
    Ok(Some(journal.to))
}

/// Has the machine run `program` before its kubelet, from its next boot on.
///
/// # Errors
///
/// If the machine does not do what it is asked.
pub fn install(host: &dyn Host, program: &str) -> Result<(), HostError> {
    let path = format!("/etc/systemd/system/{UNIT}");
    let text = unit(program);
    if host.read(&path)?.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    if host.exists("/sys/fs/selinux/enforce")? {
        // Systemd starts no program that is labelled as data. One that cannot be labelled may be startable all the same.
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
         Description=Puts back what a power cut has left half-done, and completes a first boot\n\
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
