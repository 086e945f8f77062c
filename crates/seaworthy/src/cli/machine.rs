//! What machines boot from, what runs on them, and machines that are simulated.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use seaworthy_fetch::HostPattern;

use super::LogFormat;

/// Options of `daemon`.
#[derive(Debug, Args)]
pub struct Daemon {
    /// The node that this machine is
    #[arg(long, value_name = "NAME", required_unless_present_any = ["first_boot", "diff"])]
    pub node_name: Option<String>,
    /// The root filesystem of the machine
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = ValueHint::DirPath)]
    pub root: PathBuf,
    /// The node's own credentials [default: var/lib/kubelet/kubeconfig below --root]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// Put right what somebody has changed on the machine, rather than only report it
    #[arg(long)]
    pub repair: bool,
    /// Before the kubelet starts: put back what a power cut has left half-done, complete what Ignition could not do, and end
    #[arg(long, conflicts_with_all = ["node_name", "kubeconfig", "repair"])]
    pub first_boot: bool,
    /// Show how the machine differs from the configuration that it is in, and end: 0 if it does not, 1 if it does, 2 if that
    /// cannot be seen. Files are shown as they are, secrets included
    #[arg(long, conflicts_with_all = ["node_name", "kubeconfig", "repair", "first_boot"])]
    pub diff: bool,
    /// How to log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Options of `server`.
#[derive(Debug, Args)]
pub struct Server {
    /// Where to listen; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:22623", value_parser = socket_address)]
    pub listen: SocketAddr,
    /// The endpoint's certificate, with what leads from it to its authority; read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.crt", value_hint = ValueHint::FilePath)]
    pub cert: PathBuf,
    /// The certificate's key
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/mcs/tls.key", value_hint = ValueHint::FilePath)]
    pub key: PathBuf,
    /// The oldest version of TLS that is spoken
    #[arg(long, value_enum, default_value_t = TlsVersion::Tls12)]
    pub tls_min_version: TlsVersion,
    /// Serve machines that show one of these tokens, one to a line; read again when it changes, and none counts when it is empty or gone
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Serve machines that show a certificate of this authority
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub client_ca: Option<PathBuf>,
    /// Serve everyone who reaches the port, secrets included
    #[arg(long, conflicts_with_all = ["token_file", "client_ca"])]
    pub open: bool,
    /// How many requests a second one address may make in the long run, with ten times as many at once, and a tenth of both
    /// where no right token is shown; 0 for any number
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pub rate_limit: u32,
    /// Answer /metrics, /healthz and /readyz here, without TLS [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub metrics: Option<SocketAddr>,
    /// How to log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Where new machines find the API server; required in a cluster
    #[arg(
        long, value_name = "URL", required_unless_present = "bootstrap", conflicts_with = "bootstrap",
        value_parser = apiserver_url
    )]
    pub apiserver_url: Option<String>,
    /// The folder with the token that new machines join with, `token`, and with `ca.crt`
    #[arg(
        long, value_name = "DIR", default_value = "/etc/mcs/bootstrap-token", conflicts_with = "bootstrap",
        value_hint = ValueHint::DirPath
    )]
    pub bootstrap_token: PathBuf,
    /// How to reach the cluster [default: KUBECONFIG, ~/.kube/config, or the service account of the pod]
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap", value_hint = ValueHint::FilePath)]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the ConfigMap kubeconfig-data, which has the API server's newest authority
    #[arg(long, value_name = "NAME", default_value = "seaworthy-system", conflicts_with = "bootstrap")]
    pub namespace: String,
    /// Serve from this folder (machine-pools, machine-configs, controller-config) instead of a cluster
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub bootstrap: Option<PathBuf>,
    /// With --bootstrap: the kubeconfig that new machines join with
    #[arg(
        long, value_name = "FILE", default_value = "/etc/kubernetes/kubeconfig", requires = "bootstrap",
        value_hint = ValueHint::FilePath
    )]
    pub node_kubeconfig: PathBuf,
    /// With --bootstrap: a registry and the file of the authority that vouches for it; may be repeated
    #[arg(long, value_name = "REGISTRY=FILE", requires = "bootstrap")]
    pub registry_ca: Vec<String>,
}

/// Options of `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// How many machines to simulate: one is a master, with six and more three are; 0 for none [default: 9, or those that the
    /// folder has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub nodes: Option<u16>,
    /// Where everything is kept; made if it is not there [default: ./seaworthy-data; with --demo one that
    /// is removed at the end]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data: Option<PathBuf>,
    /// Where the API server listens; port 0 takes any free one [default: 127.0.0.1:6443, any free one with --demo]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub listen: Option<SocketAddr>,
    /// Where the Ignition endpoint listens [default: 127.0.0.1:22623, any free one with --demo]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub ignition_listen: Option<SocketAddr>,
    /// Let remote content come from this host although its address is a loopback, link-local or metadata one; may be repeated
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<HostPattern>,
    /// Play a short story, and end: a change and its plan, its roll-out, a bad change that one node refuses, and the way back
    #[arg(long)]
    pub demo: bool,
}

/// A version of TLS, by the name that Kubernetes has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// 1.2 and 1.3
    #[value(name = "VersionTLS12")]
    Tls12,
    /// 1.3 alone
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// Where to listen.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "accepted is ADDRESS:PORT such as 127.0.0.1:6443 or [::]:6443, the address as numbers".to_owned())
}

/// The address of an API server, as it goes into kubeconfigs: a machine with a wrong one never joins, and cannot say why.
pub fn apiserver_url(text: &str) -> Result<String, String> {
    let accepted = "accepted is https://HOST or https://HOST:PORT";
    let rest = text.strip_prefix("https://").ok_or_else(|| format!("it does not begin with https://; {accepted}"))?;
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
        return Err(format!("{host:?} is no host; {accepted}"));
    }
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err(format!("{:?} is no port; {accepted}", port.unwrap_or_default()));
    }
    if rest.bytes().any(|byte| !byte.is_ascii_graphic() || b"?#\"\\".contains(&byte)) {
        return Err(format!("it has more than a host, a port and a path; {accepted}"));
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
            assert!(apiserver_url(bad).is_err_and(|error| error.contains("accepted is https://HOST")), "{bad}");
        }
    }
}
