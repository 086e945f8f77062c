//! Failure of one attempt to follow an order.

use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, State};
use seaworthy_host::HostError;

use crate::decide::target::TargetError;
use crate::order::NextAttempt;

/// The reason that an attempt ended, and what is reported about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) state: State,
    pub(crate) reason: String,
    pub(crate) next_attempt: NextAttempt,
    pub(crate) event: NodeEvent,
}

impl Failure {
    pub(crate) fn degraded(reason: String) -> Self {
        Failure {
            state: State::Degraded,
            reason,
            next_attempt: NextAttempt::Backoff,
            event: NodeEvent::FailedToReconcile,
        }
    }

    pub(crate) fn unreconcilable(reason: String) -> Self {
        Failure {
            state: State::Unreconcilable,
            reason,
            next_attempt: NextAttempt::OnChange,
            event: NodeEvent::FailedToReconcile,
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Failure::degraded(error.to_string())
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Failure::unreconcilable(error.to_string())
    }
}
