//! Pool settings: what KubeletConfigs and ContainerRuntimeConfigs have in common. One object becomes one MachineConfig for each
//! pool that it selects.
//!
//! - Every pool is served although another fails; a pool that fails keeps the MachineConfig that it has.
//! - What was made is known by its owner, not by its name: an object that selects a pool no longer, or is deleted, takes
//!   its MachineConfigs with it and no others.
//! - A decision depends on its inputs alone, and all of them can be watched; so nothing is ever tried again by time.

mod settings_view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool, SettingsStatus};
use seaworthy_api::meta::{LabelSelector, Selection};
use seaworthy_api::vocabulary::machineconfiguration::{GeneratorReason, annotation};
use seaworthy_change::{Change, Event, ObjectRef, Purpose, Stage};
use serde::Serialize;

use self::settings_view::SettingsView;
use crate::base::is_complete;
use crate::conditions::Notice;
use crate::generated::{self, GeneratedFile, name_of, owners};
use crate::name::NameScheme;

/// A kind of settings for pools.
pub trait PoolSettings: Resource<DynamicType = (), Scope = ClusterResourceScope> {
    /// The pools that get the settings.
    fn selector(&self) -> Option<&LabelSelector>;
    /// What was reported so far.
    fn status(&self) -> Option<&SettingsStatus>;
}

/// Everything that a decision may look at.
pub struct SettingsInputs<'a, K> {
    /// The object that the decision is about.
    pub object: &'a K,
    /// All objects of its kind, itself included.
    pub all: &'a [Arc<K>],
    /// All pools.
    pub pools: &'a [Arc<MachineConfigPool>],
    /// All MachineConfigs. Rendered ones may be left out; nothing looks at them.
    pub machine_configs: &'a [Arc<MachineConfig>],
    /// The ControllerConfig, if the cluster has one: nothing is made from a base that is being made itself.
    pub controller_config: Option<&'a ControllerConfig>,
    /// The build of the running controller, which marks what it has made.
    pub build: &'a str,
    /// The time, for conditions.
    pub now: Time,
}

/// What to write, and why that and no more.
pub type SettingsDecision = seaworthy_change::Decision<'static, SettingsReport>;

/// What a decision has found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsReport {
    /// Why nothing was decided at all.
    pub waiting: Option<UnmetPrecondition>,
    /// Why the object was refused as a whole.
    pub refused: Option<Refusal>,
    /// What became of each pool that is selected, by name.
    pub pools: Vec<PoolReport>,
    /// What is worth knowing, as it is in the object's status.
    pub notices: Vec<String>,
    /// The MachineConfigs that a user may have edited, and whose field managers are not known: the decision is to be made
    /// again with these objects as the API has them.
    pub unattributed: Vec<String>,
}

impl SettingsReport {
    /// Everything that was refused, of the object or for a pool.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        let of_pools = self.pools.iter().filter_map(|pool| match &pool.outcome {
            PoolOutcome::Failed(refusal) => Some(refusal),
            _ => None,
        });
        self.refused.iter().chain(of_pools)
    }
}

/// Why nothing was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UnmetPrecondition {
    /// The base MachineConfigs are not those of the current ControllerConfig.
    ControllerConfigIncomplete,
}

/// Why an object or a pool was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// For programs.
    #[serde(serialize_with = "as_text")]
    pub reason: GeneratorReason,
    /// For people.
    pub message: String,
    /// The field of the object that it is about; empty where it is none, or not a single one.
    #[serde(skip)]
    pub path: String,
}

/// An error in a field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The field of the object.
    pub(crate) path: String,
    /// What is wrong, for people.
    pub(crate) why: String,
}

/// What became of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    pub pool: String,
    /// The name of its MachineConfig, if it has got so far.
    pub machine_config: Option<String>,
    /// What became of it.
    pub outcome: PoolOutcome,
}

/// What became of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PoolOutcome {
    /// Its MachineConfig is new.
    Created,
    /// Its MachineConfig changes.
    Updated,
    /// Its MachineConfig is as it should be.
    Unchanged,
    /// It keeps what it has.
    Failed(Refusal),
}

/// Names and messages of a kind of settings.
pub(crate) struct SettingsKind {
    pub(crate) scheme: NameScheme,
    /// The message when no pool is selected; the object's name follows if it ends in a blank.
    pub(crate) no_pool: &'static str,
    /// The beginning of the message about an invalid name.
    pub(crate) no_name: &'static str,
}

/// Makes the files of a pool.
pub(crate) type FileGenerator<'c> = Box<dyn Fn(&MachineConfigPool) -> Result<Vec<GeneratedFile>, Refusal> + 'c>;

/// What is known of an object that is valid.
pub(crate) struct SettingsContent<'c> {
    /// The files for a pool.
    pub(crate) files: FileGenerator<'c>,
    pub(crate) notices: Vec<Notice>,
}

// === impl Mistake ===

impl FieldError {
    pub(crate) fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        FieldError { path: path.into(), why: why.into() }
    }
}

// === impl Refusal ===

impl Refusal {
    pub(crate) fn new(reason: GeneratorReason, message: impl Into<String>) -> Self {
        Refusal { reason, message: message.into(), path: String::new() }
    }

    /// For a mistake in the object itself.
    pub(crate) fn invalid(field_error: FieldError) -> Self {
        Refusal::new(GeneratorReason::Invalid, format!("Error: {}", field_error.why)).at(field_error.path)
    }

    /// The same, about a field.
    fn at(self, path: impl Into<String>) -> Self {
        Refusal { path: path.into(), ..self }
    }
}

fn as_text<S: serde::Serializer>(reason: &GeneratorReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

impl SettingsKind {
    /// Whether a MachineConfig was made from an object of this kind, by this release or an older one.
    pub(crate) fn has_made<K: PoolSettings>(
        &self,
        machine_config: &MachineConfig,
        pools: &[Arc<MachineConfigPool>],
    ) -> bool {
        let name = name_of(&machine_config.metadata);
        owners::<K>(&machine_config.metadata).next().is_some()
            || (self.scheme.is_name(name) && is_generated(machine_config))
            || pools.iter().any(|pool| self.legacy_of(pool).iter().any(|legacy| legacy == name))
    }

    fn legacy_of(&self, pool: &MachineConfigPool) -> Vec<String> {
        self.scheme.legacy_names(name_of(&pool.metadata), pool.metadata.uid.as_deref().unwrap_or_default())
    }
}

/// What selects the pools of an object.
const SELECTOR: &str = "spec.machineConfigPoolSelector";

/// The decision about one object. `content` says whether the object is valid and what it is for a pool.
pub(crate) fn decide<K: PoolSettings>(
    family: &SettingsKind,
    inputs: &SettingsInputs<'_, K>,
    content: Result<SettingsContent<'_>, Refusal>,
) -> SettingsDecision {
    let view = SettingsView::new(family, inputs);
    if view.object.deletion_timestamp.is_some() {
        return view.deleted();
    }
    if inputs.controller_config.is_some_and(|controller_config| !is_complete(controller_config)) {
        let report = SettingsReport {
            waiting: Some(UnmetPrecondition::ControllerConfigIncomplete),
            ..SettingsReport::default()
        };
        return SettingsDecision::nothing(report);
    }
    let content = match content {
        Ok(content) => content,
        Err(refusal) => return view.refused(Vec::new(), refusal),
    };
    let selection = match inputs.object.selector().map(Selection::of).transpose() {
        Ok(selection) => selection.unwrap_or_default(),
        Err(error) => {
            let message = format!("Error: invalid label selector: {error}");
            let refusal = Refusal::new(GeneratorReason::Invalid, message).at(SELECTOR);
            return view.refused(Vec::new(), refusal);
        }
    };
    let pools = selected(&selection, inputs.pools);
    if pools.is_empty() {
        let name = if family.no_pool.ends_with(' ') { name_of(view.object) } else { "" };
        let why = in_vain(&K::kind(&()), name_of(view.object), inputs.object.selector(), inputs.pools);
        let refusal =
            Refusal::new(GeneratorReason::NoPool, format!("Error: {}{name}; {why}", family.no_pool)).at(SELECTOR);
        // What was made for pools that were selected before goes, as it would one by one.
        let leave = view.leave(&BTreeSet::new(), &BTreeSet::new());
        return view.refused(leave, refusal);
    }
    match view.assignment(&pools) {
        Ok(assignment) => view.serve(&pools, &assignment, &content),
        Err(error) => {
            let message = format!("{}: {error}", family.no_name);
            view.refused(Vec::new(), Refusal::new(GeneratorReason::NoName, message))
        }
    }
}

/// The MachineConfigs of objects that are gone, for a controller that has no object left to decide about.
pub(crate) fn orphans<K: PoolSettings>(
    family: &SettingsKind,
    all: &[Arc<K>],
    pools: &[Arc<MachineConfigPool>],
    machine_configs: &[Arc<MachineConfig>],
    build: &str,
) -> Vec<Change> {
    let live: BTreeSet<&str> = all.iter().filter_map(|object| object.meta().uid.as_deref()).collect();
    let claimed: BTreeSet<String> = all.iter().flat_map(|object| claims(family, object.as_ref(), pools)).collect();
    let is_orphan = |machine_config: &MachineConfig| {
        let metadata = &machine_config.metadata;
        let name = name_of(metadata);
        if !family.scheme.is_name(name) || claimed.contains(name) || !is_generated(machine_config) {
            return false;
        }
        let mut owners = owners::<K>(metadata).filter(|owner| !owner.uid.is_empty()).peekable();
        // Differs: upstream deletes whatever has such a name and another build, its owner alive or not.
        match owners.peek() {
            Some(_) => !owners.any(|owner| live.contains(owner.uid.as_str())),
            None => annotation::GENERATED_BY_CONTROLLER_VERSION.of(metadata) != Some(build),
        }
    };
    let orphans = machine_configs.iter().filter(|machine_config| is_orphan(machine_config));
    orphans.map(|orphan| deletion(orphan)).collect()
}

/// The MachineConfigs for a cluster that does not exist yet: at most one object a pool, always the plain name.
pub(crate) fn bootstrap_machine_configs<K: PoolSettings>(
    family: &SettingsKind,
    pools: &[Arc<MachineConfigPool>],
    build: &str,
    contents: &[(&K, SettingsContent<'_>)],
) -> Result<Vec<MachineConfig>, Refusal> {
    let mut made: BTreeMap<String, (&str, MachineConfig)> = BTreeMap::new();
    for (object, content) in contents {
        let invalid = |message: String| Refusal::new(GeneratorReason::Invalid, message);
        let selection = object.selector().map(Selection::of).transpose();
        let selection = selection.map_err(|error| invalid(format!("invalid label selector: {error}")))?;
        for pool in selected(&selection.unwrap_or_default(), pools) {
            let role = name_of(&pool.metadata);
            let object = name_of(object.meta());
            if let Some((other, _)) = made.get(role) {
                let message = format!(
                    "{kind} {object} and {kind} {other} both select pool {role}; before the cluster exists a pool accepts only \
                     one: merge all settings for {role} into one manifest",
                    kind = K::kind(&())
                );
                return Err(invalid(message));
            }
            let files = (content.files)(pool)?;
            let config = generated::config(&files, &[]);
            let owner = generated::bootstrap_owner::<K>();
            let name = family.scheme.name(role, "");
            made.insert(role.to_owned(), (object, generated::machine_config(&name, role, build, owner, config)));
        }
    }
    Ok(made.into_values().map(|(_, machine_config)| machine_config).collect())
}

/// The pools that a selector selects, by name. An empty one selects nothing.
fn selected<'p>(selection: &Selection, pools: &'p [Arc<MachineConfigPool>]) -> Vec<&'p MachineConfigPool> {
    let matches = |pool: &&MachineConfigPool| selection.matches(pool.metadata.labels.as_ref());
    let mut selected: Vec<_> = pools.iter().map(Arc::as_ref).filter(matches).collect();
    if selection.is_empty() {
        selected.clear();
    }
    selected.sort_by(|a, b| name_of(&a.metadata).cmp(name_of(&b.metadata)));
    selected
}

/// Why a selector selects no pool, and what to do about it.
///
/// Of the pools' labels only those are shown that the selector asks for: a status with all of them would be written again
/// whenever a pool is labelled.
fn in_vain(kind: &str, name: &str, selector: Option<&LabelSelector>, pools: &[Arc<MachineConfigPool>]) -> String {
    let labels = selector.into_iter().flat_map(|selector| selector.match_labels.iter().flatten());
    let expressions = selector.into_iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    let mut asked: Vec<(&str, String)> = labels.map(|(key, value)| (key.as_str(), format!("{key}={value}"))).collect();
    asked.extend(expressions.map(|found| {
        let values: Vec<&str> = found.values.iter().flatten().map(String::as_str).collect();
        (found.key.as_str(), format!("{} {} ({})", found.key, found.operator, values.join(", ")))
    }));
    if asked.is_empty() {
        return format!(
            "{kind} {name} has no spec.machineConfigPoolSelector, or an empty one, which selects nothing: name a label of a \
             pool there (`kubectl get mcp --show-labels`)"
        );
    }
    let mut found = Vec::new();
    for (key, _) in &asked {
        let of_pool = |pool: &Arc<MachineConfigPool>| {
            let value = pool.metadata.labels.as_ref()?.get(*key)?;
            Some(format!("pool {} has {key}={value}", name_of(&pool.metadata)))
        };
        let mut having: Vec<String> = pools.iter().filter_map(of_pool).collect();
        having.sort_unstable();
        if having.is_empty() {
            having.push(format!("no pool has the label {key}"));
        }
        found.append(&mut having);
    }
    let asked: Vec<String> = asked.into_iter().map(|(_, text)| text).collect();
    format!(
        "{kind} {name} selects {} (spec.machineConfigPoolSelector), and {}: correct it, or label the pool that is meant \
         (`kubectl label mcp POOL KEY=VALUE`)",
        asked.join(", "),
        found.join(", ")
    )
}

/// The names that an object has by its annotation and its finalizers.
fn claims<K: PoolSettings>(family: &SettingsKind, object: &K, pools: &[Arc<MachineConfigPool>]) -> Vec<String> {
    let metadata = object.meta();
    let selection = object.selector().and_then(|selector| Selection::of(selector).ok()).unwrap_or_default();
    let named = |suffix: &str| -> Vec<String> {
        let pools = selected(&selection, pools);
        pools.iter().map(|pool| family.scheme.name(name_of(&pool.metadata), suffix)).collect()
    };
    let by_annotation = annotation::MC_NAME_SUFFIX.of(metadata).map(named).unwrap_or_default();
    by_annotation.into_iter().chain(metadata.finalizers.iter().flatten().cloned()).collect()
}

fn deletion(machine_config: &MachineConfig) -> Change {
    Change::delete(ObjectRef::of(machine_config))
}

/// A decision that writes these changes one after the other, and announces what was refused if anything is new.
fn decided(object: &ObjectRef, changes: Vec<Change>, report: SettingsReport) -> SettingsDecision {
    // The conditions of the object have it as well, but users look at events first.
    let refusals = report.refusals().filter(|_| !changes.is_empty()).map(|refusal| {
        let (reason, message) = (refusal.reason.as_str(), refusal.message.clone());
        Change::emit(object.clone(), Event { is_warning: true, reason, message, related: None })
    });
    let announced = Stage::each(Purpose::Announce, refusals);
    let stages = vec![Stage::sequence(Purpose::Write, changes), announced];
    SettingsDecision { stages: stages.into_iter().filter(|stage| !stage.is_empty()).collect(), report, recheck: None }
}

fn is_generated(machine_config: &MachineConfig) -> bool {
    let build = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&machine_config.metadata);
    build.is_some_and(|build| !build.is_empty())
}
