//! Evictions: the pods of a node that have to leave before it is updated, and what blocks them.
//!
//! The rules are those of `kubectl drain --ignore-daemonsets --force --delete-emptydir-data`, which upstream uses; the
//! last two can be turned off here. Whether a PodDisruptionBudget lets a pod go is worked out from the budget's status,
//! before anything is cordoned.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector as KubeSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use seaworthy_api::meta::{LabelSelector, LabelSelectorRequirement, Selection};
use seaworthy_api::unknown::Unknown;
use serde::Serialize;

/// The annotation of a pod that a kubelet runs from a file of its own.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Pods that may be evicted although that loses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionRules {
    /// Pods that no controller will recreate elsewhere.
    pub evicts_unmanaged: bool,
    /// Pods whose local data is lost.
    pub evicts_local_data: bool,
}

impl Default for EvictionRules {
    /// As upstream, which has no choice in the matter.
    fn default() -> Self {
        Self { evicts_unmanaged: true, evicts_local_data: true }
    }
}

/// A pod or a budget, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectName {
    pub namespace: String,
    pub name: String,
    /// The identity: a pod that took the place of another one has the same name and must not be evicted for it.
    #[serde(skip)]
    pub uid: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Why a pod cannot be evicted now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Blocker {
    /// A PodDisruptionBudget allows no eviction.
    Budget {
        budget: ObjectName,
        /// The pods of the node that it keeps.
        pods: Vec<ObjectName>,
        /// Whether it can never allow one: it wants all its pods.
        is_final: bool,
    },
    /// Several PodDisruptionBudgets cover the pod, which the API refuses to weigh.
    SeveralBudgets { pod: ObjectName, budgets: Vec<ObjectName> },
    /// No controller will start the pod again elsewhere.
    Unmanaged { pod: ObjectName },
    /// The pod's local data would be lost.
    LocalData { pod: ObjectName },
    /// The pod was asked to leave and has not left yet.
    Leaving {
        pod: ObjectName,
        /// When it should be gone.
        due: Time,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blocker::Budget { budget, pods, is_final } => {
                let pods: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
                write!(f, "PDB {budget} ({} {})", if pods.len() == 1 { "pod" } else { "pods" }, pods.join(", "))?;
                if *is_final { f.write_str(", which never allows an eviction") } else { Ok(()) }
            }
            Blocker::SeveralBudgets { pod, budgets } => {
                let budgets: Vec<String> = budgets.iter().map(ToString::to_string).collect();
                write!(f, "pod {pod}, which several PDBs match ({})", budgets.join(", "))
            }
            Blocker::Unmanaged { pod } => write!(f, "pod {pod}, which no controller would recreate"),
            Blocker::LocalData { pod } => write!(f, "pod {pod}, whose emptyDir data would be lost"),
            Blocker::Leaving { pod, due } => write!(f, "pod {pod}, which should have terminated at {}", due.0),
        }
    }
}

/// The pods of a node, sorted by what becomes of them; each list by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evictions {
    /// To be evicted now, in this order.
    pub evict: Vec<ObjectName>,
    /// To be evicted when others of the same budget, which can go now, run elsewhere.
    pub later: Vec<ObjectName>,
    /// Pods that stay: of DaemonSets, and those that a kubelet runs from its own files.
    pub stay: Vec<ObjectName>,
    /// What keeps the rest.
    pub blockers: Vec<Blocker>,
}

impl Evictions {
    /// Whether nothing is left that has to leave.
    pub fn is_drained(&self) -> bool {
        self.evict.is_empty() && self.later.is_empty() && self.blockers.is_empty()
    }

    /// Whether a drain that begins now could end: nothing is kept but by what passes by itself.
    pub fn is_feasible(&self) -> bool {
        self.blockers.iter().all(|blocker| matches!(blocker, Blocker::Leaving { .. }))
    }

    /// What keeps a drain from beginning, in one line: without the pods that leave already.
    pub fn summary(&self) -> String {
        self.summary_of(|blocker| !matches!(blocker, Blocker::Leaving { .. }))
    }

    /// The same of certain blockers.
    pub(crate) fn summary_of(&self, is_meant: impl Fn(&Blocker) -> bool) -> String {
        let reported: Vec<String> =
            self.blockers.iter().filter(|blocker| is_meant(blocker)).map(ToString::to_string).collect();
        reported.join("; ")
    }
}

/// The PodDisruptionBudgets of a cluster, by namespace.
#[derive(Debug, Default)]
pub struct DisruptionBudgets<'a> {
    budgets: BTreeMap<&'a str, Vec<(&'a PodDisruptionBudget, Selection)>>,
}

impl<'a> DisruptionBudgets<'a> {
    /// Reads the selectors. One that is not well-formed covers no pod, as for the API.
    pub fn new(budgets: impl IntoIterator<Item = &'a PodDisruptionBudget>) -> Self {
        let mut all = DisruptionBudgets::default();
        for budget in budgets {
            // A budget without a selector covers nothing; one with an empty selector covers its whole namespace.
            let Some(selector) = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { continue };
            let Ok(selection) = Selection::of(&ours(selector)) else { continue };
            let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
            all.budgets.entry(namespace).or_default().push((budget, selection));
        }
        all
    }

    fn of(&self, pod: &Pod) -> Vec<&'a PodDisruptionBudget> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let labels = pod.metadata.labels.as_ref();
        let budgets = self.budgets.get(namespace).into_iter().flatten();
        budgets.filter(|(_, selection)| selection.matches(labels)).map(|(budget, _)| *budget).collect()
    }
}

/// Sorts the pods of a node by what becomes of them.
pub fn evictions(pods: &[&Pod], budgets: &DisruptionBudgets<'_>, rules: EvictionRules) -> Evictions {
    let mut found = Evictions::default();
    let mut kept: BTreeMap<ObjectName, (Vec<ObjectName>, bool)> = BTreeMap::new();
    // What a budget allows is used up pod by pod.
    let mut allowances: BTreeMap<ObjectName, i32> = BTreeMap::new();
    let mut generous: BTreeSet<ObjectName> = BTreeSet::new();
    let mut pods: Vec<(ObjectName, &Pod)> = pods.iter().map(|pod| (name_of(&pod.metadata), *pod)).collect();
    pods.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, pod) in pods {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let is_over = matches!(phase, "Succeeded" | "Failed");
        if pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR)) {
            found.stay.push(name);
            continue;
        }
        let controller = controller_kind(pod);
        if controller == Some("DaemonSet") && !is_over {
            found.stay.push(name);
            continue;
        }
        // The time of a pod's deletion is the one that it was given to end until.
        if let Some(due) = pod.metadata.deletion_timestamp.clone() {
            found.blockers.push(Blocker::Leaving { pod: name, due });
            continue;
        }
        if !is_over && controller.is_none() && !rules.evicts_unmanaged {
            found.blockers.push(Blocker::Unmanaged { pod: name });
            continue;
        }
        if !is_over && has_local_data(pod) && !rules.evicts_local_data {
            found.blockers.push(Blocker::LocalData { pod: name });
            continue;
        }
        // A pod that does not run yet, or no longer, disrupts nothing by going.
        let covering = if is_over || phase == "Pending" { Vec::new() } else { budgets.of(pod) };
        match covering.as_slice() {
            [] => found.evict.push(name),
            [budget] => {
                let budget_name = name_of(&budget.metadata);
                let left = allowances.entry(budget_name.clone()).or_insert_with(|| allowed(budget));
                if may_go(budget, pod, left) {
                    generous.insert(budget_name);
                    found.evict.push(name);
                } else {
                    let entry = kept.entry(budget_name).or_insert_with(|| (Vec::new(), never_allows(budget)));
                    entry.0.push(name);
                }
            }
            several => {
                let budgets = several.iter().map(|budget| name_of(&budget.metadata)).collect();
                found.blockers.push(Blocker::SeveralBudgets { pod: name, budgets });
            }
        }
    }
    for (budget, (pods, is_final)) in kept {
        if generous.contains(&budget) {
            found.later.extend(pods);
        } else {
            found.blockers.push(Blocker::Budget { budget, pods, is_final });
        }
    }
    found.later.sort();
    found.blockers.sort();
    found
}

/// How many evictions a budget allows now. One whose status is older than its spec allows none, as for the API.
fn allowed(budget: &PodDisruptionBudget) -> i32 {
    let Some(status) = &budget.status else { return 0 };
    let is_current = status.observed_generation.unwrap_or_default() >= budget.metadata.generation.unwrap_or_default();
    if is_current { status.disruptions_allowed.unwrap_or_default().max(0) } else { 0 }
}

/// Whether the API would let a pod go; if that uses up a part of the budget, the part is taken.
fn may_go(budget: &PodDisruptionBudget, pod: &Pod, left: &mut i32) -> bool {
    if !is_ready(pod) {
        let policy = budget.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        let is_healthy = budget.status.as_ref().is_some_and(|status| {
            status.desired_healthy.is_some_and(|desired| desired > 0 && status.current_healthy >= Some(desired))
        });
        // An unhealthy pod may be evicted: always, or where the healthy ones are enough.
        if policy == Some("AlwaysAllow") || is_healthy {
            return true;
        }
    }
    let may = *left > 0;
    *left -= i32::from(may);
    may
}

/// Whether a budget wants all its pods, however many there are.
fn never_allows(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    let allows_none = match &spec.max_unavailable {
        Some(IntOrString::Int(most)) => *most <= 0,
        Some(IntOrString::String(most)) => most == "0%",
        None => false,
    };
    let wants_each = matches!(&spec.min_available, Some(IntOrString::String(least)) if least == "100%");
    let wants_all = budget.status.as_ref().is_some_and(|status| {
        status.expected_pods.is_some_and(|expected| expected > 0)
            && status.desired_healthy >= status.expected_pods
            && matches!(&spec.min_available, Some(IntOrString::Int(_)))
    });
    allows_none || wants_each || wants_all
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn controller_kind(pod: &Pod) -> Option<&str> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.kind.as_str())
}

fn has_local_data(pod: &Pod) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().any(|volume| volume.empty_dir.is_some())
}

fn name_of(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> ObjectName {
    ObjectName {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
    }
}

fn ours(selector: &KubeSelector) -> LabelSelector {
    let requirements = selector.match_expressions.iter().flatten().map(|one| LabelSelectorRequirement {
        key: one.key.clone(),
        operator: one.operator.clone(),
        values: one.values.clone(),
        unknown: Unknown::default(),
    });
    LabelSelector {
        match_expressions: Some(requirements.collect()),
        match_labels: selector.match_labels.clone(),
        unknown: Unknown::default(),
    }
}
