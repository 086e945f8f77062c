//! Remote content without I/O: finds what a MachineConfig refers to, and embeds what was fetched.
//!
//! Nothing is fetched here. A [`Resolution`] returns the [`ContentRequest`]s of some inputs, the caller obtains the content
//! (from a snapshot or from the network), answers, and asks again until nothing more is needed. The same answers give the
//! same result, so a snapshot always gives the same rendered name.

mod embedded;
mod resolution;
mod resolve;

use std::collections::HashMap;

use seaworthy_fetch::{FailureCategory, FetchError, Request, Snapshot, SnapshotKey, redact};
use seaworthy_ignition::node::{Node, quote};

use crate::prepare::Prepared;

pub use embedded::Embedded;
pub use resolution::{References, Resolution};

/// Makes remote content part of the inputs that refer to it.
#[derive(Debug)]
pub struct Resolver {
    answers: HashMap<SnapshotKey, Result<Snapshot, FetchFailure>>,
    /// The number of the next document, in origins, that a fetched config becomes.
    next_doc: u32,
}

/// Content that must be obtained before an input can be resolved.
#[derive(Debug, Clone)]
pub struct ContentRequest {
    /// The key under which it is stored and answered.
    pub key: SnapshotKey,
    /// How to obtain it.
    pub request: Request,
}

/// Why content could not be obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFailure {
    pub category: FailureCategory,
    /// What happened and what to do about it, without credentials.
    pub message: String,
}

impl From<FetchError> for FetchFailure {
    fn from(error: FetchError) -> Self {
        FetchFailure { category: error.category(), message: error.to_string() }
    }
}

impl Resolver {
    /// A resolver for inputs that were read from this many documents.
    pub fn new(documents: u32) -> Self {
        Resolver { answers: HashMap::new(), next_doc: documents }
    }

    /// Replaces the references of an input by what they refer to: other configs first, then every body, key file and
    /// certificate. Gives back what is to be answered first; empty when the input is ready, or has findings that say
    /// why it never will be.
    pub fn resolve(&mut self, input: &mut Prepared<'_>) -> Vec<ContentRequest> {
        match input.config.as_ref().filter(|config| input.is_valid() && is_remote(config)) {
            Some(_) => resolve::resolve(self, input),
            None => Vec::new(),
        }
    }

    /// Answers a request: with the content, or with why there is none.
    pub fn answer(&mut self, key: SnapshotKey, answer: Result<Snapshot, FetchFailure>) {
        self.answers.insert(key, answer);
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
pub(crate) fn unfetchable_reason(resource: &Node<'_>) -> Option<String> {
    let url = resource.text_of("source");
    let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
    match scheme.as_str() {
        "tftp" => Some(format!("{} cannot be fetched: {}", shown(url), seaworthy_fetch::TFTP_REFUSAL)),
        "s3" | "arn" if resource.str_of("compression") == Some("gzip") => Some(format!(
            "{} cannot be decompressed: compression gzip is not allowed with {scheme} URLs; store the object decompressed or serve it \
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
