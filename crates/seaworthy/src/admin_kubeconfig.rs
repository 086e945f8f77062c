//! Administrator's kubeconfig of the embedded API server, and files that their owner alone can read.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use seaworthy_apiserver::Pki;

use crate::failure::Failure;

/// The user of the kubeconfig, and its group, which may do everything.
const ADMIN: (&str, &str) = ("seaworthy-admin", "system:masters");

/// Writes a complete kubeconfig: the server, its authority, and an administrator's certificate.
pub fn write(path: &Path, pki: &Pki, address: SocketAddr, now: Timestamp) -> Result<(), Failure> {
    write_file(path, &text(pki, address, now)?).map_err(|error| {
        Failure::invalid(format!(
            "cannot write the kubeconfig {}: {error}; --kubeconfig-out needs a path in an existing folder",
            path.display()
        ))
    })
}

/// Writes a file so that its owner alone can read it.
pub fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    write_file(path, text).map_err(|error| Failure::invalid(format!("cannot write {}: {error}", path.display())))
}

fn text(pki: &Pki, address: SocketAddr, now: Timestamp) -> Result<String, Failure> {
    let admin = pki.client(ADMIN.0, ADMIN.1, now).map_err(Failure::invalid)?;
    let encode = |text: &str| STANDARD.encode(text);
    let host = if address.ip().is_unspecified() {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port())
    } else {
        address
    };
    Ok(format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: seaworthy\n  cluster:\n    server: https://{host}\n    \
         certificate-authority-data: {}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
         client-key-data: {}\ncontexts:\n- name: seaworthy\n  context:\n    cluster: seaworthy\n    user: {user}\n\
         current-context: seaworthy\n",
        encode(pki.authority()),
        encode(&admin.certificate),
        encode(&admin.key),
        user = ADMIN.0,
    ))
}

fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // A file that was there before keeps the mode that it had.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}
