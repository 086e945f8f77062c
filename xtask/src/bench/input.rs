//! Inputs of the benches: fleets of any size, the same bytes on every machine.
//!
//! A fleet has P pools with C MachineConfigs each. A MachineConfig has 20 files of 1 KiB and one unit with one
//! drop-in. Along the name order, each shares 10 paths with the one before and 10 with the one after it, with
//! other contents, so that half of a merge step overrides and half adds.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const FILES: usize = 20;
const SHARED: usize = 10;
const FILE_SIZE: usize = 1024;
const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

/// Which Ignition version the MachineConfigs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 3.5.0.
    V3,
    /// 2.2.0, which must be translated first.
    V2,
}

/// The size of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Number of pools.
    pub pools: usize,
    /// Number of MachineConfigs that each pool selects.
    pub configs: usize,
    /// How they are written.
    pub dialect: Dialect,
}

impl Fleet {
    /// A fleet in Ignition 3.5.0.
    pub const fn new(pools: usize, configs: usize) -> Self {
        Self { pools, configs, dialect: Dialect::V3 }
    }

    /// For example `3x50`.
    pub fn name(&self) -> String {
        let dialect = if self.dialect == Dialect::V2 { "-v2" } else { "" };
        format!("{}x{}{dialect}", self.pools, self.configs)
    }

    /// MachineConfigs in the whole input.
    pub fn total(&self) -> usize {
        self.pools * self.configs
    }

    /// Distinct file paths in one pool, hence files in its rendered config.
    fn files_per_pool(&self) -> usize {
        self.configs * (FILES - SHARED) + SHARED
    }

    /// Writes the fleet as one JSON `List`; returns its size in bytes.
    pub fn write(&self, path: &Path) -> Result<u64> {
        let attempt = || -> std::io::Result<u64> {
            let mut out = BufWriter::new(File::create(path)?);
            write!(out, r#"{{"apiVersion":"v1","kind":"List","metadata":{{}},"items":["#)?;
            serde_json::to_writer(&mut out, &controller_config())?;
            for pool in 0..self.pools {
                out.write_all(b",")?;
                serde_json::to_writer(&mut out, &machine_config_pool(pool))?;
            }
            for pool in 0..self.pools {
                for index in 0..self.configs {
                    out.write_all(b",")?;
                    serde_json::to_writer(&mut out, &machine_config(pool, index, self.dialect))?;
                }
            }
            out.write_all(b"]}\n")?;
            Ok(out.into_inner()?.metadata()?.len())
        };
        attempt().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Checks that a rendered `List` is about this fleet: a program that answers something else, or nothing, must
    /// not win a race.
    pub fn check_rendered(&self, output: &[u8]) -> Result<()> {
        let list: Value = serde_json::from_slice(output).context("the output is not JSON")?;
        let items = list["items"].as_array().context("the output is not a List")?;
        ensure!(items.len() == self.pools, "{} pools, but {} rendered", self.pools, items.len());
        for item in items {
            let name = item["metadata"]["name"].as_str().unwrap_or("(no name)");
            let config = &item["spec"]["config"];
            let count = |list: &Value| list.as_array().map_or(0, Vec::len);
            let (files, units) = (count(&config["storage"]["files"]), count(&config["systemd"]["units"]));
            ensure!(
                (files, units) == (self.files_per_pool(), self.configs),
                "{name}: {files} files and {units} units, but {} and {} were given",
                self.files_per_pool(),
                self.configs
            );
        }
        Ok(())
    }
}

/// One Ignition config with the files and units of that many MachineConfigs, as JSON.
pub fn ignition_config(configs: usize, dialect: Dialect) -> Vec<u8> {
    let paths = configs * (FILES - SHARED) + SHARED;
    let files: Vec<Value> = (0..paths).map(|path| file(0, 0, path, dialect)).collect();
    let units: Vec<Value> = (0..configs).map(|index| unit(0, index)).collect();
    ignition(files, units, dialect).to_string().into_bytes()
}

fn controller_config() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "baseOSContainerImage": format!("registry.example.org/base-os@sha256:{}", "a".repeat(64)),
            "baseOSExtensionsContainerImage":
                format!("registry.example.org/base-ext@sha256:{}", "b".repeat(64)),
            "osImageURL": "",
        },
    })
}

fn pool_name(pool: usize) -> String {
    format!("pool-{pool:02}")
}

fn machine_config_pool(pool: usize) -> Value {
    let name = pool_name(pool);
    json!({
        "apiVersion": API_VERSION, "kind": "MachineConfigPool",
        "metadata": {"name": name, "uid": format!("00000000-0000-0000-0000-{pool:012}")},
        "spec": {
            "machineConfigSelector": {"matchLabels": {ROLE_LABEL: name}},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
        },
    })
}

fn machine_config(pool: usize, index: usize, dialect: Dialect) -> Value {
    // A window of 20 paths that moves on by 10.
    let first = index * (FILES - SHARED);
    let files = (first..first + FILES).map(|path| file(pool, index, path, dialect)).collect();
    json!({
        "apiVersion": API_VERSION, "kind": "MachineConfig",
        "metadata": {
            "name": format!("50-{}-{index:04}", pool_name(pool)),
            "labels": {ROLE_LABEL: pool_name(pool)},
        },
        "spec": {"config": ignition(files, vec![unit(pool, index)], dialect)},
    })
}

fn ignition(files: Vec<Value>, units: Vec<Value>, dialect: Dialect) -> Value {
    let version = match dialect {
        Dialect::V3 => "3.5.0",
        Dialect::V2 => "2.2.0",
    };
    json!({
        "ignition": {"version": version},
        "storage": {"files": files},
        "systemd": {"units": units},
    })
}

fn file(pool: usize, index: usize, path: usize, dialect: Dialect) -> Value {
    let seed = ((pool as u64) << 40) | ((index as u64) << 20) | path as u64;
    let source = format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode(text(seed)));
    let path = format!("/etc/seaworthy/bench/{:03}/{path:05}.conf", path / 100);
    match dialect {
        Dialect::V3 => {
            json!({"path": path, "mode": 420, "overwrite": true, "contents": {"source": source}})
        }
        Dialect::V2 => json!({
            "filesystem": "root", "path": path, "mode": 420, "contents": {"source": source},
        }),
    }
}

fn unit(pool: usize, index: usize) -> Value {
    json!({
        "name": format!("bench-{index:04}.service"),
        "enabled": true,
        "contents": format!(
            "[Unit]\nDescription=Bench {index} of pool {pool}\nAfter=network-online.target\n\n\
             [Service]\nType=oneshot\nExecStart=/usr/bin/true {index}\n\n\
             [Install]\nWantedBy=multi-user.target\n"
        ),
        "dropins": [{
            "name": "10-limits.conf",
            "contents": format!("[Service]\nLimitNOFILE={}\n", 1024 + index),
        }],
    })
}

/// Exactly 1 KiB that looks like a settings file.
fn text(seed: u64) -> String {
    const WORDS: [&str; 16] = [
        "net", "core", "kernel", "vm", "audit", "limit", "timeout", "buffer", "queue", "cache", "node", "log", "retry",
        "window", "weight", "mode",
    ];
    let mut random = SplitMix(seed);
    let mut word = || WORDS[(random.next() >> 60) as usize];
    let mut lines = Vec::new();
    for _ in 0..FILE_SIZE / 16 {
        lines.push((word(), word(), word()));
    }
    let mut text = String::with_capacity(FILE_SIZE + 64);
    for (first, second, third) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{first}.{second}_{third} = {}", random.next() % 100_000);
    }
    text.truncate(FILE_SIZE - 1);
    text.push('\n');
    text
}

/// The SplitMix64 sequence: a few lines, and the same numbers in every version, which no library promises.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::{Dialect, Fleet, SplitMix, ignition_config, machine_config, text};

    fn paths(config: &Value) -> BTreeSet<String> {
        let files = config["spec"]["config"]["storage"]["files"].as_array().unwrap();
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn neighbours_share_half_of_their_paths_and_no_contents() {
        let (a, b, c) =
            (machine_config(0, 4, Dialect::V3), machine_config(0, 5, Dialect::V3), machine_config(0, 6, Dialect::V3));
        assert_eq!(paths(&a).len(), 20);
        assert_eq!(paths(&a).intersection(&paths(&b)).count(), 10);
        assert_eq!(paths(&a).intersection(&paths(&c)).count(), 0);
        let source =
            |config: &Value, at: usize| config["spec"]["config"]["storage"]["files"][at]["contents"]["source"].clone();
        assert_ne!(source(&a, 10), source(&b, 0));
    }

    #[test]
    fn contents_are_one_kibibyte_and_differ_by_seed() {
        assert_eq!(text(7).len(), 1024);
        assert!(text(7).is_ascii() && text(7).ends_with('\n'));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn sequence_is_the_published_one() {
        // First outputs of SplitMix64 for seed 0.
        let mut random = SplitMix(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn names_sort_in_the_order_of_the_index() {
        let name = |index| machine_config(0, index, Dialect::V3)["metadata"]["name"].to_string();
        assert!(name(99) < name(100));
    }

    #[test]
    fn old_dialect_names_the_filesystem() {
        let config: Value = serde_json::from_slice(&ignition_config(2, Dialect::V2)).unwrap();
        assert_eq!(config["ignition"]["version"], "2.2.0");
        let files = config["storage"]["files"].as_array().unwrap();
        assert_eq!(files.len(), 30);
        assert!(files.iter().all(|file| file["filesystem"] == "root"));
    }

    #[test]
    fn only_a_complete_answer_is_accepted() {
        let fleet = Fleet::new(1, 2);
        let rendered = |files: usize| {
            json!({"kind": "List", "items": [{"metadata": {"name": "rendered-a"}, "spec": {"config": {
                "storage": {"files": vec![json!({}); files]}, "systemd": {"units": [{}, {}]}}}}]})
            .to_string()
        };
        assert!(fleet.check_rendered(rendered(30).as_bytes()).is_ok());
        let error = fleet.check_rendered(rendered(40).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("rendered-a: 40 files"), "{error}");
        assert!(fleet.check_rendered(b"").is_err());
        assert!(fleet.check_rendered(br#"{"items": []}"#).is_err());
    }
}
