//! Sizing files: the kubelet's log level, and the resources that each node reserves for the system.

use seaworthy_api::machineconfiguration::KubeletConfigSpec;
use serde_json::Value;

use super::validate::SIZED;
use crate::generated::GeneratedFile;

/// The drop-in of the kubelet's unit that sets its log level.
pub const LOGGING: &str = "/etc/systemd/system/kubelet.service.d/20-logging.conf";
/// What a node reserves for the system; read by a unit that runs before the kubelet.
pub const SIZING: &str = "/etc/node-sizing-enabled.env";

/// The drop-in for a log level.
pub(super) fn logging(spec: &KubeletConfigSpec) -> Option<GeneratedFile> {
    let level = spec.log_level?;
    Some(GeneratedFile::new(LOGGING, format!("[Service]\nEnvironment=\"KUBELET_LOG_LEVEL={level}\"\n")))
}

/// The sizing file, if the object has anything to say on it.
pub(super) fn sizing(spec: &KubeletConfigSpec) -> Option<GeneratedFile> {
    let reserved = spec.kubelet_config.as_ref().and_then(|document| document.get("systemReserved"));
    let amount = |key: &str| reserved.and_then(|reserved| reserved.get(key)).and_then(Value::as_str);
    let amounts = SIZED.map(amount);
    if spec.auto_sizing_reserved.is_none() && amounts.iter().all(Option::is_none) {
        return None;
    }
    let [memory, cpu, storage] = amounts;
    let content = format!(
        "NODE_SIZING_ENABLED={}\nSYSTEM_RESERVED_MEMORY={}\nSYSTEM_RESERVED_CPU={}\nSYSTEM_RESERVED_ES={}\n",
        spec.auto_sizing_reserved.unwrap_or(false),
        memory.unwrap_or("1Gi"),
        cpu.unwrap_or("500m"),
        storage.unwrap_or("1Gi"),
    );
    Some(GeneratedFile::new(SIZING, content))
}
