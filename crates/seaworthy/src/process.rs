//! The process of a command: its runtime, its log, and the signals that stop it.

use std::fs;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::LogFormat;
use crate::failure::Failure;

/// The runtime of asynchronous commands.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::invalid(format!("cannot start: {error}")))
}

/// Runs the work of a command to its end, in a runtime of its own. No one waits for the tasks that are left.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Starts logging to standard error.
pub fn start_log(format: LogFormat) {
    use std::io::IsTerminal as _;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    // A second logger would be a mistake of this program's; there is none.
    let _ = match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).finish().with(log_filter()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().with(log_filter()).try_init(),
    };
}

/// The log filter. The client logs every failed call without naming it; its caller logs the same with the name.
pub fn log_filter() -> Targets {
    Targets::new().with_default(LevelFilter::INFO).with_target("kube_client", LevelFilter::OFF)
}

/// Listens for SIGINT, SIGTERM and SIGHUP from the call on; completes when one arrives.
pub fn shutdown_signal() -> impl Future<Output = ()> {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    // A process that was started with `nohup` outlives the terminal.
    let hangup = if is_ignored(SignalKind::hangup()) { None } else { signal(SignalKind::hangup()).ok() };
    async move {
        let hung_up = async {
            match hangup {
                Some(mut hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        match (interrupt, terminate) {
            (Ok(mut interrupt), Ok(mut terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hung_up => {}
                }
            }
            // Without handlers the default action of the signals ends the process.
            _ => std::future::pending().await,
        }
    }
}

/// Whether the process was started with a signal ignored.
fn is_ignored(signal: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}
