//! What a server shakes hands with: its certificate, and whose clients it knows.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {part}: {cause}")]
pub struct TlsError {
    /// What is wrong.
    pub part: Part,
    cause: String,
}

/// What a server's configuration is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The certificates.
    Certificate,
    /// The key.
    Key,
    /// The two together.
    Keypair,
    /// The authorities of clients.
    Clients,
    /// The versions of TLS.
    Versions,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Certificate => "the certificate",
            Part::Key => "the key",
            Part::Keypair => "the certificate and its key",
            Part::Clients => "the authority of clients",
            Part::Versions => "the versions",
        })
    }
}

/// A certificate, with what leads from it to its authority, and its key, as PEM.
#[derive(Clone, Copy)]
pub struct Keypair<'a> {
    /// The certificates, the server's own first.
    pub certificates: &'a str,
    /// The key.
    pub key: &'a str,
}

/// The versions that a server speaks unless it is told otherwise: 1.2 and 1.3.
pub const VERSIONS: &[&SupportedProtocolVersion] = rustls::ALL_VERSIONS;
/// The newest version alone.
pub const NEWEST: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The configuration of a server.
///
/// A client may show a certificate of `authorities` and need not: one without has a token, or is nobody in particular.
pub fn config(
    keypair: Keypair<'_>,
    authorities: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Result<ServerConfig, TlsError> {
    let failed = |part| move |error: &dyn fmt::Display| TlsError { part, cause: error.to_string() };
    let key = private_key(keypair.key).map_err(|cause| failed(Part::Key)(&cause))?;
    let chain = certificates(keypair.certificates, Part::Certificate)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| failed(Part::Versions)(&error))?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities, Part::Clients)? {
                roots.add(authority).map_err(|error| failed(Part::Clients)(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| failed(Part::Clients)(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| failed(Part::Keypair)(&error))?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

/// How many certificates a PEM file has.
///
/// # Errors
///
/// If it is damaged.
pub fn count_certificates(pem: &[u8]) -> Result<usize, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.map(|found| found.len()).map_err(|error| error.to_string())
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| match (error, count_certificates(pem.as_bytes())) {
        (pem::Error::NoItemsFound, Ok(1..)) => {
            "there is no private key in it, but a certificate; the file of the certificate and that of the key may be swapped"
                .to_owned()
        }
        (pem::Error::NoItemsFound, _) => "there is no private key in it".to_owned(),
        (error, _) => error.to_string(),
    })
}

fn certificates(pem: &str, part: Part) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError { part, cause: "there is no certificate in it".to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError { part, cause: error.to_string() }),
    }
}
