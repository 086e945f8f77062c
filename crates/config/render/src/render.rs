//! Rendering of a pool: its MachineConfigs merged into one.

use std::collections::HashSet;

use seaworthy_api::vocabulary::machineconfiguration::RENDERED_PREFIX;
use seaworthy_ignition::merge::{MergeEvent, Merger};
use seaworthy_ignition::node::{Node, Origin, Value};
use seaworthy_ignition::{Path, Severity, check};

use crate::controller_config::{ControllerConfig, OsImageStreams};
use crate::fields::Fields;
use crate::finding::{FieldLocation, Finding};
use crate::locator::Locator;
use crate::object::MAX_OBJECT_BYTES;
use crate::pool::Pool;
use crate::prepare::Prepared;
use crate::provenance::subject_at;
use crate::{keys, name, remote, runtime, selection};

/// The inputs of rendering other than the pool and the MachineConfigs.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The build that renders, written on everything that is generated.
    pub build: String,
    /// The cluster's defaults.
    pub controller_config: ControllerConfig,
    /// The OS images on offer, where the cluster offers any.
    pub streams: Option<OsImageStreams>,
    /// The stream that the worker pool asks for: custom pools inherit it.
    pub worker_stream: Option<String>,
    /// Whether references to remote content may stay. Only for looking at inputs: what is served has none.
    pub keeps_references: bool,
    /// Whether a result that no cluster stores is refused. A controller refuses it; `seaworthy render` shows it.
    pub refuses_large: bool,
}

impl Context {
    /// As controllers render: no reference stays, and a result that no cluster stores is refused. Without streams.
    pub fn new(
        build: impl Into<String>,
        controller_config: ControllerConfig,
        worker_stream: Option<String>,
    ) -> Context {
        Context {
            build: build.into(),
            controller_config,
            streams: None,
            worker_stream,
            keeps_references: false,
            refuses_large: true,
        }
    }
}

/// A pool's MachineConfigs, merged and checked, but without a name.
///
/// The name is a digest of the whole, about half of the work: callers that render many pools do the halves in parallel.
#[derive(Debug)]
pub struct Merged<'r, 't>(Rendered<'r, 't>);

impl<'r, 't> Merged<'r, 't> {
    /// The name that the result must have.
    pub fn name(&self) -> String {
        name::rendered(&self.0.pool.name, &self.0.spec)
    }

    /// Why a cluster would not store the result.
    fn too_large(&self) -> Option<Finding> {
        // The name is not known yet, but its length is: a prefix, the pool, a dash and the digest.
        let size = self.0.size() + RENDERED_PREFIX.len() + self.0.pool.name.len() + 33;
        (size > MAX_OBJECT_BYTES).then(|| Finding {
            severity: Severity::Error,
            code: "too-large",
            pool: Some(self.0.pool.name.clone()),
            subject: "size".to_owned(),
            places: vec![FieldLocation::pool(&self.0.pool.name, "spec.machineConfigSelector")],
            message: format!(
                "the rendered MachineConfig is too large ({size} bytes, max {MAX_OBJECT_BYTES} bytes); compress large files \
                 (compression: gzip) or move them into an image"
            ),
        })
    }

    /// The result, given its [`Merged::name`].
    #[must_use]
    pub fn named(self, name: String) -> Rendered<'r, 't> {
        Rendered { name, ..self.0 }
    }
}

/// A pool's rendered MachineConfig.
#[derive(Debug)]
pub struct Rendered<'r, 't> {
    pub pool: &'r Pool,
    /// `rendered-<pool>-<digest>`.
    pub name: String,
    /// The spec of the rendered MachineConfig.
    pub spec: Node<'r>,
    pub annotations: Vec<(&'static str, String)>,
    /// The inputs, in the order they were merged.
    pub inputs: Vec<&'r Prepared<'t>>,
    /// Where inputs overrode or repeated each other.
    pub events: Vec<MergeEvent>,
}

/// Renders a pool. On failure everything that is wrong is in the findings, not the first mistake only.
pub fn render<'r, 't: 'r>(
    pool: &'r Pool,
    all: &'r [Prepared<'t>],
    context: &Context,
) -> Result<Rendered<'r, 't>, Vec<Finding>> {
    let merged = merge(pool, all, context)?;
    let name = merged.name();
    Ok(merged.named(name))
}

/// Renders a pool up to its name.
pub fn merge<'r, 't: 'r>(
    pool: &'r Pool,
    all: &'r [Prepared<'t>],
    context: &Context,
) -> Result<Merged<'r, 't>, Vec<Finding>> {
    let (inputs, mut findings) = selection::inputs(pool, all).map_err(|finding| vec![finding])?;
    let broken = inputs.iter().flat_map(|input| input.findings.iter().filter(|finding| finding.is_error()).cloned());
    findings.extend(broken.map(|finding| Finding { pool: Some(pool.name.clone()), ..finding }));
    if !findings.is_empty() {
        return Err(findings);
    }

    let locator = Locator::new(&inputs);
    let mut events = Vec::new();
    let config = merge_configs(&inputs, &mut events);
    let fields = Fields::merge(pool, &inputs, context, &mut events, &mut findings);
    let broken = check(&config).into_iter().filter(|problem| problem.severity == Severity::Error);
    findings.extend(broken.map(|problem| merged_error(pool, &config, &problem, &locator)));
    findings.extend(unresolved(pool, &config, context, &locator));
    findings.extend(runtime::unsupported_runtime(pool, &config, &fields, context, &locator));
    if !findings.is_empty() {
        return Err(findings);
    }

    let mut annotations = vec![
        (keys::GENERATED_BY, context.build.clone()),
        (keys::RELEASE_VERSION, context.controller_config.release_version.clone()),
    ];
    if fields.image_overridden {
        annotations.push((keys::OS_IMAGE_OVERRIDDEN, "true".to_owned()));
    }
    if let Some(record) = remote_record(&inputs) {
        annotations.push((keys::REMOTE_CONTENT, record));
    }
    let spec = fields.into_spec(config);
    let merged = Merged(Rendered { pool, name: String::new(), spec, annotations, inputs, events });
    // To know the size takes a pass over everything.
    match context.refuses_large.then(|| merged.too_large()).flatten() {
        Some(finding) => Err(vec![finding]),
        None => Ok(merged),
    }
}

/// References that were not resolved: machines would fetch them, and could get different content.
fn unresolved(pool: &Pool, config: &Node<'_>, context: &Context, locator: &Locator<'_, '_>) -> Vec<Finding> {
    if context.keeps_references {
        return unfetchable_references(pool, config, locator);
    }
    let mut left: Vec<&Node<'_>> = Vec::new();
    // Of another config not even one stays that the reference itself carries as a data URL.
    remote::references(config, &mut |reference| left.push(reference));
    remote::bodies(config, &mut |body| {
        if !remote::is_embedded(body.text_of("source")) {
            left.push(body);
        }
    });
    let refused = |resource: &Node<'_>| Finding {
        severity: Severity::Error,
        code: "RemoteFetchFailed",
        pool: Some(pool.name.clone()),
        subject: String::new(),
        places: resource.get("source").and_then(|source| locator.place(source.origin)).into_iter().collect(),
        message: format!(
            "{} is not embedded; a rendered config has no references, so its content must be fetched first",
            remote::shown(resource.text_of("source"))
        ),
    };
    left.into_iter().map(refused).collect()
}

/// References that can never be resolved, so that `seaworthy render` reports the same errors as a controller.
fn unfetchable_references(pool: &Pool, config: &Node<'_>, locator: &Locator<'_, '_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    remote::resources(config, &mut |resource| {
        if let Some(message) = remote::unfetchable_reason(resource) {
            findings.push(Finding {
                severity: Severity::Error,
                code: "remote-scheme",
                pool: Some(pool.name.clone()),
                subject: String::new(),
                places: resource.get("source").and_then(|source| locator.place(source.origin)).into_iter().collect(),
                message,
            });
        }
    });
    findings
}

/// What was fetched for a pool, as JSON: from where, with which digest, when, for whom.
fn remote_record(inputs: &[&Prepared<'_>]) -> Option<String> {
    let mut records: Vec<serde_json::Value> = Vec::new();
    let mut seen = HashSet::new();
    for embedded in inputs.iter().flat_map(|input| &input.embedded) {
        let seconds = embedded.fetched_at.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut record = serde_json::json!({
            "machineConfig": embedded.place.name,
            "path": embedded.place.path,
            "url": embedded.url,
            "digest": embedded.digest,
            "fetchedAt": seconds,
        });
        // The path is one of the remote config that has the reference, where it is not one of the MachineConfig.
        if let Some(remote) = &embedded.place.remote {
            record["remote"] = remote.as_str().into();
        }
        if seen.insert(record.to_string()) {
            records.push(record);
        }
    }
    (!records.is_empty()).then(|| serde_json::Value::Array(records).to_string())
}

fn merge_configs<'r>(inputs: &[&'r Prepared<'_>], events: &mut Vec<MergeEvent>) -> Node<'r> {
    let mut merger = Merger::default();
    let mut merged_any = false;
    for (nth, input) in inputs.iter().enumerate() {
        if let Some(config) = &input.config {
            events.extend_from_slice(&input.events);
            merger.add(config);
            merged_any |= nth > 0;
        }
    }
    let merged = merger.finish();
    events.extend(merged.events);
    let mut config = merged.config;
    let files = config.as_map_mut().and_then(|map| map.get_mut("storage")).and_then(Node::as_map_mut);
    for file in files.and_then(|map| map.get_mut("files")).and_then(Node::as_list_mut).into_iter().flatten() {
        let origin = file.origin;
        let Some(map) = file.as_map_mut() else {
            continue;
        };
        // Compat: upstream takes an empty compression for none as soon as it merges anything, and leaves it as it is
        // when there is nothing to merge. The name depends on it.
        if merged_any
            && let Some(contents) = map.get_mut("contents").and_then(Node::as_map_mut)
            && contents.get("compression").is_some_and(|node| node.as_str() == Some("") && node.origin.is_some())
        {
            contents.remove("compression");
            if contents.is_empty() {
                map.remove("contents");
            }
        }
        // A file of ours replaces what the image brings; without contents that is an error, which the check finds.
        //
        // Differs: upstream says so of a file that is only appended to as well, because it never looks; that is a valid
        // config of its author, which it makes invalid.
        let only_appends =
            map.get("append").is_some() && map.get("contents").is_none_or(|body| body.get("source").is_none());
        if map.get("overwrite").is_none() && !only_appends {
            map.set("overwrite", Node { value: Value::Bool(true), origin });
        }
    }
    config
}

/// A rule that the inputs obey each for itself and break together.
fn merged_error(
    pool: &Pool,
    config: &Node<'_>,
    problem: &seaworthy_ignition::Problem,
    locator: &Locator<'_, '_>,
) -> Finding {
    let mut places: Vec<FieldLocation> = Vec::new();
    let contributors = contributors(config, problem, locator);
    for origin in std::iter::once(problem.origin).chain(problem.related.iter().copied()).chain(contributors) {
        if let Some(place) = locator.place(origin)
            && !places.iter().any(|known| known.name == place.name && known.remote == place.remote)
        {
            places.push(place);
        }
    }
    // A default has the origin of the object that does not set it.
    let is_filled_in = locator.value(problem.origin).is_some_and(|node| node.as_map().is_some());
    let default = match problem.code {
        "overwrite-without-source" if is_filled_in => {
            " (no MachineConfig sets overwrite: rendered files have overwrite: true unless one sets false)"
        }
        _ => "",
    };
    let who = if places.len() > 1 { "together they make" } else { "it makes" };
    Finding {
        severity: Severity::Error,
        code: problem.code,
        pool: Some(pool.name.clone()),
        subject: subject_at(config, &problem.path).0.to_string(),
        places,
        message: format!("{who} an invalid config, and a machine would not boot with it: {}{default}", problem.message),
    }
}

/// Every input that sets a value of the entry that a problem is about.
fn contributors(config: &Node<'_>, problem: &seaworthy_ignition::Problem, locator: &Locator<'_, '_>) -> Vec<Origin> {
    let Some(entry) = entry_of(config, &problem.path) else {
        return Vec::new();
    };
    // One value of each is enough, and an entry may hold as many as there are (a disk of a thousand partitions).
    let mut seen = HashSet::new();
    let mut origins = Vec::new();
    leaves(entry, &mut |leaf| {
        let Some(input) = locator.input(leaf.origin) else { return };
        if seen.insert((input.source.name(), leaf.origin.doc)) {
            origins.push(leaf.origin);
        }
    });
    origins
}

/// Calls back for every value below a node that is neither a list nor an object.
pub(crate) fn leaves<'n, 'a>(node: &'n Node<'a>, found: &mut impl FnMut(&'n Node<'a>)) {
    match &node.value {
        Value::Map(map) => map.0.iter().for_each(|(_, child)| leaves(child, found)),
        Value::List(list) => list.iter().for_each(|child| leaves(child, found)),
        _ => found(node),
    }
}

/// The entry of a list that a path leads into: `storage.files[3]` for `storage.files[3].user.name`.
fn entry_of<'n, 'a>(config: &'n Node<'a>, path: &Path) -> Option<&'n Node<'a>> {
    let mut node = config;
    for step in &path.0 {
        match step {
            seaworthy_ignition::path::Step::Key(key) => node = node.get(key)?,
            seaworthy_ignition::path::Step::Index(index) => return node.as_list()?.get(*index),
        }
    }
    None
}
