//! Decides the roll-out: which node moves, which waits and why, and what a change does to a node.
//!
//! Pure: no I/O, no clock, no randomness, no environment; time is an argument. The controllers, `seaworthy plan` and
//! `seaworthy rollout` ask the same functions, so they cannot disagree.
//!
//! | question | module |
//! |---|---|
//! | everything about one pool at once, as changes | [`pool`] |
//! | which pool is a node's? | [`membership`], [`custom_boot`] |
//! | how many may be away, who moves, who waits and why? | [`budget`], [`rollout`], [`waiting`], [`hold`] |
//! | what is written onto nodes, pools, MachineConfigNodes? | [`targeting`], [`pool_status`], [`node_status`], [`change`] |
//! | how do the pods leave? | [`drain`], [`eviction`] |
//! | what does a change do to a node, and can it be taken over at all? | [`disruption`], [`policy`], [`knowledge`], [`reconcilable`] |
//! | how long will it take? | [`forecast`] |
//! | what did a pool target before, and what does it target although its MachineConfigs say otherwise? | [`revision`], [`pin`] |
//! | which rendered MachineConfigs may go? | [`garbage`] |

pub mod budget;
pub mod custom_boot;
pub mod disruption;
pub mod drain;
pub mod duration;
pub mod eviction;
pub mod fleet;
pub mod forecast;
pub mod garbage;
pub mod hold;
pub mod knowledge;
pub mod membership;
mod name;
pub mod node_status;
pub mod pin;
pub mod policy;
pub mod pool;
pub mod pool_status;
pub mod promise;
pub mod reconcilable;
mod registries;
pub mod remark;
pub mod render_condition;
pub mod rendering;
pub mod revision;
pub mod rollout;
mod sentence;
mod standing;
pub mod targeting;
pub mod turn;
pub mod waiting;
