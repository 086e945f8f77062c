//! Why a daemon could not read its order or report on it.

use seaworthy_host::HostError;

/// Why an order could not be read or a report written. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The API did not answer as it should.
    #[error("{what}: {}", causes(source))]
    Api {
        /// What was tried.
        what: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// The API did not answer in time whether an order still counts.
    #[error("write the node's annotations: no answer within {seconds} s; the order is not begun before there is one")]
    Silent {
        /// The limit.
        seconds: u64,
    },
    /// The machine did not do what it was asked.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file on the machine is not what it should be.
    #[error("{path} cannot be read: {why}; put it right, or remove it if the node has its annotations")]
    Unreadable {
        /// The file.
        path: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl DaemonError {
    pub(crate) fn api(what: &str, error: kube::Error) -> Self {
        DaemonError::Api { what: what.to_owned(), source: Box::new(error) }
    }
}

/// An error with its causes, each said once: the outermost names neither the address nor what is wrong with it. Of an answer
/// the message says it all.
fn causes(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error
        && !status.message.is_empty()
    {
        return status.message.clone();
    }
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let text = next.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = next.source();
    }
    said
}
