//! Remote content, the pure half: what a MachineConfig refers to, and how what was fetched becomes part of it.
//!
//! Nothing is fetched here. [`resolve()`] looks its needs up in [`Answers`]; what is missing there it returns as
//! [`Wanted`], the caller obtains it (from a snapshot or from the network) and asks again. The same answers give the
//! same result, so a snapshot taken once gives the same rendered name for ever.

mod resolve;

use std::collections::HashMap;

use seaworthy_fetch::{FetchError, Request, Snapshot, SnapshotKey, redact};
use seaworthy_ignition::node::{Node, quote};

use crate::finding::Place;

pub use resolve::{Embedded, Resolution, resolve};

/// Something to obtain before a MachineConfig can be resolved.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Under which it is looked up and kept.
    pub key: SnapshotKey,
    /// How to obtain it.
    pub request: Request,
    /// Who refers to it.
    pub place: Place,
}

/// What was obtained so far, and what could not be.
#[derive(Debug, Default)]
pub struct Answers {
    answers: HashMap<SnapshotKey, Result<Snapshot, FetchError>>,
}

impl Answers {
    /// Notes the outcome for a key.
    pub fn insert(&mut self, key: SnapshotKey, answer: Result<Snapshot, FetchError>) {
        self.answers.insert(key, answer);
    }

    fn get(&self, key: &SnapshotKey) -> Option<Result<&Snapshot, &FetchError>> {
        self.answers.get(key).map(Result::as_ref)
    }
}

/// Calls back for every reference and body of a config that names a source.
pub(crate) fn resources<'n, 'a>(config: &'n Node<'a>, found: &mut impl FnMut(&'n Node<'a>)) {
    references(config, found);
    bodies(config, found);
}

/// Calls back for every reference to another config that names a source.
pub(crate) fn references<'n, 'a>(config: &'n Node<'a>, found: &mut impl FnMut(&'n Node<'a>)) {
    let replace = config.dig(&["ignition", "config", "replace"]);
    list(config, &["ignition", "config", "merge"])
        .iter()
        .chain(replace)
        .filter(|node| has_source(node))
        .for_each(found);
}

/// Calls back for everything else that names a source: certificates, bodies of files, key files.
pub(crate) fn bodies<'n, 'a>(config: &'n Node<'a>, found: &mut impl FnMut(&'n Node<'a>)) {
    let mut look = |node: Option<&'n Node<'a>>| node.filter(|node| has_source(node)).into_iter().for_each(&mut *found);
    for authority in list(config, &["ignition", "security", "tls", "certificateAuthorities"]) {
        look(Some(authority));
    }
    for file in list(config, &["storage", "files"]) {
        look(file.get("contents"));
        for body in file.list_of("append") {
            look(Some(body));
        }
    }
    for luks in list(config, &["storage", "luks"]) {
        look(luks.get("keyFile"));
    }
}

fn has_source(node: &Node<'_>) -> bool {
    !node.text_of("source").is_empty()
}

fn list<'n, 'a>(config: &'n Node<'a>, keys: &[&str]) -> &'n [Node<'a>] {
    config.dig(keys).and_then(Node::as_list).unwrap_or_default()
}

/// Whether a source is part of the config already.
pub(crate) fn is_embedded(source: &str) -> bool {
    source.is_empty() || source.starts_with("data:")
}

/// Why a source can never be fetched, as far as it says so itself.
pub(crate) fn why_never(resource: &Node<'_>) -> Option<String> {
    let url = resource.text_of("source");
    let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
    match scheme.as_str() {
        "tftp" => Some(format!("{} cannot be fetched: {}", shown(url), seaworthy_fetch::TFTP_REFUSAL)),
        "s3" | "arn" if resource.str_of("compression") == Some("gzip") => Some(format!(
            "{} cannot be unpacked: compression gzip is not allowed with {scheme} URLs; store the object unpacked or serve it \
             over https",
            shown(url)
        )),
        _ => None,
    }
}

/// A URL for people: without credentials, and a `data:` URL without its body.
pub(crate) fn shown(url: &str) -> String {
    if is_embedded(url) { quote(url) } else { redact(url) }
}

/// How many references of a config lead outside it.
pub fn count(config: &Node<'_>) -> usize {
    let mut count = 0;
    resources(config, &mut |resource| count += usize::from(!is_embedded(resource.text_of("source"))));
    count
}

/// Whether a config refers to anything outside itself, or to another config at all.
pub(crate) fn is_remote(config: &Node<'_>) -> bool {
    let mut remote = config.dig(&["ignition", "config"]).is_some();
    resources(config, &mut |resource| remote |= !is_embedded(resource.text_of("source")));
    remote
}
