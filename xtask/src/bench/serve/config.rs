//! Config of the bench: a pool's, with 400 KB as served.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Files of the config, and the bytes of each. What is served has all of them twice: as files, and in the MachineConfig that
/// is written down beside them.
const FILES: (usize, usize) = (60, 2110);
/// What a machine gets, in bytes, and by how much it may differ.
const SERVED: (usize, usize) = (400_000, 10_000);

/// Writes what `seaworthy server --bootstrap` serves from.
pub fn write(base: &Path) -> Result<()> {
    let meta = |kind: &str, name: &str| json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": name}});
    let mut pool = meta("MachineConfigPool", "master");
    pool["spec"] = json!({});
    pool["status"] = json!({"configuration": {"name": "rendered-master-1"}});
    put(base, "machine-pools/master.yaml", &pool)?;
    let mut config = meta("MachineConfig", "rendered-master-1");
    config["spec"] = json!({"config": ignition(), "kernelArguments": ["nosmt"]});
    put(base, "machine-configs/rendered-master-1.yaml", &config)?;
    let mut controller = meta("ControllerConfig", "machine-config-controller");
    controller["spec"] = json!({"kubeAPIServerServingCAData": "Y2E="});
    put(base, "controller-config/machine-config-controller.yaml", &controller)
}

/// Fails if what is served is not what the page says.
pub fn check(body: &[u8]) -> Result<()> {
    let (wanted, tolerance) = SERVED;
    ensure!(
        body.len().abs_diff(wanted) <= tolerance,
        "the config that is served has {} bytes instead of about {wanted}; change FILES in bench/serve/config.rs",
        body.len()
    );
    let config: Value = serde_json::from_slice(body).context("what is served is no JSON")?;
    let count = config["storage"]["files"].as_array().map_or(0, Vec::len);
    ensure!(count > FILES.0, "the config that is served has {count} files; some are missing");
    Ok(())
}

fn ignition() -> Value {
    let files: Vec<Value> = (0..FILES.0)
        .map(|nth| {
            let mut text = String::new();
            for line in 0.. {
                if text.len() >= FILES.1 {
                    break;
                }
                text += &format!("net.core.setting_{nth}_{line} = {}\n", (nth * 7919 + line * 104_729) % 65_536);
            }
            let source = format!("data:;base64,{}", STANDARD.encode(text));
            json!({"path": format!("/etc/sysctl.d/{nth:02}-bench.conf"), "mode": 420, "overwrite": true,
                "contents": {"source": source}})
        })
        .collect();
    json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}})
}

fn put(base: &Path, name: &str, object: &Value) -> Result<()> {
    let path = base.join(name);
    let folder = path.parent().context("a file without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(&path, object.to_string()).with_context(|| format!("cannot write {}", path.display()))
}
