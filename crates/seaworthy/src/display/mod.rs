//! Display: what several commands show in the same words, as text for people and as JSON for programs.

pub mod contents;
pub mod outlook;
pub mod pool_status;
pub mod secret;
pub mod ssh_key;
pub mod value;
