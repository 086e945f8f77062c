//! [`AddressClass`]: the classes of addresses that a config must not make a render connect to.
//!
//! A render runs with the network access of the controller. A user who may write a config could
//! otherwise read what only the controller can reach: services that listen on loopback because
//! they trust everyone there, and the metadata services of clouds, which hand out credentials.
//! Private networks (RFC 1918, unique local IPv6) stay open: in-cluster servers live there.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused unless it is allowed by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// The machine itself.
    Loopback,
    /// The machine's own network segment, where clouds put their metadata services.
    LinkLocal,
    /// A metadata service of a cloud outside the link-local range, or its name.
    Metadata,
    /// No particular address; the system takes it for the machine itself.
    Unspecified,
    /// A group of machines, or all of them.
    Multicast,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata service",
            Self::Unspecified => "unspecified address",
            Self::Multicast => "multicast or broadcast",
        })
    }
}

/// Metadata services that sit outside the link-local range.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba Cloud
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's host agent
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle Cloud, first generation
];

/// Prefixes, as segments, of unique-local networks that clouds reserve for their metadata
/// services. Only the start is compared: AWS puts several services into the same network.
const METADATA_V6: [&[u16]; 4] = [
    &[0xfd00, 0x0ec2],                       // AWS: instance data, pod identity, time
    &[0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254], // Google Cloud
    &[0xfd00, 0x00c1],                       // Oracle Cloud
    &[0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x42],  // Scaleway
];

/// Names that clouds resolve to their metadata services. The addresses are refused anyway; the
/// names matter where a proxy resolves them.
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
];

const METADATA_ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254)),
];

/// Names that every resolver takes for the machine itself.
const LOOPBACK_NAMES: [&str; 4] = ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"];

const LOOPBACK_ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Why `address` is refused, in whatever way it is written.
pub(crate) fn classify(address: IpAddr) -> Option<AddressClass> {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address).or_else(|| embedded_v4(address).and_then(classify_v4)),
    }
}

/// Why the host `name` (in lower case) is refused before it is resolved, and the addresses that
/// it is known for.
pub(crate) fn classify_name(name: &str) -> Option<(AddressClass, &'static [IpAddr])> {
    if LOOPBACK_NAMES.contains(&name) || name.ends_with(".localhost") {
        Some((AddressClass::Loopback, &LOOPBACK_ADDRESSES))
    } else if METADATA_NAMES.contains(&name) {
        Some((AddressClass::Metadata, &METADATA_ADDRESSES))
    } else {
        None
    }
}

fn classify_v4(address: Ipv4Addr) -> Option<AddressClass> {
    // All of 0.0.0.0/8: Linux connects 0.0.0.0 to loopback, other systems more of it.
    if address.octets()[0] == 0 {
        Some(AddressClass::Unspecified)
    } else if address.is_loopback() {
        Some(AddressClass::Loopback)
    } else if address.is_link_local() {
        Some(AddressClass::LinkLocal)
    } else if address.is_multicast() || address.is_broadcast() {
        Some(AddressClass::Multicast)
    } else if METADATA_V4.contains(&address) {
        Some(AddressClass::Metadata)
    } else {
        None
    }
}

fn classify_v6(address: Ipv6Addr) -> Option<AddressClass> {
    let segments = address.segments();
    if address.is_unspecified() {
        Some(AddressClass::Unspecified)
    } else if address.is_loopback() {
        Some(AddressClass::Loopback)
    } else if address.is_unicast_link_local() || segments[0] & 0xffc0 == 0xfec0 {
        // fec0::/10 is the withdrawn site-local range.
        Some(AddressClass::LinkLocal)
    } else if address.is_multicast() {
        Some(AddressClass::Multicast)
    } else if METADATA_V6.iter().any(|prefix| segments.starts_with(prefix)) {
        Some(AddressClass::Metadata)
    } else {
        None
    }
}

/// The IPv4 address that a translator or tunnel on the way would make of an IPv6 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let join = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // ::ffff:a.b.c.d (mapped), ::ffff:0:a.b.c.d (translated), ::a.b.c.d (compatible),
        // 64:ff9b::a.b.c.d (NAT64)
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 64:ff9b:1::/48 (local NAT64, in its usual /96 layout)
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        // 2002:a.b.c.d::/48 (6to4)
        | [0x2002, high, low, ..] => Some(join(high, low)),
        // 2001:0::/32 (Teredo): the client's address, inverted
        [0x2001, 0, .., high, low] => Some(join(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("127.0.0.1", AddressClass::Loopback)]
    #[case("127.255.255.254", AddressClass::Loopback)]
    #[case("::1", AddressClass::Loopback)]
    #[case("::ffff:127.0.0.1", AddressClass::Loopback)]
    #[case("::ffff:0:127.0.0.1", AddressClass::Loopback)]
    #[case("::127.0.0.1", AddressClass::Loopback)]
    #[case("64:ff9b::7f00:1", AddressClass::Loopback)]
    #[case("64:ff9b:1::7f00:1", AddressClass::Loopback)]
    #[case("2002:7f00:1::", AddressClass::Loopback)]
    #[case("2001:0:1:2:3:4:80ff:fffe", AddressClass::Loopback)]
    #[case("169.254.169.254", AddressClass::LinkLocal)]
    #[case("169.254.170.2", AddressClass::LinkLocal)]
    #[case("::ffff:169.254.169.254", AddressClass::LinkLocal)]
    #[case("64:ff9b::a9fe:a9fe", AddressClass::LinkLocal)]
    #[case("fe80::1", AddressClass::LinkLocal)]
    #[case("febf::1", AddressClass::LinkLocal)]
    #[case("fec0::1", AddressClass::LinkLocal)]
    #[case("fd00:ec2::254", AddressClass::Metadata)]
    #[case("fd00:ec2::23", AddressClass::Metadata)]
    #[case("fd20:ce::254", AddressClass::Metadata)]
    #[case("fd00:c1::a9fe:a9fe", AddressClass::Metadata)]
    #[case("fd00:42::42", AddressClass::Metadata)]
    #[case("100.100.100.200", AddressClass::Metadata)]
    #[case("168.63.129.16", AddressClass::Metadata)]
    #[case("192.0.0.192", AddressClass::Metadata)]
    #[case("::ffff:100.100.100.200", AddressClass::Metadata)]
    #[case("0.0.0.0", AddressClass::Unspecified)]
    #[case("0.1.2.3", AddressClass::Unspecified)]
    #[case("::", AddressClass::Unspecified)]
    #[case("224.0.0.1", AddressClass::Multicast)]
    #[case("239.255.255.255", AddressClass::Multicast)]
    #[case("255.255.255.255", AddressClass::Multicast)]
    #[case("ff02::1", AddressClass::Multicast)]
    fn dangerous_addresses_are_named(#[case] address: IpAddr, #[case] class: AddressClass) {
        assert_eq!(classify(address), Some(class));
    }

    #[rstest]
    #[case("10.0.0.1")]
    #[case("172.16.0.1")]
    #[case("192.168.1.1")]
    #[case("100.64.0.1")]
    #[case("100.100.100.201")]
    #[case("192.0.2.1")]
    #[case("fd01::1")]
    #[case("fd00:ec3::254")]
    #[case("2001:db8::1")]
    #[case("2002:a00:1::")]
    #[case("64:ff9b::808:808")]
    #[case("::ffff:10.0.0.1")]
    fn private_and_public_addresses_are_open(#[case] address: IpAddr) {
        assert_eq!(classify(address), None);
    }

    #[test]
    fn names_of_the_machine_and_of_metadata_services_are_known() {
        let class = |name| classify_name(name).map(|(class, _)| class);
        assert_eq!(class("localhost"), Some(AddressClass::Loopback));
        assert_eq!(class("x.localhost"), Some(AddressClass::Loopback));
        let metadata = class("metadata.google.internal");
        assert_eq!(metadata, Some(AddressClass::Metadata));
        assert_eq!(class("localhost.example.com"), None);
        assert_eq!(class("mymetadata"), None);
    }
}
