//! The way to a cluster: a client from a kubeconfig, and what is said when the way is blocked.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use kube::Client;
use kube::Config;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::BoxError;
use tower::util::MapErrLayer;

/// How long a server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something that a person has to put right: a sentence that names the culprit and the next step.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Blocked(pub String);

/// A client for the cluster that a kubeconfig leads to: the file, or what `KUBECONFIG`, the user's own file or the pod that
/// this runs in say.
///
/// # Errors
///
/// If there is no kubeconfig, or it is not complete.
pub async fn connect(file: Option<&Path>, context: Option<&str>) -> Result<Client, Blocked> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match file {
        Some(path) => {
            let place = path.display();
            let read = Kubeconfig::read_from(path)
                .map_err(|error| Blocked(format!("--kubeconfig {place} cannot be read: {}", said(&error))))?;
            of(read, &options, &format!("kubeconfig {place}")).await?
        }
        None => match Kubeconfig::read() {
            Ok(read) => of(read, &options, "the kubeconfig").await?,
            Err(error) => Config::incluster().map_err(|_| nothing_found(&error))?,
        },
    };
    config.connect_timeout = Some(PATIENCE);
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let named = MapErrLayer::new(move |error: BoxError| {
        // What the client itself says, of credentials for instance, is whole.
        if error.is::<kube::Error>() { error } else { Unreached { server: server.clone(), error }.into() }
    });
    let builder = ClientBuilder::try_from(config);
    let builder = builder.map_err(|error| Blocked(format!("the kubeconfig cannot be used: {}", said(&error))))?;
    Ok(builder.with_layer(&named).build())
}

/// A call that came to nobody, and to whom it was: the errors of a connection name no server.
#[derive(Debug, thiserror::Error)]
#[error("{server}: {}", said(&**error))]
struct Unreached {
    server: String,
    error: BoxError,
}

/// Why no kubeconfig was found where it is looked for. A file that is there and no kubeconfig is another matter than none.
fn nothing_found(error: &KubeconfigError) -> Blocked {
    let why = said(error);
    let place = match std::env::var("KUBECONFIG") {
        Ok(files) if !files.is_empty() => format!("KUBECONFIG={files}"),
        _ => "the kubeconfig in your home folder".to_owned(),
    };
    Blocked(match error {
        KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath => format!(
            "there is no kubeconfig to find a cluster with ({why}); give one with --kubeconfig FILE, or set KUBECONFIG"
        ),
        _ => format!("{place} cannot be used: {why}; name another file with --kubeconfig FILE"),
    })
}

/// When a kubeconfig and the files that it names were written last: whoever holds a client from it compares.
pub fn written(file: &Path) -> Vec<(PathBuf, Option<SystemTime>)> {
    let mut files = vec![file.to_owned()];
    // One that cannot be read just now names nothing: that differs from what it named before.
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

async fn of(read: Kubeconfig, options: &KubeConfigOptions, place: &str) -> Result<Config, Blocked> {
    let known: Vec<String> = read.contexts.iter().map(|context| context.name.clone()).collect();
    if let Some(wanted) = &options.context
        && !known.contains(wanted)
    {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Blocked(format!("{place} has no context {wanted:?}; its contexts are: {known}")));
    }
    Config::from_custom_kubeconfig(read, options)
        .await
        .map_err(|error| Blocked(format!("{place} is not complete: {}", said(&error))))
}

/// What a refused or failed call means, and what to do about it. `doing` says what was tried: `list MachineConfigPools`.
pub fn blocked(doing: &str, error: &kube::Error) -> Blocked {
    Blocked(match error {
        kube::Error::Api(status) if status.code == 401 => format!(
            "cannot {doing}: the cluster does not know who you are ({}); log in again, or choose another context with --context",
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
             --minify` shows where the context leads",
            match other {
                kube::Error::Service(error) => said(&**error),
                other => said(other),
            }
        ),
    })
}

/// An error with its causes, each said once.
fn said(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = next.source();
    }
    // Paths come in two pairs of quotes.
    said.replace("'\"", "\"").replace("\"'", "\"")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::Api;
    use kube::api::ListParams;

    use super::*;

    #[test]
    fn a_certificate_that_is_renewed_is_seen_through_the_kubeconfig_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let (config, certificate) = (folder.path().join("kubeconfig"), folder.path().join("current.pem"));
        let text = "apiVersion: v1\nkind: Config\nusers:\n- name: node\n  user: {client-certificate: current.pem}\n";
        std::fs::write(&config, text).unwrap();
        std::fs::write(&certificate, "old").unwrap();
        let before = written(&config);
        assert_eq!(before.iter().map(|(file, _)| file.as_path()).collect::<Vec<_>>(), [&config, &certificate]);
        assert_eq!(written(&config), before);
        let file = std::fs::File::options().write(true).open(&certificate).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
        assert_ne!(written(&config), before);
    }

    #[tokio::test]
    async fn server_that_is_not_there_is_named() {
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
        let blocked = blocked("list CustomResourceDefinitions", &error).to_string();
        assert!(blocked.contains(&format!("cannot be reached: {server}")), "{blocked}");
        assert!(blocked.contains("refused") && blocked.contains("is it running"), "{blocked}");
    }
}
