//! TLS profiles: which versions and ciphers a kubelet's server accepts.
//!
//! Profiles name ciphers as OpenSSL does, the kubelet as IANA does. What the kubelet's TLS library does not have is left
//! out, because the kubelet would not start with it.

use seaworthy_api::machineconfiguration::kubelet_config::{TlsProfileType, TlsSecurityProfile};

/// Versions and ciphers in the kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The oldest version; `None` leaves it to the kubelet.
    pub min_version: Option<String>,
    pub ciphers: Vec<String>,
    /// Ciphers of a profile of the user's own that the kubelet does not have.
    pub unknown: Vec<String>,
}

/// The suites of TLS 1.3, which have one name everywhere.
const TLS13: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// OpenSSL's names and IANA's, as far as the kubelet has the cipher, in the order of the profiles.
const NAMES: [(&str, &str); 18] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    ("ECDHE-RSA-AES256-SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    ("AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    ("AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    ("AES128-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA"),
    ("DES-CBC3-SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
];

/// Ciphers behind [`TLS13`] in the profile `Intermediate`: the first of [`NAMES`].
const INTERMEDIATE: usize = 6;

/// What a profile means; none, an unknown one and a `Custom` without settings are `Intermediate`.
pub fn settings(profile: Option<&TlsSecurityProfile>) -> TlsSettings {
    let kind = profile.and_then(|profile| profile.type_.as_ref()).and_then(|kind| kind.known());
    let custom = profile.and_then(|profile| profile.custom.as_ref());
    match (kind, custom) {
        (Some(TlsProfileType::Old), _) => built_in("VersionTLS10", NAMES.len()),
        (Some(TlsProfileType::Modern), _) => built_in("VersionTLS13", 0),
        (Some(TlsProfileType::Custom), Some(custom)) => {
            let mut settings = TlsSettings {
                min_version: custom.min_tls_version.as_ref().map(|version| version.as_str().to_owned()),
                ciphers: Vec::new(),
                unknown: Vec::new(),
            };
            for cipher in custom.ciphers.iter().flatten() {
                match iana(cipher) {
                    Some(name) => settings.ciphers.push(name.to_owned()),
                    None => settings.unknown.push(cipher.clone()),
                }
            }
            settings
        }
        _ => built_in("VersionTLS12", INTERMEDIATE),
    }
}

fn built_in(min_version: &str, older: usize) -> TlsSettings {
    let ciphers = TLS13.into_iter().chain(NAMES[..older].iter().map(|(_, iana)| *iana));
    TlsSettings {
        min_version: Some(min_version.to_owned()),
        ciphers: ciphers.map(str::to_owned).collect(),
        unknown: Vec::new(),
    }
}

fn iana(cipher: &str) -> Option<&'static str> {
    let same = TLS13.into_iter().find(|name| *name == cipher);
    same.or_else(|| NAMES.iter().find(|(openssl, iana)| *openssl == cipher || *iana == cipher).map(|(_, iana)| *iana))
}
