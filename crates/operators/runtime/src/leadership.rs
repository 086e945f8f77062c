//! Leadership: of several processes for one cluster, one acts.
//!
//! The decisions are in [`crate::election`]; this module reads and writes the lease. Losing leadership ends the process that
//! had it: work in flight there may have missed the change, and a fresh start is the state that is tested most.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::election::{Election, LeaseAction, LeaseTimings, ObservedLease};

/// The duration of a lease that is held without an election.
const HELD_LEASE_TIMEOUT: Duration = Duration::from_secs(60);
const FIELD_MANAGER: &str = "seaworthy-leadership";

/// Whether this process may act.
#[derive(Clone, Debug)]
pub struct Leadership {
    until: watch::Receiver<Until>,
}

/// Until when leadership is certain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Until {
    /// Another process leads, or none does yet.
    Never,
    /// Until then, unless it is renewed.
    At(Instant),
    /// There is no other process.
    Always,
}

impl Leadership {
    /// For a process that has the cluster to itself.
    pub fn always() -> Leadership {
        Leadership { until: watch::Sender::new(Until::Always).subscribe() }
    }

    /// Whether this process leads now. Checked before every write.
    pub fn holds(&self) -> bool {
        match *self.until.borrow() {
            Until::Never => false,
            Until::At(until) => Instant::now() < until,
            Until::Always => true,
        }
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        let mut until = self.until.clone();
        // An error means that the elector has ended, which ends the process elsewhere.
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
                Until::At(end) => end,
                // Its sender is gone: waiting for a change would return at once, in a busy loop.
                Until::Always => return std::future::pending().await,
            };
            tokio::select! {
                () = sleep_until(end) => return,
                changed = until.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// A candidate for a lease.
pub struct LeaderElector {
    leases: Api<Lease>,
    name: String,
    election: Election,
    timings: LeaseTimings,
    until: watch::Sender<Until>,
}

impl LeaderElector {
    /// A candidate for the lease `name` in `namespace`.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        timings: LeaseTimings,
    ) -> (LeaderElector, Leadership) {
        let until = watch::Sender::new(Until::Never);
        let leadership = Leadership { until: until.subscribe() };
        let leases = Api::namespaced(client, namespace);
        let election = Election::new(identity, timings);
        (LeaderElector { leases, name: name.to_owned(), election, timings, until }, leadership)
    }

    /// The name of the lease.
    pub fn lease(&self) -> &str {
        &self.name
    }

    /// Acquires and renews the lease for as long as it is polled; returns when leadership is lost.
    pub async fn run(&mut self) {
        loop {
            let was_leading = self.election.leads_until().is_some();
            // A call that hangs must not outlive the deadline; the next round reads its result.
            let round = tokio::time::timeout(self.timings.renew_deadline, self.round()).await;
            match round {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, %error, "cannot acquire or renew the lease; retrying")
                }
                Err(_) => tracing::warn!(
                    lease = self.name,
                    "cannot acquire or renew the lease: the API server does not respond in time; retrying"
                ),
            }
            let now = Instant::now();
            let until = match self.election.leads_until() {
                Some(until) if now < until => Until::At(until),
                _ => Until::Never,
            };
            self.until.send_replace(until);
            if was_leading && until == Until::Never {
                return;
            }
            sleep(self.timings.retry_period).await;
        }
    }

    async fn round(&mut self) -> Result<(), kube::Error> {
        let lease = self.leases.get_opt(&self.name).await?;
        let sent = Instant::now();
        let action = self.election.observe(lease.as_ref().map(observed), sent);
        let written = match action {
            LeaseAction::Wait => {
                self.election.refused();
                return Ok(());
            }
            LeaseAction::Create => self.leases.create(&PostParams::default(), &self.claim(None, 0, true)).await,
            LeaseAction::Write { transitions, changes_holder, .. } => {
                // The resource version that was read is sent with the object, so a claim made since then is not overwritten.
                let claim = self.claim(lease, transitions, changes_holder);
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

    /// Releases the lease, so that the next candidate need not wait for it to expire.
    pub async fn release(&mut self) -> Result<(), kube::Error> {
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

    fn claim(&self, lease: Option<Lease>, transitions: i32, changes_holder: bool) -> Lease {
        let now = MicroTime(Timestamp::now());
        let mut lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.election.identity().to_owned());
        spec.lease_duration_seconds = i32::try_from(self.timings.lease_duration.as_secs()).ok();
        spec.lease_transitions = Some(transitions);
        spec.renew_time = Some(now.clone());
        if changes_holder {
            spec.acquire_time = Some(now);
        }
        lease
    }
}

/// Holds a lease for as long as it is polled, without an election: for a process that has the cluster to itself, and acts
/// whatever the lease says. Other candidates see that it is held, and wait.
pub async fn hold_lease(client: Client, namespace: &str, name: &str, identity: &str) {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    let manager = PatchParams::apply(FIELD_MANAGER).force();
    loop {
        let lease = serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {
                "holderIdentity": identity,
                "leaseDurationSeconds": HELD_LEASE_TIMEOUT.as_secs(),
                "renewTime": MicroTime(Timestamp::now()),
            },
        });
        if let Err(error) = leases.patch(name, &manager, &Patch::Apply(&lease)).await {
            tracing::warn!(lease = name, %error, "cannot hold the lease; another process may act as well");
        }
        sleep(HELD_LEASE_TIMEOUT / 3).await;
    }
}

fn observed(lease: &Lease) -> ObservedLease {
    let spec = lease.spec.clone().unwrap_or_default();
    ObservedLease {
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
    async fn process_without_an_election_waits_for_the_loss_without_work() {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let leadership = Leadership::always();
        let lost = pin!(leadership.lost());
        assert!(lost.poll(&mut Context::from_waker(&Arc::clone(&woken).into())).is_pending());
        assert!(!woken.0.load(Ordering::Relaxed), "it wakes its task at once");
    }
}
