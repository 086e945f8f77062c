//! Cluster access: a client from a kubeconfig, and error messages for refused and failed calls.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use kube::Client;
use kube::Config;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use seaworthy_values::error::with_causes;
use tower::BoxError;
use tower::util::MapErrLayer;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An error that a user has to fix: a sentence that names the cause and the next step.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClusterError(pub String);

/// A client for the cluster of a kubeconfig: of the given file, else of `KUBECONFIG`, of the user's own file, or of the pod
/// that this runs in.
///
/// # Errors
///
/// If there is no kubeconfig, or it is incomplete.
pub async fn connect(file: Option<&Path>, context: Option<&str>) -> Result<Client, ClusterError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match file {
        Some(path) => {
            let file = path.display();
            let read = Kubeconfig::read_from(path).map_err(|error| {
                ClusterError(format!(
                    "--kubeconfig {file} cannot be read: {}; pass another file",
                    kubeconfig_error(&error)
                ))
            })?;
            config_of(read, &options, &format!("kubeconfig {file}")).await?
        }
        None => match Kubeconfig::read() {
            Ok(read) => config_of(read, &options, "the kubeconfig").await?,
            Err(error) => Config::incluster().map_err(|_| no_kubeconfig(&error))?,
        },
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let named = MapErrLayer::new(move |error: BoxError| {
        // Errors of the client itself, about credentials for instance, are complete.
        if error.is::<kube::Error>() { error } else { UnreachableServer { server: server.clone(), error }.into() }
    });
    let builder = ClientBuilder::try_from(config);
    let builder =
        builder.map_err(|error| ClusterError(format!("the kubeconfig cannot be used: {}", error_chain(&error))))?;
    Ok(builder.with_layer(&named).build())
}

/// A failed connection with the server's name, which the errors of connections lack.
#[derive(Debug, thiserror::Error)]
#[error("{server}: {}", error_chain(&**error))]
struct UnreachableServer {
    server: String,
    error: BoxError,
}

/// Why no kubeconfig was found. A file that exists but is no kubeconfig is another error than no file.
fn no_kubeconfig(error: &KubeconfigError) -> ClusterError {
    let variable = std::env::var("KUBECONFIG").ok().filter(|files| !files.is_empty());
    ClusterError(match (error, variable) {
        (KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath, None) => {
            let why = error_chain(error);
            format!("no kubeconfig found ({why}); pass one with --kubeconfig FILE, or set KUBECONFIG")
        }
        (error, variable) => {
            let source = variable
                .map_or_else(|| "the kubeconfig in your home folder".to_owned(), |files| format!("KUBECONFIG={files}"));
            let why = kubeconfig_error(error);
            format!("{source} cannot be used: {why}; correct it, or pass another file with --kubeconfig FILE")
        }
    })
}

/// Why a kubeconfig cannot be used, without its path and without an excerpt: it has credentials in it.
fn kubeconfig_error(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::Parse(error) => format!("it is not a valid kubeconfig: {}", error.without_snippet()),
        other => error_chain(other),
    }
}

/// The modification times of a kubeconfig and of the files that it names. A client is outdated when they differ from those at
/// its creation.
pub fn modification_times(file: &Path) -> Vec<(PathBuf, Option<SystemTime>)> {
    let mut files = vec![file.to_owned()];
    // One that cannot be read just now names no files: that differs from what it named before.
    let read = Kubeconfig::read_from(file).ok();
    for user in read.iter().flat_map(|read| &read.auth_infos).filter_map(|user| user.auth_info.as_ref()) {
        let named = [&user.client_certificate, &user.client_key, &user.token_file];
        files.extend(named.into_iter().flatten().map(PathBuf::from));
    }
    let authorities = read.iter().flat_map(|read| &read.clusters).filter_map(|cluster| cluster.cluster.as_ref());
    files.extend(authorities.filter_map(|cluster| cluster.certificate_authority.as_ref()).map(PathBuf::from));
    let time = |file: &PathBuf| std::fs::metadata(file).and_then(|it| it.modified()).ok();
    files.into_iter().map(|file| (file.clone(), time(&file))).collect()
}

async fn config_of(read: Kubeconfig, options: &KubeConfigOptions, source: &str) -> Result<Config, ClusterError> {
    let known: Vec<String> = read.contexts.iter().map(|context| context.name.clone()).collect();
    if let Some(wanted) = &options.context
        && !known.contains(wanted)
    {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(ClusterError(format!("{source} has no context {wanted:?}; its contexts are: {known}")));
    }
    Config::from_custom_kubeconfig(read, options)
        .await
        .map_err(|error| ClusterError(format!("{source} is incomplete: {}", error_chain(&error))))
}

/// The message for a refused or failed call, with the next step. `doing` is the attempted action: `list machineconfigpools`.
pub fn call_error(doing: &str, error: &kube::Error) -> ClusterError {
    ClusterError(match error {
        kube::Error::Api(status) if status.code == 401 => format!(
            "cannot {doing}: the cluster does not accept your credentials ({}); log in again, or choose another context with --context",
            status.message
        ),
        kube::Error::Api(status) if status.code == 403 => format!(
            "cannot {doing}: {}; ask for a role that allows it, or choose another user with --kubeconfig or --context",
            status.message
        ),
        kube::Error::Api(status) if status.code == 404 => format!(
            "cannot {doing}: the cluster does not have that ({}); `seaworthy crds | kubectl apply --server-side -f -` installs \
             the kinds",
            status.message.trim()
        ),
        kube::Error::Api(status) => format!("cannot {doing}: {} ({})", status.message, status.reason),
        other => format!(
            "cannot {doing}: the server cannot be reached: {}; is it running, and is it the right one? `kubectl config view \
             --minify` shows which server the context uses",
            match other {
                kube::Error::Service(error) => error_chain(&**error),
                other => error_chain(other),
            }
        ),
    })
}

/// An error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    // Some errors put paths into two pairs of quotes.
    with_causes(error).replace("'\"", "\"").replace("\"'", "\"")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::Api;
    use kube::api::ListParams;

    use super::*;

    #[test]
    fn renewed_certificate_changes_the_modification_times_of_its_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let (config, certificate) = (folder.path().join("kubeconfig"), folder.path().join("current.pem"));
        let text = "apiVersion: v1\nkind: Config\nusers:\n- name: node\n  user: {client-certificate: current.pem}\n";
        std::fs::write(&config, text).unwrap();
        std::fs::write(&certificate, "old").unwrap();
        let before = modification_times(&config);
        assert_eq!(before.iter().map(|(file, _)| file.as_path()).collect::<Vec<_>>(), [&config, &certificate]);
        assert_eq!(modification_times(&config), before);
        let file = std::fs::File::options().write(true).open(&certificate).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
        assert_ne!(modification_times(&config), before);
    }

    #[tokio::test]
    async fn unreachable_server_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap());
        drop(listener);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        std::fs::write(&file, text).unwrap();
        let client = connect(Some(&file), None).await.unwrap();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let logged = api.list(&ListParams::default()).await.unwrap_err().to_string();
        assert!(logged.contains(&server) && logged.contains("refused"), "{logged}");
        let error = api.list(&ListParams::default()).await.unwrap_err();
        let message = call_error("list CustomResourceDefinitions", &error).to_string();
        assert!(message.contains(&format!("cannot be reached: {server}")), "{message}");
        assert!(message.contains("refused") && message.contains("is it running"), "{message}");
    }
}
