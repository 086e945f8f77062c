//! Resolution of references: replaces them by the content that they refer to.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use seaworthy_fetch::{Compression, ContentKind, Digest, FetchSettings, Proxy, Request, Snapshot, SnapshotKey};
use seaworthy_ignition::merge::MergeEvent;
use seaworthy_ignition::node::{Map, Node, Origin, Value};
use seaworthy_ignition::{Path, Severity, data_url, gzip, merge, parse};

use super::{ContentRequest, Embedded, FetchFailure, has_source, is_embedded, shown, unfetchable_reason};
use crate::finding::{FieldLocation, Finding, as_written};
use crate::keys;
use crate::machine_config::MachineConfig;
use crate::prepare::{Prepared, RemoteConfig, check_config};
use crate::yaml;

/// How deep configs may refer to configs.
const MAX_REFERENCE_DEPTH: usize = 8;
/// How many things one MachineConfig may refer to in all; a chain of merges must not become a flood.
const MAX_REFERENCES: usize = 1000;
/// How much all that one MachineConfig refers to may hold, unpacked and counted as often as it is referred to.
const MAX_TOTAL_BYTES: u64 = 64 * 1024 * 1024;

/// One pass over an input that refers to something.
pub(super) fn resolve(resolver: &mut super::Resolver, input: &mut Prepared<'_>) -> Vec<ContentRequest> {
    let Some(config) = &input.config else { return Vec::new() };
    let spec = input.source.object().get("spec");
    let mut pass = Pass {
        source: input.source,
        spec_hash: Digest::sha256(spec.map(yaml::to_string).unwrap_or_default().as_bytes()).to_string(),
        answers: &resolver.answers,
        next_doc: resolver.next_doc,
        wanted: Vec::new(),
        findings: Vec::new(),
        remotes: Vec::new(),
        embedded: Vec::new(),
        events: Vec::new(),
        references: 0,
        bodies: 0,
        bytes: 0,
        asked: HashSet::new(),
        settings: HashMap::new(),
    };
    let doc = input.source.object().origin.doc;
    let mut resolved = pass.config(config.clone().into_owned(), doc, &mut Vec::new(), &FetchSettings::default());
    // Only when every config is there is it known which bodies remain: what another config replaces is not fetched.
    if pass.wanted.is_empty() {
        pass.bodies(&mut resolved);
    }
    let Pass { wanted, findings, remotes, embedded, events, next_doc, .. } = pass;
    // What is missing comes before what has failed: a report that is complete is worth a few fetches in vain.
    if !wanted.is_empty() {
        return wanted;
    }
    input.findings.extend(findings);
    if input.is_valid() {
        resolver.next_doc = next_doc;
        input.config = Some(resolved);
        input.remotes = remotes;
        input.embedded = embedded;
        input.events = events;
    }
    Vec::new()
}

struct Pass<'r> {
    source: &'r MachineConfig<'r>,
    spec_hash: String,
    answers: &'r HashMap<SnapshotKey, Result<Snapshot, FetchFailure>>,
    next_doc: u32,
    wanted: Vec<ContentRequest>,
    findings: Vec<Finding>,
    remotes: Vec<RemoteConfig>,
    embedded: Vec<Embedded>,
    events: Vec<MergeEvent>,
    references: usize,
    bodies: usize,
    /// How much all contents of this input hold.
    bytes: u64,
    asked: HashSet<SnapshotKey>,
    /// How the bodies of each config are fetched, by document.
    settings: HashMap<u32, FetchSettings>,
}

/// The content of a reference.
enum Content {
    Snapshot(Snapshot),
    Inline(Vec<u8>),
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Content::Snapshot(snapshot) => snapshot.bytes(),
            Content::Inline(bytes) => bytes,
        }
    }
}

impl Pass<'_> {
    /// Resolves the references of a config, the document `doc`, to other configs. Its own settings apply to what it
    /// refers to. `chain` has the URLs that led here.
    fn config(
        &mut self,
        mut config: Node<'static>,
        doc: u32,
        chain: &mut Vec<String>,
        inherited: &FetchSettings,
    ) -> Node<'static> {
        // Without its certificates nothing that the config refers to may be asked for: the answer to come would be a
        // refusal, and it would stay.
        let Some(settings) = self.settings(&mut config, inherited) else { return config };
        let section = config.as_map_mut().and_then(|map| map.get_mut("ignition")).and_then(Node::as_map_mut);
        let references = section.and_then(|ignition| ignition.remove("config"));
        if let Some(replace) = references.as_ref().and_then(|references| references.get("replace"))
            && !replace.text_of("source").is_empty()
        {
            return match self.reference(replace, chain, &settings) {
                Some(replacement) => replacement,
                None => config,
            };
        }
        let merges = references.as_ref().map(|references| references.list_of("merge")).unwrap_or_default();
        let children: Vec<Node<'static>> =
            merges.iter().filter_map(|reference| self.reference(reference, chain, &settings)).collect();
        self.settings.insert(doc, settings);
        if children.is_empty() {
            return config;
        }
        // What is referred to wins over what refers, as it does when a machine resolves it at first boot.
        let merged = merge(std::iter::once(&config).chain(&children));
        self.events.extend(merged.events);
        merged.config.into_owned()
    }

    /// Timeouts, proxy and certificates of a config, with the certificates fetched where they are remote. `None` while
    /// one of these is missing.
    fn settings(&mut self, config: &mut Node<'static>, inherited: &FetchSettings) -> Option<FetchSettings> {
        let mut settings = inherited.clone();
        let Some(ignition) = config.get("ignition") else { return Some(settings) };
        let seconds = |key: &str| {
            let number = ignition.get("timeouts").and_then(|timeouts| timeouts.int_of(key))?;
            Some(Duration::from_secs(u64::try_from(number).unwrap_or(0)))
        };
        if let Some(limit) = seconds("httpResponseHeaders") {
            settings.response_headers_timeout = Some(limit);
        }
        if let Some(limit) = seconds("httpTotal") {
            settings.total_timeout = Some(limit);
        }
        if let Some(proxy) = ignition.get("proxy") {
            settings.proxy = Proxy {
                http: proxy.str_of("httpProxy").map(str::to_owned),
                https: proxy.str_of("httpsProxy").map(str::to_owned),
                no_proxy: proxy.list_of("noProxy").iter().filter_map(Node::as_str).map(str::to_owned).collect(),
            };
        }
        let authorities = config
            .as_map_mut()
            .and_then(|map| map.get_mut("ignition"))
            .and_then(Node::as_map_mut)
            .and_then(|map| map.get_mut("security"))
            .and_then(Node::as_map_mut)
            .and_then(|map| map.get_mut("tls"))
            .and_then(Node::as_map_mut)
            .and_then(|map| map.get_mut("certificateAuthorities"))
            .and_then(Node::as_list_mut);
        let reaching = settings.clone();
        let mut is_complete = true;
        for authority in authorities.into_iter().flatten().filter(|authority| has_source(authority)) {
            match self.embed(authority, &reaching) {
                Some(content) => settings.certificate_authorities.push(content.into()),
                None => is_complete = false,
            }
        }
        is_complete.then_some(settings)
    }

    /// The config that a reference leads to, itself resolved.
    fn reference(
        &mut self,
        reference: &Node<'static>,
        chain: &mut Vec<String>,
        settings: &FetchSettings,
    ) -> Option<Node<'static>> {
        let url = reference.text_of("source").to_owned();
        let source = reference.get("source").unwrap_or(reference);
        self.references += 1;
        if self.references > MAX_REFERENCES {
            // Reported once: the rest would be the same.
            if self.references == MAX_REFERENCES + 1 {
                let message = format!("more than {MAX_REFERENCES} configs are referenced; combine some");
                self.fail(source, "remote-count", message);
            }
            return None;
        }
        if chain.contains(&url) && !is_embedded(&url) {
            let round: Vec<String> = chain.iter().chain([&url]).map(|url| shown(url)).collect();
            self.fail(
                source,
                "remote-cycle",
                format!("configs reference each other in a cycle: {}", round.join(" → ")),
            );
            return None;
        }
        if chain.len() >= MAX_REFERENCE_DEPTH {
            let message = format!(
                "{} is referenced at depth {}; at most {MAX_REFERENCE_DEPTH} are followed",
                shown(&url),
                chain.len() + 1
            );
            self.fail(source, "remote-depth", message);
            return None;
        }
        let content = self.content(reference, ContentKind::Config, settings)?;
        let doc = self.next_doc;
        let tree = match read_config(content.bytes(), doc) {
            Ok(tree) => tree,
            Err(message) => {
                self.fail(
                    source,
                    "remote-config",
                    format!("the config from {} cannot be read: {message}", shown(&url)),
                );
                return None;
            }
        };
        self.next_doc = doc.saturating_add(1);
        let (parsed, warnings) = match parse(&tree) {
            Ok(parsed) => (parsed.config.into_owned(), parsed.warnings),
            Err(problems) => {
                for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
                    let message = format!(
                        "the config from {} is not valid at {}: {}",
                        shown(&url),
                        as_written(&tree, &problem.path),
                        problem.message
                    );
                    self.fail(source, problem.code, message);
                }
                return None;
            }
        };
        if let Content::Snapshot(snapshot) = &content {
            self.record(snapshot, source.origin);
        }
        for problem in &warnings {
            let mut place = FieldLocation::machine_config(self.source.name(), &as_written(&tree, &problem.path));
            place.remote = Some(shown(&url));
            self.findings.push(finding(problem.severity, problem.code, place, problem.message.clone()));
        }
        self.remotes.push(RemoteConfig { doc, url: shown(&url), referred_by: source.origin, tree });
        let mut more = Vec::new();
        check_config(&parsed, &mut |severity, node, code, message| {
            more.push(finding(severity, code, self.place(node.origin), message));
        });
        self.findings.append(&mut more);
        chain.push(url);
        let resolved = self.config(parsed, doc, chain, settings);
        chain.pop();
        Some(resolved)
    }

    /// Embeds every body and key file of a config.
    fn bodies(&mut self, config: &mut Node<'static>) {
        let Some(storage) = config.as_map_mut().and_then(|map| map.get_mut("storage")).and_then(Node::as_map_mut)
        else {
            return;
        };
        for file in storage.get_mut("files").and_then(Node::as_list_mut).into_iter().flatten() {
            let Some(map) = file.as_map_mut() else { continue };
            if let Some(contents) = map.get_mut("contents") {
                self.embed_remote(contents);
            }
            for body in map.get_mut("append").and_then(Node::as_list_mut).into_iter().flatten() {
                self.embed_remote(body);
            }
        }
        for luks in storage.get_mut("luks").and_then(Node::as_list_mut).into_iter().flatten() {
            if let Some(key_file) = luks.as_map_mut().and_then(|map| map.get_mut("keyFile")) {
                self.embed_remote(key_file);
            }
        }
    }

    /// Embeds a body by the settings of the config that names its source.
    fn embed_remote(&mut self, body: &mut Node<'static>) {
        let Some(source) = body.get("source").filter(|source| !is_embedded(source.as_str().unwrap_or_default())) else {
            return;
        };
        // A config whose certificates could not be fetched has none, and says so.
        if let Some(settings) = self.settings.get(&source.origin.doc).cloned() {
            self.embed(body, &settings);
        }
    }

    /// Puts the bytes that a body refers to in its place, and gives them back.
    fn embed(&mut self, body: &mut Node<'static>, settings: &FetchSettings) -> Option<Vec<u8>> {
        if body.text_of("source").is_empty() {
            return None;
        }
        let content = self.content(body, ContentKind::Resource, settings)?;
        let bytes = content.bytes().to_vec();
        if let Content::Snapshot(snapshot) = &content {
            let origin = body.get("source").map_or(body.origin, |source| source.origin);
            self.record(snapshot, origin);
            // Plain bytes, never packed again: what a packer makes of them may change with its version, and the name of
            // the rendered config with it. The compression is set explicitly, so that none is inherited.
            body.value = Value::Map(Map(vec![
                (Cow::Borrowed("compression"), Node::str_at("", Origin::NONE)),
                (Cow::Borrowed("source"), Node::str_at(data_url::encode(&bytes), origin)),
            ]));
        }
        Some(bytes)
    }

    /// The bytes behind a source; notes what is missing.
    fn content(&mut self, resource: &Node<'static>, accept: ContentKind, settings: &FetchSettings) -> Option<Content> {
        let url = resource.text_of("source");
        let source = resource.get("source").unwrap_or(resource);
        if !is_embedded(url) {
            self.bodies += 1;
            if self.bodies > MAX_REFERENCES {
                // Reported once: the rest would be the same.
                if self.bodies == MAX_REFERENCES + 1 {
                    let message = format!(
                        "more than {MAX_REFERENCES} things are to be fetched; embed some, or put them into an image"
                    );
                    self.fail(source, "remote-count", message);
                }
                return None;
            }
        }
        let hash = resource.dig(&["verification", "hash"]);
        let verification = match hash.and_then(Node::as_str).map(str::parse::<Digest>) {
            None => None,
            Some(Ok(digest)) => Some(digest),
            Some(Err(error)) => {
                self.fail(hash.unwrap_or(source), "hash", error.to_string());
                return None;
            }
        };
        let is_packed = resource.str_of("compression") == Some("gzip");
        if is_embedded(url) {
            return self.inline(url, source, is_packed, verification.as_ref());
        }
        if let Some(message) = unfetchable_reason(resource) {
            self.fail(source, "remote-scheme", message);
            return None;
        }
        let request = Request {
            url: url.to_owned(),
            headers: resource
                .list_of("httpHeaders")
                .iter()
                .filter_map(|header| Some((header.str_of("name")?.to_owned(), header.str_of("value")?.to_owned())))
                .collect(),
            accept,
            compression: is_packed.then_some(Compression::Gzip),
            verification,
            settings: settings.clone(),
        };
        let refresh = self.source.annotation(keys::REFRESH);
        let key = SnapshotKey::new(self.source.name(), &self.spec_hash, &request, refresh);
        match self.answers.get(&key) {
            Some(Ok(snapshot)) => self.within_limit(source, Content::Snapshot(snapshot.clone())),
            Some(Err(unavailable)) => {
                self.fail(source, unavailable.category.as_str(), unavailable.message.clone());
                None
            }
            None => {
                if self.asked.insert(key) {
                    self.wanted.push(ContentRequest { key, request });
                }
                None
            }
        }
    }

    /// The bytes of a `data:` URL, unpacked and verified.
    fn inline(&mut self, url: &str, source: &Node<'static>, is_packed: bool, hash: Option<&Digest>) -> Option<Content> {
        let bytes = match data_url::decode(url) {
            Ok(bytes) => bytes.into_owned(),
            Err(error) => {
                self.fail(source, "source-data", error.to_string());
                return None;
            }
        };
        let bytes = if is_packed {
            match gzip::unpack(&bytes, MAX_TOTAL_BYTES) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.fail(source, "remote-gzip", error.to_string());
                    return None;
                }
            }
        } else {
            bytes
        };
        if let Some(hash) = hash
            && hash.of_same_kind(&bytes) != *hash
        {
            let message = format!("the content is {}, but verification.hash says {hash}", hash.of_same_kind(&bytes));
            self.fail(source, "RemoteVerificationFailed", message);
            return None;
        }
        self.within_limit(source, Content::Inline(bytes))
    }

    /// Counts content: one that is referred to many times is fetched once, but embedded as often.
    fn within_limit(&mut self, source: &Node<'static>, content: Content) -> Option<Content> {
        let before = self.bytes;
        self.bytes = before.saturating_add(content.bytes().len() as u64);
        if self.bytes <= MAX_TOTAL_BYTES {
            return Some(content);
        }
        // Reported once: the rest would be the same.
        if before <= MAX_TOTAL_BYTES {
            let message = format!(
                "with this, all that is referred to is larger than {MAX_TOTAL_BYTES} bytes together; refer to less, or put it \
                 into an image"
            );
            self.fail(source, "remote-size", message);
        }
        None
    }

    fn record(&mut self, snapshot: &Snapshot, origin: Origin) {
        let embedded = Embedded {
            url: snapshot.url().to_owned(),
            digest: snapshot.digest().to_string(),
            fetched_at: snapshot.fetched_at(),
            place: self.place(origin),
            origin,
        };
        self.embedded.push(embedded);
    }

    fn fail(&mut self, node: &Node<'_>, code: &'static str, message: String) {
        let place = self.place(node.origin);
        self.findings.push(finding(Severity::Error, code, place, message));
    }

    /// The place of a reference: in the MachineConfig, or in the remote config that has it.
    fn place(&self, origin: Origin) -> FieldLocation {
        let name = self.source.name();
        if let Some(path) = self.source.object().path_of(origin) {
            return FieldLocation::machine_config(name, &path);
        }
        let remote = self.remotes.iter().find(|remote| remote.doc == origin.doc);
        let path =
            remote.and_then(|remote| remote.tree.path_of(origin)).unwrap_or_else(|| Path::of(&["spec", "config"]));
        let mut place = FieldLocation::machine_config(name, &path);
        place.remote = remote.map(|remote| remote.url.clone());
        place
    }
}

fn finding(severity: Severity, code: &'static str, place: FieldLocation, message: String) -> Finding {
    Finding { severity, code, pool: None, subject: String::new(), places: vec![place], message }
}

fn read_config(bytes: &[u8], doc: u32) -> Result<Node<'static>, String> {
    if bytes.is_empty() {
        return Err("it is empty; an Ignition config is a JSON object with ignition.version".to_owned());
    }
    let tree = serde_json::from_slice::<Node<'_>>(bytes);
    let mut tree = tree.map_err(|error| describe_non_json(bytes).unwrap_or_else(|| error.to_string()))?.into_owned();
    tree.number(doc);
    Ok(tree)
}

/// What was found in place of JSON, for text that does not begin like JSON. Only words that are no secrets are quoted.
fn describe_non_json(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let has_line = |key: &str| text.lines().any(|line| line.starts_with(key));
    let found = if text.starts_with(['{', '[']) {
        return None;
    } else if bytes.starts_with(&[0x1f, 0x8b]) {
        "gzip-compressed data was found; set compression to gzip if that is intended".to_owned()
    } else if text.starts_with('<') {
        let tag: String =
            text.chars().skip(1).take_while(|c| c.is_ascii_alphanumeric() || *c == '!').take(20).collect();
        format!("a page that starts with \"<{tag}\" was found; check the URL, or log in to the server")
    } else if has_line("variant:") {
        "a Butane config was found; turn it into an Ignition config with `butane`".to_owned()
    } else if has_line("ignition:") || has_line("apiVersion:") {
        "YAML was found; turn it into JSON".to_owned()
    } else {
        format!("{} bytes of something else were found; check the URL", bytes.len())
    };
    Some(format!("an Ignition config is JSON, and {found}"))
}
