//! Under which addresses others find a socket: one that listens on all of a machine's has none that could be told to them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses for documentation, which nobody has: what would be sent there leaves by the way to everywhere.
const ELSEWHERE: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 9),
];

/// Every address under which a client may reach a socket: what a certificate has to vouch for.
pub fn addresses(listening: SocketAddr) -> Vec<IpAddr> {
    let mut all = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let own = match listening.ip() {
        address if address.is_unspecified() => interfaces(),
        address => vec![address],
    };
    for address in own {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// The address to tell other machines. Of all that a machine has, the one that it is known by in its network.
pub fn advertised(listening: SocketAddr) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let speaks = |address: &IpAddr| listening.is_ipv6() || address.is_ipv4();
    let outward = ELSEWHERE.iter().filter_map(outward).find(speaks);
    let others = || interfaces().into_iter().filter(speaks).find(is_told);
    SocketAddr::new(outward.or_else(others).unwrap_or(Ipv4Addr::LOCALHOST.into()), listening.port())
}

/// Whether an address means the same machine to others.
fn is_told(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    }
}

/// The own address on the way to another one. Nothing is sent.
fn outward(to: &SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (is_told(&address) && !address.is_unspecified()).then_some(address)
}

/// The addresses of all network interfaces; none where the system does not say.
fn interfaces() -> Vec<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    };
    interfaces.filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_for_all_addresses_is_told_by_one_of_them() {
        for everywhere in ["0.0.0.0:7", "[::]:7"] {
            let everywhere: SocketAddr = everywhere.parse().unwrap();
            let told = advertised(everywhere);
            assert!(!told.ip().is_unspecified() && told.port() == 7, "{told}");
            assert!(addresses(everywhere).contains(&told.ip()), "{told}: {:?}", addresses(everywhere));
            assert!(told.is_ipv4() || everywhere.is_ipv6(), "{told}");
        }
    }

    #[test]
    fn socket_for_one_address_is_told_by_it() {
        let one: SocketAddr = "10.1.2.3:7".parse().unwrap();
        assert_eq!(advertised(one), one);
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert_eq!(addresses(one), [v4, v6, one.ip()]);
        assert_eq!(addresses(SocketAddr::new(v4, 7)), [v4, v6]);
    }
}
