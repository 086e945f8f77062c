//! Results of the bench as tables for the terminal, and as the page in `docs/`.

use std::time::Duration;

use super::load::Sample;
use super::targets::{Bound, Verdict, speedup};
use super::workload::{MANY_CONNECTIONS, Operation, Results, Size};
use crate::table::{Align, Table};

/// The command that generates the page; it is on the page.
const COMMAND: &str = "cargo xtask bench apiserver --write";

/// The environment of a run, as shown on the page.
pub struct Environment {
    pub machine: String,
    /// Load average before and after.
    pub load: String,
    /// What was measured.
    pub versions: String,
}

/// All operations, in the order of the table.
const OPERATIONS: [Operation; 7] = [
    Operation::Create,
    Operation::CreateCustom,
    Operation::Get,
    Operation::List,
    Operation::StatusPatch,
    Operation::Apply,
    Operation::FanOut,
];

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "create a node",
            Operation::CreateCustom => "create a custom object",
            Operation::Get => "get a node",
            Operation::List => "list all nodes",
            Operation::StatusPatch => "patch a node's status",
            Operation::Apply => "apply to a node",
            Operation::FanOut => "watch fan-out",
        }
    }
}

/// Rates and times.
pub fn speed(ours: &Results, real: Option<&Results>) -> Table {
    let mut table = Table::new(&[
        ("operation", Align::Left),
        ("conn.", Align::Right),
        ("ours /s", Align::Right),
        ("p50 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("client", Align::Right),
        ("real /s", Align::Right),
        ("p50 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("client", Align::Right),
        ("ours / real", Align::Right),
    ]);
    for operation in OPERATIONS {
        for connections in [1, MANY_CONNECTIONS] {
            let Some(own) = ours.find(operation, connections) else { continue };
            let other = real.and_then(|real| real.find(operation, connections));
            let ratio = speedup(ours, real, operation, connections);
            let mut cells = vec![operation.name().to_owned(), connections.to_string()];
            cells.extend(sampled(Some(own)));
            cells.extend(sampled(other));
            cells.push(ratio.map_or_else(dash, |ratio| format!("{ratio:.1} ×")));
            table.row(cells);
        }
    }
    table
}

fn sampled(sample: Option<&Sample>) -> [String; 4] {
    let time = |part| sample.and_then(|sample| sample.within(part)).map_or_else(dash, milliseconds);
    let rate = sample.map_or_else(dash, |sample| format!("{:.0}", sample.rate()));
    let client = sample.map_or_else(dash, |sample| format!("{:.0} %", sample.client_cores * 100.0));
    [rate, time(0.5), time(0.99), client]
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

fn dash() -> String {
    "–".to_owned()
}

/// Memory, start and growth.
pub fn costs(ours: &Results, real: Option<&Results>, size: Size) -> Table {
    let mut table = Table::new(&[("cost", Align::Left), ("ours", Align::Right), ("real", Align::Right)]);
    let mut row = |what: String, value: &dyn Fn(&Results) -> String| {
        table.row([what, value(ours), real.map_or_else(dash, value)]);
    };
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    row("start on an empty folder".to_owned(), &|it| format!("{} ms", it.start.as_millis()));
    row("memory idle".to_owned(), &|it| megabytes(it.idle.now));
    let objects = size.objects;
    row(format!("memory with {objects} nodes and {objects} custom objects"), &|it| megabytes(it.filled.now));
    row("memory after all operations".to_owned(), &|it| megabytes(it.worked.now));
    row("peak memory".to_owned(), &|it| megabytes(it.worked.peak));
    row(format!("time of a get among {objects} / among {}", size.few), &|it| format!("{:.2}", it.growth.get));
    row(format!("time of a status patch among {objects} / among {}", size.few), &|it| {
        format!("{:.2}", it.growth.patch)
    });
    table
}

/// Which targets are reached.
pub fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(&[
        ("target", Align::Left),
        ("measured", Align::Right),
        ("wanted", Align::Right),
        ("verdict", Align::Left),
    ]);
    let number = |value: f64| if value < 20.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    for verdict in verdicts {
        table.row([
            verdict.what.clone(),
            verdict.measured.map_or_else(dash, number),
            match verdict.wanted {
                Bound::AtLeast(bound) => format!("≥ {bound}"),
                Bound::AtMost(bound) => format!("≤ {bound}"),
            },
            verdict.word().to_owned(),
        ]);
    }
    table
}

/// The whole page.
pub fn markdown(
    ours: &Results,
    real: Option<&Results>,
    judged: &[Verdict],
    size: Size,
    environment: &Environment,
) -> String {
    let Environment { machine, load, versions } = environment;
    let Size { objects, few, watchers, .. } = size;
    format!(
        "\
# API server performance

Generated by `{COMMAND}`, which measures and checks the limits; do not edit it by hand.

Machine: {machine}. Load average {load}.

{versions}

- The servers run one after the other, each alone, on empty folders of the same disk, and do the same work for the
  same client: HTTP/1.1 over TLS, persistent connections, an administrator's static token, JSON. Every write is durable
  before it is acknowledged. The real one runs without its controllers.
- A node is about 1.5 KB when it is sent. A status patch is a kubelet's heartbeat, a strategic merge patch. An apply
  sets a label and an annotation, with force.
- *watch fan-out*: {watchers} clients watch all nodes. With one writing connection, a change is timed until the last
  watcher has received it; with more, the rate counts received events.
- *client* is the share of one core that the client used. The client runs on the same machine as the server.
- *memory* is resident memory; of kube-apiserver and etcd together. 1 MB is 1,000,000 bytes.
- *start* is the time from the start of the first process until `/readyz` succeeds, polled every 2 ms.

## Speed with {objects} nodes and {objects} custom objects

The first {few} nodes are created over one connection, the others over {MANY_CONNECTIONS}.

{}
## Costs

{}
## Targets

{}",
        speed(ours, real).markdown(),
        costs(ours, real, size).markdown(),
        verdicts(judged).markdown()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Environment, markdown};

    use crate::bench::apiserver::load::{Meter, Sample};
    use crate::bench::apiserver::targets::judge;
    use crate::bench::apiserver::workload::{FULL, Growth, MANY_CONNECTIONS, Operation, Results, Timed};
    use crate::bench::memory::Memory;

    fn results(count: usize, megabytes: u64) -> Results {
        let times = vec![Duration::from_micros(1500); count];
        let mut sample = Sample::new(&Meter::start().unwrap(), times);
        sample.elapsed = Duration::from_secs(1);
        let memory = Memory { now: megabytes * 1_000_000, peak: megabytes * 1_000_000 };
        Results {
            start: Duration::from_millis(250),
            idle: memory,
            filled: memory,
            worked: memory,
            growth: Growth { get: 1.0, patch: 1.25 },
            timed: vec![Timed { operation: Operation::Get, connections: MANY_CONNECTIONS, sample }],
        }
    }

    #[test]
    fn page_has_the_command_the_machine_the_numbers_and_the_verdicts() {
        let environment = Environment {
            machine: "2 cores of something".to_owned(),
            load: "0.1 before, 1.5 after".to_owned(),
            versions: "Ours: seaworthy 0.1.0.".to_owned(),
        };
        let (ours, real) = (results(800, 20), results(200, 400));
        let page = markdown(&ours, Some(&real), &judge(&ours, Some(&real)), FULL, &environment);
        assert!(page.contains("`cargo xtask bench apiserver --write`"));
        assert!(page.contains("Machine: 2 cores of something. Load average 0.1 before, 1.5 after."), "{page}");
        assert!(page.contains("|    32 |     800 |   1.50 |   1.50 |"), "{page}");
        assert!(page.contains("|       4.0 × |"), "{page}");
        let rows: Vec<String> =
            page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let has = |row: &str| assert!(rows.iter().any(|line| line == row), "{row}\n{page}");
        has("| get a node, 32 connections: rate / the real one's | 4.00 | ≥ 3 | PASS |");
        has("| get a node, 1 connection: rate / the real one's | – | ≥ 3 | SKIPPED |");
        has("| memory idle | 20.0 MB | 400.0 MB |");
        has("| time of a status patch with 10 × the objects / before | 1.25 | ≤ 1.2 | FAIL |");
    }

    #[test]
    fn page_without_a_real_server_compares_nothing() {
        let ours = results(800, 20);
        let verdicts = judge(&ours, None);
        assert!(verdicts.iter().filter(|it| it.what.contains("real")).all(|it| it.word() == "SKIPPED"));
        assert!(verdicts.iter().any(|it| it.word() == "PASS"));
    }
}
