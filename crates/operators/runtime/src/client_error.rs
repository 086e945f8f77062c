//! Client errors in one line: the server's message and code, or the error of the connection.

use kube::runtime::watcher;

pub fn summary(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => format!("{} ({})", status.message, status.code),
        kube::Error::Service(error) => error.to_string(),
        other => other.to_string(),
    }
}

pub fn watch_summary(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => format!("cannot list: {}", summary(error)),
        watcher::Error::WatchStartFailed(error) => format!("cannot watch: {}", summary(error)),
        watcher::Error::WatchFailed(error) => summary(error),
        watcher::Error::WatchError(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn errors_of_the_server_are_its_message_and_code() {
        let status = Status::failure("Unauthorized", "Unauthorized").with_code(401);
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(summary(&error), "Unauthorized (401)");
        assert_eq!(watch_summary(&watcher::Error::InitialListFailed(error)), "cannot list: Unauthorized (401)");
        let gone = Status::failure("too old", "Expired").with_code(410);
        assert_eq!(watch_summary(&watcher::Error::WatchError(Box::new(gone))), "too old (410)");
        assert_eq!(summary(&kube::Error::Service("https://a: refused".into())), "https://a: refused");
    }
}
