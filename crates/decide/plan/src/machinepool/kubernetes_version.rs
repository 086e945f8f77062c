//! Kubernetes version: strict semantic versions, and their order.

use std::cmp::Ordering;

/// A semantic version, without the `v` that Kubernetes writes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesVersion {
    numbers: [u64; 3],
    /// Empty for a release.
    pre_release: Vec<Identifier>,
}

/// One part of a pre-release; numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl KubernetesVersion {
    /// Reads a version without `v`; `None` if it is not strictly a semantic version.
    pub fn parse(text: &str) -> Option<KubernetesVersion> {
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let is_identifier =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !build.is_none_or(|build| build.split('.').all(is_identifier)) {
            return None;
        }
        let (core, pre_release) = text.split_once('-').map_or((text, None), |(core, rest)| (core, Some(rest)));
        let mut parts = core.split('.').map(number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        if parts.next().is_some() {
            return None;
        }
        let identifier = |part: &str| -> Option<Identifier> {
            if !is_identifier(part) {
                return None;
            }
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                return number(part).map(Identifier::Number);
            }
            Some(Identifier::Text(part.to_owned()))
        };
        let pre_release =
            pre_release.map_or(Some(Vec::new()), |rest| rest.split('.').map(identifier).collect::<Option<_>>())?;
        Some(KubernetesVersion { numbers, pre_release })
    }

    /// The order of versions as nodes report them, with or without `v`: semantic versions ascending, then other texts.
    pub fn compare(a: &str, b: &str) -> Ordering {
        let parse = |text: &str| KubernetesVersion::parse(text.strip_prefix('v').unwrap_or(text));
        match (parse(a), parse(b)) {
            (Some(first), Some(second)) => first.cmp(&second).then_with(|| a.cmp(b)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        }
    }
}

impl Ord for KubernetesVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        // A release comes after its pre-releases.
        let is_release = |version: &Self| version.pre_release.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| is_release(self).cmp(&is_release(other)))
            .then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

impl PartialOrd for KubernetesVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Digits without a leading zero.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.23.3", true)]
    #[case("1.19.0-alpha.1", true)]
    #[case("1.19.0-rc.1+build.7", true)]
    #[case("1.17.2++", false)]
    #[case("1", false)]
    #[case("1.2", false)]
    #[case("1.2.3.4", false)]
    #[case("01.2.3", false)]
    #[case("1.2.3-01", false)]
    #[case("1.2.3-", false)]
    #[case("1.2.3-a..b", false)]
    #[case("", false)]
    #[case("+1.2.3", false)]
    #[case("1.2.99999999999999999999", false)]
    fn versions_are_read_strictly(#[case] text: &str, #[case] is_version: bool) {
        assert_eq!(KubernetesVersion::parse(text).is_some(), is_version);
    }

    #[test]
    fn numbers_count_as_numbers_and_other_texts_come_last() {
        let mut versions = ["x", "v1.31.10", "v1.32.0", "v1.31.9", "v1.32.0-rc.1", "a", "v1.32.0-rc.0"];
        versions.sort_by(|a, b| KubernetesVersion::compare(a, b));
        assert_eq!(versions, ["v1.31.9", "v1.31.10", "v1.32.0-rc.0", "v1.32.0-rc.1", "v1.32.0", "a", "x"]);
    }
}
