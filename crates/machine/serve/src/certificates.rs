//! [`Certificates`]: the endpoint's certificate, read from files, and again when they change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, SupportedProtocolVersion};
use seaworthy_listen::tls::TlsInput;
use seaworthy_listen::{Keypair, TlsError, tls};

/// The files of the certificate and of the client CA.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The client CA; without it no client is authenticated by a certificate.
    pub client_ca: Option<PathBuf>,
}

impl CertificateFiles {
    /// The files of an input, with the options that name them.
    fn named(&self, input: TlsInput) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        match (input, &self.client_ca) {
            (TlsInput::Certificate, _) => format!("--cert {certificate}"),
            (TlsInput::Key, _) => format!("--key {key}"),
            (TlsInput::ClientCa, Some(client_ca)) => format!("--client-ca {}", client_ca.display()),
            (TlsInput::Keypair | TlsInput::Versions | TlsInput::ClientCa, _) => {
                format!("--cert {certificate} and --key {key}")
            }
        }
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {cause}", path.display())]
    File { path: PathBuf, cause: std::io::Error },
    /// The files do not make a TLS configuration.
    #[error("{}: {cause}", files.named(cause.input))]
    Tls { files: Box<CertificateFiles>, cause: TlsError },
}

/// The certificate in use.
pub struct Certificates {
    files: CertificateFiles,
    versions: &'static [&'static SupportedProtocolVersion],
    loaded: RwLock<Loaded>,
}

struct Loaded {
    pem: PemTexts,
    config: Arc<ServerConfig>,
}

#[derive(PartialEq, Eq)]
struct PemTexts {
    certificate: String,
    key: String,
    client_ca: Option<String>,
}

impl Certificates {
    /// Reads the files. `versions` are the accepted versions of TLS.
    pub fn load(
        files: CertificateFiles,
        versions: &'static [&'static SupportedProtocolVersion],
    ) -> Result<Certificates, CertificateError> {
        let pem = PemTexts::read(&files)?;
        let config = pem.config(&files, versions)?;
        Ok(Certificates { files, versions, loaded: RwLock::new(Loaded { pem, config }) })
    }

    /// The TLS configuration for the next handshake.
    pub fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// Reads the files again, and returns whether they changed. The old certificate stays as long as the new one cannot be
    /// used: key and certificate are not replaced at the same moment.
    pub fn reload(&self) -> Result<bool, CertificateError> {
        let pem = PemTexts::read(&self.files)?;
        if self.loaded.read().unwrap_or_else(PoisonError::into_inner).pem == pem {
            return Ok(false);
        }
        let config = pem.config(&self.files, self.versions)?;
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Loaded { pem, config };
        Ok(true)
    }
}

impl PemTexts {
    fn read(files: &CertificateFiles) -> Result<PemTexts, CertificateError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|cause| CertificateError::File { path: path.to_owned(), cause })
        };
        Ok(PemTexts {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn config(
        &self,
        files: &CertificateFiles,
        versions: &'static [&'static SupportedProtocolVersion],
    ) -> Result<Arc<ServerConfig>, CertificateError> {
        let keypair = Keypair { certificates: &self.certificate, key: &self.key };
        // No HTTP/2: a machine sends one request.
        let config = tls::config(keypair, self.client_ca.as_deref(), versions, &["http/1.1"]);
        let mut config = config.map_err(|cause| CertificateError::Tls { files: Box::new(files.clone()), cause })?;
        // Nor are sessions resumed, for the same reason: no client would use what is stored for that.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}
