//! Fleet: simulated machines that follow their orders until it is dropped.

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
use seaworthy_node::{AgentOptions, Daemon};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use crate::ignition::{StubSource, fetch_config};
use crate::kubelet::Kubelet;
use crate::machine::{MachineError, machine_from_config, machine_from_endpoint};
use crate::{FleetClock, FleetTimings, Workload, pods, workload};

/// Read-only paths, as on machines that boot from an image.
const READ_ONLY: [&str; 6] = ["/usr/bin/", "/usr/lib", "/usr/libexec/", "/usr/sbin/", "/usr/share/", "/usr/etc/"];

/// Options of a fleet.
#[derive(Clone)]
pub struct FleetOptions {
    pub timings: FleetTimings,
    pub agent: AgentOptions,
    pub clock: FleetClock,
    /// Limits the daemons that access their machine at a time; each needs a thread meanwhile.
    pub max_concurrent: u32,
    /// The limit for a new machine to get its configuration, and to write its Node.
    pub join_timeout: Duration,
    /// The stubs with the URL of the Ignition endpoint. Without them new machines read their configuration from the API, which
    /// needs no socket: a test that has paused the time cannot wait for one.
    pub stubs: Option<StubSource>,
    /// The client of a node's kubelet and daemon, by the node's name.
    pub client_of: Arc<dyn Fn(&str) -> Client + Send + Sync>,
}

impl FleetOptions {
    /// Options with one client for all nodes.
    pub fn new(client: Client) -> FleetOptions {
        FleetOptions {
            timings: FleetTimings::default(),
            agent: AgentOptions::default(),
            clock: Arc::new(Timestamp::now),
            max_concurrent: 8,
            join_timeout: Duration::from_secs(60),
            stubs: None,
            client_of: Arc::new(move |_| client.clone()),
        }
    }
}

struct FleetMachine {
    role: String,
    host: FakeHost,
    boots: Arc<AtomicUsize>,
    reset: Arc<Notify>,
    task: JoinHandle<()>,
}

/// Machines that follow their orders until this is dropped.
pub struct Fleet {
    client: Client,
    options: FleetOptions,
    permits: Arc<Semaphore>,
    machines: Arc<Mutex<BTreeMap<String, FleetMachine>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Fleet {
    /// A fleet without machines. `client` sees all pods and pools.
    pub fn start(client: Client, options: FleetOptions) -> Fleet {
        let machines: Arc<Mutex<BTreeMap<String, FleetMachine>>> = Arc::default();
        let known = Arc::clone(&machines);
        let is_ours = move |node: &str| known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(node);
        let pods = tokio::spawn(pods::run(client.clone(), options.timings, Arc::clone(&options.clock), is_ours));
        let permits = Arc::new(Semaphore::new(options.max_concurrent.max(1) as usize));
        Fleet { client, options, permits, machines, tasks: Mutex::new(vec![pods]) }
    }

    fn machines(&self) -> MutexGuard<'_, BTreeMap<String, FleetMachine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a machine. One whose node is in the cluster already has the configuration that it had.
    ///
    /// # Errors
    ///
    /// If there is no configuration for it, or it cannot boot into that.
    pub async fn add(&self, name: &str, role: &str) -> Result<(), MachineError> {
        if self.machines().contains_key(name) {
            return Ok(());
        }
        let host = self.machine(name, role).await?;
        // A machine that is added again is in another boot than before.
        let now = (self.options.clock)().as_millisecond();
        host.change_boot(|boot| boot.id = format!("{name}-{now:x}-1"));
        for path in READ_ONLY {
            host.fail(&format!("write {path}"), "Read-only file system (os error 30)");
        }
        let client = (self.options.client_of)(name);
        let mut kubelet = Kubelet::new(Api::all(client.clone()), name, role, Arc::clone(&self.options.clock));
        let registered = tokio::time::timeout(self.options.join_timeout, kubelet.report(true, &boot_id(&host))).await;
        registered.map_err(|_| MachineError::NotRegistered { node: name.to_owned() })?;
        let (boots, reset) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let task = MachineTask {
            name: name.to_owned(),
            client,
            kubelet,
            host: host.clone(),
            options: self.options.clone(),
            permits: Arc::clone(&self.permits),
            boots: Arc::clone(&boots),
            reset: Arc::clone(&reset),
        };
        let task = tokio::spawn(task.run());
        self.machines().insert(name.to_owned(), FleetMachine { role: role.to_owned(), host, boots, reset, task });
        Ok(())
    }

    /// A machine after its first boot. One whose node is in the cluster already has the node's current configuration.
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
            return machine_from_config(name, current, found.spec);
        }
        if let Some(stubs) = &self.options.stubs {
            let given = fetch_config(&stubs(role), self.options.join_timeout).await;
            let given = given.map_err(|why| MachineError::Endpoint { node: name.to_owned(), why })?;
            return machine_from_endpoint(name, &given);
        }
        let pools: Api<MachineConfigPool> = Api::all(self.client.clone());
        let has_target = |pool: Option<&MachineConfigPool>| pool.is_some_and(|pool| target(pool).is_some());
        let waited = tokio::time::timeout(self.options.join_timeout, await_condition(pools, role, has_target)).await;
        let none = || MachineError::NoConfig { node: name.to_owned(), pool: role.to_owned() };
        let pool = waited.ok().and_then(Result::ok).flatten().ok_or_else(none)?;
        let config = target(&pool).ok_or_else(none)?;
        let found = configs.get(config).await.map_err(failed(&format!("read MachineConfig {config}")))?;
        machine_from_config(name, config, found.spec)
    }

    /// The machines of this fleet that are in the cluster already, by name, with their roles.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub async fn existing(client: &Client) -> Result<Vec<(String, String)>, MachineError> {
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

    /// The number of machines of each role.
    pub fn roles(&self) -> BTreeMap<String, usize> {
        let mut roles = BTreeMap::new();
        self.machines().values().for_each(|machine| *roles.entry(machine.role.clone()).or_default() += 1);
        roles
    }

    /// The number of boots since the machine was added.
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

    /// Runs pods on the workers until the fleet is dropped.
    pub fn run(&self, workload: Workload) {
        let task = tokio::spawn(workload::run(self.client.clone(), workload));
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(JoinHandle::abort);
        self.machines().values().for_each(|machine| machine.task.abort());
    }
}

fn target(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// The ID of a machine's boot; empty without power.
fn boot_id(host: &FakeHost) -> String {
    host.boot().map(|boot| boot.id).unwrap_or_default()
}

/// A machine from boot to boot.
struct MachineTask {
    name: String,
    client: Client,
    kubelet: Kubelet,
    host: FakeHost,
    options: FleetOptions,
    permits: Arc<Semaphore>,
    boots: Arc<AtomicUsize>,
    reset: Arc<Notify>,
}

impl MachineTask {
    async fn run(mut self) {
        let timings = self.options.timings;
        loop {
            let boot = boot_id(&self.host);
            let daemon = Daemon::new(
                self.client.clone(),
                &self.name,
                self.host.clone(),
                self.options.agent,
                self.options.timings.intervals,
            );
            let mut daemon = daemon.with_permits(Arc::clone(&self.permits));
            let is_cut = tokio::select! {
                () = Box::pin(daemon.run()) => false,
                () = self.reset.notified() => true,
                () = self.kubelet.heartbeat(timings.heartbeat_interval, &boot) => false,
            };
            if is_cut {
                // The daemon's present work fails without power, and must not continue after the boot.
                daemon.wait_idle().await;
                tokio::time::sleep(timings.boot_delay).await;
                self.host.power_on(Unsynced::Lost);
            } else if self.host.is_reboot_requested() {
                self.kubelet.report(false, &boot).await;
                tokio::time::sleep(timings.boot_delay).await;
                self.host.boot_orderly();
            } else {
                // The daemon has ended by itself, and is restarted as by systemd.
                tokio::time::sleep(timings.intervals.initial_retry_delay).await;
                continue;
            }
            self.boots.fetch_add(1, Ordering::Relaxed);
            self.host.forget_calls();
            self.kubelet.report(true, &boot_id(&self.host)).await;
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
