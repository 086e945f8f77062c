//! Leadership: of several controllers for one cluster, one acts.
//!
//! The election itself is in [`crate::election`]; here is the lease it is about. Losing leadership ends the process that
//! had it: what is under way there may have missed the change, and a fresh start is the state that is tested most.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::election::{Election, Seen, Step, Terms};

/// How long a lease that is merely held keeps others waiting.
const HELD: Duration = Duration::from_secs(60);
/// Who holds it, for the API.
const HOLDER: &str = "seaworthy-leadership";

/// Whether this process may act.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: watch::Receiver<Until>,
}

/// Until when leadership is certain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Until {
    /// Not at all: somebody else leads, or nobody yet.
    Never,
    /// Until then, unless it is renewed.
    Then(Instant),
    /// There is nobody else.
    Always,
}

impl Leadership {
    /// For a process that has the cluster to itself.
    pub fn alone() -> Leadership {
        Leadership { until: watch::Sender::new(Until::Always).subscribe() }
    }

    /// Whether this process leads now. To be asked before every write.
    pub fn holds(&self) -> bool {
        match *self.until.borrow() {
            Until::Never => false,
            Until::Then(until) => Instant::now() < until,
            Until::Always => true,
        }
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        let mut until = self.until.clone();
        // An error means that the campaign is over, which ends the process by its own way.
        if until.wait_for(|until| *until != Until::Never).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until leadership, once acquired, is lost.
    pub async fn lost(&self) {
        let mut until = self.until.clone();
        loop {
            let now = *until.borrow_and_update();
            let end = match now {
                Until::Never => return,
                Until::Then(end) => end,
                // Nobody is there who could change it, and to ask for a change would be answered at once, for ever.
                Until::Always => return std::future::pending().await,
            };
            tokio::select! {
                () = sleep_until(end) => return,
                changed = until.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// A candidate for the leadership that a lease stands for.
pub struct Campaign {
    leases: Api<Lease>,
    name: String,
    election: Election,
    terms: Terms,
    until: watch::Sender<Until>,
}

impl Campaign {
    /// Stands for the lease `name` in `namespace`.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, terms: Terms) -> (Campaign, Leadership) {
        let until = watch::Sender::new(Until::Never);
        let leadership = Leadership { until: until.subscribe() };
        let leases = Api::namespaced(client, namespace);
        let election = Election::new(identity, terms);
        (Campaign { leases, name: name.to_owned(), election, terms, until }, leadership)
    }

    /// Stands until it is lost after having been won, or for as long as it is polled.
    pub async fn run(&mut self) {
        loop {
            let was_leading = self.election.leads_until().is_some();
            // A call that hangs must not outlive the deadline; the next round finds out what became of it.
            let round = tokio::time::timeout(self.terms.deadline, self.round()).await;
            match round {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "the lease could not be claimed"),
                Err(_) => tracing::warn!(lease = self.name, "the API server does not answer in time"),
            }
            let now = Instant::now();
            let until = match self.election.leads_until() {
                Some(until) if now < until => Until::Then(until),
                _ => Until::Never,
            };
            self.until.send_replace(until);
            if was_leading && until == Until::Never {
                return;
            }
            sleep(self.terms.retry).await;
        }
    }

    async fn round(&mut self) -> Result<(), kube::Error> {
        let lease = self.leases.get_opt(&self.name).await?;
        let sent = Instant::now();
        let step = self.election.look(lease.as_ref().map(seen), sent);
        let written = match step {
            Step::Wait => {
                self.election.refused();
                return Ok(());
            }
            Step::Create => self.leases.create(&PostParams::default(), &self.claim(None, 0, true)).await,
            Step::Write { transitions, takes, .. } => {
                // The revision that was read goes back with the object, so a claim made since then is not overwritten.
                let claim = self.claim(lease, transitions, takes);
                self.leases.replace(&self.name, &PostParams::default(), &claim).await
            }
        };
        match written {
            Ok(_) => self.election.granted(sent),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                self.election.refused();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Gives the lease back, so that the next one need not wait for it to lapse.
    pub async fn resign(&mut self) -> Result<(), kube::Error> {
        self.until.send_replace(Until::Never);
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
        let Some(spec) = &mut lease.spec else { return Ok(()) };
        if spec.holder_identity.as_deref() != Some(self.election.identity()) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        match self.leases.replace(&self.name, &PostParams::default(), &lease).await {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
            result => result.map(drop),
        }
    }

    fn claim(&self, lease: Option<Lease>, transitions: i32, takes: bool) -> Lease {
        let now = MicroTime(Timestamp::now());
        let mut lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.election.identity().to_owned());
        spec.lease_duration_seconds = i32::try_from(self.terms.duration.as_secs()).ok();
        spec.lease_transitions = Some(transitions);
        spec.renew_time = Some(now.clone());
        if takes {
            spec.acquire_time = Some(now);
        }
        lease
    }
}

/// Holds a lease for as long as it is polled, without standing for it: for a process that has the cluster to itself, and acts
/// whatever the lease says. Others see by it that somebody leads, and wait.
pub async fn hold(client: Client, namespace: &str, name: &str, identity: &str) {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    let manager = PatchParams::apply(HOLDER).force();
    loop {
        let lease = serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {
                "holderIdentity": identity,
                "leaseDurationSeconds": HELD.as_secs(),
                "renewTime": MicroTime(Timestamp::now()),
            },
        });
        if let Err(error) = leases.patch(name, &manager, &Patch::Apply(&lease)).await {
            tracing::warn!(lease = name, %error, "the lease could not be held, so another process may act as well");
        }
        sleep(HELD / 3).await;
    }
}

fn seen(lease: &Lease) -> Seen {
    let spec = lease.spec.clone().unwrap_or_default();
    Seen {
        holder: spec.holder_identity.unwrap_or_default(),
        revision: lease.metadata.resource_version.clone().unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
        duration: spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn whoever_is_alone_waits_for_the_loss_without_working() {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let leadership = Leadership::alone();
        let lost = pin!(leadership.lost());
        assert!(lost.poll(&mut Context::from_waker(&Arc::clone(&woken).into())).is_pending());
        assert!(!woken.0.load(Ordering::Relaxed), "it asks to be looked at again at once");
    }
}
