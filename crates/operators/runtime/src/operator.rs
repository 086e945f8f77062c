//! Operators: the trait that an operator implements, and its supervisor.
//!
//! An operator is one value with a row in the list of `crates/operators/controllers`. It has its own definitions, caches,
//! controllers, metrics and rights; the supervisor starts it when its definitions are served, stops it alone when one of
//! them is gone, and starts it again when all are back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use seaworthy_deploy::{Account, OperatorManifest};
use seaworthy_values::list;

use crate::availability::{Availability, OperatorState};
use crate::cache_set::CacheSet;
use crate::definition::{Definitions, MissingDefinition, RequiredDefinition};
use crate::leadership::Leadership;
use crate::metrics::Metrics;

/// How long an operator that stopped with an error waits before it is started again.
const RESTART_DELAY: Duration = Duration::from_secs(10);

/// The clock; tests set it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a process shares with its operators. Cloning shares it.
#[derive(Clone)]
pub struct OperatorContext {
    pub client: Client,
    /// Whether this process may write.
    pub leadership: Leadership,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// The build of this program: an annotation on what it generates.
    pub build: Arc<str>,
    /// The namespace of what operators store for themselves.
    pub namespace: Arc<str>,
}

/// The controllers of one operator that run: all, or those that were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EnabledControllers {
    #[default]
    All,
    Named(BTreeSet<&'static str>),
}

impl EnabledControllers {
    pub fn contains(&self, name: &str) -> bool {
        match self {
            EnabledControllers::All => true,
            EnabledControllers::Named(named) => named.contains(name),
        }
    }
}

/// The end of an operator's controllers.
pub type ControllersResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A started operator.
pub struct OperatorInstance {
    /// Its caches; no other operator waits for them.
    pub caches: CacheSet,
    /// Its controllers. Polled while this process leads; dropped to stop them.
    pub controllers: BoxFuture<'static, ControllersResult>,
}

pub trait Operator: Send + Sync {
    /// Its name in `--only`, logs, metrics and probes.
    fn name(&self) -> &'static str;

    /// What it does, in one line for help texts.
    fn summary(&self) -> &'static str;

    /// Its controllers, or groups of them, that can run by themselves, for `--only`.
    fn controller_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// The definitions of its kinds. While one is not served, the operator is off.
    fn definitions(&self) -> Vec<CustomResourceDefinition>;

    /// What it needs in a cluster, for `seaworthy manifests`.
    fn manifest(&self, account: &Account) -> OperatorManifest;

    /// Fresh caches, and controllers that read them. Called again after every stop.
    fn start(&self, context: &OperatorContext, enabled: &EnabledControllers) -> OperatorInstance;
}

/// Runs an operator whenever its definitions are served, for as long as it is polled.
pub async fn supervise(
    operator: &dyn Operator,
    enabled: &EnabledControllers,
    context: &OperatorContext,
    definitions: &Definitions,
    availability: &Availability,
) {
    let name = operator.name();
    let required: Vec<RequiredDefinition> = operator.definitions().iter().map(RequiredDefinition::of).collect();
    let mut missing = definitions.missing_changed(&required, None).await;
    loop {
        while !missing.is_empty() {
            let why = summary(&missing);
            tracing::warn!(
                operator = name,
                missing = why,
                "operator is off until its definitions are installed: `seaworthy crds | kubectl apply --server-side -f -`, \
                 or start with --install"
            );
            availability.set(name, OperatorState::Unavailable(why));
            missing = definitions.missing_changed(&required, Some(&missing)).await;
        }
        availability.set(name, OperatorState::Starting);
        tracing::info!(operator = name, "starting operator");
        let OperatorInstance { caches, controllers } = operator.start(context, enabled);
        let ready = async {
            caches.synced().await;
            availability.set(name, OperatorState::Ready);
            tracing::debug!(operator = name, "caches are filled");
            context.leadership.acquired().await;
            tracing::info!(operator = name, "controllers running");
            std::future::pending::<()>().await;
        };
        let run = async {
            context.leadership.acquired().await;
            controllers.await
        };
        let ended: Result<Vec<MissingDefinition>, String> = tokio::select! {
            missing = definitions.missing_changed(&required, Some(&[])) => Ok(missing),
            result = run => Err(result.err().map_or_else(|| "its controllers ended".to_owned(), |error| error.to_string())),
            () = caches.run(&context.client) => Err("its watches ended".to_owned()),
            () = ready => Err("its caches ended".to_owned()),
        };
        missing = match ended {
            Ok(missing) => missing,
            Err(error) => {
                tracing::error!(operator = name, error, "operator stopped; starting it again in {RESTART_DELAY:?}");
                availability.set(name, OperatorState::Failed(error));
                tokio::time::sleep(RESTART_DELAY).await;
                definitions.missing(&required)
            }
        };
    }
}

/// The first of the missing definitions, and how many there are besides.
fn summary(missing: &[MissingDefinition]) -> String {
    list::first_of(missing, 1, ", ", ", and ")
}
