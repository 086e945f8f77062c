//! The Ignition spec versions that Seaworthy reads and writes.

use std::fmt;

/// A spec version. The order is the order of age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    V2_0,
    V2_1,
    V2_2,
    V3_0,
    V3_1,
    V3_2,
    V3_3,
    V3_4,
    V3_5,
}

/// Why a version cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text is not a version at all.
    #[error("invalid version: {found} is not a version; expected one of {}", accepted())]
    Invalid { found: String },
    /// There is no version.
    #[error("invalid version: ignition.version is missing; expected one of {}", accepted())]
    Missing,
    /// A version that exists or may exist one day, but is not supported.
    #[error("unknown version {}; expected one of {}", crate::url::quote_any(found), accepted())]
    Unknown { found: String },
}

fn accepted() -> String {
    Version::ALL.map(|version| version.as_str()).join(", ")
}

impl Version {
    /// Every version that can be read, oldest first.
    pub const ALL: [Version; 9] = [
        Version::V2_0,
        Version::V2_1,
        Version::V2_2,
        Version::V3_0,
        Version::V3_1,
        Version::V3_2,
        Version::V3_3,
        Version::V3_4,
        Version::V3_5,
    ];

    /// Every version that a config can be written in, oldest first.
    pub const WRITABLE: [Version; 6] =
        [Version::V2_2, Version::V3_1, Version::V3_2, Version::V3_3, Version::V3_4, Version::V3_5];

    /// The version that everything is translated to before it is merged.
    pub const INTERNAL: Version = Version::V3_5;

    /// The version as it is written in a config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V2_0 => "2.0.0",
            Version::V2_1 => "2.1.0",
            Version::V2_2 => "2.2.0",
            Version::V3_0 => "3.0.0",
            Version::V3_1 => "3.1.0",
            Version::V3_2 => "3.2.0",
            Version::V3_3 => "3.3.0",
            Version::V3_4 => "3.4.0",
            Version::V3_5 => "3.5.0",
        }
    }

    /// Reads a version. Only the exact texts of [`Version::ALL`] are known: `3.5.1` or `3.5.0-experimental` are not.
    ///
    /// Differs: `3.05.0` and `3.5.0-` are not known either, because they are slips; upstream's reader takes them for
    /// 3.5.0.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if let Some(version) = Version::ALL.into_iter().find(|version| version.as_str() == text) {
            return Ok(version);
        }
        let found = text.to_owned();
        if is_semver(text) {
            Err(VersionError::Unknown { found })
        } else {
            Err(VersionError::Invalid { found: crate::url::quote_any(text) })
        }
    }

    /// Whether this is one of the 2.x versions, whose configs have another shape.
    pub fn is_v2(self) -> bool {
        self < Version::V3_0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Three numbers, then perhaps a pre-release and build metadata.
fn is_semver(text: &str) -> bool {
    let core = text.split('+').next().unwrap_or_default();
    let core = core.split('-').next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u64>().is_ok() && !part.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    fn the_nine_versions_are_read_exactly() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Ok(version));
        }
    }

    #[rstest]
    fn other_versions_are_unknown(
        #[values("2.3.0", "2.4.0", "3.5.1", "3.5.0-experimental", "3.6.0", "4.0.0", "21.0.0", "3.5.0+x")] text: &str,
    ) {
        assert!(matches!(Version::parse(text), Err(VersionError::Unknown { .. })));
    }

    #[rstest]
    fn what_is_no_version_is_invalid(#[values("", "1", "abc", "3.5", "3.5.x", "v3.5.0", "3..0", "+3.5.0")] text: &str) {
        assert!(matches!(Version::parse(text), Err(VersionError::Invalid { .. })));
    }
}
