//! Options of `daemon`, `server` and `up`.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use seaworthy_fetch::HostPattern;

use super::LogFormat;

/// Options of `daemon`.
#[derive(Debug, Args)]
pub struct Daemon {
    /// Name of the Node object of this machine
    #[arg(long, value_name = "NAME", required_unless_present_any = ["first_boot", "diff"])]
    pub node_name: Option<String>,
    /// Root filesystem of the machine
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = ValueHint::DirPath)]
    pub root: PathBuf,
    /// Path to the node's own kubeconfig file [default: var/lib/kubelet/kubeconfig under --root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Revert drift on the machine instead of only reporting it
    #[arg(long)]
    pub repair: bool,
    /// Roll back an update that a power cut interrupted, complete the first boot, and exit; runs before the kubelet
    /// starts
    #[arg(long, conflicts_with_all = ["node_name", "kubeconfig", "repair"])]
    pub first_boot: bool,
    /// Show how the machine differs from its current configuration, and exit: 0 if it does not differ, 1 if it does, 2
    /// on failure. File contents are shown unredacted, secrets included
    #[arg(long, conflicts_with_all = ["node_name", "kubeconfig", "repair", "first_boot"])]
    pub diff: bool,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Options of `server`.
#[derive(Debug, Args)]
pub struct Server {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:22623", value_parser = socket_address)]
    pub listen: SocketAddr,
    /// Serving certificate followed by its intermediates; reloaded when the file changes
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.crt", value_hint = ValueHint::FilePath)]
    pub cert: PathBuf,
    /// Private key of the serving certificate
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.key", value_hint = ValueHint::FilePath)]
    pub key: PathBuf,
    /// Minimum TLS version
    #[arg(long, value_enum, default_value_t = TlsVersion::Tls12)]
    pub tls_min_version: TlsVersion,
    /// Accept machines that present one of these tokens, one per line; reloaded when the file changes. While the file
    /// is empty or missing, no token is accepted
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Accept machines that present a client certificate signed by this CA
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub client_ca: Option<PathBuf>,
    /// Serve any client without authentication, secrets included
    #[arg(long, conflicts_with_all = ["token_file", "client_ca"])]
    pub open: bool,
    /// Requests per second allowed for each client address, with bursts of ten times as many; a tenth of both without a
    /// valid token. 0 disables the limit
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub rate_limit: u32,
    /// Serve /metrics, /healthz and /readyz on this address, without TLS [default: disabled]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub metrics: Option<SocketAddr>,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// URL of the API server that new machines connect to; required in a cluster
    #[arg(
        long, value_name = "URL", required_unless_present = "bootstrap", conflicts_with = "bootstrap",
        value_parser = apiserver_url
    )]
    pub apiserver_url: Option<String>,
    /// Folder with the bootstrap credentials of new machines: `token` and `ca.crt`
    #[arg(
        long, value_name = "DIR", default_value = "/etc/mcs/bootstrap-token", conflicts_with = "bootstrap",
        value_hint = ValueHint::DirPath
    )]
    pub bootstrap_token: PathBuf,
    /// Path to the kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the ConfigMap kubeconfig-data, which holds the API server's current CA
    #[arg(long, value_name = "NAME", default_value = "seaworthy-system", conflicts_with = "bootstrap")]
    pub namespace: String,
    /// Serve from this folder (machine-pools, machine-configs, controller-config) instead of from a cluster
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub bootstrap: Option<PathBuf>,
    /// With --bootstrap: kubeconfig that new machines join with
    #[arg(
        long, value_name = "FILE", default_value = "/etc/kubernetes/kubeconfig", requires = "bootstrap",
        value_hint = ValueHint::FilePath
    )]
    pub node_kubeconfig: PathBuf,
    /// With --bootstrap: registry and the file with the CA that signs its certificate; can be repeated
    #[arg(long, value_name = "REGISTRY=FILE", requires = "bootstrap")]
    pub registry_ca: Vec<String>,
}

/// Options of `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Number of simulated machines: one master, or three masters from six machines on; 0 for none [default: 9, or the
    /// machines already in the data folder]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub nodes: Option<u16>,
    /// Data folder; created if missing [default: ./seaworthy-data; with --demo a temporary folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// Address that the API server listens on; port 0 picks a free port [default: 127.0.0.1:6443; with --demo a free
    /// port]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub listen: Option<SocketAddr>,
    /// Address that the Ignition endpoint listens on [default: 127.0.0.1:22623; with --demo a free port]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub ignition_listen: Option<SocketAddr>,
    /// Allow remote content from this host even if its address is loopback, link-local or a metadata service; can be
    /// repeated
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<HostPattern>,
    /// Run a scripted demo and exit: a change and its plan, its roll-out, a bad change that one node refuses, and the
    /// rollback
    #[arg(long)]
    pub demo: bool,
}

/// A TLS version, named as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3
    #[value(name = "VersionTLS12")]
    Tls12,
    /// TLS 1.3 only
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// Parses a listen address.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected ADDRESS:PORT with a numeric address, such as 127.0.0.1:6443 or [::]:6443".to_owned())
}

/// Parses the URL of an API server as written into kubeconfigs. A machine with an invalid one never joins and cannot
/// report the reason.
pub fn apiserver_url(text: &str) -> Result<String, String> {
    let accepted = "expected https://HOST or https://HOST:PORT";
    let rest = text.strip_prefix("https://").ok_or_else(|| format!("missing https://; {accepted}"))?;
    let authority = rest.split('/').next().unwrap_or_default();
    // In brackets an IPv6 address has colons of its own.
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let is_v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).map(str::parse::<Ipv6Addr>);
    let is_host = match is_v6 {
        Some(address) => address.is_ok(),
        None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    if !is_host {
        return Err(format!("invalid host {host:?}; {accepted}"));
    }
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err(format!("invalid port {:?}; {accepted}", port.unwrap_or_default()));
    }
    if rest.bytes().any(|byte| !byte.is_ascii_graphic() || b"?#\"\\".contains(&byte)) {
        return Err(format!("only a host, a port and a path are allowed; {accepted}"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_an_api_server_is_whole() {
        for good in [
            "https://api.example.com:6443",
            "https://10.0.0.1",
            "https://[fd00::1]:6443",
            "https://[fd00::1]",
            "https://a/k8s/c",
        ] {
            assert_eq!(apiserver_url(good).as_deref(), Ok(good));
        }
        for bad in [
            "api.example.com:6443",
            "http://api.example.com:6443",
            "https://",
            "https://:6443",
            "https://a:b",
            "https://a:0",
            "https://a:70000",
            "https://fd00::1",
            "https://[fd00::x]:6443",
            "https://user@a:6443",
            "https://a b",
            "https://a/x?y",
        ] {
            assert!(apiserver_url(bad).is_err_and(|error| error.contains("expected https://HOST")), "{bad}");
        }
    }
}
