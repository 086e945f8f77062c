//! Leader election: decisions about a lease from its observed states, without a client and without the wall clock.
//!
//! Differs: the lease library for our client compares wall clocks, because it trusts the times in the lease; a clock that
//! jumps then makes two leaders. Here, as in client-go, a lease has expired when it has not changed for its duration,
//! measured by our own monotonic clock from when *we* saw it last change; and a leader counts from *before* it sent the
//! renewal that was granted.

use std::time::Duration;

use tokio::time::Instant;

/// The timings of a lease, as in client-go's leader election.
#[derive(Clone, Copy, Debug)]
pub struct LeaseTimings {
    /// Others take over when the lease has not changed for this long.
    pub lease_duration: Duration,
    /// The leader stops by itself when it could not renew for this long: less than `lease_duration`, so that it has stopped when
    /// another starts.
    pub renew_deadline: Duration,
    /// How often it is renewed, or observed.
    pub retry_period: Duration,
}

impl Default for LeaseTimings {
    /// The numbers that Kubernetes' own components use.
    fn default() -> Self {
        LeaseTimings {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// The state of a lease as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedLease {
    /// Empty when it was released.
    pub holder: String,
    /// Its resource version: it has changed when this has.
    pub revision: String,
    /// How often its holder changed.
    pub transitions: i32,
    /// The lease duration that its holder set.
    pub duration: Option<Duration>,
}

/// The next action on the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// There is none: create it.
    Create,
    /// Take or renew it, provided that it still has this revision.
    Write { revision: String, transitions: i32, changes_holder: bool },
    /// Another candidate leads: observe it again later.
    Wait,
}

/// One candidate's view of an election.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    timings: LeaseTimings,
    /// The last state, and since when it is unchanged.
    observed: Option<(ObservedLease, Instant)>,
    /// When the last granted claim was sent.
    held_from: Option<Instant>,
}

impl Election {
    /// `identity` must be unique among the candidates.
    pub fn new(identity: impl Into<String>, timings: LeaseTimings) -> Election {
        Election { identity: identity.into(), timings, observed: None, held_from: None }
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The next action, for the lease as it was read at this time.
    pub fn observe(&mut self, lease: Option<ObservedLease>, now: Instant) -> LeaseAction {
        let Some(lease) = lease else { return LeaseAction::Create };
        let since = match &self.observed {
            Some((observed, since)) if observed.revision == lease.revision => *since,
            _ => now,
        };
        self.observed = Some((lease.clone(), since));
        let expires_after = lease.duration.unwrap_or(self.timings.lease_duration);
        let is_mine = lease.holder == self.identity;
        if is_mine || lease.holder.is_empty() || now.duration_since(since) >= expires_after {
            // Any client may have written the count; it must not keep the lease from changing holders.
            let transitions = lease.transitions.saturating_add(i32::from(!is_mine));
            return LeaseAction::Write { revision: lease.revision, transitions, changes_holder: !is_mine };
        }
        LeaseAction::Wait
    }

    /// The claim was granted that was sent at this time.
    pub fn granted(&mut self, sent: Instant) {
        self.held_from = Some(sent);
    }

    /// The claim was refused: another candidate was first.
    pub fn refused(&mut self) {
        self.held_from = None;
    }

    /// Whether this candidate leads at that time.
    pub fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// Until when this candidate leads if no renewal is granted.
    pub fn leads_until(&self) -> Option<Instant> {
        self.held_from.map(|from| from + self.timings.renew_deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(holder: &str, revision: &str) -> Option<ObservedLease> {
        Some(ObservedLease { holder: holder.to_owned(), revision: revision.to_owned(), transitions: 3, duration: None })
    }

    fn takes(revision: &str) -> LeaseAction {
        LeaseAction::Write { revision: revision.to_owned(), transitions: 4, changes_holder: true }
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn lease_of_another_is_taken_when_it_has_not_changed_for_its_duration() {
        let mut election = Election::new("me", LeaseTimings::default());
        let start = Instant::now();
        assert_eq!(election.observe(observed("other", "1"), start), LeaseAction::Wait);
        assert_eq!(election.observe(observed("other", "1"), start + seconds(14)), LeaseAction::Wait);
        assert_eq!(election.observe(observed("other", "2"), start + seconds(16)), LeaseAction::Wait, "it was renewed");
        assert_eq!(election.observe(observed("other", "2"), start + seconds(30)), LeaseAction::Wait);
        assert_eq!(election.observe(observed("other", "2"), start + seconds(31)), takes("2"));
    }

    #[test]
    fn released_lease_is_taken_at_once() {
        let mut election = Election::new("me", LeaseTimings::default());
        assert_eq!(election.observe(observed("", "1"), Instant::now()), takes("1"));
    }

    #[test]
    fn lease_with_the_greatest_count_changes_holders_all_the_same() {
        let mut election = Election::new("me", LeaseTimings::default());
        let lease = observed("", "1").map(|lease| ObservedLease { transitions: i32::MAX, ..lease });
        let step = election.observe(lease, Instant::now());
        assert_eq!(step, LeaseAction::Write { revision: "1".to_owned(), transitions: i32::MAX, changes_holder: true });
    }

    #[test]
    fn own_lease_is_renewed_without_changing_holders() {
        let mut election = Election::new("me", LeaseTimings::default());
        let step = election.observe(observed("me", "1"), Instant::now());
        assert_eq!(step, LeaseAction::Write { revision: "1".to_owned(), transitions: 3, changes_holder: false });
    }

    #[test]
    fn leader_stops_before_anyone_else_may_start() {
        let timings = LeaseTimings::default();
        let (mut first, mut second) = (Election::new("a", timings), Election::new("b", timings));
        let start = Instant::now();
        first.granted(start);
        second.observe(observed("a", "1"), start);
        for second_passed in 0..60 {
            let now = start + seconds(second_passed);
            let second_may = second.observe(observed("a", "1"), now) != LeaseAction::Wait;
            assert!(!(first.leads(now) && second_may), "after {second_passed} s");
        }
    }

    #[test]
    fn renewal_counts_from_when_it_was_sent() {
        let mut election = Election::new("me", LeaseTimings::default());
        let start = Instant::now();
        election.granted(start);
        assert!(election.leads(start + seconds(9)));
        assert!(!election.leads(start + seconds(10)));
        election.granted(start + seconds(8));
        assert!(election.leads(start + seconds(17)));
        election.refused();
        assert!(!election.leads(start + seconds(8)));
    }
}
