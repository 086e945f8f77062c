//! Workload: the same operations for every server, in the same order.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use serde_json::Value;

use super::super::memory::Memory;
use super::candidate::Candidate;
use super::client::{Endpoint, Prepared};
use super::fan_out;
use super::load::{self, Sample};
use super::objects::{self, BERTHS, DEFINITIONS, NODES};
use super::targets::connected;

const JSON: &str = "application/json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// How long a server is idle before its memory is measured.
const SETTLE_DELAY: Duration = Duration::from_secs(3);
/// How long a new kind may take to be served.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// How much work.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Nodes, and as many custom objects.
    pub objects: usize,
    /// Nodes when the growth is measured for the first time: a tenth.
    pub few: usize,
    /// Single operations at one connection; four times as many at many.
    pub operations: usize,
    /// Lists at one connection; twice as many at many.
    pub lists: usize,
    /// Watching clients.
    pub watchers: usize,
    /// Changes that they see one by one; four times as many together.
    pub changes: usize,
}

/// Connections at a time when there are many.
pub const MANY_CONNECTIONS: usize = 32;

/// The size that the targets apply to.
pub const FULL: Size = Size { objects: 5_000, few: 500, operations: 3_000, lists: 40, watchers: 100, changes: 200 };
/// Enough to see that it works.
pub const QUICK: Size = Size { objects: 1_000, few: 100, operations: 500, lists: 10, watchers: 100, changes: 40 };

/// An operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Nodes are added.
    Create,
    /// Objects of a kind of ours are added.
    CreateCustom,
    /// One node is read.
    Get,
    /// All nodes are read.
    List,
    /// A kubelet's heartbeat.
    StatusPatch,
    /// A controller applies a label and an annotation to a node.
    Apply,
    /// A change reaches all watchers.
    FanOut,
}

/// One operation at so many connections.
pub struct Timed {
    /// What was done.
    pub operation: Operation,
    /// Over how many connections.
    pub connections: usize,
    /// What came of it.
    pub sample: Sample,
}

/// Everything measured of one server.
pub struct Results {
    /// From the start of the process until it was ready, on an empty folder.
    pub start: Duration,
    /// Before anything was done.
    pub idle: Memory,
    /// With all objects.
    pub filled: Memory,
    /// After all that was done to them.
    pub worked: Memory,
    /// Time of a get and of a status patch with all objects, in relation to that with a tenth of them.
    pub growth: Growth,
    /// Every operation.
    pub timed: Vec<Timed>,
}

/// Times in relation to those with a tenth of the objects.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Of reading one.
    pub get: f64,
    /// Of patching one's status.
    pub patch: f64,
}

impl Results {
    /// The sample of an operation.
    pub fn find(&self, operation: Operation, connections: usize) -> Option<&Sample> {
        let found = self.timed.iter().find(|it| it.operation == operation && it.connections == connections);
        found.map(|timed| &timed.sample)
    }
}

/// Does all the work on a server that has just started.
pub async fn run(candidate: &Candidate, size: Size) -> Result<Results> {
    let mut work = Work { endpoint: &candidate.endpoint, size, beats: 0, timed: Vec::new() };
    tokio::time::sleep(SETTLE_DELAY).await;
    let idle = candidate.memory()?;

    eprintln!("  creating {} nodes", size.objects);
    let nodes = work.create(NODES, 0..size.few, objects::node)?;
    work.time(Operation::Create, 1, nodes).await?;
    let few = work.single(size.few).await?;
    let nodes = work.create(NODES, size.few..size.objects, objects::node)?;
    work.time(Operation::Create, MANY_CONNECTIONS, nodes).await?;
    eprintln!("  creating {} custom objects", size.objects);
    work.define().await?;
    let berths = work.create(BERTHS, 0..size.objects, objects::berth)?;
    work.time(Operation::CreateCustom, MANY_CONNECTIONS, berths).await?;
    tokio::time::sleep(SETTLE_DELAY).await;
    let filled = candidate.memory()?;
    let all = work.single(size.objects).await?;

    for connections in [1, MANY_CONNECTIONS] {
        eprintln!("  reading and changing over {}", connected(connections));
        let count = if connections == 1 { size.operations } else { 4 * size.operations };
        let gets = (0..count).map(|at| work.get(at)).collect::<Result<_>>()?;
        work.time(Operation::Get, connections, gets).await?;
        let count = if connections == 1 { size.lists } else { 2 * size.lists };
        let lists = (0..count).map(|_| work.endpoint.request(Method::GET, NODES, None)).collect::<Result<_>>()?;
        work.time(Operation::List, connections, lists).await?;
        let count = if connections == 1 { size.operations / 2 } else { 2 * size.operations };
        let patches = work.patches(count, size.objects)?;
        work.time(Operation::StatusPatch, connections, patches).await?;
        let applies = (0..count).map(|at| work.apply(at, connections)).collect::<Result<_>>()?;
        work.time(Operation::Apply, connections, applies).await?;
        let count = if connections == 1 { size.changes } else { 4 * size.changes };
        let changes = work.patches(count, size.objects)?;
        // A server may cut off watchers that it finds slow. That is an answer too, and no other row hangs on it.
        match fan_out::run(work.endpoint, size.watchers, connections, changes).await {
            Ok(sample) => work.timed.push(Timed { operation: Operation::FanOut, connections, sample }),
            Err(error) => eprintln!("  watch fan-out, {connections} connections: left out: {error:#}"),
        }
    }
    let worked = candidate.memory()?;
    let growth = Growth { get: all.0 / few.0, patch: all.1 / few.1 };
    Ok(Results { start: candidate.started_in, idle, filled, worked, growth, timed: work.timed })
}

struct Work<'a> {
    endpoint: &'a Endpoint,
    size: Size,
    /// Heartbeats so far: every one is another.
    beats: usize,
    timed: Vec<Timed>,
}

impl Work<'_> {
    async fn time(&mut self, operation: Operation, connections: usize, requests: Vec<Prepared>) -> Result<()> {
        let sample = load::run(self.endpoint, connections, requests).await?;
        self.timed.push(Timed { operation, connections, sample });
        Ok(())
    }

    fn create(
        &self,
        path: &str,
        indices: std::ops::Range<usize>,
        object: impl Fn(usize) -> Value,
    ) -> Result<Vec<Prepared>> {
        let body = |index| Some((JSON, object(index).to_string().into_bytes()));
        indices.map(|index| self.endpoint.request(Method::POST, path, body(index))).collect()
    }

    fn get(&self, at: usize) -> Result<Prepared> {
        let name = objects::node_name(spread(at, self.size.objects));
        self.endpoint.request(Method::GET, &format!("{NODES}/{name}"), None)
    }

    fn patches(&mut self, count: usize, nodes: usize) -> Result<Vec<Prepared>> {
        let first = self.beats;
        self.beats += count;
        (first..self.beats)
            .map(|beat| {
                let path = format!("{NODES}/{}/status", objects::node_name(spread(beat, nodes)));
                let body = objects::heartbeat(beat).to_string().into_bytes();
                self.endpoint.request(Method::PATCH, &path, Some((STRATEGIC, body)))
            })
            .collect()
    }

    fn apply(&self, at: usize, connections: usize) -> Result<Prepared> {
        let index = spread(at, self.size.objects);
        let path = format!("{NODES}/{}?fieldManager=bench&force=true", objects::node_name(index));
        let body = objects::applied(index, connections * 1_000_000 + at).to_string().into_bytes();
        self.endpoint.request(Method::PATCH, &path, Some((APPLY, body)))
    }

    /// The usual time of a get and of a status patch among so many nodes, in seconds. The first few are for warming up.
    async fn single(&mut self, nodes: usize) -> Result<(f64, f64)> {
        let count = self.size.operations;
        let mut usual = [0.0; 2];
        for (is_patch, usual) in [false, true].into_iter().zip(&mut usual) {
            for requests in [count / 10, count] {
                let requests = if is_patch {
                    self.patches(requests, nodes)?
                } else {
                    let name = |at| objects::node_name(spread(at, nodes));
                    let get = |at| self.endpoint.request(Method::GET, &format!("{NODES}/{}", name(at)), None);
                    (0..requests).map(get).collect::<Result<_>>()?
                };
                let sample = load::run(self.endpoint, 1, requests).await?;
                *usual = sample.within(0.5).context("nothing was timed")?.as_secs_f64();
            }
        }
        Ok(usual.into())
    }

    /// Adds our kind and waits until it is served.
    async fn define(&self) -> Result<()> {
        let mut connection = self.endpoint.connect().await?;
        let body = objects::definition().to_string().into_bytes();
        connection.send(self.endpoint.request(Method::POST, DEFINITIONS, Some((JSON, body)))?).await?;
        let established = async {
            while connection.send(self.endpoint.request(Method::GET, BERTHS, None)?).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(ESTABLISH_TIMEOUT, established).await {
            Ok(done) => done,
            Err(_) => bail!("the new kind is not served after {} s", ESTABLISH_TIMEOUT.as_secs()),
        }
    }
}

/// Spreads operations over all objects: neighbours in time are no neighbours in the store, and requests under way at
/// the same time are about different ones.
fn spread(at: usize, among: usize) -> usize {
    // A prime that divides none of the sizes, so every object has its turn before one has its second.
    at * 7919 % among
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FULL, QUICK, spread};

    #[test]
    fn every_object_has_its_turn() {
        for size in [FULL, QUICK] {
            for among in [size.few, size.objects] {
                let touched: BTreeSet<usize> = (0..among).map(|at| spread(at, among)).collect();
                assert_eq!(touched.len(), among);
            }
        }
    }
}
