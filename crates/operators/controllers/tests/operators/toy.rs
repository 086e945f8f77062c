//! A toy operator: one kind, its deciders, one controller, a preview part. It shows what a new operator consists of.

use std::sync::Arc;

use futures::FutureExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_change::{Change, Decision, Purpose, Stage, Tables};
use seaworthy_deploy::rule::rule;
use seaworthy_deploy::{Account, OperatorManifest};
use seaworthy_preview::{PreviewPart, PreviewRound};
use seaworthy_runtime::{
    Applier, Cache, CacheSet, Controller, EnabledControllers, Key, Operator, OperatorContext, OperatorInstance, Queue,
    Requeue, WriteError, worker,
};
use seaworthy_testkit::file;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "toy.example.com", version = "v1", kind = "Buoy", status = "BuoyStatus", derive = "PartialEq")]
pub struct BuoySpec {
    pub colour: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BuoyStatus {
    pub painted: Option<String>,
}

/// The decider: a buoy is painted in the colour that it should have.
fn desired(buoy: &Buoy) -> Decision<'static, ()> {
    if painted(buoy) == Some(buoy.spec.colour.as_str()) {
        return Decision::nothing(());
    }
    let mut reported = Buoy::new(&buoy.name_any(), buoy.spec.clone());
    reported.status = Some(BuoyStatus { painted: Some(buoy.spec.colour.clone()) });
    Decision::of([Stage::sequence(Purpose::Status, [Change::apply_status(&reported)])])
}

pub fn painted(buoy: &Buoy) -> Option<&str> {
    buoy.status.as_ref()?.painted.as_deref()
}

struct BuoyController {
    buoys: Arc<Cache<Buoy>>,
    machine_configs: Arc<Cache<MachineConfig>>,
    applier: Applier,
}

impl Controller for BuoyController {
    type Key = String;
    type Error = WriteError;
    const NAME: &'static str = "seaworthy-toy";

    async fn reconcile(&self, name: &String) -> Result<Requeue, WriteError> {
        if let Some(buoy) = self.buoys.named(name) {
            self.applier.perform(&desired(&buoy)).await.result()?;
            self.applier.perform(&generated(&buoy, &self.machine_configs.all())).await.result()?;
        }
        Ok(Requeue::on_change())
    }
}

/// The second decider: every buoy is a MachineConfig for workers.
fn wanted_config(buoy: &Buoy) -> MachineConfig {
    let name = format!("60-buoy-{}", buoy.name_any());
    let manifest = file(&name, "worker", "/etc/buoy", &buoy.spec.colour);
    serde_json::from_value(manifest).unwrap()
}

fn generated(buoy: &Buoy, existing: &[Arc<MachineConfig>]) -> Decision<'static, ()> {
    let wanted = wanted_config(buoy);
    let found = existing.iter().find(|object| object.name_any() == wanted.name_any());
    let changes = match found {
        Some(found) if found.spec == wanted.spec => vec![],
        Some(_) => vec![Change::apply(&wanted)],
        None => vec![Change::create(&wanted)],
    };
    Decision::of([Stage::sequence(Purpose::Write, changes)])
}

/// The operator's part of a preview.
struct BuoyPart;

impl PreviewPart for BuoyPart {
    fn tables(&self) -> Tables {
        Tables::default().with::<Buoy>().with::<MachineConfig>()
    }

    fn reconcile(&self, round: &mut PreviewRound<'_>) {
        for buoy in round.objects().of::<Buoy>().to_vec() {
            let decision = generated(&buoy, round.objects().of());
            round.perform(&decision);
        }
    }

    fn pending_tables(&self) -> Tables {
        self.tables()
    }

    fn pending(&self, objects: &Tables, pool: &str) -> Option<String> {
        let is_pending = |buoy: &&Arc<Buoy>| !generated(buoy, objects.of()).is_empty();
        let buoy = objects.of::<Buoy>().iter().find(is_pending).filter(|_| pool == "worker")?;
        Some(format!("Buoy {} is not a MachineConfig yet", buoy.name_any()))
    }
}

/// The operator.
pub struct Toy;

impl Operator for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn required_definitions(&self) -> Vec<CustomResourceDefinition> {
        vec![Buoy::crd(), MachineConfig::crd()]
    }

    fn manifest(&self, _: &Account) -> OperatorManifest {
        OperatorManifest {
            definitions: vec![Buoy::crd()],
            cluster_rules: vec![
                rule("toy.example.com", &["buoys"], &["get", "list", "watch"]),
                rule("toy.example.com", &["buoys/status"], &["patch"]),
                rule(
                    "machineconfiguration.openshift.io",
                    &["machineconfigs"],
                    &["get", "list", "watch", "create", "patch"],
                ),
            ],
            ..OperatorManifest::default()
        }
    }

    fn preview_parts(&self) -> Vec<Box<dyn PreviewPart>> {
        vec![Box::new(BuoyPart)]
    }

    fn start(&self, context: &OperatorContext, _: &EnabledControllers) -> OperatorInstance {
        let buoys = Arc::<Cache<Buoy>>::default();
        let machine_configs = Arc::<Cache<MachineConfig>>::default();
        let caches = CacheSet::new([Arc::clone(&buoys) as _, Arc::clone(&machine_configs) as _]);
        let queue = Arc::new(Queue::default());
        let mark = Arc::clone(&queue);
        buoys.listen(move |delta| delta.sides().for_each(|side| mark.mark(Key::of(&**side).name)));
        let applier = Applier::new(
            context.client.clone(),
            BuoyController::NAME,
            context.leadership.clone(),
            Arc::clone(&context.metrics),
            caches.clone(),
        );
        let controller = BuoyController { buoys, machine_configs, applier };
        let (context, filled) = (context.clone(), caches.clone());
        let controllers = async move {
            filled.synced().await;
            worker::run(&controller, &queue, &context.leadership, &*context.metrics).await;
            Ok(())
        };
        OperatorInstance { caches, controllers: controllers.boxed() }
    }
}
