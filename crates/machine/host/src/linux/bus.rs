//! Systemd and logind over D-Bus: no process for each question, and the end of a job is heard of rather than guessed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use zbus::connection::Builder;
use zbus::wire::{ObjectPath, OwnedObjectPath};
use zbus::{Connection, fdo};

use super::programs::LIMIT;
use crate::{HostError, UnitState};

/// A bus that does not answer by then is away.
const GREETING: Duration = Duration::from_secs(5);
/// Reading all units again takes seconds on a busy machine, not minutes.
const ANSWER: Duration = Duration::from_secs(120);
/// What stands for a job that was asked for is replaced by the new one, as `systemctl` does it.
const MODE: &str = "replace";
/// Changes of units, as systemd tells them: kind, link, where it points.
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

/// Why the bus did not do it.
#[derive(Debug)]
pub(super) enum BusError {
    /// Nobody is there: another way may help.
    Away,
    /// Systemd was asked, and refused or failed.
    Refused(HostError),
}

/// What is enabled, disabled or preset.
#[derive(Clone, Copy)]
pub(super) enum Wish {
    Enable,
    Disable,
    Preset,
}

impl Wish {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Wish::Enable => "enable",
            Wish::Disable => "disable",
            Wish::Preset => "preset",
        }
    }
}

/// What a service is asked to do.
#[derive(Clone, Copy)]
pub(super) enum Job {
    Restart,
    Reload,
}

impl Job {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Job::Restart => "restart",
            Job::Reload => "reload",
        }
    }
}

/// The system's bus, connected to when it is first needed and again when it was away.
pub(super) struct Bus {
    /// Another bus than the system's.
    address: Option<String>,
    connection: Mutex<Option<Connection>>,
    /// How long a service may take to restart or to reload.
    limit: Duration,
}

impl Bus {
    pub(super) fn new(address: Option<&str>) -> Self {
        Bus { address: address.map(str::to_owned), connection: Mutex::new(None), limit: LIMIT }
    }

    pub(super) fn with_limit(self, limit: Duration) -> Self {
        Bus { limit, ..self }
    }

    pub(super) fn unit_state(&self, unit: &str) -> Result<UnitState, BusError> {
        self.ask(&format!("state of {unit}"), ANSWER, async |connection| {
            match ManagerProxy::new(connection).await?.get_unit_file_state(unit).await {
                Ok(word) => Ok(UnitState::parse(&word)),
                Err(error) if is_named(&error, "FileNotFound") || is_named(&error, "NoSuchUnit") => {
                    Ok(UnitState::NotFound)
                }
                Err(error) => Err(error),
            }
        })
    }

    pub(super) fn wish(&self, wish: Wish, units: &[&str]) -> Result<(), BusError> {
        self.ask(&format!("{} {}", wish.verb(), units.join(" ")), ANSWER, async |connection| {
            let manager = ManagerProxy::new(connection).await?;
            match wish {
                Wish::Enable => drop(manager.enable_unit_files(units, false, false).await?),
                Wish::Disable => drop(manager.disable_unit_files(units, false).await?),
                Wish::Preset => drop(manager.preset_unit_files(units, false, false).await?),
            }
            // As `systemctl` does it: systemd does not look by itself.
            manager.reload().await
        })
    }

    pub(super) fn daemon_reload(&self) -> Result<(), BusError> {
        self.ask("daemon-reload", ANSWER, async |connection| ManagerProxy::new(connection).await?.reload().await)
    }

    /// Has a service restarted or reloaded, and waits for the end.
    pub(super) fn job(&self, job: Job, unit: &str) -> Result<(), BusError> {
        let what = format!("{} {unit}", job.verb());
        let result = self.ask(&what, self.limit, async |connection| {
            let manager = ManagerProxy::new(connection).await?;
            // Systemd counts it once for each connection, and refuses what it has granted already.
            match manager.subscribe().await {
                Err(error) if is_named(&error, "AlreadySubscribed") => {}
                other => other?,
            }
            // Before the job: one that ends at once is heard of as well.
            let mut ends = manager.receive_job_removed().await?;
            let path = match job {
                Job::Restart => manager.restart_unit(unit, MODE).await?,
                Job::Reload => manager.reload_unit(unit, MODE).await?,
            };
            while let Some(end) = ends.next().await {
                let end = end.args()?;
                if end.job.as_str() == path.as_str() {
                    return Ok(end.result.to_owned());
                }
            }
            Err(zbus::Error::FDO(Box::new(fdo::Error::Disconnected("the bus went away".to_owned()))))
        })?;
        match result.as_str() {
            "done" => Ok(()),
            other => Err(BusError::Refused(HostError::Command {
                line: format!("systemctl {what}"),
                status: format!("the job ended with {other:?}"),
                said: format!("`systemctl status {unit}` and `journalctl -u {unit}` say more"),
            })),
        }
    }

    pub(super) fn has_failed(&self, unit: &str) -> Result<bool, BusError> {
        self.ask(&format!("whether {unit} has failed"), ANSWER, async |connection| {
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
        self.ask("reboot", ANSWER, async |connection| LoginProxy::new(connection).await?.reboot(false).await)
    }

    /// Has something asked within a limit; a bus that is away is looked for once more the next time.
    fn ask<T>(
        &self,
        what: &str,
        limit: Duration,
        ask: impl AsyncFnOnce(&Connection) -> zbus::Result<T>,
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
                    match tokio::time::timeout(GREETING, builder.build()).await {
                        Ok(Ok(connection)) => connection,
                        Ok(Err(_)) | Err(_) => return Err(BusError::Away),
                    }
                }
            };
            let answer = tokio::time::timeout(limit, ask(&connection)).await;
            let line = format!("systemctl {what}");
            match answer {
                Err(_) => Err(BusError::Refused(HostError::Timeout { line, seconds: limit.as_secs() })),
                Ok(Ok(answer)) => {
                    *held = Some(connection);
                    Ok(answer)
                }
                Ok(Err(error)) if is_away(&error) || connection.is_closed() => Err(BusError::Away),
                Ok(Err(error)) => {
                    *held = Some(connection);
                    let status = "refused".to_owned();
                    Err(BusError::Refused(HostError::Command { line, status, said: error.to_string() }))
                }
            }
        })
    }
}

/// Whether systemd's words for the state of a service mean that it has failed.
pub(super) fn is_failure(active: &str, sub: &str) -> bool {
    active == "failed" || sub.starts_with("auto-restart")
}

/// Whether an error has this name, whoever's it is.
fn is_named(error: &zbus::Error, name: &str) -> bool {
    match error {
        zbus::Error::MethodError(found, ..) => found.as_str().rsplit('.').next() == Some(name),
        zbus::Error::FDO(error) => matches!((&**error, name), (fdo::Error::FileNotFound(_), "FileNotFound")),
        _ => false,
    }
}

/// Whether nobody was there to be asked.
fn is_away(error: &zbus::Error) -> bool {
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
