//! Errors of the daemon's access to the API and to the machine's first annotations.

use seaworthy_host::HostError;
use seaworthy_values::error::with_causes;

/// An order could not be read or a report not written. It is retried.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("{what}: {}", causes(source))]
    Api {
        /// What was tried.
        what: String,
        source: Box<kube::Error>,
    },
    /// The API did not confirm in time that an order is still current.
    #[error(
        "write the node's annotations: no answer within {seconds} s; the update does not start until the API confirms"
    )]
    Timeout { seconds: u64 },
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file on the machine cannot be parsed.
    #[error("{path} cannot be read: {why}; fix it, or remove it if the node has its annotations")]
    Unreadable { path: &'static str, why: String },
}

impl DaemonError {
    pub(crate) fn api(what: &str, error: kube::Error) -> Self {
        DaemonError::Api { what: what.to_owned(), source: Box::new(error) }
    }
}

/// An error with its causes. The message of an API response is complete by itself.
fn causes(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        _ => with_causes(error),
    }
}
