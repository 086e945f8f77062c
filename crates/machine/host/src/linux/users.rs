//! Accounts and groups, from the machine's own files: a directory service is not available on a machine that boots without a
//! network.

use super::files::Files;
use crate::{Entry, HostError, User};

/// Password hashes.
pub(super) const SHADOW: &str = "/etc/shadow";

pub(super) fn user(files: &Files, name: &str) -> Result<Option<User>, HostError> {
    let Some(line) = line(files, "/etc/passwd", name)? else { return Ok(None) };
    let parts: Vec<&str> = line.split(':').collect();
    let [_, _, uid, gid, _, home, ..] = parts.as_slice() else {
        return Err(HostError::file("read", "/etc/passwd", format!("the line of {name} has too few fields")));
    };
    let number = |text: &str| {
        text.parse().map_err(|_| HostError::file("read", "/etc/passwd", format!("the line of {name} has no number")))
    };
    let shadow = self::line(files, SHADOW, name)?;
    let password = shadow.as_deref().and_then(|line| line.split(':').nth(1)).unwrap_or("*").to_owned();
    Ok(Some(User { uid: number(uid)?, gid: number(gid)?, home: (*home).to_owned(), password }))
}

pub(super) fn group(files: &Files, name: &str) -> Result<Option<u32>, HostError> {
    let Some(line) = line(files, "/etc/group", name)? else { return Ok(None) };
    let number = line.split(':').nth(2).and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| HostError::file("read", "/etc/group", format!("the line of {name} has no number")))
}

/// The shadow file with another hash for an account, and its present entry.
pub(super) fn with_password(files: &Files, name: &str, hash: &str) -> Result<(String, Entry), HostError> {
    let unknown = || HostError::file("change", SHADOW, format!("there is no line of {name}"));
    let entry = files.entry(SHADOW)?.ok_or_else(unknown)?;
    let text = files.read(SHADOW)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    if hash.contains([':', '\n']) || !text.lines().any(|line| line.split(':').next() == Some(name)) {
        return Err(unknown());
    }
    let lines = text.lines().map(|line| match line.splitn(3, ':').collect::<Vec<_>>().as_slice() {
        [user, _, rest] if *user == name => format!("{user}:{hash}:{rest}\n"),
        _ => format!("{line}\n"),
    });
    Ok((lines.collect(), entry))
}

/// The line of a name. On ostree machines the accounts of the operating system are below `/usr/lib`.
fn line(files: &Files, path: &str, name: &str) -> Result<Option<String>, HostError> {
    let vendor = path.replace("/etc/", "/usr/lib/");
    for path in [path, vendor.as_str()] {
        let text = files.read(path)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_it = |line: &&str| line.split_once(':').is_some_and(|(first, _)| first == name);
        if let Some(line) = text.lines().find(is_it) {
            return Ok(Some(line.to_owned()));
        }
    }
    Ok(None)
}
