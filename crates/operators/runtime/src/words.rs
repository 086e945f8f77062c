//! Errors of the API client in words: what the server said or what is wrong with the way to it, without the rest of an answer.

use kube::runtime::watcher;

/// What an error says.
pub fn of_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => format!("{} ({})", status.message, status.code),
        kube::Error::Service(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// What an error of a watch says.
pub fn of_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => format!("cannot list: {}", of_error(error)),
        watcher::Error::WatchStartFailed(error) => format!("cannot watch: {}", of_error(error)),
        watcher::Error::WatchFailed(error) => of_error(error),
        watcher::Error::WatchError(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn answers_of_the_server_are_its_words_and_a_number() {
        let status = Status::failure("Unauthorized", "Unauthorized").with_code(401);
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(of_error(&error), "Unauthorized (401)");
        assert_eq!(of_watch(&watcher::Error::InitialListFailed(error)), "cannot list: Unauthorized (401)");
        let gone = Status::failure("too old", "Expired").with_code(410);
        assert_eq!(of_watch(&watcher::Error::WatchError(Box::new(gone))), "too old (410)");
        assert_eq!(of_error(&kube::Error::Service("https://a: refused".into())), "https://a: refused");
    }
}
