//! The bench's result as tables: for the terminal, and for the page in `docs/`.

use super::limits::{Row, Verdict};
use crate::table::{Align, Table};

/// The command that makes the page; it stands on the page.
const COMMAND: &str = "cargo xtask bench render --write";

/// What a reader must know to judge the yardstick; it stands below the printed table and on the page.
pub const YARDSTICK: &str = "\
*mere parse* is the time in which serde_json turns the same bytes, already in memory, into a generic value, in a new
process as well. Reading the file and freeing the value are not counted. It is measured twice: as a program that merely
parses is written, with the system's allocator, and with mimalloc, which Seaworthy itself uses. The limit is judged
against the first: it is what a program that only parses the file takes. The second shows how much
of the ratio is owed to the allocator.";

/// What was measured, one row a fleet.
pub fn numbers(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("pools × configs", Align::Left),
        ("input MB", Align::Right),
        ("parse ms", Align::Right),
        ("parse ms (mimalloc)", Align::Right),
        ("render ms", Align::Right),
        ("render / parse", Align::Right),
        ("(mimalloc)", Align::Right),
        ("µs per config", Align::Right),
        ("peak MB", Align::Right),
        ("allowed MB", Align::Right),
    ]);
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    for row in rows {
        table.row([
            format!("{} × {}", row.fleet.pools, row.fleet.configs),
            megabytes(row.input_bytes),
            format!("{:.1}", row.parse.system.as_secs_f64() * 1e3),
            format!("{:.1}", row.parse.mimalloc.as_secs_f64() * 1e3),
            format!("{:.1}", row.render.nanoseconds as f64 / 1e6),
            format!("{:.2}", row.time_ratio(row.parse.system)),
            format!("{:.2}", row.time_ratio(row.parse.mimalloc)),
            format!("{:.1}", row.micros_per_config()),
            megabytes(row.render.peak_bytes),
            megabytes(row.memory_limit()),
        ]);
    }
    table
}

/// Which limits are held.
pub fn verdicts(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(&[
        ("limit", Align::Left),
        ("measured", Align::Right),
        ("at most", Align::Right),
        ("verdict", Align::Left),
    ]);
    for verdict in verdicts {
        table.row([
            verdict.what.clone(),
            format!("{:.2}", verdict.ratio),
            format!("{:.2}", verdict.limit),
            verdict.word().to_owned(),
        ]);
    }
    table
}

/// The whole page.
pub fn markdown(rows: &[Row], judged: &[Verdict], machine: &str, compiler: &str, rounds: u32) -> String {
    format!(
        "\
# Rendering performance

Made by `{COMMAND}`, which measures, judges and writes this page; do not edit it by hand.

Machine: {machine}; release build with rustc {compiler}.

Best of {rounds} rounds; in each round the program and its yardstick take turns, so that a noisy minute hits both.

- The input is one JSON `List` with pools, their MachineConfigs and a ControllerConfig. Each MachineConfig has
  20 files of 1 KiB (base64) and a unit with a drop-in, and shares 10 paths with each of its neighbours.
- *render* is the whole process `seaworthy render -f FILE -o json`, from start to end, its output thrown away.
- {}
- *peak* is the most memory that the process ever had, as the kernel counts it. MB are millions of bytes.

## Numbers

{}
## Limits

{}",
        YARDSTICK.replace('\n', "\n  "),
        numbers(rows).markdown(),
        verdicts(judged).markdown()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::markdown;
    use crate::bench::input::Fleet;
    use crate::bench::limits::{Row, judge};
    use crate::bench::measurement::{Measurement, Parses};

    #[test]
    fn page_has_the_command_the_machine_the_numbers_and_the_verdicts() {
        let rows = [Row {
            fleet: Fleet::new(3, 50),
            input_bytes: 4_500_000,
            parse: Parses { system: Duration::from_millis(20), mimalloc: Duration::from_millis(10) },
            render: Measurement { nanoseconds: 65_000_000, peak_bytes: 21_000_000 },
        }];
        let page = markdown(&rows, &judge(&rows), "2 cores of something", "1.95.0", 7);
        assert!(page.contains("`cargo xtask bench render --write`"));
        assert!(page.contains("with the system's allocator"), "{page}");
        assert!(page.contains("Machine: 2 cores of something; release build with rustc 1.95.0."));
        assert!(page.contains(
            "| 3 × 50          |      4.5 |     20.0 |                10.0 |      65.0 |           3.25 |       6.50 |         433.3 |    21.0 |       38.0 |"
        ), "{page}");
        assert!(page.contains("|     3.25 |    3.00 | FAIL    |"), "{page}");
        assert!(page.contains("|     0.55 |    1.00 | PASS    |"), "{page}");
    }
}
