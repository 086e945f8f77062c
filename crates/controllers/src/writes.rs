//! Carries out what `generate` asks for, in its order, up to the first write that fails.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_api::vocabulary::machineconfiguration::annotation;
use seaworthy_api::vocabulary::seaworthy::BUILT_IN;
use seaworthy_generate::Write;
use seaworthy_runtime::applier::Written;
use seaworthy_runtime::{Applier, Cache, Events, WriteError};
use serde_json::{Value, json};

use crate::caches::Caches;
use crate::edits::{editor, tell_put_back};

/// Carries out writes about `object`, which lives in `cache`.
pub async fn carry_out<K>(
    (applier, events): (&Applier, &Events),
    caches: &Caches,
    cache: &Cache<K>,
    object: &Arc<K>,
    writes: Vec<Write>,
) -> Result<(), WriteError>
where
    K: Written,
{
    let mut object = Arc::clone(object);
    for write in writes {
        match write {
            Write::Patch(patch) => {
                let patched = applier.patch(&*object, patch.merge_patch()).await?;
                cache.wrote(patched.clone());
                object = Arc::new(patched);
            }
            Write::Create(machine_config) => {
                caches.machine_configs.wrote(applier.create(&machine_config).await?);
            }
            // Not applied but replaced: what was made here is ours as a whole, and what others added to it goes.
            Write::Update(machine_config) => {
                let edited = edited(applier, caches, &machine_config).await?;
                caches.machine_configs.wrote(applier.replace(&machine_config).await?);
                if let Some(edited) = edited {
                    tell_put_back(events, &edited).await;
                }
            }
            Write::Delete(deletion) => delete(applier, &deletion).await?,
            Write::CreatePool(pool) => caches.pools.wrote(applier.create(&pool).await?),
            Write::LabelPool { name, labels } => {
                if let Some(pool) = caches.pools.named(&name) {
                    let patch = json!({"metadata": {"labels": labels}});
                    caches.pools.wrote(applier.patch(&*pool, patch).await?);
                }
            }
            Write::HoldPool { name } => {
                if let Some(pool) = caches.pools.named(&name) {
                    // A list is patched whole, so it is that of the revision which is patched, not the one that was decided on.
                    let mut finalizers = pool.finalizers().to_vec();
                    finalizers.push(BUILT_IN.into());
                    let patch = json!({"metadata": {"finalizers": finalizers}});
                    caches.pools.wrote(applier.patch(&*pool, patch).await?);
                }
            }
            Write::Status(status) => object = report(applier, cache, &object, json!({"status": status})).await?,
            Write::ControllerConfigStatus(status) => {
                object = report(applier, cache, &object, json!({"status": status})).await?;
            }
        }
    }
    Ok(())
}

/// What was generated as it is now, if somebody has edited it since. Caches do not keep who wrote what.
async fn edited(
    applier: &Applier,
    caches: &Caches,
    wanted: &MachineConfig,
) -> Result<Option<MachineConfig>, WriteError> {
    // What another build had made is made anew, whoever wrote it last.
    let build =
        |found: &MachineConfig| annotation::GENERATED_BY_CONTROLLER_VERSION.of(&found.metadata).map(str::to_owned);
    let name = wanted.name_any();
    let is_same_build = |found: &Arc<MachineConfig>| found.spec != wanted.spec && build(found) == build(wanted);
    if !caches.machine_configs.named(&name).as_ref().is_some_and(is_same_build) {
        return Ok(None);
    }
    let found = applier.read::<MachineConfig>(&name).await?;
    Ok(found.filter(|found| editor(found).is_some()))
}

async fn report<K: Written>(
    applier: &Applier,
    cache: &Cache<K>,
    object: &K,
    patch: Value,
) -> Result<Arc<K>, WriteError> {
    let reported = applier.patch_status(object, patch).await?;
    cache.wrote(reported.clone());
    Ok(Arc::new(reported))
}

/// Deletes a MachineConfig that was made here.
pub async fn delete(applier: &Applier, deletion: &seaworthy_generate::Deletion) -> Result<(), WriteError> {
    let metadata = ObjectMeta { name: Some(deletion.name.clone()), uid: deletion.uid.clone(), ..ObjectMeta::default() };
    applier.delete(&MachineConfig { metadata, spec: Default::default() }).await
}

/// The MachineConfigs that are not rendered ones.
pub fn sources(caches: &Caches) -> Vec<Arc<MachineConfig>> {
    caches.machine_configs.filter(|machine_config| !is_rendered(machine_config))
}

/// Whether a MachineConfig is the result of rendering.
pub fn is_rendered(machine_config: &MachineConfig) -> bool {
    let name = machine_config.metadata.name.as_deref().unwrap_or_default();
    name.starts_with(seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX)
}
