//! The fleet: machines that follow their orders for as long as it lives.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{MASTER, WORKER, node as annotation};
use seaworthy_api::vocabulary::seaworthy::label::SIMULATED;
use seaworthy_host::{FakeHost, Host as _, Unsynced};
use seaworthy_node::{Daemon, Settings};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use crate::ignition::{Stubs, fetched};
use crate::kubelet::Kubelet;
use crate::machine::{MachineError, ignited, made};
use crate::{Clock, Pace, Workload, pods, workload};

/// Where the operating system of a machine cannot be written, as on machines that run an image.
const READ_ONLY: [&str; 6] = ["/usr/bin/", "/usr/lib", "/usr/libexec/", "/usr/sbin/", "/usr/share/", "/usr/etc/"];

/// What a fleet is made of.
#[derive(Clone)]
pub struct Setup {
    /// How long things take.
    pub pace: Pace,
    /// What the owner of the machines has chosen.
    pub settings: Settings,
    /// Tells the date.
    pub clock: Clock,
    /// How many daemons may touch their machine at a time; each needs a thread for that long.
    pub at_once: u32,
    /// How long a new machine waits for its configuration, and to be heard by the API.
    pub patience: Duration,
    /// Leads new machines to the endpoint that gives them their configuration. Without it they read it from the API, which
    /// needs no socket: in a test that has stopped the time there is none.
    pub stubs: Option<Stubs>,
    /// The client of a node's kubelet and daemon, by the node's name.
    pub client_of: Arc<dyn Fn(&str) -> Client + Send + Sync>,
}

impl Setup {
    /// A fleet in which everybody uses one client.
    pub fn new(client: Client) -> Setup {
        Setup {
            pace: Pace::default(),
            settings: Settings::default(),
            clock: Arc::new(Timestamp::now),
            at_once: 8,
            patience: Duration::from_secs(60),
            stubs: None,
            client_of: Arc::new(move |_| client.clone()),
        }
    }
}

struct Machine {
    role: String,
    host: FakeHost,
    boots: Arc<AtomicUsize>,
    reset: Arc<Notify>,
    life: JoinHandle<()>,
}

/// Machines that follow their orders for as long as this lives.
pub struct Fleet {
    client: Client,
    setup: Setup,
    turns: Arc<Semaphore>,
    machines: Arc<Mutex<BTreeMap<String, Machine>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Fleet {
    /// A fleet without machines. `client` sees all pods and pools.
    pub fn start(client: Client, setup: Setup) -> Fleet {
        let machines: Arc<Mutex<BTreeMap<String, Machine>>> = Arc::default();
        let known = Arc::clone(&machines);
        let is_ours = move |node: &str| known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(node);
        let pods = tokio::spawn(pods::run(client.clone(), setup.pace, Arc::clone(&setup.clock), is_ours));
        let turns = Arc::new(Semaphore::new(setup.at_once.max(1) as usize));
        Fleet { client, setup, turns, machines, tasks: Mutex::new(vec![pods]) }
    }

    fn machines(&self) -> MutexGuard<'_, BTreeMap<String, Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a machine. One whose node is in the cluster already comes back in the configuration that it had.
    ///
    /// # Errors
    ///
    /// If the API does not say what it should run, or it cannot run that.
    pub async fn add(&self, name: &str, role: &str) -> Result<(), MachineError> {
        if self.machines().contains_key(name) {
            return Ok(());
        }
        let host = self.machine(name, role).await?;
        // A machine that comes back is in another boot than before.
        let now = (self.setup.clock)().as_millisecond();
        host.change_boot(|boot| boot.id = format!("{name}-{now:x}-1"));
        for place in READ_ONLY {
            host.fail(&format!("write {place}"), "Read-only file system (os error 30)");
        }
        let client = (self.setup.client_of)(name);
        let mut kubelet = Kubelet::new(Api::all(client.clone()), name, role, Arc::clone(&self.setup.clock));
        let heard = tokio::time::timeout(self.setup.patience, kubelet.say(true, &boot_id(&host))).await;
        heard.map_err(|_| MachineError::Silent { node: name.to_owned() })?;
        let (boots, reset) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let life = Life {
            name: name.to_owned(),
            client,
            kubelet,
            host: host.clone(),
            setup: self.setup.clone(),
            turns: Arc::clone(&self.turns),
            boots: Arc::clone(&boots),
            reset: Arc::clone(&reset),
        };
        let life = tokio::spawn(life.run());
        self.machines().insert(name.to_owned(), Machine { role: role.to_owned(), host, boots, reset, life });
        Ok(())
    }

    /// A machine as it is after its first boot. One whose node is in the cluster already has what that says that it runs.
    async fn machine(&self, name: &str, role: &str) -> Result<FakeHost, MachineError> {
        let failed = |what: &str| {
            let (node, what) = (name.to_owned(), what.to_owned());
            move |source: kube::Error| MachineError::Api { node, what, source: Box::new(source) }
        };
        let (nodes, configs): (Api<Node>, Api<MachineConfig>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        let node = nodes.get_opt(name).await.map_err(failed("read its Node"))?;
        if let Some(current) = node.as_ref().and_then(|node| annotation::CURRENT_CONFIG.of(&node.metadata))
            && let Some(found) = configs.get_opt(current).await.map_err(failed("read its MachineConfig"))?
        {
            return made(name, current, &found.spec);
        }
        if let Some(stubs) = &self.setup.stubs {
            let given = fetched(&stubs(role), self.setup.patience).await;
            let given = given.map_err(|why| MachineError::Endpoint { node: name.to_owned(), why })?;
            return ignited(name, &given);
        }
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        let has_target = |pool: Option<&MachineConfigPool>| pool.is_some_and(|pool| target(pool).is_some());
        let waited = tokio::time::timeout(self.setup.patience, await_condition(pools, role, has_target)).await;
        let none = || MachineError::NoConfig { node: name.to_owned(), pool: role.to_owned() };
        let pool = waited.ok().and_then(Result::ok).flatten().ok_or_else(none)?;
        let config = target(&pool).ok_or_else(none)?;
        let found = configs.get(config).await.map_err(failed(&format!("read MachineConfig {config}")))?;
        made(name, config, &found.spec)
    }

    /// The machines of this fleet that are in the cluster already, by name, with their roles.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub async fn known(client: &Client) -> Result<Vec<(String, String)>, MachineError> {
        let nodes: Api<Node> = Api::all(client.clone());
        let params = ListParams::default().labels(SIMULATED.as_str());
        let found = nodes.list(&params).await.map_err(|source| MachineError::Api {
            node: "(all)".to_owned(),
            what: "list the simulated nodes".to_owned(),
            source: Box::new(source),
        })?;
        let role = |node: &Node| node.labels().get(SIMULATED.as_str()).cloned().unwrap_or_default();
        Ok(found.items.iter().map(|node| (node.name_any(), role(node))).collect())
    }

    /// Names and roles for so many machines: three masters where there are six and more, otherwise one; the rest are workers.
    pub fn names(count: usize) -> Vec<(String, &'static str)> {
        let masters = if count >= 6 { 3 } else { count.min(1) };
        let masters_first = (1..=masters).map(|nth| (format!("m{nth}"), MASTER));
        masters_first.chain((1..=count - masters).map(|nth| (format!("w{nth}"), WORKER))).collect()
    }

    /// The machine of a node.
    pub fn host(&self, name: &str) -> Option<FakeHost> {
        Some(self.machines().get(name)?.host.clone())
    }

    /// The machines of a role, by the names of their nodes.
    pub fn hosts(&self, role: &str) -> BTreeMap<String, FakeHost> {
        let machines = self.machines();
        let of_role = machines.iter().filter(|(_, machine)| machine.role == role);
        of_role.map(|(name, machine)| (name.clone(), machine.host.clone())).collect()
    }

    /// How many machines there are of each role.
    pub fn roles(&self) -> BTreeMap<String, usize> {
        let mut roles = BTreeMap::new();
        self.machines().values().for_each(|machine| *roles.entry(machine.role.clone()).or_default() += 1);
        roles
    }

    /// How often a machine has booted since it was added.
    pub fn boots(&self, name: &str) -> usize {
        self.machines().get(name).map_or(0, |machine| machine.boots.load(Ordering::Relaxed))
    }

    /// Cuts a machine's power; it boots again at once.
    pub fn reset(&self, name: &str) {
        if let Some(machine) = self.machines().get(name) {
            machine.host.cut();
            machine.reset.notify_one();
        }
    }

    /// Has pods run on the workers, wherever there is room, for as long as the fleet lives.
    pub fn run(&self, workload: Workload) {
        let task = tokio::spawn(workload::run(self.client.clone(), workload));
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(JoinHandle::abort);
        self.machines().values().for_each(|machine| machine.life.abort());
    }
}

fn target(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// The boot that a machine is in; a machine without power is in none.
fn boot_id(host: &FakeHost) -> String {
    host.boot().map(|boot| boot.id).unwrap_or_default()
}

/// A machine from boot to boot.
struct Life {
    name: String,
    client: Client,
    kubelet: Kubelet,
    host: FakeHost,
    setup: Setup,
    turns: Arc<Semaphore>,
    boots: Arc<AtomicUsize>,
    reset: Arc<Notify>,
}

impl Life {
    async fn run(mut self) {
        let pace = self.setup.pace;
        loop {
            let boot = boot_id(&self.host);
            let daemon = Daemon::new(
                self.client.clone(),
                &self.name,
                self.host.clone(),
                self.setup.settings,
                self.setup.pace.rhythm,
            );
            let mut daemon = daemon.with_turns(Arc::clone(&self.turns));
            let is_cut = tokio::select! {
                () = Box::pin(daemon.run()) => false,
                () = self.reset.notified() => true,
                () = self.kubelet.beat(pace.heartbeat, &boot) => false,
            };
            if is_cut {
                // What the daemon has under way ends without power, and must not go on after the boot.
                daemon.quiet().await;
                tokio::time::sleep(pace.boot).await;
                self.host.power_on(Unsynced::Lost);
            } else if self.host.is_reboot_asked() {
                self.kubelet.say(false, &boot).await;
                tokio::time::sleep(pace.boot).await;
                self.host.boot_orderly();
            } else {
                // The daemon has ended by itself, and is started again as systemd would.
                tokio::time::sleep(pace.rhythm.first_retry).await;
                continue;
            }
            self.boots.fetch_add(1, Ordering::Relaxed);
            self.host.forget_calls();
            self.kubelet.say(true, &boot_id(&self.host)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Fleet;

    #[rstest]
    #[case(0, 0, 0)]
    #[case(1, 1, 0)]
    #[case(4, 1, 3)]
    #[case(9, 3, 6)]
    fn fleet_has_three_masters_where_they_leave_as_many_workers(
        #[case] count: usize,
        #[case] masters: usize,
        #[case] workers: usize,
    ) {
        let names = Fleet::names(count);
        assert_eq!(names.iter().filter(|(_, role)| *role == "master").count(), masters);
        assert_eq!(names.iter().filter(|(_, role)| *role == "worker").count(), workers);
    }
}
