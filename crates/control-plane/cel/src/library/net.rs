//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::{Native, overload_mismatch};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, Val};

/// A network: an address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// How many bits count.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    fn masked(self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Cidr { address, prefix: self.prefix }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Cidr { address, prefix: self.prefix }.masked().address == self.masked().address
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let problem = |why: String| {
        Err(format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {why}"))
    };
    let bare = match text.split_once('%') {
        Some((bare, zone)) if bare.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() => {
            return Err(format!("IP address {text:?} with zone value is not allowed"));
        }
        _ => text,
    };
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => problem(ip_parse_error(text)),
    }
}

/// The reason the API server gives for text that is no address.
fn ip_parse_error(text: &str) -> String {
    match text.find(['.', ':', '%']) {
        Some(index) if text[index..].starts_with('.') => match text.find(|c: char| !c.is_ascii_digit() && c != '.') {
            Some(bad) => format!("unexpected character (at {:?})", &text[bad..]),
            None => ipv4_parse_error(text).to_owned(),
        },
        Some(index) if text[index..].starts_with(':') => {
            let mut pairs = text.match_indices("::").map(|(index, _)| index);
            match (pairs.next(), pairs.next()) {
                (Some(_), Some(second)) => format!("multiple :: in address (at {:?})", &text[second + 1..]),
                _ => "unable to parse IP".to_owned(),
            }
        }
        Some(_) => "missing IPv6 address".to_owned(),
        None => "unable to parse IP".to_owned(),
    }
}

fn ipv4_parse_error(text: &str) -> &'static str {
    let fields: Vec<&str> = text.split('.').collect();
    for (index, field) in fields.iter().enumerate() {
        if field.is_empty() {
            return "IPv4 field must have at least one digit";
        }
        if index == 4 {
            return "IPv4 address too long";
        }
        if field.len() > 1 && field.starts_with('0') {
            return "IPv4 field has octet with leading zero";
        }
        if field.parse::<u32>().map_or(true, |value| value > 255) {
            return "IPv4 field has value >255";
        }
    }
    "IPv4 address too short"
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let problem = |why: &str| {
        Err(format!("network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}"))
    };
    let Some((address, bits)) = text.rsplit_once('/') else { return problem("no '/'") };
    let parsed = match address.parse::<IpAddr>() {
        Ok(parsed) => parsed,
        Err(_) if address.contains('%') => return problem("IPv6 zones cannot be present in a prefix"),
        Err(_) => return problem(&format!("ParseAddr({address:?}): {}", ip_parse_error(address))),
    };
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (bits.len() > 1 && bits.starts_with('0')) {
        return problem(&format!("bad bits after slash: {bits:?}"));
    }
    let most = if parsed.is_ipv4() { 32 } else { 128 };
    let prefix = match bits.parse::<u8>() {
        Ok(prefix) if prefix <= most => prefix,
        _ => return problem("prefix length out of range"),
    };
    if matches!(parsed, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(Cidr { address: parsed, prefix })
}

fn text_of<'v>(args: &'v [Val<'_>]) -> Option<&'v str> {
    match args {
        [Val::String(text)] => Some(text),
        _ => None,
    }
}

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "ip" => ip,
        "isIP" => |args| text_of(args).map_or_else(overload_mismatch, |text| Ok(Val::Bool(parse_ip(text).is_ok()))),
        "ip.isCanonical" => |args| match text_of(args) {
            Some(text) => match parse_ip(text) {
                Ok(ip) => Ok(Val::Bool(ip.to_string() == text)),
                Err(problem) => Err(EvalError::new(problem)),
            },
            None => overload_mismatch(),
        },
        "family" => |args| with_ip(args, |ip| Val::Int(if ip.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |args| with_ip(args, |ip| Val::Bool(ip.is_unspecified())),
        "isLoopback" => |args| with_ip(args, |ip| Val::Bool(ip.is_loopback())),
        "isLinkLocalMulticast" => |args| with_ip(args, |ip| Val::Bool(is_link_local_multicast(ip))),
        "isLinkLocalUnicast" => |args| with_ip(args, |ip| Val::Bool(is_link_local_unicast(ip))),
        "isGlobalUnicast" => |args| with_ip(args, |ip| Val::Bool(is_global_unicast(ip))),
        "cidr" => |args| text_of(args).map_or_else(overload_mismatch, |text| network(text).map(wrap)),
        "isCIDR" => |args| text_of(args).map_or_else(overload_mismatch, |text| Ok(Val::Bool(parse_cidr(text).is_ok()))),
        "containsIP" => contains_ip,
        "containsCIDR" => contains_cidr,
        "prefixLength" => |args| with_cidr(args, |cidr| Val::Int(i64::from(cidr.prefix))),
        "masked" => |args| with_cidr(args, |cidr| wrap(cidr.masked())),
        _ => return None,
    };
    Some(native)
}

fn wrap<'a>(cidr: Cidr) -> Val<'a> {
    Val::Opaque(Opaque::Cidr(Arc::new(cidr)))
}

fn network(text: &str) -> Result<Cidr, EvalError> {
    // The prefix is repeated, as upstream does.
    parse_cidr(text).map_err(|problem| {
        EvalError::new(format!("network address parse error during conversion from string: {problem}"))
    })
}

fn ip<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::String(text)] => match parse_ip(text) {
            Ok(ip) => Ok(Val::Opaque(Opaque::Ip(ip))),
            Err(problem) => Err(EvalError::new(problem)),
        },
        [Val::Opaque(Opaque::Cidr(cidr))] => Ok(Val::Opaque(Opaque::Ip(cidr.address))),
        _ => overload_mismatch(),
    }
}

fn with_ip<'a>(args: &[Val<'a>], apply: fn(IpAddr) -> Val<'a>) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Ip(ip))] => Ok(apply(*ip)),
        _ => overload_mismatch(),
    }
}

fn with_cidr<'a>(args: &[Val<'a>], apply: fn(Cidr) -> Val<'a>) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Cidr(cidr))] => Ok(apply(**cidr)),
        _ => overload_mismatch(),
    }
}

fn contains_ip<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Cidr(cidr)), Val::Opaque(Opaque::Ip(ip))] => Ok(Val::Bool(cidr.contains(*ip))),
        // Text that is no address is not a problem of the text but of the overload.
        [Val::Opaque(Opaque::Cidr(cidr)), Val::String(text)] => match parse_ip(text) {
            Ok(ip) => Ok(Val::Bool(cidr.contains(ip))),
            Err(_) => Err(EvalError::no_such_overload()),
        },
        _ => overload_mismatch(),
    }
}

fn contains_cidr<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (outer, inner) = match args {
        [Val::Opaque(Opaque::Cidr(outer)), Val::Opaque(Opaque::Cidr(inner))] => (outer, **inner),
        [Val::Opaque(Opaque::Cidr(outer)), Val::String(text)] => (outer, network(text)?),
        _ => return overload_mismatch(),
    };
    Ok(Val::Bool(outer.prefix <= inner.prefix && outer.contains(inner.address)))
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let special = match ip {
        IpAddr::V4(v4) => v4.is_broadcast(),
        IpAddr::V6(_) => false,
    };
    !special && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !is_link_local_unicast(ip)
}
