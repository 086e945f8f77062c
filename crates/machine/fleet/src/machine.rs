//! How a machine comes into the world: Ignition writes it, and its first boot is completed by the daemon.

use seaworthy_api::machineconfiguration::{API_VERSION, MachineConfigSpec};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_host::{FakeHost, Host as _, HostError};
use seaworthy_node::first_boot::{FirstBoot, FirstBootError, first_boot};
use seaworthy_node::observed::observe;
use seaworthy_node::perform::perform;
use seaworthy_node::target::TargetError;
use seaworthy_node::{Step, Target, paths, steps};
use serde_json::{Value, json};

/// More boots than that are no help.
const BOOTS: usize = 8;

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The API did not answer as it should.
    #[error("node {node}: cannot {what}: {source}")]
    Api {
        /// Whose.
        node: String,
        /// What was tried.
        what: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// Its configuration cannot be used.
    #[error("node {node}: {source}")]
    Target {
        /// Whose.
        node: String,
        /// What is wrong with it.
        source: TargetError,
    },
    /// The machine did not do what it was asked.
    #[error("node {node}: {source}")]
    Host {
        /// Whose.
        node: String,
        /// What it said.
        source: HostError,
    },
    /// It is given no configuration.
    #[error("node {node}: it is given no configuration: {why}")]
    Endpoint {
        /// Whose.
        node: String,
        /// What the endpoint said, or what is wrong with what it was told.
        why: String,
    },
    /// There is nothing that it could run.
    #[error("node {node}: pool {pool} has no configuration; is there a ControllerConfig, and do the controllers run?")]
    NoConfig {
        /// Whose.
        node: String,
        /// The pool of its role.
        pool: String,
    },
    /// Its kubelet is not heard.
    #[error("node {node}: its Node cannot be written; the log says why")]
    Silent {
        /// Whose.
        node: String,
    },
    /// Its first boot does not come to an end.
    #[error("node {node}: {BOOTS} boots have not brought MachineConfig {config}")]
    Boots {
        /// Whose.
        node: String,
        /// What it should run.
        config: String,
    },
}

/// A machine that was given a config by the endpoint: Ignition has written it, and it has booted into it.
///
/// # Errors
///
/// If it cannot be written, or does not boot into it.
pub fn ignited(node: &str, config: &Value) -> Result<FakeHost, MachineError> {
    let spec = MachineConfigSpec { config: Some(config.clone()), ..MachineConfigSpec::default() };
    let target = Target::parse("what the endpoint gave", &spec, None)
        .map_err(|source| MachineError::Target { node: node.to_owned(), source })?;
    let host = written(node, &target)?;
    booted(node, &target.name, host)
}

/// A machine that had a configuration before: as [`ignited`] would have left it, with what the endpoint adds that matters here.
///
/// # Errors
///
/// If it cannot be written, or does not boot into it.
pub fn made(node: &str, config: &str, spec: &MachineConfigSpec) -> Result<FakeHost, MachineError> {
    let target =
        Target::parse(config, spec, None).map_err(|source| MachineError::Target { node: node.to_owned(), source })?;
    let host = written(node, &target)?;
    let annotations = json!({
        annotation::CURRENT_CONFIG.as_str(): config,
        annotation::DESIRED_CONFIG.as_str(): config,
        annotation::STATE.as_str(): "Done",
    });
    host.put(paths::INITIAL_ANNOTATIONS, annotations.to_string().as_bytes(), 0o644);
    let whole =
        json!({"apiVersion": API_VERSION, "kind": "MachineConfig", "metadata": {"name": config}, "spec": target.spec});
    host.put(paths::ENCAPSULATED, whole.to_string().as_bytes(), 0o600);
    booted(node, config, host)
}

/// Settings of a kernel that people change most, as they are after a boot. One that is not among them does not take effect, as on a
/// kernel that does not know it: the check says so, and the machine boots.
const KERNEL: [(&str, &str); 55] = [
    ("fs/aio-max-nr", "65536"),
    ("fs/file-max", "9223372036854775807"),
    ("fs/inotify/max_user_instances", "128"),
    ("fs/inotify/max_user_watches", "65536"),
    ("fs/nr_open", "1048576"),
    ("fs/protected_hardlinks", "1"),
    ("fs/protected_symlinks", "1"),
    ("fs/suid_dumpable", "0"),
    ("kernel/dmesg_restrict", "0"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/kptr_restrict", "0"),
    ("kernel/numa_balancing", "0"),
    ("kernel/panic", "0"),
    ("kernel/panic_on_oops", "0"),
    ("kernel/perf_event_paranoid", "2"),
    ("kernel/pid_max", "4194304"),
    ("kernel/randomize_va_space", "2"),
    ("kernel/sysrq", "16"),
    ("kernel/threads-max", "127000"),
    ("kernel/unprivileged_bpf_disabled", "2"),
    ("kernel/yama/ptrace_scope", "0"),
    ("net/core/bpf_jit_harden", "0"),
    ("net/core/default_qdisc", "fq_codel"),
    ("net/core/netdev_max_backlog", "1000"),
    ("net/core/rmem_max", "212992"),
    ("net/core/somaxconn", "4096"),
    ("net/core/wmem_max", "212992"),
    ("net/ipv4/conf/all/accept_redirects", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/all/send_redirects", "1"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/ip_forward", "0"),
    ("net/ipv4/ip_local_port_range", "32768 60999"),
    ("net/ipv4/neigh/default/gc_thresh1", "128"),
    ("net/ipv4/neigh/default/gc_thresh2", "512"),
    ("net/ipv4/neigh/default/gc_thresh3", "1024"),
    ("net/ipv4/tcp_fin_timeout", "60"),
    ("net/ipv4/tcp_keepalive_time", "7200"),
    ("net/ipv4/tcp_max_syn_backlog", "4096"),
    ("net/ipv4/tcp_rmem", "4096 131072 6291456"),
    ("net/ipv4/tcp_syncookies", "1"),
    ("net/ipv4/tcp_tw_reuse", "2"),
    ("net/ipv4/tcp_wmem", "4096 16384 4194304"),
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/all/forwarding", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("user/max_user_namespaces", "63500"),
    ("vm/dirty_background_ratio", "10"),
    ("vm/dirty_ratio", "20"),
    ("vm/max_map_count", "65530"),
    ("vm/min_free_kbytes", "67584"),
    ("vm/nr_hugepages", "0"),
    ("vm/overcommit_memory", "0"),
    ("vm/panic_on_oom", "0"),
    ("vm/swappiness", "60"),
];

/// A machine with everything that Ignition writes.
fn written(node: &str, target: &Target) -> Result<FakeHost, MachineError> {
    let failed = |source: HostError| MachineError::Host { node: node.to_owned(), source };
    let wrong = |source: TargetError| MachineError::Target { node: node.to_owned(), source };
    let host = FakeHost::new(node);
    for (key, value) in KERNEL {
        host.add_setting(&format!("/proc/sys/{key}"), value);
    }
    let empty = Target::parse("nothing", &MachineConfigSpec::default(), None).map_err(wrong)?;
    let observed = observe(&host, &empty, target).map_err(failed)?;
    for step in steps(&empty, target, &observed).map_err(wrong)? {
        let is_daemons =
            matches!(step, Step::KeepOriginal { .. } | Step::NoteNoOriginal { .. } | Step::ForgetOriginal { .. });
        // Originals are the daemon's affair, and what is booted that of the first boot.
        if !is_daemons && !matches!(step, Step::Boot(_)) {
            perform(&host, &step).map_err(failed)?;
        }
    }
    for (path, to) in &target.links {
        host.symlink(path, to).map_err(failed)?;
    }
    host.sync().map_err(failed)?;
    Ok(host)
}

/// The machine when its first boot is complete.
fn booted(node: &str, config: &str, host: FakeHost) -> Result<FakeHost, MachineError> {
    for _ in 0..BOOTS {
        let result = first_boot(&host).map_err(|error| match error {
            FirstBootError::Host(source) => MachineError::Host { node: node.to_owned(), source },
            FirstBootError::Target(source) => MachineError::Target { node: node.to_owned(), source },
        });
        match result? {
            FirstBoot::Complete => {
                host.forget_calls();
                return Ok(host);
            }
            FirstBoot::Rebooting => host.boot_orderly(),
        }
    }
    Err(MachineError::Boots { node: node.to_owned(), config: config.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> MachineConfigSpec {
        serde_json::from_value(json!({
            "kernelArguments": ["nosmt"],
            "config": {"ignition": {"version": "3.5.0"}, "storage": {
                "files": [{"path": "/etc/motd", "mode": 0o640, "contents": {"source": "data:,hello"}}],
                "links": [{"path": "/etc/a", "target": "/etc/motd"}],
            }, "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": "[Unit]\n[Install]\nWantedBy=a\n"}]}},
        }))
        .unwrap()
    }

    #[test]
    fn new_machine_has_its_files_and_its_kernel_arguments_and_nothing_of_the_daemons() {
        let host = made("w1", "rendered-worker-1", &spec()).unwrap();
        assert_eq!(host.text("/etc/motd").as_deref(), Some("hello"));
        assert!(host.is_link_to("/etc/a", "/etc/motd").unwrap());
        assert_eq!(host.unit_state("a.service").unwrap(), seaworthy_host::UnitState::Enabled);
        assert!(host.boot().unwrap().arguments.contains(&"nosmt".to_owned()));
        assert!(!host.exists(paths::CURRENT_CONFIG).unwrap() && !host.exists(paths::ENCAPSULATED).unwrap());
        assert!(host.exists(paths::INITIAL_ANNOTATIONS).unwrap());
        assert_eq!(host.names(&format!("{}/noorig", paths::HOME)).unwrap(), Vec::<String>::new());
    }
}
