//! Admission: what a MachinePool is given before it is stored, and what is refused.
//!
//! All that is wrong is reported together. The rules that the definition has itself (lengths, patterns, `replicas` of at least
//! zero) are not repeated, but for the one that upstream lacks.

use std::fmt;

use kube::ResourceExt as _;
use seaworthy_api::cluster::ContractReference;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::cluster::{annotation, label};
use seaworthy_values::names;

use super::inputs::cluster_name;
use super::kubernetes_version::KubernetesVersion;

/// How long deleting a Node is tried where the pool does not say.
pub const DEFAULT_NODE_DELETION_TIMEOUT_SECONDS: i32 = 10;

/// Why a pool is refused: a field, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {kind}: {message}")]
pub struct Violation {
    pub path: String,
    pub kind: ViolationKind,
    /// What was found, what is accepted, and what to do.
    pub message: String,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    Required,
    Forbidden,
    Invalid,
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Compat: the words of the API server.
        out.write_str(match self {
            ViolationKind::Required => "Required value",
            ViolationKind::Forbidden => "Forbidden",
            ViolationKind::Invalid => "Invalid value",
        })
    }
}

impl Violation {
    fn new(path: impl Into<String>, kind: ViolationKind, message: impl Into<String>) -> Violation {
        Violation { path: path.into(), kind, message: message.into() }
    }
}

/// Fills in what a pool leaves open; `old` is the pool as it is stored.
///
/// # Errors
///
/// If the size annotations of the autoscaler cannot be read; all of them.
pub fn default(pool: &mut MachinePool, old: Option<&MachinePool>) -> Result<(), Vec<Violation>> {
    if !pool.spec.cluster_name.is_empty() {
        label::CLUSTER_NAME.set(&mut pool.metadata, pool.spec.cluster_name.clone());
    } else if let Some(name) = cluster_name(pool).map(str::to_owned) {
        label::CLUSTER_NAME.set(&mut pool.metadata, name);
    }
    let template = &mut pool.spec.template.spec;
    let deletion = template.deletion.get_or_insert_default();
    deletion.node_deletion_timeout_seconds.get_or_insert(DEFAULT_NODE_DELETION_TIMEOUT_SECONDS);
    if let Some(version) = template.version.as_mut().filter(|version| !version.is_empty() && !version.starts_with('v'))
    {
        version.insert(0, 'v');
    }
    if pool.spec.replicas.is_none() {
        pool.spec.replicas = Some(default_replicas(pool, old.and_then(|old| old.spec.replicas))?);
    }
    Ok(())
}

/// The replicas of a pool that does not say how many: what it has, within the sizes that an autoscaler is given, else 1.
fn default_replicas(pool: &MachinePool, old: Option<i32>) -> Result<i32, Vec<Violation>> {
    let size = |key: Annotation| {
        let text = key.of(&pool.metadata)?;
        Some(text.parse::<i32>().map_err(|error| {
            let message =
                format!("{text:?} is no size ({error}); expected a whole number such as \"3\"; correct or remove it");
            Violation::new(format!("metadata.annotations[{key}]"), ViolationKind::Invalid, message)
        }))
    };
    let (Some(min), Some(max)) = (size(annotation::AUTOSCALER_MIN_SIZE), size(annotation::AUTOSCALER_MAX_SIZE)) else {
        return Ok(1);
    };
    match (min, max) {
        (Ok(min), Ok(max)) => Ok(match old {
            None => min,
            Some(old) if old < min => min,
            Some(old) if old > max => max,
            Some(old) => old,
        }),
        (min, max) => Err([min.err(), max.err()].into_iter().flatten().collect()),
    }
}

/// Everything that is wrong with a pool; `old` is the pool as it is stored, of which this is an update.
pub fn validate(pool: &MachinePool, old: Option<&MachinePool>) -> Vec<Violation> {
    use ViolationKind::{Forbidden, Invalid, Required};
    let spec = &pool.spec;
    let template = &spec.template.spec;
    let mut wrong = Vec::new();
    let has_config = template.bootstrap.config_ref.as_ref().is_some_and(ContractReference::is_defined);
    if !has_config && template.bootstrap.data_secret_name.is_none() {
        let message = "neither configRef nor dataSecretName is set; expected one of them; set dataSecretName to \"\" if the \
                       machines need no bootstrap data";
        wrong.push(Violation::new("spec.template.spec.bootstrap", Required, message));
    }
    if let Some(old) = old.filter(|old| old.spec.cluster_name != spec.cluster_name) {
        let (found, was) = (&spec.cluster_name, &old.spec.cluster_name);
        let message = format!("it was {was:?} and is {found:?}; a pool stays in its Cluster; create another pool");
        wrong.push(Violation::new("spec.clusterName", Forbidden, message));
    }
    if spec.cluster_name != template.cluster_name {
        let (found, expected) = (&spec.cluster_name, &template.cluster_name);
        let message = format!(
            "{found:?} differs from spec.template.spec.clusterName, which is {expected:?}; expected the same name; set both"
        );
        wrong.push(Violation::new("spec.clusterName", Invalid, message));
    }
    if let Some(replicas) = spec.replicas.filter(|replicas| *replicas < 0) {
        // Differs: a negative number is refused, because no provider can make so many machines; upstream stores it.
        let message = format!("{replicas} is below zero; expected how many machines there should be");
        wrong.push(Violation::new("spec.replicas", Invalid, message));
    }
    if let Some(version) = &template.version {
        let is_version = version.strip_prefix('v').is_some_and(|rest| KubernetesVersion::parse(rest).is_some());
        if !is_version {
            let message = format!("{version:?} is no version; expected a semantic version such as \"v1.32.0\"");
            wrong.push(Violation::new("spec.template.spec.version", Invalid, message));
        }
    }
    if template.taints.as_ref().is_some_and(|taints| !taints.is_empty()) {
        let message = "taints are not supported for machine pools; set them where the machines are configured";
        wrong.push(Violation::new("spec.taints", Forbidden, message));
    }
    wrong.extend(metadata_violations(pool));
    wrong
}

fn metadata_violations(pool: &MachinePool) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let Some(metadata) = &pool.spec.template.metadata else { return wrong };
    let mut add = |path: &str, text: &str, sentences: Vec<String>| {
        let violation = |sentence: String| {
            Violation::new(
                format!("spec.template.metadata.{path}"),
                ViolationKind::Invalid,
                format!("{text:?}: {sentence}"),
            )
        };
        wrong.extend(sentences.into_iter().map(violation));
    };
    for (key, value) in metadata.labels.iter().flatten() {
        add("labels", key, names::qualified_name(key));
        add("labels", value, names::label_value(value));
    }
    for key in metadata.annotations.iter().flatten().map(|(key, _)| key) {
        // Compat: the keys of annotations are compared in lower case.
        add("annotations", key, names::qualified_name(&key.to_lowercase()));
    }
    wrong
}

/// The references that a pool shares with others of its namespace: two pools cannot have the same machines, and an object has
/// one controller.
///
/// Differs: it is found when the pool is written, because upstream lets both pools in, and the second one waits for an object
/// that it never gets.
pub fn shared_references<'a>(pool: &MachinePool, others: impl IntoIterator<Item = &'a MachinePool>) -> Vec<Violation> {
    let namespace = pool.namespace();
    let references = |pool: &'a MachinePool| {
        let template = &pool.spec.template.spec;
        (template.bootstrap.config_ref.as_ref(), &template.infrastructure_ref)
    };
    let template = &pool.spec.template.spec;
    let mut wrong = Vec::new();
    for other in others {
        if other.namespace() != namespace || other.name_any() == pool.name_any() {
            continue;
        }
        let (bootstrap, infrastructure) = references(other);
        let pairs = [
            ("spec.template.spec.bootstrap.configRef", template.bootstrap.config_ref.as_ref(), bootstrap),
            ("spec.template.spec.infrastructureRef", Some(&template.infrastructure_ref), Some(infrastructure)),
        ];
        for (path, reference, of_other) in pairs {
            let is_same = |reference: &&ContractReference| reference.is_defined() && Some(*reference) == of_other;
            if let Some(reference) = reference.filter(is_same) {
                let message = format!(
                    "{} {} is that of MachinePool {} too; expected an object of its own; create one for each pool",
                    reference.kind,
                    reference.name,
                    other.name_any()
                );
                wrong.push(Violation::new(path, ViolationKind::Invalid, message));
            }
        }
    }
    wrong
}
