//! KubeletConfig: kubelet settings for the nodes of some pools.

use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::settings_status::SettingsStatus;
use crate::meta::LabelSelector;
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// Kubelet settings and the pools that get them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "KubeletConfig",
    doc = "Kubelet settings for the nodes of some pools.",
    status = "SettingsStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[x_kube(validation = Rule::new(
    "!has(self.autoSizingReserved) || !self.autoSizingReserved || !has(self.kubeletConfig) || \
     !has(self.kubeletConfig.systemReserved) || size(self.kubeletConfig.systemReserved) == 0"
).message("autoSizingReserved and kubeletConfig.systemReserved exclude each other"))]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfigSpec {
    /// Whether each node works out by itself what it reserves for the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_sizing_reserved: Option<bool>,

    /// Settings of the kubelet's own configuration file that are to be changed.
    // Differs: what the platform sets itself is refused when the object is written, not only reported by the controller
    // afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "kubelet_configuration")]
    pub kubelet_config: Option<Value>,

    /// Verbosity of the kubelet's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub log_level: Option<i32>,

    /// Labels of the pools that get these settings; absent or empty selects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,

    /// TLS versions and ciphers that the kubelet's server accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<TlsSecurityProfile>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The kubelet's configuration, of which only what rules speak of is described; all else is kept as it is.
///
/// `systemReserved` may be null as every other setting may, which takes it away. What the platform sets may not.
fn kubelet_configuration(_: &mut SchemaGenerator) -> Schema {
    const RULE: &str = "is set by the platform and must be left out";
    let rule = |key: &str, test: &str| {
        let message = format!("{key} {RULE}{}", if test.is_empty() { "" } else { " or empty" });
        let rule = if test.is_empty() { format!("!has(self.{key})") } else { format!("!has(self.{key}) || {test}") };
        serde_json::json!({ "rule": rule, "message": message })
    };
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "cgroupDriver": { "type": "string", "description": "How the kubelet handles control groups." },
            "clusterDNS": { "type": "array", "description": "Name servers of pods.", "items": { "type": "string" } },
            "clusterDomain": { "type": "string", "description": "Domain of the cluster." },
            "failSwapOn": { "type": "boolean", "description": "Whether swap keeps the kubelet from starting." },
            "featureGates": { "type": "object", "description": "Features by name.", "additionalProperties": { "type": "boolean" } },
            "memorySwap": {
                "type": "object",
                "description": "How pods use swap.",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "swapBehavior": { "type": "string", "description": "Which pods use swap." } },
                "x-kubernetes-validations": [rule("swapBehavior", "self.swapBehavior == ''")],
            },
            "systemReserved": {
                "type": "object",
                "description": "What is reserved for the system, by resource.",
                "nullable": true,
                "additionalProperties": { "type": "string", "nullable": true },
            },
        },
        "x-kubernetes-validations": [
            rule("cgroupDriver", "self.cgroupDriver == ''"),
            rule("clusterDNS", "size(self.clusterDNS) == 0"),
            rule("clusterDomain", "self.clusterDomain == ''"),
            rule("failSwapOn", ""),
            rule("featureGates", "size(self.featureGates) == 0"),
        ],
    })
}

/// A named set of TLS settings, or one's own.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsSecurityProfile {
    /// Settings for the type `Custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub custom: Option<CustomTlsProfile>,

    /// Marker of the type `Intermediate`; has no settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub intermediate: Option<NoSettings>,

    /// Marker of the type `Modern`; has no settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub modern: Option<NoSettings>,

    /// Marker of the type `Old`; has no settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub old: Option<NoSettings>,

    /// Which profile applies.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Open<TlsProfileType>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// TLS settings of one's own.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomTlsProfile {
    /// Cipher suites, by their OpenSSL names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub ciphers: Option<Vec<String>>,

    /// Key exchange groups; the kubelet does not use them.
    // Differs: upstream has this field in its preview definition only; a manifest that carries it must not lose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[schemars(length(min = 1, max = 7))]
    pub groups: Option<Vec<Open<TlsGroup>>>,

    /// Oldest TLS version that is accepted.
    #[serde(rename = "minTLSVersion", skip_serializing_if = "Option::is_none")]
    pub min_tls_version: Option<Open<TlsVersion>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// An object without fields of its own.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoSettings {
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Named sets of TLS settings.
    pub enum TlsProfileType {
        /// For clients that are decades old.
        Old = "Old",
        /// For clients of the last years; the default.
        Intermediate = "Intermediate",
        /// TLS 1.3 only.
        Modern = "Modern",
        /// As the object says.
        Custom = "Custom",
    }
}

words! {
    /// TLS protocol versions.
    pub enum TlsVersion {
        /// TLS 1.0.
        Tls10 = "VersionTLS10",
        /// TLS 1.1.
        Tls11 = "VersionTLS11",
        /// TLS 1.2.
        Tls12 = "VersionTLS12",
        /// TLS 1.3.
        Tls13 = "VersionTLS13",
    }
}

words! {
    /// Key exchange groups of TLS.
    pub enum TlsGroup {
        /// Curve25519.
        X25519 = "X25519",
        /// NIST P-256.
        Secp256r1 = "secp256r1",
        /// NIST P-384.
        Secp384r1 = "secp384r1",
        /// NIST P-521.
        Secp521r1 = "secp521r1",
        /// Curve25519 with ML-KEM-768.
        X25519MlKem768 = "X25519MLKEM768",
        /// NIST P-256 with ML-KEM-768.
        Secp256r1MlKem768 = "SecP256r1MLKEM768",
        /// NIST P-384 with ML-KEM-1024.
        Secp384r1MlKem1024 = "SecP384r1MLKEM1024",
    }
}
