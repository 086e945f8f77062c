//! TlsOptions: how strictly a registry's identity is checked.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// How strictly a registry's identity is checked.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsOptions {
    /// Whether plain HTTP is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,

    /// Whether any certificate is accepted.
    #[serde(rename = "insecureSkipTLSVerify", skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl TlsOptions {
    /// Whether the registry's identity is not checked, one way or the other.
    pub fn is_insecure(&self) -> bool {
        self.insecure == Some(true) || self.insecure_skip_tls_verify == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_switch_makes_a_pull_insecure() {
        let options = |json: &str| serde_json::from_str::<TlsOptions>(json).unwrap();
        assert!(options(r#"{"insecure":true}"#).is_insecure());
        assert!(options(r#"{"insecureSkipTLSVerify":true}"#).is_insecure());
        assert!(!options(r#"{"insecure":false}"#).is_insecure());
        assert!(!options("{}").is_insecure());
    }
}
