//! Who leads, decided from what is seen of a lease: no client, no wall clock.
//!
//! Differs: the lease library that fits our client reckons with the wall clock, so a clock that jumps makes two leaders.
//! Here, as in client-go, nobody trusts another's time: a lease has lapsed when it has not changed for its duration,
//! measured by our own monotonic clock from when *we* saw it last change; and a leader counts from *before* it asked for
//! the renewal that was granted.

use std::time::Duration;

use tokio::time::Instant;

/// How long a lease holds, and how it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Others take over when the lease has not changed for this long.
    pub duration: Duration,
    /// The leader stops by itself when it could not renew for this long: less than `duration`, so that it has stopped when
    /// another starts.
    pub deadline: Duration,
    /// How often it is renewed, or looked at.
    pub retry: Duration,
}

impl Default for Terms {
    /// The numbers that Kubernetes' own components use.
    fn default() -> Self {
        Terms { duration: Duration::from_secs(15), deadline: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// What is seen of the lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Who holds it; empty when it was given back.
    pub holder: String,
    /// Its revision: it has changed when this has.
    pub revision: String,
    /// How often it changed hands.
    pub transitions: i32,
    /// For how long its holder asked.
    pub duration: Option<Duration>,
}

/// What to do about the lease now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make it: there is none.
    Create,
    /// Take or renew it, provided that it still has this revision.
    Write {
        /// The revision that was seen.
        revision: String,
        /// The count of changes of hands to write.
        transitions: i32,
        /// Whether it changes hands with this.
        takes: bool,
    },
    /// Another leads: look again later.
    Wait,
}

/// One candidate's view of an election.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    terms: Terms,
    seen: Option<(Seen, Instant)>,
    /// From when the last granted claim counts.
    held_from: Option<Instant>,
}

impl Election {
    /// A candidate with this identity, which nobody else may have.
    pub fn new(identity: impl Into<String>, terms: Terms) -> Election {
        Election { identity: identity.into(), terms, seen: None, held_from: None }
    }

    /// Who this is.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Takes in what was read of the lease at this time, and says what to do.
    pub fn look(&mut self, lease: Option<Seen>, now: Instant) -> Step {
        let Some(lease) = lease else { return Step::Create };
        let since = match &self.seen {
            Some((seen, since)) if seen.revision == lease.revision => *since,
            _ => now,
        };
        self.seen = Some((lease.clone(), since));
        let lapse = lease.duration.unwrap_or(self.terms.duration);
        let is_mine = lease.holder == self.identity;
        if is_mine || lease.holder.is_empty() || now.duration_since(since) >= lapse {
            // Anybody may have written the count; it must not keep the lease from changing hands.
            let transitions = lease.transitions.saturating_add(i32::from(!is_mine));
            return Step::Write { revision: lease.revision, transitions, takes: !is_mine };
        }
        Step::Wait
    }

    /// The claim was granted that was sent at this time.
    pub fn granted(&mut self, sent: Instant) {
        self.held_from = Some(sent);
    }

    /// The claim was refused: somebody else was first.
    pub fn refused(&mut self) {
        self.held_from = None;
    }

    /// Whether this one leads at that time.
    pub fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    /// Until when this one leads if nothing more is granted.
    pub fn leads_until(&self) -> Option<Instant> {
        self.held_from.map(|from| from + self.terms.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(holder: &str, revision: &str) -> Option<Seen> {
        Some(Seen { holder: holder.to_owned(), revision: revision.to_owned(), transitions: 3, duration: None })
    }

    fn takes(revision: &str) -> Step {
        Step::Write { revision: revision.to_owned(), transitions: 4, takes: true }
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn lease_of_another_is_left_alone_until_it_stood_still_for_its_duration() {
        let mut election = Election::new("me", Terms::default());
        let start = Instant::now();
        assert_eq!(election.look(seen("other", "1"), start), Step::Wait);
        assert_eq!(election.look(seen("other", "1"), start + seconds(14)), Step::Wait);
        assert_eq!(election.look(seen("other", "2"), start + seconds(16)), Step::Wait, "it was renewed");
        assert_eq!(election.look(seen("other", "2"), start + seconds(30)), Step::Wait);
        assert_eq!(election.look(seen("other", "2"), start + seconds(31)), takes("2"));
    }

    #[test]
    fn lease_that_was_given_back_is_taken_at_once() {
        let mut election = Election::new("me", Terms::default());
        assert_eq!(election.look(seen("", "1"), Instant::now()), takes("1"));
    }

    #[test]
    fn lease_with_the_greatest_count_changes_hands_all_the_same() {
        let mut election = Election::new("me", Terms::default());
        let lease = seen("", "1").map(|lease| Seen { transitions: i32::MAX, ..lease });
        let step = election.look(lease, Instant::now());
        assert_eq!(step, Step::Write { revision: "1".to_owned(), transitions: i32::MAX, takes: true });
    }

    #[test]
    fn own_lease_is_renewed_without_changing_hands() {
        let mut election = Election::new("me", Terms::default());
        let step = election.look(seen("me", "1"), Instant::now());
        assert_eq!(step, Step::Write { revision: "1".to_owned(), transitions: 3, takes: false });
    }

    #[test]
    fn leader_stops_before_anyone_else_may_start() {
        let terms = Terms::default();
        let (mut first, mut second) = (Election::new("a", terms), Election::new("b", terms));
        let start = Instant::now();
        first.granted(start);
        second.look(seen("a", "1"), start);
        for second_passed in 0..60 {
            let now = start + seconds(second_passed);
            let second_may = second.look(seen("a", "1"), now) != Step::Wait;
            assert!(!(first.leads(now) && second_may), "after {second_passed} s");
        }
    }

    #[test]
    fn renewal_counts_from_when_it_was_asked_for() {
        let mut election = Election::new("me", Terms::default());
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
