//! [`Policy`]: the hosts that a fetch may reach, and limits of its size.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::AddressClass;
use crate::address::{classify, classify_name};

/// What the operator of a render allows its configs to do.
///
/// It checks the addresses that are connected to. Behind a proxy that is the proxy's own; the
/// host of the URL is then checked as far as possible without resolving it, which only
/// the proxy may be able to. A proxy of the operator is not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Hosts that may be reached although their address is of a refused [`AddressClass`]. All
    /// other addresses may be reached anyway.
    pub allow_hosts: Vec<HostPattern>,
    /// The largest single content, packed and unpacked.
    pub max_object_bytes: u64,
    /// The largest sum of all contents that one [`FetchRun`](crate::FetchRun) hands out, fetched and reused
    /// ones alike. They are counted in the order in which they are asked for, not in which they
    /// arrive: what would go beyond the limit is refused, what still fits after it is not.
    pub max_total_bytes: u64,
}

/// The host of a URL or of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name to be resolved, in lower case, without a final dot.
    Name(String),
    /// An address.
    Ip(IpAddr),
}

/// An entry of [`Policy::allow_hosts`].
///
/// | written | matches |
/// |---|---|
/// | `mirror.lab`, `mirror.lab:8080` | that name, whatever its address |
/// | `*.lab`, `*.lab:8080` | every name below that domain |
/// | `127.0.0.1`, `[::1]:8080` | that address, also when a name resolves to it |
/// | `127.0.0.0/8`, `fd00:ec2::/32` | every address of that network |
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    subject: HostMatcher,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum HostMatcher {
    Name(String),
    Subdomains(String),
    Network(Cidr),
}

/// A network: all addresses that share the first bits of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cidr {
    address: IpAddr,
    bits: u8,
}

/// A text that is not a [`HostPattern`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is not a host to allow: {reason}; expected a name, *.domain, an address \
     (each with an optional :port) or a network such as 127.0.0.0/8"
)]
pub struct ParseHostPatternError {
    found: String,
    reason: &'static str,
}

/// A connection that the [`Policy`] does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject} is refused: {class}")]
pub struct PolicyViolation {
    /// The address or name, as a noun phrase.
    pub subject: String,
    pub class: AddressClass,
    /// The narrowest pattern that would allow it.
    pub allow: String,
}

// === impl Policy ===

impl Policy {
    /// Far above what fits into a rendered config (about 1.5 MB in etcd), far below what hurts.
    pub const DEFAULT_MAX_OBJECT_BYTES: u64 = 16 << 20;

    /// A few large contents at once, in the memory of a small controller.
    pub const DEFAULT_MAX_TOTAL_BYTES: u64 = 64 << 20;

    /// The default limits, with some hosts allowed.
    #[must_use]
    pub fn allowing(hosts: impl IntoIterator<Item = HostPattern>) -> Self {
        Self { allow_hosts: hosts.into_iter().collect(), ..Self::default() }
    }

    /// Checks a host before it is resolved: an address as it is, a name by the addresses that it is known
    /// for.
    ///
    /// # Errors
    ///
    /// When the address or name is of a refused class and not allowed.
    pub fn check_host(&self, host: &Host, port: u16) -> Result<(), PolicyViolation> {
        match host {
            Host::Ip(address) => self.check_address(host, *address, port),
            Host::Name(name) => match classify_name(name) {
                // A pattern for an address that a name is known for allows the name.
                Some((class, known)) if !known.iter().any(|known| self.allows(host, *known, port)) => {
                    Err(PolicyViolation { subject: format!("host {name}"), class, allow: with_port(host, port) })
                }
                _ => Ok(()),
            },
        }
    }

    /// Checks an address of `host` before connecting to it.
    ///
    /// # Errors
    ///
    /// When the address is of a refused class and neither it nor the host is allowed.
    pub fn check_address(&self, host: &Host, address: IpAddr, port: u16) -> Result<(), PolicyViolation> {
        match classify(address) {
            Some(class) if !self.allows(host, address, port) => Err(PolicyViolation {
                subject: match host {
                    Host::Name(name) => format!("address {address} of host {name}"),
                    Host::Ip(_) => format!("address {address}"),
                },
                class,
                allow: with_port(host, port),
            }),
            _ => Ok(()),
        }
    }

    fn allows(&self, host: &Host, address: IpAddr, port: u16) -> bool {
        self.allow_hosts.iter().any(|pattern| pattern.matches(host, address, port))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            max_object_bytes: Self::DEFAULT_MAX_OBJECT_BYTES,
            max_total_bytes: Self::DEFAULT_MAX_TOTAL_BYTES,
        }
    }
}

// === impl Host ===

impl Host {
    /// The host that `text` names: an address (with or without brackets) or else a name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        match bare.parse() {
            Ok(address) => Self::Ip(address),
            Err(_) => Self::Name(normal_name(text)),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn normal_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn with_port(host: &Host, port: u16) -> String {
    format!("{host}:{port}")
}

// === impl HostPattern ===

impl HostPattern {
    /// Whether the pattern matches a connection to `host`, which resolved to `address`.
    fn matches(&self, host: &Host, address: IpAddr, port: u16) -> bool {
        if self.port.is_some_and(|own| own != port) {
            return false;
        }
        match (&self.subject, host) {
            (HostMatcher::Name(own), Host::Name(name)) => own == name,
            (HostMatcher::Subdomains(domain), Host::Name(name)) => {
                name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (HostMatcher::Network(network), _) => network.contains(address),
            _ => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = ParseHostPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| ParseHostPatternError { found: text.chars().take(160).collect(), reason };
        if text.contains("://") {
            return Err(refuse("it is a URL"));
        }
        if text.contains('/') {
            let network = Cidr::parse(text).ok_or_else(|| refuse("no such network"))?;
            return Ok(Self::network(network, None));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::network(Cidr::single(address), None));
        }
        let (host, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((host, port)) => match port.parse::<u16>() {
                Ok(port) if port > 0 => (host, Some(port)),
                _ if text.ends_with(']') => (text, None),
                _ => return Err(refuse("the port is not a number from 1 to 65535")),
            },
        };
        if let Host::Ip(address) = Host::parse(host) {
            return Ok(Self::network(Cidr::single(address), port));
        }
        let (name, below) = match host.strip_prefix("*.") {
            Some(domain) => (normal_name(domain), true),
            None => (normal_name(host), false),
        };
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if name.is_empty() || !name.split('.').all(is_label) {
            return Err(refuse("not a host name"));
        }
        // In URLs, a name whose last label is a number is an address, so that a pattern of
        // this kind would never match anything.
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
            return Err(refuse("write the address as four decimal numbers"));
        }
        let subject = if below { HostMatcher::Subdomains(name) } else { HostMatcher::Name(name) };
        Ok(Self { subject, port })
    }
}

impl HostPattern {
    fn network(network: Cidr, port: Option<u16>) -> Self {
        Self { subject: HostMatcher::Network(network), port }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            HostMatcher::Name(name) => f.write_str(name)?,
            HostMatcher::Subdomains(domain) => write!(f, "*.{domain}")?,
            HostMatcher::Network(network) if network.is_single() => {
                Host::Ip(network.address).fmt(f)?;
            }
            HostMatcher::Network(network) => write!(f, "{}/{}", network.address, network.bits)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

// === impl Cidr ===

impl Cidr {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        let (address, bits) = match address {
            IpAddr::V6(mapped) => match (mapped.to_ipv4_mapped(), bits.checked_sub(96)) {
                (Some(v4), Some(bits)) => (IpAddr::V4(v4), bits),
                _ => (address, bits),
            },
            IpAddr::V4(_) => (address, bits),
        };
        let address = masked(address, bits)?;
        Some(Self { address, bits })
    }

    fn single(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self { address, bits }
    }

    fn is_single(&self) -> bool {
        *self == Self::single(self.address)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == Some(self.address)
    }
}

/// The first `bits` of an address, or nothing where it has fewer.
fn masked(address: IpAddr, bits: u8) -> Option<IpAddr> {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32u32.checked_sub(bits)?).unwrap_or(0);
            Some(Ipv4Addr::from(u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128u32.checked_sub(bits)?).unwrap_or(0);
            Some(Ipv6Addr::from(u128::from(v6) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn allows(pattern: &str, host: &str, address: &str, port: u16) -> bool {
        let policy = Policy::allowing([pattern.parse().unwrap()]);
        policy.check_address(&Host::parse(host), address.parse().unwrap(), port).is_ok()
    }

    #[rstest]
    #[case("localhost", "localhost", "127.0.0.1")]
    #[case("LOCALHOST.", "localhost", "::1")]
    #[case("localhost:80", "localhost", "127.0.0.1")]
    #[case("*.lab", "a.lab", "127.0.0.1")]
    #[case("*.lab:80", "a.b.lab", "127.0.0.1")]
    #[case("127.0.0.1", "127.0.0.1", "127.0.0.1")]
    #[case("127.0.0.1:80", "anything.test", "127.0.0.1")]
    #[case("127.0.0.1", "x", "::ffff:127.0.0.1")]
    #[case("::ffff:127.0.0.1", "x", "127.0.0.1")]
    #[case("::1", "::1", "::1")]
    #[case("[::1]", "::1", "::1")]
    #[case("[::1]:80", "::1", "::1")]
    #[case("127.0.0.0/8", "127.9.9.9", "127.9.9.9")]
    #[case("127.3.2.1/8", "127.9.9.9", "127.9.9.9")]
    #[case("0.0.0.0/0", "169.254.169.254", "169.254.169.254")]
    #[case("::ffff:127.0.0.0/104", "x", "127.9.9.9")]
    #[case("fd00:ec2::/32", "x", "fd00:ec2::254")]
    fn an_allowed_host_may_have_any_address(#[case] pattern: &str, #[case] host: &str, #[case] address: &str) {
        assert!(allows(pattern, host, address, 80));
    }

    #[rstest]
    #[case("localhost:81", "localhost", "127.0.0.1")]
    #[case("localhost", "localhost.evil.test", "127.0.0.1")]
    #[case("*.lab", "lab", "127.0.0.1")]
    #[case("*.lab", "evillab", "127.0.0.1")]
    #[case("127.0.0.1", "127.0.0.2", "127.0.0.2")]
    #[case("127.0.0.1:81", "127.0.0.1", "127.0.0.1")]
    #[case("127.0.0.0/30", "127.0.0.4", "127.0.0.4")]
    #[case("::/0", "127.0.0.1", "127.0.0.1")]
    #[case("good.test", "evil.test", "127.0.0.1")]
    fn a_pattern_allows_no_more_than_it_says(#[case] pattern: &str, #[case] host: &str, #[case] address: &str) {
        assert!(!allows(pattern, host, address, 80));
    }

    #[test]
    fn a_refusal_names_how_to_allow_it() {
        let refusal = Policy::default().check_host(&Host::parse("127.0.0.1"), 8080).unwrap_err();
        assert_eq!(refusal.to_string(), "address 127.0.0.1 is refused: loopback");
        assert_eq!(refusal.allow, "127.0.0.1:8080");
        let pattern: HostPattern = refusal.allow.parse().unwrap();
        let policy = Policy::allowing([pattern]);
        assert_eq!(policy.check_host(&Host::parse("127.0.0.1"), 8080), Ok(()));
        let six = Policy::default().check_host(&Host::parse("[::1]"), 443).unwrap_err();
        assert_eq!(six.allow, "[::1]:443");
    }

    #[test]
    fn known_names_are_refused_before_they_are_resolved() {
        let policy = Policy::default();
        for name in ["localhost", "LocalHost.", "metadata.google.internal"] {
            assert!(policy.check_host(&Host::parse(name), 80).is_err(), "{name}");
        }
        assert_eq!(policy.check_host(&Host::parse("example.com"), 80), Ok(()));
    }

    #[test]
    fn private_networks_are_open() {
        let policy = Policy::default();
        for address in ["10.0.0.1", "172.16.0.1", "192.168.0.1", "fd01::1"] {
            let result = policy.check_host(&Host::parse(address), 80);
            assert_eq!(result, Ok(()), "{address}");
        }
    }

    #[test]
    fn allowing_an_address_allows_the_names_it_is_known_by() {
        for pattern in ["127.0.0.1", "::1", "localhost:80", "127.0.0.0/8"] {
            let policy = Policy::allowing([pattern.parse().unwrap()]);
            let result = policy.check_host(&Host::parse("localhost"), 80);
            assert_eq!(result, Ok(()), "{pattern}");
            let metadata = Host::parse("metadata.google.internal");
            assert!(policy.check_host(&metadata, 80).is_err(), "{pattern}");
        }
    }

    #[rstest]
    #[case("")]
    #[case("*")]
    #[case("*.")]
    #[case("http://host")]
    #[case("host/path")]
    #[case("10.0.0.0/33")]
    #[case("host:")]
    #[case("host:0")]
    #[case("host:65536")]
    #[case("ho st")]
    #[case("a..b")]
    #[case("user@host")]
    #[case("2130706433")]
    #[case("0x7f000001")]
    #[case("127.1")]
    fn other_patterns_are_refused(#[case] text: &str) {
        let error = text.parse::<HostPattern>().unwrap_err().to_string();
        assert!(error.contains("expected a name"), "{error}");
    }

    proptest! {
        #[test]
        fn any_pattern_text_is_parsed_or_refused(text in any::<String>()) {
            let _ = text.parse::<HostPattern>();
        }

        #[test]
        fn a_pattern_survives_being_written(address in any::<[u8; 16]>(), bits in 0u8..=128, port in 1u16..) {
            let v6 = IpAddr::from(address);
            let v4 = IpAddr::from([address[0], address[1], address[2], address[3]]);
            for text in [
                format!("[{v6}]:{port}"),
                format!("{v4}:{port}"),
                format!("{v4}/{}", bits.min(32)),
                format!("{v6}/{bits}"),
            ] {
                let pattern: HostPattern = text.parse().unwrap();
                prop_assert_eq!(&pattern.to_string().parse::<HostPattern>().unwrap(), &pattern);
            }
        }
    }
}
