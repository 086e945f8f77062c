//! Connection state: when a workload cluster is connected to, probed and given up, as a pure function of events.
//!
//! | state | event | action | next |
//! |---|---|---|---|
//! | any | the Cluster is not ready to be connected to | none | idle, until the Cluster changes |
//! | idle | it is ready | connect | connecting |
//! | connecting | connected | none | connected, a probe after [`PROBE_INTERVAL`] |
//! | connecting | failed | none | disconnected, the next try after [`FIRST_RETRY_DELAY`], then longer |
//! | connected | [`PROBE_INTERVAL`] has passed | probe | connected |
//! | connected | the probe succeeded | none | connected, no failures |
//! | connected | the kubeconfig is another one, or the probe was answered 401 | connect | connecting |
//! | connected | the probe failed, for the [`MAX_FAILURES`]th time in a row | none | disconnected |
//! | disconnected | [`PROBE_INTERVAL`] has passed | read the kubeconfig | disconnected |
//! | disconnected | the kubeconfig is another one, or the delay has passed | connect | connecting |
//!
//! Compat: intervals and the number of failures are those of upstream's cluster cache.
//!
//! Differs: a cluster is connected to once its control plane is initialized, because nothing is read there before; upstream begins
//! when its infrastructure is provisioned. A changed kubeconfig is seen at each probe and also while the cluster cannot be reached,
//! because upstream notices it by a 401 only. The delay between tries grows up to [`MAX_RETRY_DELAY`], because each try is written
//! into conditions of all pools of the cluster.

use std::time::Duration;

use jiff::Timestamp;

/// How often a connected cluster is probed, and how often the kubeconfig of a disconnected one is read.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// How many probes in a row fail before the connection is given up.
pub const MAX_FAILURES: u32 = 5;
/// The delay before the second try; each further one doubles it.
pub const FIRST_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Two minutes bound the writes of an outage and the time that it lasts longer than its cause.
pub const MAX_RETRY_DELAY: Duration = Duration::from_secs(120);

/// A cluster that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// For people; without credentials.
    pub reason: String,
    pub since: Timestamp,
    /// When it is tried again. It changes with each try only, so that it can be part of a condition.
    pub next_try: Timestamp,
}

/// Probes that failed in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedProbes {
    since: Timestamp,
    count: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConnectionState {
    /// There is nothing to connect to yet.
    #[default]
    Idle,
    Connecting {
        /// The outage that this try may end.
        outage: Option<Outage>,
        /// How many tries have failed.
        tries: u32,
    },
    Connected {
        /// The resource version of the kubeconfig's Secret.
        secret: String,
        /// The probes that have failed since the last one that succeeded.
        failing: Option<FailedProbes>,
    },
    Disconnected {
        outage: Outage,
        tries: u32,
        /// The resource version of the kubeconfig's Secret that was tried; `None` if there was none.
        secret: Option<String>,
        /// What is left of the delay, beyond the interval that passes now.
        rest: Duration,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// The Cluster, as it is now: provisioned and initialized, or not.
    Cluster {
        is_ready: bool,
    },
    /// The time has come that the last step named.
    Due,
    Connected {
        secret: String,
    },
    ConnectFailed {
        secret: Option<String>,
        reason: String,
    },
    /// What a probe found, and the resource version of the kubeconfig's Secret, if it could be read.
    Probed {
        secret: Option<String>,
        result: ProbeResult,
    },
    SecretRead {
        secret: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    Alive,
    /// The credentials are not accepted any more.
    Unauthorized,
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// Wait for the next event.
    Wait,
    /// Read the kubeconfig, connect and list the Nodes.
    Connect,
    /// Read the version of the kubeconfig, and send a request to the server.
    Probe,
    /// Read the version of the kubeconfig.
    ReadSecret,
}

/// What follows from an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStep {
    pub state: ConnectionState,
    pub action: ConnectionAction,
    /// How long until the time has come, unless something happens before.
    pub wake: Option<Duration>,
}

impl ConnectionStep {
    fn wait(state: ConnectionState, wake: Option<Duration>) -> ConnectionStep {
        ConnectionStep { state, action: ConnectionAction::Wait, wake }
    }

    fn act(state: ConnectionState, action: ConnectionAction) -> ConnectionStep {
        ConnectionStep { state, action, wake: None }
    }

    fn connected(secret: String, failing: Option<FailedProbes>) -> ConnectionStep {
        ConnectionStep::wait(ConnectionState::Connected { secret, failing }, Some(PROBE_INTERVAL))
    }

    fn connect(outage: Option<Outage>, tries: u32) -> ConnectionStep {
        ConnectionStep::act(ConnectionState::Connecting { outage, tries }, ConnectionAction::Connect)
    }
}

impl ConnectionState {
    /// What follows from an event at this time.
    pub fn next(self, event: ConnectionEvent, now: Timestamp) -> ConnectionStep {
        use ConnectionEvent as Event;
        use ConnectionState as State;
        match (self, event) {
            (_, Event::Cluster { is_ready: false }) => ConnectionStep::wait(State::Idle, None),
            (State::Idle, Event::Cluster { is_ready: true }) => ConnectionStep::connect(None, 0),
            (State::Connecting { .. }, Event::Connected { secret }) => ConnectionStep::connected(secret, None),
            (State::Connecting { outage, tries }, Event::ConnectFailed { secret, reason }) => {
                disconnected(outage.map(|outage| outage.since), tries, secret, reason, now)
            }
            (state @ State::Connected { .. }, Event::Due) => ConnectionStep::act(state, ConnectionAction::Probe),
            (State::Connected { secret: known, failing }, Event::Probed { secret, result }) => {
                let is_rotated = secret.is_some_and(|secret| secret != known);
                let reason = match result {
                    _ if is_rotated => return ConnectionStep::connect(None, 0),
                    ProbeResult::Unauthorized => return ConnectionStep::connect(None, 0),
                    ProbeResult::Alive => return ConnectionStep::connected(known, None),
                    ProbeResult::Failed(reason) => reason,
                };
                let failing = failing.unwrap_or(FailedProbes { since: now, count: 0 });
                let failing = FailedProbes { count: failing.count + 1, ..failing };
                if failing.count < MAX_FAILURES {
                    return ConnectionStep::connected(known, Some(failing));
                }
                disconnected(Some(failing.since), 0, Some(known), reason, now)
            }
            (State::Disconnected { outage, tries, secret, rest }, Event::Due) => match rest.is_zero() {
                true => ConnectionStep::connect(Some(outage), tries),
                false => {
                    let state = State::Disconnected { outage, tries, secret, rest };
                    ConnectionStep::act(state, ConnectionAction::ReadSecret)
                }
            },
            (State::Disconnected { outage, tries, secret: tried, rest }, Event::SecretRead { secret }) => {
                if secret.is_some() && secret != tried {
                    return ConnectionStep::connect(Some(outage), tries);
                }
                waiting(outage, tries, tried, rest)
            }
            // What does not concern the state is of an action that another event has overtaken.
            (State::Idle, _) => ConnectionStep::wait(State::Idle, None),
            (state @ State::Connecting { .. }, _) => ConnectionStep::act(state, ConnectionAction::Connect),
            (state @ State::Connected { .. }, _) => ConnectionStep::wait(state, Some(PROBE_INTERVAL)),
            (State::Disconnected { outage, tries, secret, rest }, _) => waiting(outage, tries, secret, rest),
        }
    }
}

/// The state after a failure.
fn disconnected(
    since: Option<Timestamp>,
    tries: u32,
    secret: Option<String>,
    reason: String,
    now: Timestamp,
) -> ConnectionStep {
    let delay = FIRST_RETRY_DELAY.saturating_mul(1 << tries.min(8)).min(MAX_RETRY_DELAY);
    // The delay is minutes at most; a clock at the end of time stays there.
    let next_try = jiff::SignedDuration::try_from(delay).ok().and_then(|delay| now.checked_add(delay).ok());
    let outage = Outage { reason, since: since.unwrap_or(now), next_try: next_try.unwrap_or(now) };
    waiting(outage, tries.saturating_add(1), secret, delay)
}

/// Disconnected, with an interval less of the delay.
fn waiting(outage: Outage, tries: u32, secret: Option<String>, delay: Duration) -> ConnectionStep {
    let wake = delay.min(PROBE_INTERVAL);
    let rest = delay.saturating_sub(wake);
    ConnectionStep::wait(ConnectionState::Disconnected { outage, tries, secret, rest }, Some(wake))
}

#[cfg(test)]
mod tests {
    use ConnectionAction as Action;
    use ConnectionEvent as Event;
    use ConnectionState as State;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn connected() -> State {
        State::Connected { secret: "1".to_owned(), failing: None }
    }

    fn failed(secret: Option<&str>) -> Event {
        Event::ConnectFailed { secret: secret.map(str::to_owned), reason: "refused".to_owned() }
    }

    fn probed(secret: &str, result: ProbeResult) -> Event {
        Event::Probed { secret: Some(secret.to_owned()), result }
    }

    fn broken() -> ProbeResult {
        ProbeResult::Failed("no answer".to_owned())
    }

    /// Waits and reads the Secret until the next try. Returns how long that took.
    fn until_next_try(mut step: ConnectionStep) -> (Duration, ConnectionStep) {
        let mut waited = Duration::ZERO;
        while step.action != Action::Connect {
            waited += step.wake.unwrap();
            step = step.state.next(Event::Due, NOW);
            if step.action == Action::ReadSecret {
                let State::Disconnected { secret, .. } = &step.state else { panic!("{step:?}") };
                let event = Event::SecretRead { secret: secret.clone() };
                step = step.state.next(event, NOW);
            }
        }
        (waited, step)
    }

    #[test]
    fn cluster_is_connected_to_once_it_is_ready() {
        let step = State::Idle.next(Event::Cluster { is_ready: false }, NOW);
        assert_eq!(step, ConnectionStep::wait(State::Idle, None));
        let step = step.state.next(Event::Cluster { is_ready: true }, NOW);
        assert_eq!(step.action, Action::Connect);
        let step = step.state.next(Event::Connected { secret: "1".to_owned() }, NOW);
        assert_eq!(step, ConnectionStep::wait(connected(), Some(PROBE_INTERVAL)));
        let step = step.state.next(Event::Cluster { is_ready: true }, NOW);
        assert_eq!(step.state, connected());
        let step = step.state.next(Event::Cluster { is_ready: false }, NOW);
        assert_eq!(step.state, State::Idle);
    }

    #[test]
    fn delay_between_tries_grows_and_the_outage_keeps_its_beginning() {
        let mut step = ConnectionStep::connect(None, 0);
        let mut delays = Vec::new();
        for second in [100, 200, 300, 400] {
            step = step.state.next(failed(Some("1")), at(second));
            let State::Disconnected { outage, .. } = &step.state else { panic!("{step:?}") };
            assert_eq!(outage.since, at(100));
            let next_try = outage.next_try;
            let (waited, next) = until_next_try(step);
            assert_eq!(next_try, at(second) + jiff::SignedDuration::try_from(waited).unwrap());
            delays.push(waited.as_secs());
            step = next;
        }
        assert_eq!(delays, [30, 60, 120, 120]);
    }

    #[test]
    fn next_try_stays_the_same_while_the_secret_is_read() {
        let step = ConnectionStep::connect(None, 0).state.next(failed(None), at(5));
        let State::Disconnected { outage, .. } = step.state.clone() else { panic!("{step:?}") };
        let step = step.state.next(Event::Due, at(15));
        assert_eq!(step.action, Action::ReadSecret);
        let step = step.state.next(Event::SecretRead { secret: None }, at(15));
        let State::Disconnected { outage: later, .. } = step.state else { panic!("{step:?}") };
        assert_eq!(later, outage);
    }

    #[test]
    fn kubeconfig_that_appears_or_changes_ends_the_delay() {
        for (tried, found) in [(None, "1"), (Some("1"), "2")] {
            let step = ConnectionStep::connect(None, 0).state.next(failed(tried), NOW).state.next(Event::Due, NOW);
            let step = step.state.next(Event::SecretRead { secret: Some(found.to_owned()) }, NOW);
            assert_eq!(step.action, Action::Connect);
        }
        // One that is gone is no reason to try again.
        let step = ConnectionStep::connect(None, 0).state.next(failed(Some("1")), NOW).state.next(Event::Due, NOW);
        assert_eq!(step.state.next(Event::SecretRead { secret: None }, NOW).action, Action::Wait);
    }

    #[test]
    fn connection_is_given_up_after_five_failed_probes_in_a_row() {
        let mut state = connected();
        for count in 1..MAX_FAILURES {
            let step = state.next(Event::Due, NOW);
            assert_eq!(step.action, Action::Probe);
            let step = step.state.next(probed("1", broken()), at(i64::from(count)));
            let failing = Some(FailedProbes { since: at(1), count });
            assert_eq!(step.state, State::Connected { secret: "1".to_owned(), failing });
            assert_eq!(step.wake, Some(PROBE_INTERVAL));
            state = step.state;
        }
        let alive = state.clone().next(probed("1", ProbeResult::Alive), NOW);
        assert_eq!(alive.state, connected(), "a probe that succeeds forgets the failures");
        let step = state.next(probed("1", broken()), at(7));
        let State::Disconnected { outage, .. } = &step.state else { panic!("{step:?}") };
        assert_eq!((outage.reason.as_str(), outage.since), ("no answer", at(1)), "since the first of them");
    }

    #[test]
    fn refused_credentials_and_a_rotated_kubeconfig_reconnect_at_once() {
        let refused = connected().next(probed("1", ProbeResult::Unauthorized), NOW);
        let rotated = connected().next(probed("2", ProbeResult::Alive), NOW);
        let both = connected().next(probed("2", broken()), NOW);
        for step in [refused, rotated, both] {
            assert_eq!(step, ConnectionStep::connect(None, 0));
        }
        let unknown = Event::Probed { secret: None, result: ProbeResult::Alive };
        assert_eq!(connected().next(unknown, NOW).state, connected(), "a Secret that cannot be read is no other one");
    }
}
