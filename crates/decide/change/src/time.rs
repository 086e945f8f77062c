//! Times as objects of the API have them.

use k8s_openapi::jiff::Timestamp;

/// A time to the second.
pub fn to_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
