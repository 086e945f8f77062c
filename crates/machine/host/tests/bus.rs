//! Units over a private bus with a fake of systemd's and logind's interfaces; without a bus, `systemctl` is run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seaworthy_host::linux::ProgramRunner;
use seaworthy_host::{Host as _, HostError, LinuxHost, Output, UnitState};
use zbus::object_server::SignalEmitter;
use zbus::wire::{ObjectPath, OwnedObjectPath};
use zbus::{Connection, DBusError, fdo, interface};

type Calls = Arc<Mutex<Vec<String>>>;
type Changes = Vec<(String, String, String)>;

#[derive(Debug, DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Refusal {
    #[zbus(error)]
    ZBus(zbus::Error),
    NoSuchUnit(String),
    AlreadySubscribed(String),
}

struct Systemd(Calls);

impl Systemd {
    fn note(&self, call: String) {
        self.0.lock().unwrap().push(call);
    }

    async fn job(&self, verb: &str, unit: &str, emitter: &SignalEmitter<'_>) -> Result<OwnedObjectPath, Refusal> {
        self.note(format!("{verb} {unit}"));
        if unit == "gone.service" {
            return Err(Refusal::NoSuchUnit(format!("Unit {unit} not found.")));
        }
        let job = ObjectPath::try_from("/org/freedesktop/systemd1/job/7").unwrap();
        if unit == "endless.service" {
            return Ok(job.into());
        }
        let other = ObjectPath::try_from("/org/freedesktop/systemd1/job/6").unwrap();
        // The end of another one, and of this one before the caller knows its number.
        Self::job_removed(emitter, 6, other, unit, "done").await?;
        let result = if unit == "broken.service" { "failed" } else { "done" };
        Self::job_removed(emitter, 7, job.clone(), unit, result).await?;
        Ok(job.into())
    }
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Systemd {
    fn subscribe(&self) -> Result<(), Refusal> {
        let mut calls = self.0.lock().unwrap();
        if calls.iter().any(|call| call == "subscribe") {
            return Err(Refusal::AlreadySubscribed("Client is already subscribed.".to_owned()));
        }
        calls.push("subscribe".to_owned());
        Ok(())
    }

    fn reload(&self) {
        self.note("reload-all".to_owned());
    }

    async fn restart_unit(
        &self,
        name: String,
        mode: String,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<OwnedObjectPath, Refusal> {
        assert_eq!(mode, "replace");
        self.job("restart", &name, &emitter).await
    }

    async fn reload_unit(
        &self,
        name: String,
        mode: String,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> Result<OwnedObjectPath, Refusal> {
        assert_eq!(mode, "replace");
        self.job("reload", &name, &emitter).await
    }

    fn get_unit(&self, name: String) -> Result<OwnedObjectPath, Refusal> {
        if name == "gone.service" {
            return Err(Refusal::NoSuchUnit(format!("Unit {name} not loaded.")));
        }
        let which = if name == "broken.service" { "broken" } else { "a" };
        Ok(ObjectPath::try_from(format!("/org/freedesktop/systemd1/unit/{which}")).unwrap().into())
    }

    fn get_unit_file_state(&self, file: String) -> fdo::Result<String> {
        match file.as_str() {
            "gone.service" => Err(fdo::Error::FileNotFound("No such file or directory".to_owned())),
            "masked.service" => Ok("masked".to_owned()),
            _ => Ok("enabled".to_owned()),
        }
    }

    fn enable_unit_files(&self, files: Vec<String>, runtime: bool, force: bool) -> fdo::Result<(bool, Changes)> {
        self.note(format!("enable {} {runtime} {force}", files.join(" ")));
        match files.iter().any(|file| file == "masked.service") {
            true => Err(fdo::Error::Failed("Unit masked.service is masked".to_owned())),
            false => Ok((true, Vec::new())),
        }
    }

    fn disable_unit_files(&self, files: Vec<String>, runtime: bool) -> Changes {
        self.note(format!("disable {} {runtime}", files.join(" ")));
        Vec::new()
    }

    fn preset_unit_files(&self, files: Vec<String>, runtime: bool, force: bool) -> (bool, Changes) {
        self.note(format!("preset {} {runtime} {force}", files.join(" ")));
        (true, Vec::new())
    }

    #[zbus(signal)]
    async fn job_removed(
        emitter: &SignalEmitter<'_>,
        id: u32,
        job: ObjectPath<'_>,
        unit: &str,
        result: &str,
    ) -> zbus::Result<()>;
}

struct Unit(&'static str);

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl Unit {
    #[zbus(property)]
    fn active_state(&self) -> String {
        self.0.to_owned()
    }

    #[zbus(property)]
    fn sub_state(&self) -> String {
        String::new()
    }
}

struct Logind(Calls);

#[interface(name = "org.freedesktop.login1.Manager")]
impl Logind {
    fn reboot(&self, interactive: bool) {
        self.0.lock().unwrap().push(format!("reboot {interactive}"));
    }
}

/// Programs that only remember.
#[derive(Clone, Default)]
struct Remembering(Calls);

impl ProgramRunner for Remembering {
    fn feed(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, HostError> {
        self.0.lock().unwrap().push(format!("{program} {}", arguments.join(" ")));
        Ok(Output { code: Some(0), stdout: "disabled\n".to_owned(), stderr: String::new() })
    }
}

/// A bus of our own.
struct PrivateBus {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl PrivateBus {
    /// `None`, and a line in the list of what was skipped, where there is no such program.
    fn start() -> Option<PrivateBus> {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("bus.conf");
        let place = folder.path().display();
        let text = format!(
            "<busconfig><type>session</type><listen>unix:dir={place}</listen><policy context=\"default\">\
             <allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/></policy></busconfig>"
        );
        std::fs::write(&settings, text).unwrap();
        let program = std::env::var("SEAWORTHY_DBUS_DAEMON").unwrap_or_else(|_| "dbus-daemon".to_owned());
        let mut command = Command::new(program);
        command.arg(format!("--config-file={}", settings.display())).args(["--nofork", "--print-address=1"]);
        let Ok(mut process) = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn() else {
            let why = std::env::var("SEAWORTHY_DBUS_DAEMON_MISSING").unwrap_or_else(|_| "not found".to_owned());
            let line = format!("SKIPPED dbus-daemon: {why}\n");
            match std::env::var_os("SEAWORTHY_SKIPPED") {
                Some(list) => {
                    let mut list = std::fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
                    list.write_all(line.as_bytes()).unwrap();
                }
                None => eprint!("{line}"),
            }
            return None;
        };
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Some(PrivateBus { process, address: address.trim().to_owned(), _folder: folder })
    }
}

struct Fixture {
    bus: PrivateBus,
    host: LinuxHost,
    calls: Calls,
    programs: Calls,
    _root: tempfile::TempDir,
    _served: (tokio::runtime::Runtime, Option<Connection>),
}

fn fixture(has_systemd: bool) -> Option<Fixture> {
    let bus = PrivateBus::start()?;
    let (calls, programs) = (Calls::default(), Remembering::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let served = has_systemd.then(|| {
        let (systemd, logind) = (Systemd(Arc::clone(&calls)), Logind(Arc::clone(&calls)));
        let builder = zbus::connection::Builder::address(bus.address.as_str())
            .name("org.freedesktop.systemd1")
            .name("org.freedesktop.login1")
            .serve_at("/org/freedesktop/systemd1", systemd)
            .serve_at("/org/freedesktop/systemd1/unit/a", Unit("active"))
            .serve_at("/org/freedesktop/systemd1/unit/broken", Unit("failed"))
            .serve_at("/org/freedesktop/login1", logind);
        runtime.block_on(builder.build()).unwrap()
    });
    let root = tempfile::tempdir().unwrap();
    let host = LinuxHost::with_bus(root.path(), Box::new(programs.clone()), &bus.address).unwrap();
    Some(Fixture { bus, host, calls, programs: programs.0, _root: root, _served: (runtime, served) })
}

#[test]
fn units_are_asked_for_over_the_bus_and_no_program_is_run() {
    let Some(it) = fixture(true) else { return };
    let states = ["a.service", "masked.service", "gone.service"].map(|unit| it.host.unit_state(unit).unwrap());
    assert_eq!(states, [UnitState::Enabled, UnitState::Masked, UnitState::NotFound]);
    it.host.enable(&["a.service", "b.service"]).unwrap();
    it.host.disable(&["a.service"]).unwrap();
    it.host.preset(&["a.service"]).unwrap();
    it.host.daemon_reload().unwrap();
    it.host.restart("a.service").unwrap();
    it.host.reload("a.service").unwrap();
    let failed = ["a.service", "broken.service", "gone.service"].map(|unit| it.host.has_failed(unit).unwrap());
    assert_eq!(failed, [false, true, false]);
    it.host.reboot("test").unwrap();
    let expected = [
        "enable a.service b.service false false",
        "reload-all",
        "disable a.service false",
        "reload-all",
        "preset a.service false false",
        "reload-all",
        "reload-all",
        "subscribe",
        "restart a.service",
        "reload a.service",
        "reboot false",
    ];
    assert_eq!(*it.calls.lock().unwrap(), expected);
    assert!(it.programs.lock().unwrap().is_empty());
}

#[test]
fn what_systemd_refuses_or_fails_at_is_named_and_not_tried_in_another_way() {
    let Some(it) = fixture(true) else { return };
    let failed = it.host.restart("broken.service").unwrap_err().to_string();
    assert!(failed.contains("restart broken.service") && failed.contains("\"failed\""), "{failed}");
    let gone = it.host.reload("gone.service").unwrap_err().to_string();
    assert!(gone.contains("gone.service not found"), "{gone}");
    let masked = it.host.enable(&["masked.service"]).unwrap_err().to_string();
    assert!(masked.contains("masked.service is masked"), "{masked}");
    assert!(it.programs.lock().unwrap().is_empty());
}

#[test]
fn service_that_never_stops_is_named_after_its_limit_and_the_next_call_works() {
    let Some(it) = fixture(true) else { return };
    let host = it.host.with_timeout(Duration::from_millis(50));
    for (verb, error) in [("restart", host.restart("endless.service")), ("reload", host.reload("endless.service"))] {
        let line = format!("systemctl {verb} endless.service");
        assert!(matches!(&error, Err(HostError::Timeout { line: found, .. }) if *found == line), "{error:?}");
    }
    host.restart("a.service").unwrap();
    assert!(it.programs.lock().unwrap().is_empty());
}

#[test]
fn without_systemd_on_the_bus_systemctl_is_run() {
    let Some(it) = fixture(false) else { return };
    assert_eq!(it.host.unit_state("a.service").unwrap(), UnitState::Disabled);
    it.host.restart("a.service").unwrap();
    it.host.enable(&["a.service"]).unwrap();
    it.host.reboot("test").unwrap();
    let lines = it.programs.lock().unwrap();
    assert_eq!(
        lines[..3],
        ["systemctl is-enabled -- a.service", "systemctl restart -- a.service", "systemctl enable -- a.service"]
    );
    assert!(lines[3].starts_with("systemd-run "), "{lines:?}");
}

#[test]
fn a_bus_that_goes_away_is_no_loss() {
    let Some(mut it) = fixture(true) else { return };
    it.host.restart("a.service").unwrap();
    it.bus.process.kill().unwrap();
    it.bus.process.wait().unwrap();
    it.host.restart("a.service").unwrap();
    it.host.daemon_reload().unwrap();
    assert_eq!(*it.programs.lock().unwrap(), ["systemctl restart -- a.service", "systemctl daemon-reload"]);
}

#[test]
fn a_thread_of_an_asynchronous_program_may_ask_as_well() {
    let Some(it) = fixture(true) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let host = Arc::new(it.host);
    let done = runtime.block_on(runtime.spawn_blocking({
        let host = Arc::clone(&host);
        move || host.restart("a.service")
    }));
    done.unwrap().unwrap();
    assert_eq!(*it.calls.lock().unwrap(), ["subscribe", "restart a.service"]);
}
