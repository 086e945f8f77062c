//! [`Stub`]: the Ignition config that points a machine to the endpoint, given to it as user data or written into its image.

use seaworthy_ignition::{Version, data_url};
use serde_json::{Value, json};

use crate::access::Token;

/// The default port of the endpoint.
pub const PORT: u16 = 22623;

/// The contents of a stub.
#[derive(Clone, Debug)]
pub struct Stub<'a> {
    /// The endpoint: `host` or `host:port`.
    pub server: &'a str,
    /// The pool that the machine will belong to.
    pub pool: &'a str,
    /// The CA of the endpoint, as PEM; without it the machine's own CA certificates apply.
    pub authority: Option<&'a [u8]>,
    /// The token that the machine presents.
    pub token: Option<&'a Token>,
    /// The Ignition version of the stub.
    pub version: Version,
}

/// The default version, and the oldest one with all fields of a stub.
///
/// Differs: upstream writes 3.5.0; a stub has no field that 3.1.0 lacks, and so every Ignition since 2.3 reads it.
pub const VERSION: Version = Version::V3_1;

/// Why there is no stub.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StubError {
    /// The endpoint is not a host.
    #[error(
        "{found:?} is not a host; expected a name or an address, with a port if it is not {PORT}: host or host:port"
    )]
    Server { found: String },
    /// The pool has no valid name.
    #[error("{found:?} is not a pool name; expected a to z, 0 to 9, - and .")]
    Pool { found: String },
    /// The version lacks fields of a stub.
    #[error("a pointer config cannot be written in version {version}; expected one of {}", accepted())]
    Version { version: Version },
}

fn accepted() -> String {
    versions().map(Version::as_str).collect::<Vec<_>>().join(", ")
}

/// The versions that a stub can be written in: headers are known from 3.1 on.
pub fn versions() -> impl Iterator<Item = Version> {
    Version::WRITABLE.into_iter().filter(|version| *version >= VERSION)
}

impl Stub<'_> {
    /// The Ignition config.
    pub fn config(&self) -> Result<Value, StubError> {
        if !versions().any(|version| version == self.version) {
            return Err(StubError::Version { version: self.version });
        }
        if !is_pool_name(self.pool) {
            return Err(StubError::Pool { found: self.pool.to_owned() });
        }
        let mut reference = json!({"source": format!("https://{}/config/{}", authority_of(self.server)?, self.pool)});
        if let Some(token) = self.token {
            reference["httpHeaders"] =
                json!([{"name": "Authorization", "value": format!("Bearer {}", token.reveal())}]);
        }
        let mut config = json!({"ignition": {"version": self.version.as_str(), "config": {"merge": [reference]}}});
        if let Some(pem) = self.authority {
            let authorities = json!([{"source": data_url::encode(pem)}]);
            config["ignition"]["security"] = json!({"tls": {"certificateAuthorities": authorities}});
        }
        Ok(config)
    }
}

/// Whether this can be the name of a pool: a valid Kubernetes name without a special meaning in paths.
///
/// Looser than a DNS subdomain, whose every label ends in a letter or digit: a name such as `a..b` is harmless in a path, and no pool
/// has it.
pub fn is_pool_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends_plainly = |byte: Option<u8>| byte.is_some_and(is_plain);
    text.len() <= 253
        && ends_plainly(text.bytes().next())
        && ends_plainly(text.bytes().next_back())
        && text.bytes().all(|byte| is_plain(byte) || byte == b'-' || byte == b'.')
}

/// Host and port.
fn authority_of(server: &str) -> Result<String, StubError> {
    let found = || StubError::Server { found: server.to_owned() };
    let is_host = |text: &str| {
        let is_label = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !text.is_empty() && text.bytes().all(is_label)
    };
    if let Ok(address) = server.parse::<std::net::Ipv6Addr>() {
        return Ok(format!("[{address}]:{PORT}"));
    }
    if server.parse::<std::net::SocketAddr>().is_ok() {
        return Ok(server.to_owned());
    }
    if let Some(address) = server.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().map(|address| format!("[{address}]:{PORT}")).map_err(|_| found());
    }
    let (host, port) = match server.split_once(':') {
        None => (server, PORT),
        Some((host, port)) => (host, port.parse().map_err(|_| found())?),
    };
    if is_host(host) { Ok(format!("{host}:{port}")) } else { Err(found()) }
}
