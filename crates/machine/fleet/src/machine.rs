//! Creation of simulated machines: Ignition's files, and the first boot, which the daemon completes.

use std::sync::Arc;

use seaworthy_api::machineconfiguration::{API_VERSION, MachineConfigSpec};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_host::{FakeHost, Host as _, HostError};
use seaworthy_node::first_boot::{FirstBoot, FirstBootError, first_boot};
use seaworthy_node::observed::observe;
use seaworthy_node::perform::perform;
use seaworthy_node::target::TargetError;
use seaworthy_node::{Step, TargetState, paths, steps};
use serde_json::{Value, json};

/// More boots than that do not help.
const MAX_BOOTS: usize = 8;

/// A machine that cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("node {node}: cannot {what}: {source}")]
    Api { node: String, what: String, source: Box<kube::Error> },
    #[error("node {node}: {source}")]
    Target { node: String, source: TargetError },
    #[error("node {node}: {source}")]
    Host { node: String, source: HostError },
    /// The Ignition endpoint serves it no configuration.
    #[error("node {node}: cannot fetch its configuration: {why}")]
    Endpoint { node: String, why: String },
    #[error("node {node}: pool {pool} has no configuration; is there a ControllerConfig, and do the controllers run?")]
    NoConfig { node: String, pool: String },
    #[error("node {node}: its Node cannot be written; see the log for the reason")]
    NotRegistered { node: String },
    /// Its first boot is not complete after several boots.
    #[error("node {node}: {MAX_BOOTS} boots have not applied MachineConfig {config}")]
    FirstBoot { node: String, config: String },
}

/// Creates a machine with an Ignition config of the endpoint, and completes its first boot.
///
/// # Errors
///
/// If its files cannot be written, or its first boot is not completed.
pub fn machine_from_endpoint(node: &str, config: &Value) -> Result<FakeHost, MachineError> {
    let spec = MachineConfigSpec { config: Some(config.clone()), ..MachineConfigSpec::default() };
    let target = TargetState::parse("the Ignition config of the endpoint", spec.into(), None)
        .map_err(|source| MachineError::Target { node: node.to_owned(), source })?;
    let host = with_files(node, &target)?;
    complete_first_boot(node, &target.name, host)
}

/// Creates a machine with a rendered configuration, as [`machine_from_endpoint`] does, with the files that the endpoint adds.
///
/// # Errors
///
/// If its files cannot be written, or its first boot is not completed.
pub fn machine_from_config(node: &str, config: &str, spec: MachineConfigSpec) -> Result<FakeHost, MachineError> {
    let target = TargetState::parse(config, spec.into(), None)
        .map_err(|source| MachineError::Target { node: node.to_owned(), source })?;
    let host = with_files(node, &target)?;
    let annotations = json!({
        annotation::CURRENT_CONFIG.as_str(): config,
        annotation::DESIRED_CONFIG.as_str(): config,
        annotation::STATE.as_str(): "Done",
    });
    host.put(paths::INITIAL_ANNOTATIONS, annotations.to_string().as_bytes(), 0o644);
    let whole =
        json!({"apiVersion": API_VERSION, "kind": "MachineConfig", "metadata": {"name": config}, "spec": *target.spec});
    host.put(paths::ENCAPSULATED, whole.to_string().as_bytes(), 0o600);
    complete_first_boot(node, config, host)
}

/// Sysctl settings that are changed most, with their values after a boot. Another one does not take effect, as on a kernel without
/// it: the daemon detects that, and reboots the machine.
const SYSCTLS: [(&str, &str); 55] = [
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

/// A machine with the files that Ignition writes.
fn with_files(node: &str, target: &TargetState) -> Result<FakeHost, MachineError> {
    let failed = |source: HostError| MachineError::Host { node: node.to_owned(), source };
    let wrong = |source: TargetError| MachineError::Target { node: node.to_owned(), source };
    let host = FakeHost::new(node);
    for (key, value) in SYSCTLS {
        host.add_setting(&format!("/proc/sys/{key}"), value);
    }
    let empty = TargetState::parse("nothing", Arc::default(), None).map_err(wrong)?;
    let observed = observe(&host, &empty, target).map_err(failed)?;
    for step in steps(&empty, target, &observed).map_err(wrong)? {
        let is_about_originals =
            matches!(step, Step::KeepOriginal { .. } | Step::NoteNoOriginal { .. } | Step::ForgetOriginal { .. });
        // Ignition keeps no originals, and the boot is changed by the first boot.
        if !is_about_originals && !matches!(step, Step::Boot(_)) {
            perform(&host, &step).map_err(failed)?;
        }
    }
    for (path, to) in &target.links {
        host.symlink(path, to).map_err(failed)?;
    }
    host.sync().map_err(failed)?;
    Ok(host)
}

/// Boots the machine until its first boot is complete.
fn complete_first_boot(node: &str, config: &str, host: FakeHost) -> Result<FakeHost, MachineError> {
    for _ in 0..MAX_BOOTS {
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
    Err(MachineError::FirstBoot { node: node.to_owned(), config: config.to_owned() })
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
        let host = machine_from_config("w1", "rendered-worker-1", spec()).unwrap();
        assert_eq!(host.text("/etc/motd").as_deref(), Some("hello"));
        assert!(host.is_link_to("/etc/a", "/etc/motd").unwrap());
        assert_eq!(host.unit_state("a.service").unwrap(), seaworthy_host::UnitState::Enabled);
        assert!(host.boot().unwrap().arguments.contains(&"nosmt".to_owned()));
        assert!(!host.exists(paths::CURRENT_CONFIG).unwrap() && !host.exists(paths::ENCAPSULATED).unwrap());
        assert!(host.exists(paths::INITIAL_ANNOTATIONS).unwrap());
        assert_eq!(host.names(&format!("{}/noorig", paths::STATE_DIR)).unwrap(), Vec::<String>::new());
    }
}
