//! The kubeconfig with which a new machine's kubelet asks to join.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}; the folder of the bootstrap token has the files token and ca.crt", path.display())]
pub struct NoToken {
    path: PathBuf,
    cause: std::io::Error,
}

/// What makes a kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// Where the API server is.
    pub server: String,
    /// Who vouches for it, as PEM.
    pub authority: Vec<u8>,
    /// What the kubelet says.
    pub token: String,
}

impl Kubeconfig {
    /// With what lies in the folder of the bootstrap token.
    ///
    /// `authority` comes first where there is one: it is kept up to date, and what was mounted may be older.
    pub fn of_folder(folder: &Path, server: &str, authority: Option<&[u8]>) -> Result<Kubeconfig, NoToken> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|cause| NoToken { path, cause })
        };
        // A file that is being written is empty first.
        let filled = |name: &str| {
            let bytes = read(name)?.trim_ascii().to_vec();
            match bytes.is_empty() {
                true => {
                    Err(NoToken { path: folder.join(name), cause: Error::new(ErrorKind::InvalidData, "it is empty") })
                }
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

    /// The file's text.
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

/// Without the token: what can be printed is printed one day.
impl std::fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}
