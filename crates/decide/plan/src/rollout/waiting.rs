//! Waiting: why a node does not move, as data and as text.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::vocabulary::machineconfiguration::WaitingReason;
use seaworthy_api::vocabulary::machineconfiguration::node::CURRENT_CONFIG;
use seaworthy_api::vocabulary::seaworthy::annotation::PAUSED;
use seaworthy_values::list;

use crate::duration;
use crate::rollout::hold::Hold;

/// The text of a node that is updating.
pub(crate) const UPDATING: &str = "is updating";

/// A node that does not move, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub node: String,
    /// Why.
    pub reason: Reason,
}

/// A node that holds a part of the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub node: String,
    /// Since when, if that is known.
    pub since: Option<Timestamp>,
    /// How long that is, in seconds.
    pub seconds: Option<i64>,
}

impl Holder {
    /// A holder at a time.
    pub fn new(node: &str, since: Option<Timestamp>, now: Timestamp) -> Self {
        let seconds = since.map(|since| now.as_second().saturating_sub(since.as_second()).max(0));
        Self { node: node.to_owned(), since, seconds }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.node)?;
        self.seconds.map_or(Ok(()), |seconds| write!(f, ", {}", duration::short(seconds)))
    }
}

/// Why a node does not move.
///
/// [`Display`](fmt::Display) gives a sentence for people who look now; [`Reason::stable_text`] one that stays the same as long
/// as the reason does, for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It runs the target.
    Updated,
    /// It is updating to the target.
    Updating {
        /// The node itself, with the time.
        node: Holder,
    },
    /// It is updating to the target, and its pods cannot be evicted.
    DrainBlocked {
        /// What is in the way.
        blockers: String,
        /// The node itself, with the time.
        node: Holder,
    },
    /// It could not reach the target.
    Failed {
        /// What its daemon reported.
        message: String,
    },
    /// The pool is paused.
    PoolPaused { pool: String },
    /// An annotation on the node asks for it.
    NodePaused {
        /// The value of the annotation.
        why: String,
    },
    /// The pool is being deleted.
    PoolDeleting { pool: String },
    /// The pool has no configuration yet.
    NoConfiguration { pool: String },
    /// The pool's maxUnavailable cannot be read.
    InvalidMaxUnavailable {
        /// What was found.
        found: String,
    },
    /// As many nodes as allowed are unavailable, or will be after this decision.
    Budget {
        /// How many may be unavailable.
        max: i64,
        /// The nodes that are, by name. Shared: thousands of nodes wait for the same few.
        used_by: Arc<[Holder]>,
    },
    /// The budget has room for it, but as many orders as can be reserved at a time are in progress.
    OrdersInProgress {
        /// How many are.
        count: usize,
    },
    /// The node is not healthy.
    NotReady {
        /// The condition that is not as it should be.
        condition: String,
        status: String,
        /// The node itself, with the time.
        node: Holder,
    },
    /// No node daemon has ever reported for the node, so an order would not be carried out.
    NoNodeDaemon,
    /// Someone else cordoned the node.
    Cordoned,
    /// The node is updating to another configuration.
    OtherTargetInProgress {
        /// That configuration.
        config: String,
        /// The node itself, with the time.
        node: Holder,
    },
    /// The node runs the controllers; the others of its pool come first.
    RunsOperator,
    /// The node gets the labels of its pool first.
    JoiningPool {
        /// The pool that it booted for.
        pool: String,
    },
    /// Nodes of the pool that keeps quorum with this one are unavailable.
    Quorum {
        pool: String,
        /// Its nodes that are unavailable.
        used_by: Arc<[Holder]>,
    },
    /// A hold applies to it.
    Held {
        /// What it is.
        hold: Hold,
    },
    /// No pool selects the node.
    NotInPool,
    /// Nothing here can configure the node's operating system.
    UnsupportedOs,
    /// Several custom pools select the node.
    SeveralPools {
        /// Those pools.
        pools: Vec<String>,
    },
}

impl Reason {
    /// The reason for programs.
    pub fn code(&self) -> WaitingReason {
        match self {
            Reason::Updated => WaitingReason::Updated,
            Reason::Updating { .. } => WaitingReason::Updating,
            Reason::DrainBlocked { .. } => WaitingReason::DrainBlocked,
            Reason::Failed { .. } => WaitingReason::Failed,
            Reason::PoolPaused { .. } => WaitingReason::PoolPaused,
            Reason::NodePaused { .. } => WaitingReason::NodePaused,
            Reason::PoolDeleting { .. } => WaitingReason::PoolDeleting,
            Reason::NoConfiguration { .. } => WaitingReason::NoConfiguration,
            Reason::InvalidMaxUnavailable { .. } => WaitingReason::InvalidMaxUnavailable,
            Reason::Budget { .. } => WaitingReason::Budget,
            Reason::OrdersInProgress { .. } => WaitingReason::OrdersInProgress,
            Reason::NotReady { .. } => WaitingReason::NotReady,
            Reason::NoNodeDaemon => WaitingReason::NoNodeDaemon,
            Reason::Cordoned => WaitingReason::Cordoned,
            Reason::OtherTargetInProgress { .. } => WaitingReason::OtherTargetInProgress,
            Reason::RunsOperator => WaitingReason::RunsOperator,
            Reason::JoiningPool { .. } => WaitingReason::JoiningPool,
            Reason::Quorum { .. } => WaitingReason::Quorum,
            Reason::Held { .. } => WaitingReason::Held,
            Reason::NotInPool | Reason::UnsupportedOs => WaitingReason::NotInPool,
            Reason::SeveralPools { .. } => WaitingReason::SeveralPools,
        }
    }

    /// The text for objects. It has neither a duration nor, for a budget, the nodes that use it: otherwise every step of one node would be
    /// a write for every node that waits, and an idle fleet would write once a minute.
    pub fn stable_text(&self) -> String {
        match self {
            Reason::Updating { .. } => UPDATING.to_owned(),
            Reason::DrainBlocked { blockers, .. } => format!("drain blocked by {blockers}"),
            Reason::Budget { max, .. } => format!("waiting: budget {max} is used up"),
            Reason::OrdersInProgress { .. } => "waiting: too many orders are in progress".to_owned(),
            Reason::NotReady { condition, status, .. } => format!("not ready: condition {condition} is {status}"),
            Reason::OtherTargetInProgress { config, .. } => format!("still updating to {config}"),
            Reason::Quorum { pool, .. } => format!("waiting for quorum: a node of pool {pool} is unavailable"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Updated => f.write_str("runs its target"),
            Reason::Updating { node } => {
                f.write_str(UPDATING)?;
                since(node, f)
            }
            Reason::DrainBlocked { blockers, node } => {
                write!(f, "drain blocked by {blockers}")?;
                since(node, f)
            }
            Reason::Failed { message } if message.is_empty() => f.write_str("failed; its daemon reported no reason"),
            Reason::Failed { message } => write!(f, "failed: {message}"),
            Reason::PoolPaused { pool } => write!(f, "paused: spec.paused of pool {pool} is true"),
            Reason::NodePaused { why } if why.is_empty() => write!(f, "paused by annotation {PAUSED}"),
            Reason::NodePaused { why } => write!(f, "paused by annotation {PAUSED}: {why}"),
            Reason::PoolDeleting { pool } => write!(f, "pool {pool} is being deleted"),
            Reason::NoConfiguration { pool } => write!(f, "pool {pool} has no rendered configuration yet"),
            Reason::InvalidMaxUnavailable { found } => write!(
                f,
                "spec.maxUnavailable is {found:?}; expected a whole number such as 2, without quotes, or a percentage such as \"10%\""
            ),
            Reason::Budget { max, .. } if *max < 0 => write!(f, "budget {max} allows no node to move"),
            Reason::Budget { max, used_by } => {
                write!(f, "budget {max} used by ")?;
                holders(used_by, f)
            }
            Reason::OrdersInProgress { count } => {
                write!(f, "waiting: {count} orders are in progress")
            }
            Reason::NotReady { condition, status, node } => {
                write!(f, "not ready: condition {condition} is {status}")?;
                since(node, f)
            }
            Reason::NoNodeDaemon => write!(
                f,
                "no node daemon has reported (the Node has no annotation {CURRENT_CONFIG}); start `seaworthy daemon` there, \
                 see `seaworthy manifests`"
            ),
            Reason::Cordoned => {
                f.write_str("cordoned by a user or another controller; `kubectl uncordon` allows its update")
            }
            Reason::OtherTargetInProgress { config, node } => {
                write!(f, "still updating to {config}")?;
                since(node, f)
            }
            Reason::RunsOperator => f.write_str("runs the controllers; the other nodes of its pool are updated first"),
            Reason::JoiningPool { pool } => {
                write!(f, "booted for pool {pool}; the labels of the pool are applied first")
            }
            Reason::Quorum { pool, used_by } => {
                write!(f, "waiting for quorum: unavailable in pool {pool}: ")?;
                holders(used_by, f)
            }
            Reason::Held { hold } => write!(f, "waits for {}", hold.what),
            // A kubelet may not set this label on its own Node, so on plain Kubernetes it is not set.
            Reason::NotInPool => f.write_str(
                "no pool selects it; add a label that a pool's spec.nodeSelector matches, such as `kubectl label \
                 node NAME node-role.kubernetes.io/worker=`",
            ),
            Reason::UnsupportedOs => f.write_str("no pool configures Windows nodes"),
            Reason::SeveralPools { pools } => {
                write!(f, "belongs to {} custom pools ({}); a node can be in only one", pools.len(), pools.join(", "))
            }
        }
    }
}

fn since(node: &Holder, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    node.seconds.map_or(Ok(()), |seconds| write!(f, ", {}", duration::short(seconds)))
}

/// Of many holders the first are named.
fn holders(holders: &[Holder], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const MAX_NAMED: usize = 3;
    f.write_str(&list::first_of(holders, MAX_NAMED, "; ", " and "))
}
