//! `seaworthy controllers`: the controllers as a process.

use std::sync::Arc;

use seaworthy_controllers::process::{self, ProcessOptions};
use seaworthy_controllers::{OperatorOptions, OperatorSelection, operators};
use seaworthy_fetch::Policy;
use seaworthy_machineconfig::operator;
use seaworthy_resident::disable_huge_pages;

use crate::cli::Controllers;
use crate::cluster::client;
use crate::failure::{EXIT_OK, Failure};
use crate::idle_memory;
use crate::manifest::templates;
use crate::process::{block_on, shutdown_signal, start_log};

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
    block_on(async {
        tokio::spawn(idle_memory::release_periodically());
        let client = client(&options.cluster).await?;
        let prepared = process::prepare(client, operators, process_options).await.map_err(Failure::invalid)?;
        process::run(prepared, shutdown_signal()).await.map(|()| EXIT_OK).map_err(Failure::failed)
    })
}
