//! Path check: the paths that are used at all.

use crate::HostError;

/// `PATH_MAX` without the byte that ends it.
const MAX_PATH_BYTES: usize = 4095;

/// The path relative to the root, if it is unambiguous.
pub fn checked(path: &str) -> Result<&str, HostError> {
    let refused = |why| Err(HostError::InvalidPath { path: path.chars().take(200).collect(), why });
    let Some(below) = path.strip_prefix('/') else { return refused("it is not absolute") };
    if path.len() > MAX_PATH_BYTES {
        return refused("it is longer than 4095 bytes");
    }
    if below.is_empty() {
        return refused("it is the root itself");
    }
    for part in below.split('/') {
        match part {
            "" => return refused("it has an empty part"),
            "." | ".." => return refused("it has a part that is \".\" or \"..\""),
            part if part.len() > 255 => return refused("one of its parts is longer than 255 bytes"),
            part if part.contains('\0') => return refused("it has a zero byte"),
            _ => {}
        }
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("etc/a")]
    #[case("/")]
    #[case("")]
    #[case("/etc/../root/x")]
    #[case("/etc/./x")]
    #[case("/etc//x")]
    #[case("/etc/x/")]
    #[case("/etc/\0")]
    fn a_path_that_could_mean_something_else_is_refused(#[case] path: &str) {
        assert!(matches!(checked(path), Err(HostError::InvalidPath { .. })), "{path:?}");
    }

    #[test]
    fn an_absolute_path_is_taken_below_the_root() {
        assert_eq!(checked("/etc/..a/b").unwrap(), "etc/..a/b");
    }
}
