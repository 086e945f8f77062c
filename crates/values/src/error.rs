//! An error with its causes as one line.

use std::error::Error;

/// The message of an error and those of its causes, each once: many errors repeat the message of their cause, and the outermost
/// of a client's errors names neither the address nor the cause.
pub fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = next.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn cause_that_is_part_of_the_message_is_not_repeated() {
        let cause = Layer("refused", None);
        let middle = Layer("connect: refused", Some(Box::new(cause)));
        let outer = Layer("client error", Some(Box::new(middle)));
        assert_eq!(with_causes(&outer), "client error: connect: refused");
    }
}
