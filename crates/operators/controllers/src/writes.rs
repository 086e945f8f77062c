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
                if let Some(pool) = caches.pools.named(&name).filter(|pool| !BUILT_IN.is_on(&pool.metadata)) {
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

#[cfg(test)]
mod tests {
    use kube::Api;
    use kube::api::{Patch, PostParams};
    use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfigPool};
    use seaworthy_testkit::{Embedded, controller_config};

    use super::*;
    use crate::context::Context;
    use crate::install::install;
    use crate::plane::NAMESPACE;

    #[tokio::test(start_paused = true)]
    async fn finalizer_that_somebody_added_since_the_decision_stays() {
        let cluster = Embedded::start().await;
        install(&cluster.client(), NAMESPACE).await.unwrap();
        let context = Context::new(cluster.client());
        let (applier, events) = (context.applier("seaworthy-test"), context.events("seaworthy-test"));
        let pools: Api<MachineConfigPool> = Api::all(cluster.client());
        let worker = serde_json::from_value(json!({"metadata": {"name": "worker"}, "spec": {}})).unwrap();
        pools.create(&PostParams::default(), &worker).await.unwrap();
        let writes = vec![Write::HoldPool { name: "worker".to_owned() }];
        let theirs = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/theirs"]}}));
        context.caches.pools.wrote(pools.patch("worker", &Default::default(), &theirs).await.unwrap());
        let about: Arc<ControllerConfig> = Arc::new(serde_json::from_value(controller_config()).unwrap());
        let caches = &context.caches;
        carry_out((&applier, &events), caches, &caches.controller_configs, &about, writes).await.unwrap();
        let found = pools.get("worker").await.unwrap();
        assert_eq!(found.finalizers(), ["example.com/theirs", BUILT_IN.as_str()]);
    }
}
