//! The endpoint's certificate: read from files, and again when they change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, SupportedProtocolVersion};
use seaworthy_listen::tls::Part;
use seaworthy_listen::{Keypair, TlsError, tls};

/// Where the certificate lies, and whose clients are known.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate, with what leads from it to its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who vouches for clients; without it none is known by a certificate.
    pub clients: Option<PathBuf>,
}

impl Files {
    /// Those that something is read from, with the options that name them.
    fn named(&self, part: Part) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        match (part, &self.clients) {
            (Part::Certificate, _) => format!("--cert {certificate}"),
            (Part::Key, _) => format!("--key {key}"),
            (Part::Clients, Some(clients)) => format!("--client-ca {}", clients.display()),
            (Part::Keypair | Part::Versions | Part::Clients, _) => format!("--cert {certificate} and --key {key}"),
        }
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// What they have does not make a server.
    #[error("{}: {cause}", files.named(cause.part))]
    Tls {
        /// Which.
        files: Box<Files>,
        /// What is wrong.
        cause: TlsError,
    },
}

/// The certificate that is shown now.
pub struct Certificates {
    files: Files,
    versions: &'static [&'static SupportedProtocolVersion],
    shown: RwLock<Shown>,
}

struct Shown {
    texts: Texts,
    config: Arc<ServerConfig>,
}

#[derive(PartialEq, Eq)]
struct Texts {
    certificate: String,
    key: String,
    clients: Option<String>,
}

impl Certificates {
    /// Reads the files. `versions` are those of TLS that are spoken.
    pub fn load(
        files: Files,
        versions: &'static [&'static SupportedProtocolVersion],
    ) -> Result<Certificates, CertificateError> {
        let texts = Texts::read(&files)?;
        let config = texts.config(&files, versions)?;
        Ok(Certificates { files, versions, shown: RwLock::new(Shown { texts, config }) })
    }

    /// The one to shake hands with.
    pub fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// Reads the files again, and says whether there is a new certificate. The old one stays as long as a new one cannot be
    /// used: key and certificate are not replaced at the same moment.
    pub fn reload(&self) -> Result<bool, CertificateError> {
        let texts = Texts::read(&self.files)?;
        if self.shown.read().unwrap_or_else(PoisonError::into_inner).texts == texts {
            return Ok(false);
        }
        let config = texts.config(&self.files, self.versions)?;
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Shown { texts, config };
        Ok(true)
    }
}

impl Texts {
    fn read(files: &Files) -> Result<Texts, CertificateError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|cause| CertificateError::File { path: path.to_owned(), cause })
        };
        Ok(Texts {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            clients: files.clients.as_deref().map(read).transpose()?,
        })
    }

    fn config(
        &self,
        files: &Files,
        versions: &'static [&'static SupportedProtocolVersion],
    ) -> Result<Arc<ServerConfig>, CertificateError> {
        let keypair = Keypair { certificates: &self.certificate, key: &self.key };
        // HTTP/2 is not spoken: a machine asks once.
        let config = tls::config(keypair, self.clients.as_deref(), versions, &["http/1.1"]);
        let mut config = config.map_err(|cause| CertificateError::Tls { files: Box::new(files.clone()), cause })?;
        // Nor are sessions taken up again, for the same reason: what would be kept for that is of no use to anybody.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}
