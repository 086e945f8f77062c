//! Addresses of a listening socket, as clients reach it: the unspecified address (`0.0.0.0`, `[::]`) is none that they could
//! connect to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses for documentation, which no host has: the route to them is the default route.
const DOCUMENTATION_ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 9),
];

/// Every address under which a client may reach a socket: the subject alternative names of its certificate.
pub fn reachable(listening: SocketAddr) -> Vec<IpAddr> {
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

/// The address to advertise to other machines: of all that this machine has, the one on its default route.
pub fn advertised(listening: SocketAddr) -> SocketAddr {
    if !listening.ip().is_unspecified() {
        return listening;
    }
    let is_accepted = |address: &IpAddr| listening.is_ipv6() || address.is_ipv4();
    let of_default_route = DOCUMENTATION_ADDRESSES.iter().filter_map(source_address).find(is_accepted);
    let others = || interfaces().into_iter().filter(is_accepted).find(is_advertisable);
    SocketAddr::new(of_default_route.or_else(others).unwrap_or(Ipv4Addr::LOCALHOST.into()), listening.port())
}

/// Whether an address means the same machine to other machines.
fn is_advertisable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    }
}

/// The source address of packets to another address. Nothing is sent.
fn source_address(to: &SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (is_advertisable(&address) && !address.is_unspecified()).then_some(address)
}

/// The addresses of all network interfaces; none if the system does not list them.
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
    fn socket_for_all_addresses_is_advertised_with_one_of_them() {
        for everywhere in ["0.0.0.0:7", "[::]:7"] {
            let everywhere: SocketAddr = everywhere.parse().unwrap();
            let found = advertised(everywhere);
            assert!(!found.ip().is_unspecified() && found.port() == 7, "{found}");
            assert!(reachable(everywhere).contains(&found.ip()), "{found}: {:?}", reachable(everywhere));
            assert!(found.is_ipv4() || everywhere.is_ipv6(), "{found}");
        }
    }

    #[test]
    fn socket_for_one_address_is_advertised_with_it() {
        let one: SocketAddr = "10.1.2.3:7".parse().unwrap();
        assert_eq!(advertised(one), one);
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert_eq!(reachable(one), [v4, v6, one.ip()]);
        assert_eq!(reachable(SocketAddr::new(v4, 7)), [v4, v6]);
    }
}
