//! The result as tables: for the terminal, and for the page in `docs/`.

use std::time::Duration;

use super::targets::Verdict;
use super::{CONNECTIONS, IDLE, MACHINES, Results, workers};
pub use crate::bench::apiserver::page::verdicts;
use crate::table::{Align, Table};

/// The command that makes the page; it stands on the page.
const COMMAND: &str = "cargo xtask bench serve --write";

/// What a reader sees of it beside the numbers.
pub struct Circumstances {
    /// The machine.
    pub machine: String,
    /// How busy it was before and after, by the kernel's count of who wants to run.
    pub load: String,
    /// What was measured.
    pub versions: String,
    /// Bytes of the config.
    pub bytes: usize,
    /// How often each load was driven.
    pub rounds: usize,
    /// How long each time.
    pub seconds: u64,
}

/// Requests a second, and what each costs the server.
pub fn speed(ours: &Results, nginx: Option<&Results>) -> Table {
    let mut table = Table::new(&[
        ("connections", Align::Left),
        ("server", Align::Left),
        ("requests /s", Align::Right),
        ("MB/s", Align::Right),
        ("p50 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("CPU µs per request", Align::Right),
        ("failed", Align::Right),
        ("/ nginx", Align::Right),
    ]);
    let kept = |results: &Results| results.kept.clone();
    let one_shot = |results: &Results| results.one_shot.clone();
    let kinds = [
        ("kept", kept(ours), nginx.and_then(kept)),
        ("one for each request", one_shot(ours), nginx.and_then(one_shot)),
    ];
    for (name, own, theirs) in kinds {
        for (server, load) in [("ours", &own), ("nginx", &theirs)] {
            let Some(load) = load else { continue };
            table.row([
                name.to_owned(),
                server.to_owned(),
                format!("{:.0}", load.rate),
                format!("{:.0}", load.rate * 0.4),
                format!("{:.1}", load.p50),
                format!("{:.1}", load.p99),
                format!("{:.0}", load.cpu),
                load.failed.to_string(),
                theirs
                    .as_ref()
                    .filter(|_| server == "ours")
                    .map_or_else(String::new, |it| format!("{:.2}", load.rate / it.rate)),
            ]);
        }
    }
    table
}

/// Machines that boot at once.
pub fn fleets(ours: &Results, nginx: Option<&Results>) -> Table {
    let mut table = Table::new(&[
        ("server", Align::Left),
        ("machines", Align::Right),
        ("at a time", Align::Right),
        ("failed", Align::Right),
        ("all after s", Align::Right),
        ("p50 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("max ms", Align::Right),
        ("first failure", Align::Left),
    ]);
    let milliseconds = |time: Duration| format!("{:.0}", time.as_secs_f64() * 1e3);
    for (server, fleet) in [("ours", ours.fleet.as_ref()), ("nginx", nginx.and_then(|it| it.fleet.as_ref()))] {
        let Some(fleet) = fleet else { continue };
        table.row([
            server.to_owned(),
            fleet.machines.to_string(),
            fleet.at_once.to_string(),
            fleet.failed.to_string(),
            format!("{:.1}", fleet.elapsed.as_secs_f64()),
            milliseconds(fleet.p50),
            milliseconds(fleet.p99),
            milliseconds(fleet.max),
            fleet.first_failure.clone().unwrap_or_else(|| "–".to_owned()),
        ]);
    }
    table
}

/// What the servers weigh.
pub fn memory(ours: &Results, nginx: Option<&Results>) -> Table {
    let mut table = Table::new(&[
        ("server", Align::Left),
        ("idle MB", Align::Right),
        ("1000 greeted", Align::Right),
        ("1000 served", Align::Right),
        ("KB each", Align::Right),
        ("peak MB", Align::Right),
    ]);
    for (server, results) in [("ours", Some(ours)), ("nginx", nginx)] {
        let Some(weights) = results.map(|results| results.memory) else { continue };
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let each = weights.served.saturating_sub(weights.idle) as f64 / IDLE as f64 / 1e3;
        table.row([
            server.to_owned(),
            megabytes(weights.idle),
            megabytes(weights.greeted),
            megabytes(weights.served),
            format!("{each:.1}"),
            megabytes(weights.peak),
        ]);
    }
    table
}

/// The page.
pub fn markdown(ours: &Results, nginx: Option<&Results>, judged: &[Verdict], about: &Circumstances) -> String {
    let Circumstances { machine, load, versions, bytes, rounds, seconds } = about;
    let (workers, (machines, at_once)) = (workers(), MACHINES);
    format!(
        "# Ignition endpoint performance

Made by `{COMMAND}`, which measures, judges and writes this page; do not edit it by hand.

Machine: {machine}. Load average {load}.

{versions}

- A config of {bytes} bytes. `seaworthy server` serves it from a folder to clients with a token; nginx serves the same
  bytes from a file, with its cache of open files, to anybody. Both: HTTP/1.1 over TLS 1.3 with AES-256-GCM and X25519, the
  same certificate (P-256), no sessions that are taken up again, {workers} workers, a line in a file for each request.
- *requests* are driven by wrk with {CONNECTIONS} connections and {workers} threads, for {seconds} s in each of {rounds} rounds, in turns;
  the best round of each server counts. wrk shares the machine with the server, and decrypts what the server encrypts.
- *CPU* is the server's own time, in the kernel too.
- *machines*: {machines} machines boot, {at_once} at a time. Each shakes hands, asks once and compares what it gets, byte by
  byte. One that is refused, cut off or given anything else has failed; it does not try again.
- *memory* is what is resident, of all processes of a server: before anybody has come; with {IDLE} connections that have
  shaken hands; with the same ones after each was served the config once, each time after some seconds without a request; and the
  most, after the machines. Pages that nginx's processes share are counted in each.

## Requests

{}
## Machines that boot at once

{}
## Memory

{}
## Targets

{}",
        speed(ours, nginx).markdown(),
        fleets(ours, nginx).markdown(),
        memory(ours, nginx).markdown(),
        verdicts(judged).markdown()
    )
}

#[cfg(test)]
mod tests {
    use super::super::machines::{Fleet, Weights};
    use super::super::targets::judge;
    use super::super::wrk::Load;
    use super::{Circumstances, Results, markdown};

    fn results(rate: f64) -> Results {
        let load = Load { rate, p50: 12.0, p99: 40.0, failed: 0, cpu: 321.0 };
        let memory = Weights { idle: 10_000_000, greeted: 20_000_000, served: 30_000_000, peak: 50_000_000 };
        let fleet = Fleet { machines: 5000, at_once: 200, ..Fleet::default() };
        Results { kept: Some(load.clone()), one_shot: Some(load), memory, fleet: Some(fleet) }
    }

    #[test]
    fn page_has_the_command_the_machine_the_numbers_and_the_verdicts() {
        let about = Circumstances {
            machine: "2 cores of something".to_owned(),
            load: "0.1 before, 1.5 after".to_owned(),
            versions: "Ours: seaworthy 0.1.0.".to_owned(),
            bytes: 400_123,
            rounds: 5,
            seconds: 8,
        };
        let (ours, nginx) = (results(900.0), results(1000.0));
        let page = markdown(&ours, Some(&nginx), &judge(&ours, Some(&nginx)), &about);
        assert!(page.contains("`cargo xtask bench serve --write`"));
        assert!(page.contains("Machine: 2 cores of something. Load average 0.1 before, 1.5 after."), "{page}");
        assert!(page.contains("A config of 400123 bytes."), "{page}");
        let rows: Vec<String> =
            page.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let has = |row: &str| assert!(rows.iter().any(|line| line == row), "{row}\n{page}");
        has("| kept | ours | 900 | 360 | 12.0 | 40.0 | 321 | 0 | 0.90 |");
        has("| ours | 10.0 | 20.0 | 30.0 | 20.0 | 50.0 |");
        has("| connections that stay: requests a second / nginx's | 0.90 | ≥ 0.8 | PASS |");
        has("| machines that boot at once and do not get their config | 0.00 | ≤ 0 | PASS |");
    }
}
