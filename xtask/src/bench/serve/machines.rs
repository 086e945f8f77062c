//! A fleet that boots at once, and connections that are held without a word.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::LocalSet;

use super::candidate::{Candidate, Client};

/// How long nothing is asked before a server is weighed: less than it holds a connection on which nothing is said.
const REST: Duration = Duration::from_secs(6);

/// What a server weighs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// Before anybody has come.
    pub idle: u64,
    /// With connections on which nothing was said but the greeting.
    pub greeted: u64,
    /// With the same connections after each has had the config.
    pub served: u64,
    /// The most, with the fleet that boots.
    pub peak: u64,
}

/// A fleet that has booted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// Machines.
    pub machines: usize,
    /// How many of them at a time.
    pub at_once: usize,
    /// Those that did not get their config at the first attempt, or not the right one.
    pub failed: usize,
    /// What the first of them was told.
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

/// Weighs a server without connections, with so many, and after each of them was served once.
pub async fn weigh(client: &Client, candidate: &Candidate, count: usize) -> Result<Weights> {
    let tasks = LocalSet::new();
    let weighed = async {
        let idle = at_rest(candidate).await?;
        let mut connections = Vec::with_capacity(count);
        for nth in 0..count {
            let connection = client.endpoint.connect().await;
            connections.push(connection.with_context(|| format!("connection {nth} of {count}"))?);
        }
        let greeted = at_rest(candidate).await?;
        for (nth, connection) in connections.iter_mut().enumerate() {
            let sent = connection.send(client.request()?).await;
            sent.with_context(|| format!("the request on connection {nth} of {count}"))?;
        }
        let served = at_rest(candidate).await?;
        // All of them are still there: this is what they weigh.
        for (nth, connection) in connections.iter().enumerate() {
            ensure!(!connection.is_closed(), "connection {nth} of {count} was closed before it was weighed");
        }
        Ok(Weights { idle, greeted, served, peak: 0 })
    };
    tasks.run_until(weighed).await
}

/// What a server weighs after a moment without a request, as long as connections are held open without one.
async fn at_rest(candidate: &Candidate) -> Result<u64> {
    tokio::time::sleep(REST).await;
    Ok(candidate.memory()?.now)
}

/// Boots machines, so many at a time; each has one request on a connection of its own, and tries once.
pub async fn boot(client: &Client, body: &[u8], (machines, at_once): (usize, usize)) -> Result<Fleet> {
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
    Ok(Fleet {
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
