//! What a server shakes hands with: its certificate, and whose clients it knows.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {what}: {cause}")]
pub struct TlsError {
    what: &'static str,
    cause: String,
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
    let failed = |what| move |error: &dyn std::fmt::Display| TlsError { what, cause: error.to_string() };
    let key = PrivateKeyDer::from_pem_slice(keypair.key.as_bytes()).map_err(|error| failed("the key")(&error))?;
    let chain = certificates(keypair.certificates, "the certificate")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| failed("the versions")(&error))?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let what = "the authority of clients";
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities, what)? {
                roots.add(authority).map_err(|error| failed(what)(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| failed(what)(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| failed("the certificate")(&error))?;
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

fn certificates(pem: &str, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError { what, cause: "there is no certificate in it".to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError { what, cause: error.to_string() }),
    }
}
