//! Watch fan-out: how fast a change reaches many watchers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::client::{Connection, Endpoint, Prepared, piece};
use super::load::{Meter, Sample, connections};
use super::objects::NODES;

/// Events that have not arrived by then count as lost.
const EVENT_TIMEOUT: Duration = Duration::from_secs(120);

/// Counts the events that watchers have received.
#[derive(Default)]
struct EventCounter {
    count: Cell<usize>,
    wanted: Cell<usize>,
    reached: Notify,
    failure: RefCell<Option<String>>,
}

impl EventCounter {
    fn add(&self, lines: usize) {
        self.count.set(self.count.get() + lines);
        if self.count.get() >= self.wanted.get() {
            self.reached.notify_one();
        }
    }

    fn fail(&self, failure: String) {
        self.failure.borrow_mut().get_or_insert(failure);
        self.reached.notify_one();
    }

    async fn wait(&self) -> Result<()> {
        let all = async {
            while self.count.get() < self.wanted.get() {
                if let Some(failure) = self.failure.borrow_mut().take() {
                    bail!("a watch ended: {failure}");
                }
                self.reached.notified().await;
            }
            Ok(())
        };
        let late = || format!("{} of {} events came in time", self.count.get(), self.wanted.get());
        timeout(EVENT_TIMEOUT, all).await.with_context(late)?
    }
}

/// Sends changes of nodes while `watchers` watch all nodes, each on a connection of its own.
///
/// - With one connection each change is timed until the last watcher has seen it, and then the next is sent.
/// - With more, all changes are timed together; an operation is an event that one watcher has seen.
pub async fn run(endpoint: &Endpoint, watchers: usize, count: usize, requests: Vec<Prepared>) -> Result<Sample> {
    let mut writers = connections(endpoint, count).await?;
    let path = format!("{NODES}?watch=true&resourceVersion={}", newest(endpoint, &mut writers[0]).await?);
    let seen = Rc::new(EventCounter::default());
    let local = LocalSet::new();
    let mut streams = Vec::new();
    for _ in 0..watchers {
        let mut connection = endpoint.connect().await?;
        let body = connection.open(endpoint.request(Method::GET, &path, None)?).await?;
        streams.push((connection, body));
    }
    let reading: Vec<_> = streams
        .into_iter()
        .map(|(connection, body)| local.spawn_local(follow(connection, body, seen.clone())))
        .collect();
    let sample = local
        .run_until(async {
            match writers.as_mut_slice() {
                [only] => one_by_one(only, watchers, requests, &seen).await,
                _ => together(writers, watchers, requests, &seen).await,
            }
        })
        .await?;
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(sample)
}

async fn one_by_one(
    writer: &mut Connection,
    watchers: usize,
    requests: Vec<Prepared>,
    seen: &EventCounter,
) -> Result<Sample> {
    let meter = Meter::start()?;
    let mut times = Vec::with_capacity(requests.len());
    for request in requests {
        seen.wanted.set(seen.wanted.get() + watchers);
        let begun = Instant::now();
        writer.send(request).await?;
        seen.wait().await?;
        times.push(begun.elapsed());
    }
    Ok(Sample::new(&meter, times))
}

async fn together(
    writers: Vec<Connection>,
    watchers: usize,
    requests: Vec<Prepared>,
    seen: &EventCounter,
) -> Result<Sample> {
    let events = requests.len() * watchers;
    seen.wanted.set(events);
    let queue = Rc::new(RefCell::new(requests.into_iter()));
    let meter = Meter::start()?;
    let tasks: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            let queue = queue.clone();
            tokio::task::spawn_local(async move {
                loop {
                    let Some(request) = queue.borrow_mut().next() else { return anyhow::Ok(()) };
                    writer.send(request).await?;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.context("a connection's task ended early")??;
    }
    seen.wait().await?;
    Ok(meter.whole(events))
}

/// Counts the lines of an answer, one an event. The connection ends with this.
async fn follow(_connection: Connection, mut body: Incoming, seen: Rc<EventCounter>) {
    loop {
        match piece(&mut body).await {
            Ok(Some(piece)) => seen.add(piece.iter().filter(|byte| **byte == b'\n').count()),
            Ok(None) => return seen.fail("its answer is over".to_owned()),
            Err(error) => return seen.fail(format!("{error:#}")),
        }
    }
}

/// The newest revision.
async fn newest(endpoint: &Endpoint, connection: &mut Connection) -> Result<String> {
    let list = connection.fetch(endpoint.request(Method::GET, &format!("{NODES}?limit=1"), None)?).await?;
    let list: Value = serde_json::from_slice(&list).context("the list of nodes")?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list without a revision")?;
    Ok(revision.to_owned())
}
