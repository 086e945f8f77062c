//! Which version of Ignition a client understands: its `Accept` header, read as upstream reads it.

use seaworthy_ignition::Version;

/// The subtype of an Ignition config. The type before it is not looked at.
const IGNITION: &str = "vnd.coreos.ignition+json";

/// What a client gets that does not say what it understands: machines of long ago did not.
pub const DEFAULT: Version = Version::V2_2;

/// One entry of an `Accept` header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'h> {
    /// What stands before the slash.
    pub family: &'h str,
    /// What stands behind it.
    pub subtype: &'h str,
    /// The version, if there is a whole one.
    pub version: Option<Asked>,
    /// How much it is wanted.
    pub weight: f64,
}

/// A version as it was asked for, without its patch: that never matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
}

/// A version that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Ignition {}.{} cannot be served; accepted are 2.2 and later 2.x, and 3.1 and later 3.x", .0.major, .0.minor)]
pub struct NotServed(pub Asked);

/// The version to serve for an `Accept` header; several headers are one, with commas between them.
///
/// The entry that is wanted most decides: where it cannot be served, the next one is not tried.
pub fn negotiate(header: &str) -> Result<Version, NotServed> {
    let entries = entries(header);
    let chosen = entries.iter().filter(|entry| entry.subtype == IGNITION).find_map(|entry| entry.version);
    chosen.map_or(Ok(DEFAULT), served)
}

/// The entries of an `Accept` header, those that are wanted most first.
pub fn entries(header: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = header.split(',').filter_map(|text| entry(text.trim())).collect();
    // Stable: of equals the one that is named first comes first.
    entries.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    entries
}

/// The version that is served to whoever asks for this one.
pub fn served(asked: Asked) -> Result<Version, NotServed> {
    match (asked.major, asked.minor) {
        (2, 2..) => Ok(Version::V2_2),
        // Differs: 3.0 is refused as what it is, because nothing can be brought down to it; upstream lets it pass and then
        // fails, as if the fault were its own.
        (3, 0) => Err(NotServed(asked)),
        (3, 1) => Ok(Version::V3_1),
        (3, 2) => Ok(Version::V3_2),
        (3, 3) => Ok(Version::V3_3),
        (3, 4) => Ok(Version::V3_4),
        (3, 5..) => Ok(Version::V3_5),
        _ => Err(NotServed(asked)),
    }
}

fn entry(text: &str) -> Option<Entry<'_>> {
    let mut parts = text.split(';');
    let (family, subtype) = parts.next()?.trim().split_once('/')?;
    let mut entry = Entry { family, subtype, version: None, weight: 1.0 };
    for parameter in parts {
        // What cannot be read counts as not said.
        match parameter.trim().split_once('=') {
            Some(("version", value)) => entry.version = entry.version.or_else(|| asked(value)),
            Some(("q", value)) => {
                entry.weight = value.parse().ok().filter(|weight: &f64| weight.is_finite()).unwrap_or(entry.weight);
            }
            _ => {}
        }
    }
    Some(entry)
}

/// Three numbers, perhaps with a pre-release or build behind them.
fn asked(text: &str) -> Option<Asked> {
    let core = text.split(['-', '+']).next()?;
    let mut numbers = core.split('.').map(|part| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => part.parse().ok(),
        false => None,
    });
    let (major, minor, _patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(Asked { major, minor })
}
