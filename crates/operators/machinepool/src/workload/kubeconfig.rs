//! Kubeconfig: a client for a workload cluster from the Secret `<cluster>-kubeconfig`.
//!
//! - Nothing of the Secret is in an error but the address of the server and the names of contexts: errors are written here, and
//!   no parser's message is passed on, because it may quote what it cannot read.
//! - What would run a program or read a file of this process is refused: the Secret is written by others.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::{Request, StatusCode, Uri};
use k8s_openapi::ByteString;
use kube::client::{Body, ClientBuilder};
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use seaworthy_change::ObjectVersion;
use seaworthy_runtime::Key;
use seaworthy_values::error::with_causes;
use seaworthy_values::text::abbreviate;
use serde::Deserialize;
use tokio::time::timeout;

use super::connection_state::ProbeResult;

/// The key of the Secret that has the kubeconfig.
const SECRET_KEY: &str = "value";
/// How long reading the Secret may take.
const SECRET_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a probe may take.
///
/// Compat: as in upstream's cluster cache.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of the reason of a failure is repeated in conditions.
const MAX_REASON_CHARS: usize = 300;

/// The Secret with a kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub struct KubeconfigSecret {
    pub resource_version: String,
    /// The kubeconfig; `None` if the Secret lacks the key.
    value: Option<Vec<u8>>,
}

/// Without the value: what can be printed is printed one day.
impl fmt::Debug for KubeconfigSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KubeconfigSecret").field("resource_version", &self.resource_version).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct ReadSecret {
    metadata: ObjectVersion,
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}

/// The name of the Secret of a Cluster.
pub fn secret_name(cluster: &Key) -> String {
    format!("{}-kubeconfig", cluster.name)
}

/// Reads the Secret of a Cluster; `None` if there is none.
///
/// Differs: name and key are all that it needs, because the seed contract names nothing else; upstream finds only Secrets with the
/// label of the cluster.
pub async fn read_secret(client: &Client, cluster: &Key) -> Result<Option<KubeconfigSecret>, String> {
    let name = secret_name(cluster);
    let path = format!("/api/v1/namespaces/{}/secrets/{name}", cluster.namespace);
    let request = Request::get(path).body(Vec::new()).map_err(|_| format!("Secret {name} has no valid name"))?;
    // Read as text: kube logs the whole of a response that it cannot parse.
    let response = match timeout(SECRET_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(None),
        Ok(Err(error)) => return Err(format!("Secret {name} cannot be read: {}", reason(&error))),
        Err(_) => return Err(format!("Secret {name} cannot be read: no answer within {} s", SECRET_TIMEOUT.as_secs())),
    };
    let Ok(ReadSecret { metadata, mut data }) = serde_json::from_str(&response) else {
        return Err(format!("Secret {name} cannot be read: the answer is no Secret"));
    };
    Ok(Some(KubeconfigSecret {
        resource_version: metadata.resource_version.unwrap_or_default(),
        value: data.remove(SECRET_KEY).map(|value| value.0),
    }))
}

impl KubeconfigSecret {
    /// Whether both lead to the same server with the same credentials.
    pub fn has_value_of(&self, other: &KubeconfigSecret) -> bool {
        self.value == other.value
    }

    /// A client for the cluster, and the address of its server. It is free: nothing is sent yet.
    ///
    /// Differs: the address is used as it is, also where it is this management cluster's own, because the kubeconfig has all that
    /// is needed; upstream replaces address and authority by those of its own pod.
    pub async fn client(&self) -> Result<(Client, String), String> {
        let value = self
            .value
            .as_deref()
            .ok_or_else(|| format!("its Secret has no key {SECRET_KEY:?}; expected a kubeconfig there"))?;
        let kubeconfig = std::str::from_utf8(value).ok().and_then(|text| Kubeconfig::from_yaml(text).ok());
        let kubeconfig = kubeconfig.filter(|kubeconfig| !kubeconfig.clusters.is_empty()).ok_or_else(|| {
            format!("the key {SECRET_KEY:?} of its Secret has no kubeconfig; expected clusters, users and contexts as YAML or JSON")
        })?;
        checked(&kubeconfig).map_err(|problem| format!("its kubeconfig cannot be used: {problem}"))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| format!("its kubeconfig is incomplete: {}", incomplete(&error)))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A probe that fails is a failure, and a write is decided on again.
        config.default_retry = false;
        // One that the environment names is for this process's own cluster.
        config.proxy_url = None;
        let address = address(&config.cluster_url)?;
        let builder = ClientBuilder::try_from(config);
        // The error may be about a key.
        let builder = builder
            .map_err(|_| "its kubeconfig cannot be used: a certificate, a key or a token is not valid".to_owned())?;
        Ok((builder.build(), address))
    }
}

/// Checks the parts of a kubeconfig that are used.
fn checked(kubeconfig: &Kubeconfig) -> Result<(), String> {
    let name = kubeconfig.current_context.as_ref();
    let context = kubeconfig.contexts.iter().find(|context| Some(&context.name) == name);
    let Some(context) = context.and_then(|context| context.context.as_ref()) else { return Ok(()) };
    let clusters = kubeconfig.clusters.iter().filter(|cluster| cluster.name == context.cluster);
    for cluster in clusters.filter_map(|cluster| cluster.cluster.as_ref()) {
        check_cluster(cluster)?;
    }
    let users = kubeconfig.auth_infos.iter().filter(|user| Some(&user.name) == context.user.as_ref());
    for user in users.filter_map(|user| user.auth_info.as_ref()) {
        check_user(user)?;
    }
    Ok(())
}

fn check_cluster(cluster: &Cluster) -> Result<(), String> {
    if cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
        return Err("it has a proxy-url, which is not supported; expected a server that is reached directly".to_owned());
    }
    let is_file = cluster.certificate_authority.is_some() && cluster.certificate_authority_data.is_none();
    no_file(is_file, "certificate-authority")
}

/// Compat: plugins are refused upstream as well. Differs: so are files, because they are those of this process: a kubeconfig could
/// send its service account's token to any server.
fn check_user(user: &AuthInfo) -> Result<(), String> {
    for (is_set, what) in [(user.exec.is_some(), "exec"), (user.auth_provider.is_some(), "auth-provider")] {
        if is_set {
            return Err(format!(
                "its user has the plugin {what}, which is not run here; expected a certificate or a token"
            ));
        }
    }
    no_file(user.token_file.is_some(), "tokenFile")?;
    no_file(user.client_certificate.is_some() && user.client_certificate_data.is_none(), "client-certificate")?;
    no_file(user.client_key.is_some() && user.client_key_data.is_none(), "client-key")
}

fn no_file(is_file: bool, what: &str) -> Result<(), String> {
    match is_file {
        true => Err(format!("{what} is a file, which is not read here; expected the content in the kubeconfig itself")),
        false => Ok(()),
    }
}

/// The address of a server without a path.
fn address(server: &Uri) -> Result<String, String> {
    let expected = "expected https://, a host and a port";
    match (server.scheme_str(), server.authority()) {
        (Some(scheme @ ("https" | "http")), Some(authority)) if !authority.as_str().contains('@') => {
            Ok(format!("{scheme}://{authority}"))
        }
        (Some("https" | "http"), Some(_)) => {
            Err(format!("its kubeconfig cannot be used: the address of its server has credentials in it; {expected}"))
        }
        _ => Err(format!("its kubeconfig cannot be used: the address of its server is no URL; {expected}")),
    }
}

/// What a kubeconfig lacks.
fn incomplete(error: &KubeconfigError) -> String {
    let shown = |name: &str| abbreviate(name, 60).into_owned();
    match error {
        KubeconfigError::CurrentContextNotSet => "it has no current-context".to_owned(),
        KubeconfigError::LoadContext(name) => format!("it has no context {:?}", shown(name)),
        KubeconfigError::LoadClusterOfContext(name) => format!("it has no cluster {:?}", shown(name)),
        KubeconfigError::MissingClusterUrl => "its cluster has no server".to_owned(),
        KubeconfigError::ParseClusterUrl(_) => "the address of its server is no URL".to_owned(),
        KubeconfigError::LoadCertificateAuthority(_) | KubeconfigError::ParseCertificates(_) => {
            "its certificate authority is not valid".to_owned()
        }
        _ => "a part of it is not valid".to_owned(),
    }
}

/// Sends a request to a server. Any answer but a refusal of the credentials and a failure of the server shows that it lives: not
/// every server has something at its root, and not every user may see that.
///
/// Differs: an answer of 404 is one, because only the connection is probed; upstream never connects to such a server.
pub async fn probe(client: &Client) -> ProbeResult {
    let Ok(request) = Request::get("/").body(Body::empty()) else {
        return ProbeResult::Failed("no request can be made".to_owned());
    };
    match timeout(PROBE_TIMEOUT, client.send(request)).await {
        Ok(Ok(response)) => match response.status() {
            StatusCode::UNAUTHORIZED => ProbeResult::Unauthorized,
            status if status.is_server_error() => ProbeResult::Failed(format!("it answers {status}")),
            _ => ProbeResult::Alive,
        },
        Ok(Err(error)) => ProbeResult::Failed(reason(&error)),
        Err(_) => ProbeResult::Failed(format!("no answer within {} s", PROBE_TIMEOUT.as_secs())),
    }
}

/// Why a request failed, for conditions: of an answer its code alone, since a server may repeat what it was sent.
pub fn reason(error: &kube::Error) -> String {
    let text = match error {
        kube::Error::Api(status) => {
            let code = StatusCode::from_u16(status.code);
            return code.map_or_else(|_| "it answers with an error".to_owned(), |code| format!("it answers {code}"));
        }
        kube::Error::Service(error) => with_causes(&**error),
        kube::Error::HyperError(error) => with_causes(error),
        _ => return "its answer cannot be read".to_owned(),
    };
    abbreviate(&text, MAX_REASON_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const TOKEN: &str = "top-secret-token";

    fn kubeconfig(cluster: Value, user: Value) -> Vec<u8> {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        });
        text.to_string().into_bytes()
    }

    async fn refusal(value: Option<Vec<u8>>) -> String {
        let secret = KubeconfigSecret { resource_version: "1".to_owned(), value };
        assert!(!format!("{secret:?}").contains(TOKEN));
        match secret.client().await {
            Ok(_) => panic!("it must be refused"),
            Err(reason) => reason,
        }
    }

    fn server() -> Value {
        json!({"server": "https://127.0.0.1:6443"})
    }

    #[rstest]
    #[case::exec(server(), json!({"exec": {"command": "steal", "apiVersion": "v1"}}), "plugin exec")]
    #[case::auth_provider(server(), json!({"auth-provider": {"name": "gcp"}}), "plugin auth-provider")]
    #[case::token_file(server(), json!({"tokenFile": "/var/run/token"}), "tokenFile is a file")]
    #[case::certificate_file(server(), json!({"client-certificate": "/a"}), "client-certificate is a file")]
    #[case::key_file(server(), json!({"client-key": "/a"}), "client-key is a file")]
    #[case::authority_file(json!({"server": "https://a", "certificate-authority": "/a"}), json!({}), "certificate-authority is a file")]
    #[case::proxy(json!({"server": "https://a", "proxy-url": "http://b"}), json!({}), "proxy-url")]
    #[case::no_server(json!({}), json!({}), "no server")]
    #[case::credentials_in_the_address(json!({"server": "https://u:top-secret-token@a"}), json!({}), "has credentials")]
    #[case::other_protocol(json!({"server": "ftp://a"}), json!({}), "no URL")]
    #[case::broken_authority(json!({"server": "https://a", "certificate-authority-data": "???"}), json!({}), "authority is not valid")]
    #[tokio::test]
    async fn kubeconfig_that_cannot_be_used_is_refused(
        #[case] cluster: Value,
        #[case] mut user: Value,
        #[case] why: &str,
    ) {
        user["token"] = json!(TOKEN);
        let reason = refusal(Some(kubeconfig(cluster, user))).await;
        assert!(reason.contains(why) && !reason.contains(TOKEN), "{reason}");
    }

    #[rstest]
    #[case::absent(None, "no key \"value\"")]
    #[case::text(Some(TOKEN), "has no kubeconfig")]
    #[case::other_yaml(Some("users: top-secret-token"), "has no kubeconfig")]
    #[case::no_context(Some("clusters: [{name: a, cluster: {server: 'https://a'}}]"), "no current-context")]
    #[case::other_context(
        Some("current-context: b\nclusters: [{name: a, cluster: {server: 'https://a'}}]"),
        "no context \"b\""
    )]
    #[tokio::test]
    async fn secret_without_a_kubeconfig_is_refused(#[case] value: Option<&str>, #[case] why: &str) {
        let reason = refusal(value.map(|value| value.as_bytes().to_vec())).await;
        assert!(reason.contains(why) && !reason.contains(TOKEN), "{reason}");
    }

    #[tokio::test]
    async fn server_that_does_not_answer_is_named_without_credentials() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let value = Some(kubeconfig(json!({"server": server}), json!({"token": TOKEN})));
        let (client, address) = KubeconfigSecret { resource_version: "1".to_owned(), value }.client().await.unwrap();
        assert_eq!(address, server);
        let ProbeResult::Failed(reason) = probe(&client).await else { panic!("nothing listens there") };
        assert!(reason.contains("refused") && !reason.contains(TOKEN), "{reason}");
    }

    #[test]
    fn of_an_answer_only_the_code_is_repeated() {
        let status = kube::core::Status::failure(&format!("your token was {TOKEN}"), "Unauthorized").with_code(403);
        assert_eq!(reason(&kube::Error::Api(Box::new(status))), "it answers 403 Forbidden");
    }
}
