//! wrk: drives requests at the highest possible rate.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::candidate::{ACCEPT, CONFIG_PATH, Candidate, ServerSetup};
use super::{Results, workers};
use crate::workspace::stdout_of;

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// They stay, and request follows request.
    Kept,
    /// Each has one request.
    OneShot,
}

/// A load to drive.
pub struct Drive<'a> {
    /// wrk itself.
    pub program: &'a Path,
    /// How connections are used.
    pub connections: Connections,
    /// How many there are at a time.
    pub count: usize,
    /// For how long.
    pub seconds: u64,
}

/// What a load came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Requests in a second.
    pub rate: f64,
    /// The time within which half of the requests were answered, in milliseconds.
    pub p50: f64,
    /// The same for 99 of 100.
    pub p99: f64,
    /// Requests that were not answered with a config.
    pub failed: u64,
    /// The server's own time for each request, in microseconds.
    pub cpu: f64,
}

/// A load and what kind it was.
pub struct Driven {
    connections: Connections,
    load: Load,
}

impl Drive<'_> {
    /// Drives the load against a server.
    pub fn run(&self, candidate: &Candidate, setup: &ServerSetup) -> Result<Driven> {
        let before = candidate.worked()?;
        let mut command = Command::new(self.program);
        command.arg(format!("-t{}", workers())).arg(format!("-c{}", self.count)).arg(format!("-d{}s", self.seconds));
        command.args(["--latency", "--timeout", "10s", "-H"]).arg(format!("Authorization: Bearer {}", setup.token));
        command.arg("-H").arg(format!("Accept: {ACCEPT}"));
        if self.connections == Connections::OneShot {
            command.args(["-H", "Connection: close"]);
        }
        command.arg(format!("https://127.0.0.1:{}{CONFIG_PATH}", candidate.address.port()));
        let output = stdout_of(&mut command)?;
        let worked = candidate.worked()?.saturating_sub(before);
        let text = String::from_utf8_lossy(&output);
        let load = Load::parse(&text, worked).with_context(|| format!("cannot parse the output of wrk:\n{text}"))?;
        ensure!(load.rate > 0.0, "wrk made no request:\n{text}");
        Ok(Driven { connections: self.connections, load })
    }
}

impl Driven {
    /// Takes the place of a slower load of the same kind. A request that failed in any round has failed.
    pub fn into_best(self, results: &mut Results) {
        let place = match self.connections {
            Connections::Kept => &mut results.kept,
            Connections::OneShot => &mut results.one_shot,
        };
        let failed = place.as_ref().map_or(0, |load| load.failed) + self.load.failed;
        let best = place.take().filter(|load| load.rate >= self.load.rate).unwrap_or(self.load);
        *place = Some(Load { failed, ..best });
    }
}

impl Load {
    fn parse(text: &str, worked: Duration) -> Option<Load> {
        let lines = || text.lines().map(str::trim);
        let after = |key: &str| lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let rate = after("Requests/sec:")?.parse().ok()?;
        let requests: u64 = lines().find_map(|line| line.split_once(" requests in "))?.0.parse().ok()?;
        let refused: u64 = match after("Non-2xx or 3xx responses:") {
            Some(count) => count.parse().ok()?,
            None => 0,
        };
        // connect 0, read 0, write 0, timeout 0
        let broken: u64 = match after("Socket errors:") {
            Some(errors) => {
                errors.split(',').map(|part| part.rsplit(' ').next()?.parse::<u64>().ok()).sum::<Option<_>>()?
            }
            None => 0,
        };
        Some(Load {
            rate,
            p50: milliseconds(after("50%")?)?,
            p99: milliseconds(after("99%")?)?,
            failed: refused + broken,
            cpu: worked.as_secs_f64() * 1e6 / (requests.max(1) as f64),
        })
    }
}

/// `870.00us`, `1.25ms`, `2.00s`.
fn milliseconds(text: &str) -> Option<f64> {
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)];
    units.into_iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Connections, Driven, Load, Results};

    const REPORT: &str = "Running 2s test @ https://127.0.0.1:1/config/master
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    31.07ms    9.91ms  86.65ms   78.00%
    Req/Sec     1.02k    90.21     1.20k    72.50%
  Latency Distribution
     50%   29.63ms
     75%   35.02ms
     90%  870.00us
     99%    1.20s
  4075 requests in 2.01s, 1.53GB read
  Socket errors: connect 0, read 3, write 1, timeout 0
  Non-2xx or 3xx responses: 2
Requests/sec:   2031.25
Transfer/sec:    780.11MB
";

    #[test]
    fn report_is_read() {
        let load = Load::parse(REPORT, Duration::from_millis(4075)).unwrap();
        assert_eq!(load, Load { rate: 2031.25, p50: 29.63, p99: 1200.0, failed: 6, cpu: 1000.0 });
        assert_eq!(Load::parse("unable to connect", Duration::ZERO), None);
    }

    #[test]
    fn best_round_counts_and_every_failure() {
        let load = |rate, failed| Driven {
            connections: Connections::Kept,
            load: Load { rate, p50: 1.0, p99: 1.0, failed, cpu: 1.0 },
        };
        let mut results = Results::default();
        load(10.0, 1).into_best(&mut results);
        load(30.0, 0).into_best(&mut results);
        load(20.0, 2).into_best(&mut results);
        let best = results.kept.unwrap();
        assert_eq!((best.rate, best.failed), (30.0, 3));
        assert!(results.one_shot.is_none());
    }
}
