//! Provider contracts: in which version a provider's objects are read, and where they say that they are ready.
//!
//! - The labels `cluster.x-k8s.io/<contract>` of a definition list the versions that fulfil a contract; the newest contract with
//!   a version wins, and of its versions the highest.
//! - A definition without such labels is read in the version that it stores, with `status.ready`: the first providers had none.

use std::cmp::Ordering;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use seaworthy_api::vocabulary::cluster::Contract;
use seaworthy_api::words::Word as _;

use super::field::{FieldError, Fields};

/// The version that the objects of a provider are read in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractVersion {
    pub version: String,
    /// The contract that the version fulfils; `None` where the definition has no label of a contract.
    pub contract: Option<Contract>,
}

/// A definition that has no version to read its objects in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "CustomResourceDefinition {definition}: it has no label cluster.x-k8s.io/<contract> with a version, and stores none; expected a \
     label such as {} with a version that it serves; install the provider again",
    Contract::V1Beta2.label()
)]
pub struct NoContractVersion {
    pub definition: String,
}

/// The version that objects of a definition are read in.
///
/// Differs: contracts before v1beta1 and definitions without labels are served too, because the seed contract needs no labels
/// and its examples are of v1alpha3; upstream refuses them.
///
/// # Errors
///
/// If there is none: neither a label names one, nor is one stored, as in metadata alone.
pub fn resolve(definition: &CustomResourceDefinition) -> Result<ContractVersion, NoContractVersion> {
    let labelled = Contract::ALL.iter().find_map(|contract| {
        let value = contract.label().of(&definition.metadata)?;
        let highest = value.split('_').filter(|version| !version.is_empty()).max_by(|a, b| compare(a, b))?;
        Some(ContractVersion { version: highest.to_owned(), contract: Some(*contract) })
    });
    let stored = || {
        let version = definition.spec.versions.iter().find(|version| version.storage)?;
        Some(ContractVersion { version: version.name.clone(), contract: None })
    };
    labelled
        .or_else(stored)
        .ok_or_else(|| NoContractVersion { definition: definition.metadata.name.clone().unwrap_or_default() })
}

/// The name of the definition of a kind, as Cluster API computes it, for readers that may not list definitions.
///
/// Compat: the plural is guessed as upstream does for the names that kinds have.
pub fn definition_name(group: &str, kind: &str) -> String {
    let kind = kind.to_lowercase();
    let is_vowel = |c: char| "aeiou".contains(c);
    let plural = match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| kind.ends_with(end)) => format!("{kind}es"),
        _ => format!("{kind}s"),
    };
    format!("{plural}.{group}")
}

/// Whether a provider's object is ready: the field of its contract, or `status.ready`.
///
/// Differs: the fields of v1beta2 are read for both references, and where they are absent `status.ready` decides, because the
/// contract documents the former and providers set the latter; upstream reads one of the two only.
pub fn is_ready(fields: Fields<'_, '_>, contract: Option<Contract>, field: &str) -> Result<bool, FieldError> {
    if contract == Some(Contract::V1Beta2)
        && let Some(is_ready) = fields.boolean(&format!("/status/initialization/{field}"))?
    {
        return Ok(is_ready);
    }
    Ok(fields.boolean("/status/ready")?.unwrap_or_default())
}

/// The order of API versions: stable ones above beta above alpha, then by number; other names are below all.
fn compare(a: &str, b: &str) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| b.cmp(a))
}

fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let numbers = version.strip_prefix('v')?;
    let split = |stage: &str| {
        let (major, minor) = numbers.split_once(stage)?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    if let Some((major, minor)) = split("alpha") {
        return Some((0, major, minor));
    }
    if let Some((major, minor)) = split("beta") {
        return Some((1, major, minor));
    }
    Some((2, numbers.parse().ok()?, 0))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("GenericBootstrapConfig", "genericbootstrapconfigs")]
    #[case("DevMachinePool", "devmachinepools")]
    #[case("Class", "classes")]
    #[case("Policy", "policies")]
    #[case("Key", "keys")]
    fn plural_follows_the_kind(#[case] kind: &str, #[case] plural: &str) {
        assert_eq!(definition_name("example.com", kind), format!("{plural}.example.com"));
    }

    #[test]
    fn stable_versions_are_above_beta_and_alpha() {
        let mut versions = ["v1", "v2beta1", "v10", "v1alpha3", "x", "v1beta2", "v1alpha10", "v2"];
        versions.sort_by(|a, b| compare(a, b));
        assert_eq!(versions, ["x", "v1alpha3", "v1alpha10", "v1beta2", "v2beta1", "v1", "v2", "v10"]);
    }
}
