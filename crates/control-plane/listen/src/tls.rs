//! TLS configuration of a server: its certificate, and the CA of its clients.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {input}: {cause}")]
pub struct TlsError {
    /// The input that cannot be used.
    pub input: TlsInput,
    cause: String,
}

/// An input of a server's TLS configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsInput {
    /// The certificate chain.
    Certificate,
    /// The private key.
    Key,
    /// Certificate and key, which do not match.
    Keypair,
    /// The CA certificates of clients.
    ClientCa,
    /// The protocol versions.
    Versions,
}

impl fmt::Display for TlsInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsInput::Certificate => "the certificate",
            TlsInput::Key => "the key",
            TlsInput::Keypair => "the certificate and its key",
            TlsInput::ClientCa => "the client CA",
            TlsInput::Versions => "the protocol versions",
        })
    }
}

/// A certificate chain and its private key, as PEM.
#[derive(Clone, Copy)]
pub struct Keypair<'a> {
    /// The chain, the server's own certificate first.
    pub certificates: &'a str,
    /// The private key of the first certificate.
    pub key: &'a str,
}

/// The protocol versions of a server by default: 1.2 and 1.3.
pub const DEFAULT_VERSIONS: &[&SupportedProtocolVersion] = rustls::ALL_VERSIONS;
/// Protocol version 1.3 alone.
pub const TLS13_ONLY: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The TLS configuration of a server.
///
/// A client may present a certificate of `authorities` and need not: one without has a token, or is anonymous.
pub fn config(
    keypair: Keypair<'_>,
    authorities: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Result<ServerConfig, TlsError> {
    let failed = |input| move |error: &dyn fmt::Display| TlsError { input, cause: error.to_string() };
    let key = private_key(keypair.key).map_err(|cause| failed(TlsInput::Key)(&cause))?;
    let chain = certificates(keypair.certificates, TlsInput::Certificate)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| failed(TlsInput::Versions)(&error))?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities, TlsInput::ClientCa)? {
                roots.add(authority).map_err(|error| failed(TlsInput::ClientCa)(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| failed(TlsInput::ClientCa)(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| failed(TlsInput::Keypair)(&error))?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

/// How many certificates a PEM file has.
///
/// # Errors
///
/// If it is not valid PEM.
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

fn certificates(pem: &str, input: TlsInput) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError { input, cause: "there is no certificate in it".to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError { input, cause: error.to_string() }),
    }
}
