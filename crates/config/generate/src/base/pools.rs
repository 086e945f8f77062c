//! The built-in pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use seaworthy_api::machineconfiguration::{MachineConfigPool, MachineConfigPoolSpec};
use seaworthy_api::meta::LabelSelector;
use seaworthy_api::vocabulary::machineconfiguration::{MASTER, WORKER, label};
use seaworthy_api::vocabulary::seaworthy::BUILT_IN;

use crate::envelope::name_of;
use crate::write::Write;

/// The pools that every cluster has: `master` and `worker`.
pub fn built_in_pools() -> Vec<MachineConfigPool> {
    vec![pool(MASTER, true), pool(WORKER, false)]
}

fn pool(name: &str, is_required_for_upgrade: bool) -> MachineConfigPool {
    let mut metadata = ObjectMeta { name: Some(name.to_owned()), ..<_>::default() };
    label::BUILT_IN.set(&mut metadata, "");
    if is_required_for_upgrade {
        label::REQUIRED_FOR_UPGRADE.set(&mut metadata, "");
    }
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(format!("{}{name}", label::POOL_PREFIX), String::new());
    let selector = |key: String, value: &str| LabelSelector {
        match_labels: Some(BTreeMap::from([(key, value.to_owned())])),
        ..<_>::default()
    };
    let spec = MachineConfigPoolSpec {
        machine_config_selector: Some(selector(label::ROLE.into(), name)),
        node_selector: Some(selector(format!("{}{name}", label::NODE_ROLE_PREFIX), "")),
        ..<_>::default()
    };
    MachineConfigPool { metadata, spec, status: None }
}

/// What to write so that the built-in pools exist, have their labels and do not vanish unseen. Their specs are the user's.
pub(super) fn writes(existing: &[Arc<MachineConfigPool>]) -> Vec<Write> {
    let find = |name: &str| existing.iter().find(|pool| name_of(&pool.metadata) == name);
    let write = |mut wanted: MachineConfigPool| {
        let name = name_of(&wanted.metadata).to_owned();
        let Some(found) = find(&name) else {
            wanted.metadata.finalizers = Some(vec![BUILT_IN.into()]);
            return Some(Write::CreatePool(wanted));
        };
        let has = |key: &String| found.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
        let mut labels = wanted.metadata.labels.unwrap_or_default();
        labels.retain(|key, _| !has(key));
        (!labels.is_empty()).then_some(Write::LabelPool { name, labels })
    };
    let hold = |wanted: &MachineConfigPool| {
        let metadata = &find(name_of(&wanted.metadata))?.metadata;
        // A finalizer cannot be added to what is being deleted.
        let is_held = BUILT_IN.is_on(metadata) || metadata.deletion_timestamp.is_some();
        (!is_held).then(|| Write::HoldPool { name: name_of(&wanted.metadata).to_owned() })
    };
    let pools = built_in_pools();
    let held: Vec<Write> = pools.iter().filter_map(hold).collect();
    pools.into_iter().filter_map(write).chain(held).collect()
}
