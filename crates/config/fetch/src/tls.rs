//! [`SystemRoots`]: the trusted CAs of the system and of the operator, plus those of a request.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::FailureKind;

/// The roots of the system, read when the first encrypted connection is made, and those that the
/// operator adds to them.
#[derive(Debug, Default)]
pub(crate) struct SystemRoots {
    added: Vec<CertificateDer<'static>>,
    store: OnceLock<RootCertStore>,
}

impl SystemRoots {
    /// The roots of the system and those in `bundles`.
    pub(crate) fn with(bundles: &[impl AsRef<[u8]>]) -> Result<Self, FailureKind> {
        Ok(Self { added: certificates(bundles)?, store: OnceLock::new() })
    }

    fn store(&self) -> &RootCertStore {
        self.store.get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!("cannot read a root certificate of the system: {error}");
            }
            let mut store = RootCertStore::empty();
            // Systems carry roots that are too old to be parsed; the others still count.
            store.add_parsable_certificates(found.certs);
            store.add_parsable_certificates(self.added.iter().cloned());
            store
        })
    }

    /// The configuration of an encrypted connection that also trusts `bundles`.
    pub(crate) fn trusting(&self, bundles: &[impl AsRef<[u8]>]) -> Result<Arc<ClientConfig>, FailureKind> {
        let mut store = self.store().clone();
        for certificate in certificates(bundles)? {
            // Each has been accepted by itself already.
            store.add_parsable_certificates([certificate]);
        }
        // The provider is named here, so that it does not matter whether the process has
        // installed one.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| FailureKind::Transport { reason: format!("no encryption available: {error}") })?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The certificates in PEM bundles; an error for a bundle that has none, or one that is no root.
fn certificates(bundles: &[impl AsRef<[u8]>]) -> Result<Vec<CertificateDer<'static>>, FailureKind> {
    let mut all = Vec::new();
    for (index, bundle) in bundles.iter().enumerate() {
        let failed = |reason: String| FailureKind::Authority { index, reason };
        let before = all.len();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_ref()) {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            RootCertStore::empty().add(certificate.clone()).map_err(|error| failed(error.to_string()))?;
            all.push(certificate);
        }
        if all.len() == before {
            return Err(failed("it contains no certificate".to_owned()));
        }
    }
    Ok(all)
}
