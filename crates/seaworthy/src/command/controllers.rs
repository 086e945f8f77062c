//! `seaworthy controllers`.

use std::sync::Arc;

use seaworthy_controllers::process::{self, Settings};
use seaworthy_controllers::{Options, Selection, operators};
use seaworthy_fetch::Policy;
use seaworthy_machineconfig::{cluster, operator};
use seaworthy_resident::take_small_pages;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::apiserver::stopped;
use super::templates;
use crate::at_rest;
use crate::cli::{Controllers, LogFormat};
use crate::failure::{Failure, OK};

/// Runs until it is told to stop.
pub fn run(options: &Controllers) -> Result<u8, Failure> {
    take_small_pages();
    let machineconfig = operator::Options {
        remote: Policy::allowing(options.allow_host.iter().cloned()),
        templates: Arc::new(templates::read(options.templates.as_deref())?),
        own_node: std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty()),
        ..operator::Options::default()
    };
    let operators = operators::all(Options { machineconfig });
    let settings = Settings {
        selection: Selection::parse(&options.only, &operators).map_err(Failure::unreadable)?,
        probes: options.metrics,
        elects: !options.no_leader_election,
        installs: options.install,
        ..Settings::new(&options.namespace)
    };
    log(options.log_format);
    let runtime = super::outlook::runtime()?;
    let result = runtime.block_on(async {
        tokio::spawn(at_rest::stay_small());
        let client = cluster::connect(options.cluster.kubeconfig.as_deref(), options.cluster.context.as_deref());
        let client = client.await.map_err(Failure::unreadable)?;
        let prepared = process::prepare(client, operators, settings).await.map_err(Failure::unreadable)?;
        process::run(prepared, stopped()).await.map_err(Failure::wrong)
    });
    // What is still under way is nobody's any more.
    runtime.shutdown_background();
    result.map(|()| OK)
}

/// Has everything that is worth knowing written to standard error.
pub(super) fn log(format: LogFormat) {
    use std::io::IsTerminal as _;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    // A second logger would be a mistake of this program's; there is none.
    let _ = match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).finish().with(worth_knowing()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().with(worth_knowing()).try_init(),
    };
}

/// What is logged. The client tells of every call that fails, without saying which; whoever made it says that, and more.
pub(super) fn worth_knowing() -> Targets {
    Targets::new().with_default(LevelFilter::INFO).with_target("kube_client", LevelFilter::OFF)
}
