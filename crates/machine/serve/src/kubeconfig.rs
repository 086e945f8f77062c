//! [`Kubeconfig`]: the bootstrap kubeconfig, with which a new machine's kubelet joins the cluster.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}; the bootstrap token folder must have the files token and ca.crt", path.display())]
pub struct TokenFolderError {
    path: PathBuf,
    cause: std::io::Error,
}

/// The contents of a bootstrap kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// URL of the API server.
    pub server: String,
    /// The CA of the API server, as PEM.
    pub authority: Vec<u8>,
    /// The kubelet's bootstrap token.
    pub token: String,
}

impl Kubeconfig {
    /// Reads the bootstrap token folder.
    ///
    /// `authority` takes precedence over `ca.crt`: it is kept up to date, and the mounted file may be older.
    pub fn of_folder(folder: &Path, server: &str, authority: Option<&[u8]>) -> Result<Kubeconfig, TokenFolderError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|cause| TokenFolderError { path, cause })
        };
        // A file that is being written is empty first.
        let filled = |name: &str| {
            let bytes = read(name)?.trim_ascii().to_vec();
            match bytes.is_empty() {
                true => Err(TokenFolderError {
                    path: folder.join(name),
                    cause: Error::new(ErrorKind::InvalidData, "it is empty"),
                }),
                false => Ok(bytes),
            }
        };
        let token = String::from_utf8_lossy(&filled("token")?).into_owned();
        let authority = match authority {
            Some(authority) => authority.to_vec(),
            None => filled("ca.crt").and_then(|_| read("ca.crt"))?,
        };
        Ok(Kubeconfig { server: server.to_owned(), authority, token })
    }

    /// The YAML document.
    pub fn text(&self) -> String {
        // A JSON string is a YAML one, whatever is in it.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: local\n  cluster:\n    server: {}\n    \
             certificate-authority-data: {}\nusers:\n- name: kubelet\n  user:\n    token: {}\ncontexts:\n- name: kubelet\n  \
             context:\n    cluster: local\n    user: kubelet\ncurrent-context: kubelet\n",
            quoted(&self.server),
            STANDARD.encode(&self.authority),
            quoted(&self.token),
        )
    }
}

/// Without the token, so that it cannot be logged.
impl std::fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}
