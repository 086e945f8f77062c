//! Version negotiation: picks the Ignition version for a client from its `Accept` header, which is read as upstream reads it.

use seaworthy_ignition::Version;

/// The subtype of an Ignition config. The type before it is ignored.
const IGNITION_SUBTYPE: &str = "vnd.coreos.ignition+json";

/// The version for a client that names none, as old machines do.
pub const DEFAULT_VERSION: Version = Version::V2_2;

/// One entry of an `Accept` header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceptEntry<'h> {
    /// The type, before the slash.
    pub family: &'h str,
    /// The subtype, after the slash.
    pub subtype: &'h str,
    /// The version, if it is complete.
    pub version: Option<RequestedVersion>,
    /// The quality value, `q`.
    pub weight: f64,
}

/// A requested version, without its patch level, which never matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedVersion {
    /// The major version.
    pub major: u64,
    /// The minor version.
    pub minor: u64,
}

/// A requested version that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Ignition {}.{} cannot be served; expected 2.2 or a later 2.x, or 3.1 or a later 3.x", .0.major, .0.minor)]
pub struct UnsupportedVersion(pub RequestedVersion);

/// The version to serve for an `Accept` header; several headers are one, with commas between them.
///
/// The entry with the highest weight decides: if it cannot be served, the next one is not tried.
pub fn negotiate(header: &str) -> Result<Version, UnsupportedVersion> {
    let entries = entries(header);
    let chosen = entries.iter().filter(|entry| entry.subtype == IGNITION_SUBTYPE).find_map(|entry| entry.version);
    chosen.map_or(Ok(DEFAULT_VERSION), served_version)
}

/// The entries of an `Accept` header, those with the highest weight first.
pub fn entries(header: &str) -> Vec<AcceptEntry<'_>> {
    let mut entries: Vec<AcceptEntry<'_>> = header.split(',').filter_map(|text| entry(text.trim())).collect();
    // Stable: of equal weights the one that is named first comes first.
    entries.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    entries
}

/// The version that is served for a requested one.
pub fn served_version(requested: RequestedVersion) -> Result<Version, UnsupportedVersion> {
    match (requested.major, requested.minor) {
        (2, 2..) => Ok(Version::V2_2),
        // Differs: 3.0 is refused as what it is, because nothing can be brought down to it; upstream lets it pass and then
        // fails, as if the fault were its own.
        (3, 0) => Err(UnsupportedVersion(requested)),
        (3, 1) => Ok(Version::V3_1),
        (3, 2) => Ok(Version::V3_2),
        (3, 3) => Ok(Version::V3_3),
        (3, 4) => Ok(Version::V3_4),
        (3, 5..) => Ok(Version::V3_5),
        _ => Err(UnsupportedVersion(requested)),
    }
}

fn entry(text: &str) -> Option<AcceptEntry<'_>> {
    let mut parts = text.split(';');
    let (family, subtype) = parts.next()?.trim().split_once('/')?;
    let mut entry = AcceptEntry { family, subtype, version: None, weight: 1.0 };
    for parameter in parts {
        // A parameter that cannot be parsed counts as not given.
        match parameter.trim().split_once('=') {
            Some(("version", value)) => entry.version = entry.version.or_else(|| requested_version(value)),
            Some(("q", value)) => {
                entry.weight = value.parse().ok().filter(|weight: &f64| weight.is_finite()).unwrap_or(entry.weight);
            }
            _ => {}
        }
    }
    Some(entry)
}

/// Three numbers, with an optional pre-release or build after them.
fn requested_version(text: &str) -> Option<RequestedVersion> {
    let core = text.split(['-', '+']).next()?;
    let mut numbers = core.split('.').map(|part| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => part.parse().ok(),
        false => None,
    });
    let (major, minor, _patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(RequestedVersion { major, minor })
}
