//! Machines that boot at once, and idle connections.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::LocalSet;

use super::candidate::{Candidate, Client};

/// How long a server is idle before its memory is measured: less than its idle timeout for connections.
const IDLE_DELAY: Duration = Duration::from_secs(6);

/// Memory of a server, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Before the first connection.
    pub idle: u64,
    /// With connections after their TLS handshake, without a request.
    pub connected: u64,
    /// With the same connections after each has had the config.
    pub served: u64,
    /// The most, with the fleet that boots.
    pub peak: u64,
}

/// A fleet that has booted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootedFleet {
    pub machines: usize,
    /// How many of them at a time.
    pub at_once: usize,
    /// Those that did not get their config at the first attempt, or not the right one.
    pub failed: usize,
    /// The error of the first of them.
    pub first_failure: Option<String>,
    /// From the first to the end of the last.
    pub elapsed: Duration,
    /// The time within which half of them had it, from their first packet.
    pub p50: Duration,
    /// The same for 99 of 100.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

/// Measures a server's memory without connections, with `count` of them, and after each was served once.
pub async fn measure_memory(client: &Client, candidate: &Candidate, count: usize) -> Result<MemoryUse> {
    let tasks = LocalSet::new();
    let measured = async {
        let idle = idle_memory(candidate).await?;
        let mut connections = Vec::with_capacity(count);
        for nth in 0..count {
            let connection = client.endpoint.connect().await;
            connections.push(connection.with_context(|| format!("connection {nth} of {count}"))?);
        }
        let connected = idle_memory(candidate).await?;
        for (nth, connection) in connections.iter_mut().enumerate() {
            let sent = connection.send(client.request()?).await;
            sent.with_context(|| format!("the request on connection {nth} of {count}"))?;
        }
        let served = idle_memory(candidate).await?;
        // All of them are still open, so the memory is theirs.
        for (nth, connection) in connections.iter().enumerate() {
            ensure!(!connection.is_closed(), "connection {nth} of {count} was closed before the measurement");
        }
        Ok(MemoryUse { idle, connected, served, peak: 0 })
    };
    tasks.run_until(measured).await
}

/// Memory of a server after a few idle seconds, with its connections open.
async fn idle_memory(candidate: &Candidate) -> Result<u64> {
    tokio::time::sleep(IDLE_DELAY).await;
    Ok(candidate.memory()?.now)
}

/// Boots machines, so many at a time; each has one request on a connection of its own, and tries once.
pub async fn boot(client: &Client, body: &[u8], (machines, at_once): (usize, usize)) -> Result<BootedFleet> {
    let times: Rc<RefCell<Vec<Duration>>> = Rc::default();
    let failures: Rc<RefCell<Vec<String>>> = Rc::default();
    let body: Rc<[u8]> = body.into();
    let tasks = LocalSet::new();
    let begun = Instant::now();
    let mut waiting = Vec::new();
    for nth in 0..at_once {
        let share = machines / at_once + usize::from(nth < machines % at_once);
        let (endpoint, body) = (client.endpoint.clone(), Rc::clone(&body));
        let (times, failures) = (Rc::clone(&times), Rc::clone(&failures));
        let client = Client { endpoint };
        waiting.push(tasks.spawn_local(async move {
            for _ in 0..share {
                let begun = Instant::now();
                match one(&client, &body).await {
                    Ok(()) => times.borrow_mut().push(begun.elapsed()),
                    Err(error) => failures.borrow_mut().push(format!("{error:#}")),
                }
            }
        }));
    }
    tasks.await;
    let elapsed = begun.elapsed();
    for task in waiting {
        task.await.context("a machine broke off")?;
    }
    let mut times = times.take();
    times.sort_unstable();
    let failures = failures.take();
    ensure!(times.len() + failures.len() == machines, "some machines neither booted nor failed");
    let within = |part: f64| {
        let last = times.len().saturating_sub(1);
        times.get((last as f64 * part).ceil() as usize).copied().unwrap_or_default()
    };
    Ok(BootedFleet {
        machines,
        at_once,
        failed: failures.len(),
        first_failure: failures.into_iter().next(),
        elapsed,
        p50: within(0.5),
        p99: within(0.99),
        max: within(1.0),
    })
}

async fn one(client: &Client, body: &[u8]) -> Result<()> {
    let mut connection = client.endpoint.connect().await?;
    let got = connection.fetch(client.request()?).await?;
    ensure!(got == body, "{} bytes that are not the config", got.len());
    Ok(())
}
