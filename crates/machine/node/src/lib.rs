//! The node daemon: brings its machine from the configuration that it runs to the one that it is ordered to run.
//!
//! - What to do is decided by pure functions over what was read: [`steps`](steps::steps), [`decide`](decide::decide).
//! - Doing it is journalled ([`journal`]): after a power cut at any moment the next start ends in the old configuration or in
//!   the new one, never between.
//! - A call of [`Agent::sync`] never waits: it does what can be done now and says what it waits for, so the order is read anew
//!   before every step further.
//!
//! | question | module |
//! |---|---|
//! | what does a configuration want of a machine? | [`target`] |
//! | what is on the machine? | [`observed`] |
//! | what is to be done? | [`mod@steps`], [`kernel_arguments`], [`extensions`] |
//! | what is done next, and what is said? | [`decide`], [`order`], [`agent`], `waiting.rs`, `reboot.rs` |
//! | who is asked, and who is told? | [`daemon`], `exchange.rs` |
//! | what should the next boot have? | [`booted`] |
//! | and if it cannot be had? | `astray.rs` |
//! | what does the running kernel get? | [`settings`] |
//! | what is kept right beside a configuration? | [`certificates`] |
//! | is the machine what it should be? | [`validate`], [`difference`], [`proof`], [`monitor`] |
//! | what is done about it if not? | `repair.rs` |
//! | which configuration is it in? | `disk.rs` |
//! | what does a new machine do first? | [`first_boot`] |

pub mod agent;
mod astray;
pub mod booted;
pub mod certificates;
pub mod clock;
pub mod daemon;
pub mod decide;
pub mod difference;
mod disk;
mod error;
mod exchange;
pub mod extensions;
pub mod first_boot;
pub mod journal;
pub mod kernel_arguments;
pub mod monitor;
mod news;
pub mod observed;
pub mod order;
pub mod perform;
pub mod places;
pub mod proof;
mod reboot;
pub mod recovery;
mod repair;
pub mod settings;
pub mod steps;
pub mod target;
mod under_way;
pub mod validate;
mod voice;
mod waiting;

pub use agent::{Agent, Settings};
pub use daemon::{Daemon, Rhythm};
pub use monitor::Monitor;
pub use order::{Config, Order, Report};
pub use steps::{Step, steps};
pub use target::Target;
