//! API versions: the group and the version of a kind, as objects name them together in `apiVersion`.

/// The group, which is empty for the core group, and the version.
pub fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_group_has_no_name() {
        assert_eq!(group_and_version("policy/v1"), ("policy", "v1"));
        assert_eq!(group_and_version("v1"), ("", "v1"));
        assert_eq!(group_and_version(""), ("", ""));
    }
}
