//! Operators: the trait that an operator implements, and its supervisor.
//!
//! An operator is one value with a row in the list of `crates/operators/controllers`. It has its own definitions, caches,
//! controllers, metrics and rights; the supervisor starts it when its definitions are served, stops it alone when one of
//! them is gone, and starts it again when all are back. It runs in a task of its own: what blocks or panics there stops no
//! other operator and no renewal of the lease.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use seaworthy_deploy::{Account, OperatorManifest, controllers_account};
use seaworthy_preview::{AdmissionRule, PreviewPart};
use seaworthy_values::list;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::availability::{Availability, OperatorState};
use crate::cache_set::CacheSet;
use crate::definition::{Definitions, MissingDefinition, RequiredDefinition, are_absent};
use crate::leadership::Leadership;
use crate::metrics::Metrics;

/// How long an operator that stopped with an error waits before it is started again, the first time; twice as long each time
/// after that, since every start lists all its objects.
pub const FIRST_RESTART_DELAY: Duration = Duration::from_secs(1);
/// What that grows to.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(5 * 60);
/// An operator that ran for this long had started well: its next error is the first again.
const RESTART_DELAY_RESET_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The namespace of what operators store for themselves, unless another is named.
pub const NAMESPACE: &str = "seaworthy-system";

/// The build of this program, as it annotates what it generates.
pub fn build() -> String {
    format!("seaworthy-{}", env!("CARGO_PKG_VERSION"))
}

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

/// A set of controllers for one family of kinds: what a process needs to run it, an installation to install it, and a preview to
/// predict it.
pub trait Operator: Send + Sync {
    /// Its name in `--only`, logs, metrics and probes.
    fn name(&self) -> &'static str;

    /// Its controllers, or groups of them, that can run by themselves, for `--only`.
    fn controller_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// The definitions of the kinds that its caches read, those of other operators too. While one is not served, the operator
    /// is off.
    fn required_definitions(&self) -> Vec<CustomResourceDefinition>;

    /// The lease of the process that runs it. One for each operator, so that processes with different ones act side by side.
    fn lease(&self) -> String {
        format!("seaworthy-{}", self.name())
    }

    /// What it needs in a cluster, with the definitions of all its kinds: what `seaworthy manifests` writes and `--install`
    /// installs.
    fn manifest(&self, account: &Account) -> OperatorManifest;

    /// Its part of a preview: the controllers that make objects which the controllers of other operators read.
    fn preview_parts(&self) -> Vec<Box<dyn PreviewPart>> {
        Vec::new()
    }

    /// What its admission policies refuse, for a preview.
    fn admission_rules(&self) -> Vec<Box<dyn AdmissionRule>> {
        Vec::new()
    }

    /// Fresh caches, and controllers that read them. Called again after every stop.
    fn start(&self, context: &OperatorContext, enabled: &EnabledControllers) -> OperatorInstance;
}

/// Runs an operator whenever its definitions are served, for as long as it is polled.
pub async fn supervise(
    operator: &Arc<dyn Operator>,
    enabled: &EnabledControllers,
    context: &OperatorContext,
    definitions: &Definitions,
    availability: &Availability,
) {
    let name = operator.name();
    let own = operator.manifest(&controllers_account(&context.namespace)).definitions;
    let required = RequiredDefinition::all(&operator.required_definitions(), &own);
    let mut restart_delay = RestartDelay::default();
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
            let state = match are_absent(&required, &missing) {
                true => OperatorState::NotInstalled(why),
                false => OperatorState::Unavailable(why),
            };
            availability.set(name, state);
            missing = definitions.missing_changed(&required, Some(&missing)).await;
        }
        availability.set(name, OperatorState::Starting);
        tracing::info!(operator = name, "starting operator");
        let started = Instant::now();
        let mut task = JoinSet::new();
        task.spawn(run(Arc::clone(operator), enabled.clone(), context.clone(), availability.clone()));
        let ended: Result<Vec<MissingDefinition>, String> = tokio::select! {
            missing = definitions.missing_changed(&required, Some(&[])) => Ok(missing),
            Some(result) = task.join_next() => Err(result.unwrap_or_else(|error| error.to_string())),
        };
        // It has to be over before it starts again: two would write at the same time.
        task.shutdown().await;
        missing = match ended {
            Ok(missing) => missing,
            Err(error) => {
                let delay = restart_delay.next(started.elapsed());
                tracing::error!(operator = name, error, "operator stopped; starting it again in {delay:?}");
                availability.set(name, OperatorState::Failed(error));
                tokio::time::sleep(delay).await;
                definitions.missing(&required)
            }
        };
    }
}

/// Runs an operator until it cannot go on. Returns why.
async fn run(
    operator: Arc<dyn Operator>,
    enabled: EnabledControllers,
    context: OperatorContext,
    availability: Availability,
) -> String {
    let name = operator.name();
    let OperatorInstance { caches, controllers } = operator.start(&context, &enabled);
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
    tokio::select! {
        result = run => result.err().map_or_else(|| "its controllers ended".to_owned(), |error| error.to_string()),
        () = caches.run(&context.client) => "its watches ended".to_owned(),
        () = ready => "its caches ended".to_owned(),
    }
}

/// The delay before the next restart of an operator.
#[derive(Default)]
struct RestartDelay(Option<Duration>);

impl RestartDelay {
    /// The delay after an error of an operator that ran for this long.
    fn next(&mut self, ran: Duration) -> Duration {
        let delay = match self.0 {
            Some(last) if ran < RESTART_DELAY_RESET_INTERVAL => (last * 2).min(MAX_RESTART_DELAY),
            _ => FIRST_RESTART_DELAY,
        };
        *self.0.insert(delay)
    }
}

/// The first of the missing definitions, and how many there are besides.
fn summary(missing: &[MissingDefinition]) -> String {
    list::first_of(missing, 1, ", ", ", and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delay_grows_until_the_operator_has_run_for_a_while() {
        let mut delay = RestartDelay::default();
        let mut seconds = |ran: u64| delay.next(Duration::from_secs(ran)).as_secs();
        assert_eq!([0; 10].map(&mut seconds), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!([600, 0].map(&mut seconds), [1, 2]);
    }
}
