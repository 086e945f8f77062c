//! D-Bus client of systemd and logind: it needs no process for each call, and waits for the end of a job.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use zbus::connection::Builder;
use zbus::wire::{ObjectPath, OwnedObjectPath};
use zbus::{Connection, fdo};

use super::programs::DEFAULT_TIMEOUT;
use crate::{HostError, UnitState};

/// A bus that does not answer by then is unavailable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Reading all units again takes seconds on a busy machine.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// A queued job of the unit is replaced by the new one, as by `systemctl`.
const JOB_MODE: &str = "replace";
/// Changes of unit files, as systemd reports them: type, link, target.
type Changes = Vec<(String, String, String)>;

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Manager {
    async fn subscribe(&self) -> zbus::Result<()>;
    async fn reload(&self) -> zbus::Result<()>;
    async fn restart_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    async fn reload_unit(&self, name: &str, mode: &str) -> zbus::Result<OwnedObjectPath>;
    async fn get_unit(&self, name: &str) -> zbus::Result<OwnedObjectPath>;
    async fn get_unit_file_state(&self, file: &str) -> zbus::Result<String>;
    async fn enable_unit_files(&self, files: &[&str], runtime: bool, force: bool) -> zbus::Result<(bool, Changes)>;
    async fn disable_unit_files(&self, files: &[&str], runtime: bool) -> zbus::Result<Changes>;
    async fn preset_unit_files(&self, files: &[&str], runtime: bool, force: bool) -> zbus::Result<(bool, Changes)>;
    #[zbus(signal)]
    async fn job_removed(&self, id: u32, job: ObjectPath<'_>, unit: &str, result: &str) -> zbus::Result<()>;
}

#[zbus::proxy(interface = "org.freedesktop.systemd1.Unit", default_service = "org.freedesktop.systemd1")]
trait Unit {
    #[zbus(property(emits_changed_signal = "false"))]
    fn active_state(&self) -> zbus::Result<String>;
    #[zbus(property(emits_changed_signal = "false"))]
    fn sub_state(&self) -> zbus::Result<String>;
}

#[zbus::proxy(
    interface = "org.freedesktop.login1.Manager",
    default_service = "org.freedesktop.login1",
    default_path = "/org/freedesktop/login1"
)]
trait Login {
    async fn reboot(&self, interactive: bool) -> zbus::Result<()>;
}

/// A failed call over the bus.
#[derive(Debug)]
pub(super) enum BusError {
    /// The bus or the service is unavailable: `systemctl` may work.
    Unavailable,
    /// Systemd refused or failed.
    Refused(HostError),
}

/// A change of unit files.
#[derive(Clone, Copy)]
pub(super) enum UnitFileAction {
    Enable,
    Disable,
    Preset,
}

impl UnitFileAction {
    pub(super) fn verb(self) -> &'static str {
        match self {
            UnitFileAction::Enable => "enable",
            UnitFileAction::Disable => "disable",
            UnitFileAction::Preset => "preset",
        }
    }
}

/// A job of a running unit.
#[derive(Clone, Copy)]
pub(super) enum UnitJob {
    Restart,
    Reload,
}

impl UnitJob {
    pub(super) fn verb(self) -> &'static str {
        match self {
            UnitJob::Restart => "restart",
            UnitJob::Reload => "reload",
        }
    }
}

/// The system bus, connected when it is first needed, and again when it was unavailable.
pub(super) struct Bus {
    /// Another bus than the system bus.
    address: Option<String>,
    connection: Mutex<Option<Connection>>,
    /// The limit for a service to restart or reload.
    timeout: Duration,
}

impl Bus {
    pub(super) fn new(address: Option<&str>) -> Self {
        Bus { address: address.map(str::to_owned), connection: Mutex::new(None), timeout: DEFAULT_TIMEOUT }
    }

    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        Bus { timeout, ..self }
    }

    pub(super) fn unit_state(&self, unit: &str) -> Result<UnitState, BusError> {
        self.call(&format!("state of {unit}"), REPLY_TIMEOUT, async |connection| {
            match ManagerProxy::new(connection).await?.get_unit_file_state(unit).await {
                Ok(word) => Ok(UnitState::parse(&word)),
                Err(error) if is_named(&error, "FileNotFound") || is_named(&error, "NoSuchUnit") => {
                    Ok(UnitState::NotFound)
                }
                Err(error) => Err(error),
            }
        })
    }

    pub(super) fn change_unit_files(&self, action: UnitFileAction, units: &[&str]) -> Result<(), BusError> {
        self.call(&format!("{} {}", action.verb(), units.join(" ")), REPLY_TIMEOUT, async |connection| {
            let manager = ManagerProxy::new(connection).await?;
            match action {
                UnitFileAction::Enable => drop(manager.enable_unit_files(units, false, false).await?),
                UnitFileAction::Disable => drop(manager.disable_unit_files(units, false).await?),
                UnitFileAction::Preset => drop(manager.preset_unit_files(units, false, false).await?),
            }
            // As `systemctl` does: systemd does not reload by itself.
            manager.reload().await
        })
    }

    pub(super) fn daemon_reload(&self) -> Result<(), BusError> {
        self.call("daemon-reload", REPLY_TIMEOUT, async |connection| {
            ManagerProxy::new(connection).await?.reload().await
        })
    }

    /// Restarts or reloads a service, and waits for the end of the job.
    pub(super) fn job(&self, job: UnitJob, unit: &str) -> Result<(), BusError> {
        let what = format!("{} {unit}", job.verb());
        let result = self.call(&what, self.timeout, async |connection| {
            let manager = ManagerProxy::new(connection).await?;
            // Systemd refuses a second subscription on a connection.
            match manager.subscribe().await {
                Err(error) if is_named(&error, "AlreadySubscribed") => {}
                other => other?,
            }
            // Before the job, so that the end of a short one is not missed.
            let mut ends = manager.receive_job_removed().await?;
            let path = match job {
                UnitJob::Restart => manager.restart_unit(unit, JOB_MODE).await?,
                UnitJob::Reload => manager.reload_unit(unit, JOB_MODE).await?,
            };
            while let Some(end) = ends.next().await {
                let end = end.args()?;
                if end.job.as_str() == path.as_str() {
                    return Ok(end.result.to_owned());
                }
            }
            Err(zbus::Error::FDO(Box::new(fdo::Error::Disconnected("the bus was disconnected".to_owned()))))
        })?;
        match result.as_str() {
            "done" => Ok(()),
            other => Err(BusError::Refused(HostError::Command {
                line: format!("systemctl {what}"),
                status: format!("the job ended with {other:?}"),
                message: format!("see `systemctl status {unit}` and `journalctl -u {unit}`"),
            })),
        }
    }

    pub(super) fn has_failed(&self, unit: &str) -> Result<bool, BusError> {
        self.call(&format!("whether {unit} has failed"), REPLY_TIMEOUT, async |connection| {
            let path = match ManagerProxy::new(connection).await?.get_unit(unit).await {
                Ok(path) => path,
                Err(error) if is_named(&error, "NoSuchUnit") => return Ok(false),
                Err(error) => return Err(error),
            };
            let unit = UnitProxy::builder(connection).path(path).build().await?;
            Ok(is_failure(&unit.active_state().await?, &unit.sub_state().await?))
        })
    }

    pub(super) fn reboot(&self) -> Result<(), BusError> {
        self.call("reboot", REPLY_TIMEOUT, async |connection| LoginProxy::new(connection).await?.reboot(false).await)
    }

    /// Calls the bus within a limit. The next call connects again if the bus is unavailable.
    fn call<T>(
        &self,
        what: &str,
        timeout: Duration,
        call: impl AsyncFnOnce(&Connection) -> zbus::Result<T>,
    ) -> Result<T, BusError> {
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held.take().filter(|connection| !connection.is_closed());
        zbus::block_on(async {
            let connection = match known {
                Some(connection) => connection,
                None => {
                    let builder = match &self.address {
                        Some(address) => Builder::address(address.as_str()),
                        None => Builder::system(),
                    };
                    match tokio::time::timeout(CONNECT_TIMEOUT, builder.build()).await {
                        Ok(Ok(connection)) => connection,
                        Ok(Err(_)) | Err(_) => return Err(BusError::Unavailable),
                    }
                }
            };
            let answer = tokio::time::timeout(timeout, call(&connection)).await;
            let line = format!("systemctl {what}");
            match answer {
                Err(_) => Err(BusError::Refused(HostError::Timeout { line, seconds: timeout.as_secs() })),
                Ok(Ok(answer)) => {
                    *held = Some(connection);
                    Ok(answer)
                }
                Ok(Err(error)) if is_unavailable(&error) || connection.is_closed() => Err(BusError::Unavailable),
                Ok(Err(error)) => {
                    *held = Some(connection);
                    let status = "refused".to_owned();
                    Err(BusError::Refused(HostError::Command { line, status, message: error.to_string() }))
                }
            }
        })
    }
}

/// Whether systemd's states of a service mean that it has failed.
pub(super) fn is_failure(active: &str, sub: &str) -> bool {
    active == "failed" || sub.starts_with("auto-restart")
}

/// Whether an error has this name, with any prefix.
fn is_named(error: &zbus::Error, name: &str) -> bool {
    match error {
        zbus::Error::MethodError(found, ..) => found.as_str().rsplit('.').next() == Some(name),
        zbus::Error::FDO(error) => matches!((&**error, name), (fdo::Error::FileNotFound(_), "FileNotFound")),
        _ => false,
    }
}

/// Whether the bus or the service is unavailable.
fn is_unavailable(error: &zbus::Error) -> bool {
    match error {
        zbus::Error::InputOutput(_) => true,
        zbus::Error::MethodError(name, ..) => {
            matches!(
                name.as_str().rsplit('.').next(),
                Some("ServiceUnknown" | "NoReply" | "Disconnected" | "NameHasNoOwner")
            )
        }
        zbus::Error::FDO(error) => matches!(
            **error,
            fdo::Error::ServiceUnknown(_)
                | fdo::Error::NoReply(_)
                | fdo::Error::Disconnected(_)
                | fdo::Error::NameHasNoOwner(_)
        ),
        _ => false,
    }
}
