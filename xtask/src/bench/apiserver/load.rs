//! Load: sends requests over several connections at once, and records the time of each.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hyper::Method;
use nix::sys::resource::{UsageWho, getrusage};
use tokio::task::LocalSet;

use super::client::{Connection, Endpoint, Prepared};

/// What a load came to.
#[derive(Clone, Debug)]
pub struct Sample {
    /// How many operations were done.
    pub count: usize,
    /// From the first to the end of the last.
    pub elapsed: Duration,
    /// The part of one core that this process used meanwhile. Near 1 the client is what was measured.
    pub client_cores: f64,
    /// How long each took, shortest first. Empty if only the whole was timed.
    times: Vec<Duration>,
}

impl Sample {
    /// A sample of operations that were timed one by one, since `meter` was started.
    pub fn new(meter: &Meter, mut times: Vec<Duration>) -> Sample {
        times.sort_unstable();
        Sample { times, ..meter.whole(0) }.counted()
    }

    fn counted(mut self) -> Sample {
        self.count = self.times.len();
        self
    }

    /// Operations in a second.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The time within which this part of the operations was done, if they were timed.
    pub fn within(&self, part: f64) -> Option<Duration> {
        let last = self.times.len().checked_sub(1)?;
        self.times.get((last as f64 * part).ceil() as usize).copied()
    }
}

/// Wall time, and the time that this process worked.
pub struct Meter {
    begun: Instant,
    worked: Duration,
}

impl Meter {
    /// Begins now.
    pub fn start() -> Result<Meter> {
        Ok(Meter { worked: worked()?, begun: Instant::now() })
    }

    /// A sample of operations that were timed together.
    pub fn whole(&self, count: usize) -> Sample {
        let elapsed = self.begun.elapsed();
        let busy = worked().unwrap_or_default().saturating_sub(self.worked);
        let client_cores = busy.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        Sample { count, elapsed, client_cores, times: Vec::new() }
    }
}

fn worked() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("getrusage")?;
    let seconds = |time: nix::sys::time::TimeVal| {
        Duration::new(time.tv_sec().try_into().unwrap_or(0), u32::try_from(time.tv_usec()).unwrap_or(0) * 1000)
    };
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Connections that have been used once, so that no handshake is measured.
pub async fn connections(endpoint: &Endpoint, count: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = endpoint.connect().await?;
        connection.send(endpoint.request(Method::GET, "/readyz", None)?).await?;
        connections.push(connection);
    }
    Ok(connections)
}

/// Sends all requests; each connection takes the next one when it is done with the last.
pub async fn run(endpoint: &Endpoint, count: usize, requests: Vec<Prepared>) -> Result<Sample> {
    let connections = connections(endpoint, count).await?;
    let queue = Rc::new(RefCell::new(requests.into_iter()));
    let local = LocalSet::new();
    let meter = Meter::start()?;
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|mut connection| {
            let queue = queue.clone();
            local.spawn_local(async move {
                let mut times = Vec::new();
                loop {
                    let Some(request) = queue.borrow_mut().next() else { return anyhow::Ok(times) };
                    let begun = Instant::now();
                    connection.send(request).await?;
                    times.push(begun.elapsed());
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    local
        .run_until(async {
            for task in tasks {
                times.extend(task.await.context("a connection's task ended early")??);
            }
            anyhow::Ok(())
        })
        .await?;
    Ok(Sample::new(&meter, times))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Meter, Sample};

    #[test]
    fn percentiles_are_of_sorted_times() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let sample = Sample::new(&Meter::start().unwrap(), times);
        assert_eq!(sample.count, 100);
        assert_eq!(sample.within(0.0), Some(Duration::from_millis(1)));
        assert_eq!(sample.within(0.99), Some(Duration::from_millis(100)));
        assert_eq!(sample.within(1.0), Some(Duration::from_millis(100)));
    }

    #[test]
    fn what_was_timed_as_a_whole_has_a_rate_and_no_percentiles() {
        let sample = Sample { count: 50, elapsed: Duration::from_millis(500), client_cores: 0.0, times: Vec::new() };
        assert!((sample.rate() - 100.0).abs() < 1e-6);
        assert_eq!(sample.within(0.5), None);
    }
}
