//! `seaworthy controllers`: the controllers as a process.

use std::sync::Arc;

use seaworthy_controllers::process::{self, ProcessOptions};
use seaworthy_controllers::{OperatorOptions, OperatorSelection, operators};
use seaworthy_fetch::Policy;
use seaworthy_machineconfig::operator;
use seaworthy_resident::disable_huge_pages;
use seaworthy_runtime::cluster;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::apiserver::shutdown_signal;
use super::templates;
use crate::cli::{Controllers, LogFormat};
use crate::failure::{EXIT_OK, Failure};
use crate::idle_memory;

/// Runs until it receives a stop signal.
pub fn run(options: &Controllers) -> Result<u8, Failure> {
    disable_huge_pages();
    let machineconfig = operator::MachineConfigOptions {
        remote: Policy::allowing(options.allow_host.iter().cloned()),
        templates: Arc::new(templates::read(options.templates.as_deref())?),
        own_node: std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty()),
        ..operator::MachineConfigOptions::default()
    };
    let operators = operators::all(OperatorOptions { machineconfig });
    let process_options = ProcessOptions {
        selection: OperatorSelection::parse(&options.only, &operators).map_err(Failure::invalid)?,
        probes: options.metrics,
        elects_leader: !options.no_leader_election,
        installs_definitions: options.install,
        ..ProcessOptions::new(&options.namespace)
    };
    start_log(options.log_format);
    let runtime = super::outlook::runtime()?;
    let result = runtime.block_on(async {
        tokio::spawn(idle_memory::release_periodically());
        let client = cluster::connect(options.cluster.kubeconfig.as_deref(), options.cluster.context.as_deref());
        let client = client.await.map_err(Failure::invalid)?;
        let prepared = process::prepare(client, operators, process_options).await.map_err(Failure::invalid)?;
        process::run(prepared, shutdown_signal()).await.map_err(Failure::failed)
    });
    // No one waits for the tasks that are left.
    runtime.shutdown_background();
    result.map(|()| EXIT_OK)
}

/// Starts logging to standard error.
pub(super) fn start_log(format: LogFormat) {
    use std::io::IsTerminal as _;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    // A second logger would be a mistake of this program's; there is none.
    let _ = match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).finish().with(log_filter()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().with(log_filter()).try_init(),
    };
}

/// The log filter. The client logs every failed call without naming it; its caller logs the same with the name.
pub(super) fn log_filter() -> Targets {
    Targets::new().with_default(LevelFilter::INFO).with_target("kube_client", LevelFilter::OFF)
}
