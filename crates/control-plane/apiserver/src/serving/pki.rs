//! Certificate authority of the server: created on first start, kept in the data folder, readable by its owner alone.
//!
//! Only the authority and the service account key are kept. Certificates for the server and the administrator are
//! created at every start: that takes a millisecond, and they cannot expire unnoticed.

use std::fmt;
use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use thiserror::Error;

use crate::authentication::{SigningKey, SigningKeyError};

/// Lifetime of the authority.
const CA_VALIDITY_PERIOD_DAYS: i64 = 10 * 365;
/// Lifetime of leaf certificates, which are renewed at each start of the server.
const CERTIFICATE_VALIDITY_PERIOD_DAYS: i64 = 365;
/// Certificates are valid a little before they are created, because clocks differ.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The next step for a damaged authority.
const RECOVERY_HINT: &str = "restore the folder from a backup, or move ca.key and ca.crt away: the next start creates a new authority, \
    and clients need the new kubeconfig";

/// Errors of the authority and of its files.
#[derive(Debug, Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("cannot read or write {}: {cause}; the user that runs the server must own it", path.display())]
    File { path: PathBuf, cause: std::io::Error },
    /// A certificate cannot be made or read.
    #[error("{what}: {cause}")]
    Certificate { what: &'static str, cause: rcgen::Error },
    /// The authority's key or certificate is damaged.
    #[error("{}: not {what}: {cause}; nothing was changed; {RECOVERY_HINT}", path.display())]
    Authority {
        path: PathBuf,
        /// What was expected.
        what: &'static str,
        cause: rcgen::Error,
    },
    /// One half of the authority is missing.
    #[error("{}: missing, but {beside} exists; nothing was changed; {RECOVERY_HINT}", path.display())]
    Half {
        path: PathBuf,
        /// The other half's name.
        beside: &'static str,
    },
    /// The key for service accounts is damaged.
    #[error("{}: {cause}; nothing was changed; restore it from a backup, or move it away: the next start creates a \
             new key, and existing service account tokens become invalid", path.display())]
    SigningKey {
        path: PathBuf,
        /// What is wrong.
        cause: SigningKeyError,
    },
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct CertifiedKey {
    pub certificate: String,
    pub key: String,
}

/// Without the key: what can be printed is printed one day.
impl fmt::Debug for CertifiedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certified").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The certificate authority of the server.
pub struct Pki {
    issuer: Issuer<'static, KeyPair>,
    authority: String,
    pub signing_key: Arc<SigningKey>,
}

impl Pki {
    /// Loads the authority from a folder, or creates one.
    pub fn load(folder: &Path, now: Timestamp) -> Result<Pki, PkiError> {
        let file = |path: &Path, cause| PkiError::File { path: path.to_owned(), cause };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|cause| file(folder, cause))?;
        // An existing folder, for example from a backup, may be readable by others.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(|cause| file(folder, cause))?;
        let (key_path, path) = (folder.join("ca.key"), folder.join("ca.crt"));
        let certificate = read(&path)?;
        let pair =
            match read(&key_path)? {
                Some(text) => KeyPair::from_pem(&String::from_utf8_lossy(&text))
                    .map_err(|cause| PkiError::Authority { path: key_path, what: "a private key in PEM", cause })?,
                // The certificate is written after the key. Clients know it, and a new key would not fit it.
                None if certificate.is_some() => return Err(PkiError::Half { path: key_path, beside: "ca.crt" }),
                None => {
                    let pair = KeyPair::generate()
                        .map_err(|cause| PkiError::Certificate { what: "a key for the authority", cause })?;
                    write(&key_path, pair.serialize_pem().as_bytes())?;
                    pair
                }
            };
        let keys_path = folder.join("service-account.key");
        let signing_key = match read(&keys_path)? {
            Some(bytes) => SigningKey::read(&bytes),
            None => {
                let bytes =
                    SigningKey::generate().map_err(|cause| PkiError::SigningKey { path: keys_path.clone(), cause })?;
                write(&keys_path, &bytes)?;
                SigningKey::read(&bytes)
            }
        };
        let signing_key = signing_key.map_err(|cause| PkiError::SigningKey { path: keys_path, cause })?;
        let authority = match certificate {
            Some(text) => String::from_utf8_lossy(&text).into_owned(),
            None => {
                let text = authority(&pair, now)?;
                write(&path, text.as_bytes())?;
                text
            }
        };
        Pki::with(authority, pair, signing_key).map_err(|cause| PkiError::Authority {
            path,
            what: "a certificate in PEM",
            cause,
        })
    }

    /// A temporary authority, for servers in memory.
    pub fn ephemeral(now: Timestamp) -> Result<Pki, PkiError> {
        let what = "a key for the authority";
        let pair = KeyPair::generate().map_err(|cause| PkiError::Certificate { what, cause })?;
        let path = PathBuf::from("service-account.key");
        let bytes = SigningKey::generate().map_err(|cause| PkiError::SigningKey { path: path.clone(), cause })?;
        let signing_key = SigningKey::read(&bytes).map_err(|cause| PkiError::SigningKey { path, cause })?;
        let authority = authority(&pair, now)?;
        Pki::with(authority, pair, signing_key).map_err(|cause| PkiError::Certificate { what, cause })
    }

    fn with(authority: String, pair: KeyPair, signing_key: SigningKey) -> Result<Pki, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_pem(&authority, pair)?;
        Ok(Pki { issuer, authority, signing_key: Arc::new(signing_key) })
    }

    /// The authority's certificate, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A certificate for the server under these addresses and names.
    pub fn serving(&self, addresses: &[IpAddr], names: &[&str], now: Timestamp) -> Result<CertifiedKey, PkiError> {
        let what = "the server's certificate";
        let failed = |cause| PkiError::Certificate { what, cause };
        let mut params = leaf("seaworthy-apiserver", now);
        for name in names {
            params.subject_alt_names.push(SanType::DnsName((*name).try_into().map_err(failed)?));
        }
        params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, what)
    }

    /// A certificate for a user in a group.
    pub fn client(&self, user: &str, group: &str, now: Timestamp) -> Result<CertifiedKey, PkiError> {
        let mut params = leaf(user, now);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, "a client's certificate")
    }

    fn sign(&self, params: CertificateParams, what: &'static str) -> Result<CertifiedKey, PkiError> {
        let failed = |cause| PkiError::Certificate { what, cause };
        let pair = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&pair, &self.issuer).map_err(failed)?;
        Ok(CertifiedKey { certificate: certificate.pem(), key: pair.serialize_pem() })
    }
}

fn authority(pair: &KeyPair, now: Timestamp) -> Result<String, PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "seaworthy");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, now, CA_VALIDITY_PERIOD_DAYS);
    let certificate = params.self_signed(pair);
    certificate
        .map(|certificate| certificate.pem())
        .map_err(|cause| PkiError::Certificate { what: "the authority's certificate", cause })
}

fn leaf(name: &str, now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, now, CERTIFICATE_VALIDITY_PERIOD_DAYS);
    params
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let date = |time: Timestamp| {
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        // Month and day of a date are small and positive.
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = date(now - MAX_CLOCK_SKEW);
    params.not_after = date(now + SignedDuration::from_hours(24 * (days + 1)));
}

/// Reads a file, and makes sure that only its owner can.
fn read(path: &Path) -> Result<Option<Vec<u8>>, PkiError> {
    let private = || fs::set_permissions(path, fs::Permissions::from_mode(0o600));
    match fs::read(path).and_then(|bytes| private().map(|()| bytes)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(PkiError::File { path: path.to_owned(), cause }),
    }
}

/// Writes a file that only its owner can read, atomically.
fn write(path: &Path, bytes: &[u8]) -> Result<(), PkiError> {
    let failed = |cause| PkiError::File { path: path.to_owned(), cause };
    let fresh = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&fresh, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn load(folder: &Path) -> Pki {
        Pki::load(folder, "2026-01-02T03:04:05Z".parse().unwrap()).unwrap()
    }

    #[test]
    fn keys_are_their_owners_alone_and_last() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data/pki");
        let authority = load(&folder).authority().to_owned();
        assert_eq!(mode(&folder), 0o700);
        for file in ["ca.key", "ca.crt", "service-account.key"] {
            assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
        }
        assert_eq!(load(&folder).authority(), authority);
    }

    #[test]
    fn keys_that_others_could_read_are_closed_to_them() {
        let folder = tempfile::tempdir().unwrap();
        load(folder.path());
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        open(&folder.path().join("ca.key"), 0o644);
        open(&folder.path().join("service-account.key"), 0o666);
        open(folder.path(), 0o755);
        load(folder.path());
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.path().join("ca.key")), 0o600);
        assert_eq!(mode(&folder.path().join("service-account.key")), 0o600);
    }

    #[test]
    fn what_is_no_key_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("service-account.key");
        fs::write(&path, "nonsense").unwrap();
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let Err(error) = Pki::load(folder.path(), now) else { panic!("it was read") };
        assert!(error.to_string().contains("service-account.key"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"nonsense");
    }

    #[test]
    fn key_is_not_printed_with_its_certificate() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let certified = Pki::ephemeral(now).unwrap().client("ann", "crew", now).unwrap();
        assert!(!format!("{certified:?}").contains("PRIVATE KEY"));
    }
}
