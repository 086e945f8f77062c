//! Timings report of `cargo build --timings`: a page with its data as JSON.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// One run of a compiler or of a build script.
#[derive(Debug, Deserialize)]
pub struct Unit {
    name: String,
    version: String,
    duration: f64,
}

/// A package with the time of all its units.
#[derive(Clone, Debug, PartialEq)]
pub struct Crate {
    pub name: String,
    pub seconds: f64,
}

/// The units of a report.
pub fn units(report: &str) -> Result<Vec<Unit>> {
    let (_, data) =
        report.split_once("const UNIT_DATA = ").context("the report of cargo --timings has no UNIT_DATA")?;
    let mut values = serde_json::Deserializer::from_str(data).into_iter::<Vec<Unit>>();
    values.next().context("UNIT_DATA of the report of cargo --timings is empty")?.context("cannot read UNIT_DATA")
}

/// How many packages were compiled.
pub fn packages(units: &[Unit]) -> usize {
    units.iter().map(|unit| (&unit.name, &unit.version)).collect::<BTreeSet<_>>().len()
}

/// Every package with its time, slowest first.
pub fn crates(units: &[Unit]) -> Vec<Crate> {
    let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
    for unit in units {
        *seconds.entry(&unit.name).or_default() += unit.duration;
    }
    let mut crates: Vec<Crate> =
        seconds.into_iter().map(|(name, seconds)| Crate { name: name.to_owned(), seconds }).collect();
    crates.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    crates
}

#[cfg(test)]
mod tests {
    use super::{Crate, crates, packages, units};

    #[test]
    fn units_of_a_package_are_added_up_and_sorted_by_time() {
        let report = r#"DURATION = 1;
const UNIT_DATA = [
  {"i": 0, "name": "a", "version": "1.0.0", "mode": "todo", "target": "", "start": 0.1, "duration": 0.5, "sections": null},
  {"i": 1, "name": "b", "version": "1.0.0", "mode": "todo", "target": "", "start": 0.1, "duration": 0.75, "sections": null},
  {"i": 2, "name": "a", "version": "1.0.0", "mode": "run-custom-build", "target": "", "start": 0.1, "duration": 0.5}
];
const CONCURRENCY_DATA = [];
"#;
        let units = units(report).unwrap();
        assert_eq!(packages(&units), 2);
        let named = |name: &str, seconds| Crate { name: name.to_owned(), seconds };
        assert_eq!(crates(&units), [named("a", 1.0), named("b", 0.75)]);
    }

    #[test]
    fn report_without_data_is_an_error() {
        for report in ["", "const UNIT_DATA = ;", "const UNIT_DATA = [{}];"] {
            assert!(units(report).is_err(), "{report}");
        }
    }
}
