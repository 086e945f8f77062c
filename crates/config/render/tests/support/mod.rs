//! Manifests in, an outcome out: what the tests of this crate build upon.

// Every test binary has its own copy of this module and uses a part of it.
#![allow(dead_code)]
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use seaworthy_api::machineconfiguration as api;
use seaworthy_fetch::{FetchError, Snapshot};
use seaworthy_ignition::Node;
use seaworthy_ignition::node::Origin;
use seaworthy_render::provenance::DefaultValue;
use seaworthy_render::remote::{ContentRequest, Embedded, FetchFailure, Resolver};
use seaworthy_render::{
    Context, ControllerConfig, FieldLocation, Finding, MachineConfig, Pool, Prepared, Rendered, keys, prepare, render,
};
use serde_json::{Value, json};

/// The OS image of the cluster.
pub const BASE: &str = "base@sha256:aa";

// === Manifests ===

/// A worker's MachineConfig.
pub fn mc(name: &str, spec: Value) -> Value {
    mc_of("worker", name, spec)
}

/// A MachineConfig of a role.
pub fn mc_of(role: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": keys::API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {keys::ROLE: role}},
        "spec": spec,
    })
}

/// A worker's MachineConfig with an Ignition config of 3.5.0 that has these sections.
pub fn ign(name: &str, sections: Value) -> Value {
    mc(name, json!({"config": with_version("3.5.0", sections)}))
}

/// A worker's MachineConfig with an Ignition config of 2.2.0 that has these sections.
pub fn ign2(name: &str, sections: Value) -> Value {
    mc(name, json!({"config": with_version("2.2.0", sections)}))
}

/// An Ignition config of a version with these sections.
pub fn with_version(version: &str, mut sections: Value) -> Value {
    sections["ignition"]["version"] = version.into();
    sections
}

/// The sections of a config that has these files.
pub fn files(files: Value) -> Value {
    json!({"storage": {"files": files}})
}

/// The sections of a config that has these units.
pub fn units(units: Value) -> Value {
    json!({"systemd": {"units": units}})
}

/// A file with a body.
pub fn file(path: &str, source: &str) -> Value {
    json!({"path": path, "contents": {"source": source}})
}

/// The MachineConfig as a controller of that build would have written it.
pub fn generated_by(build: &str, mut machine_config: Value) -> Value {
    machine_config["metadata"]["annotations"][keys::GENERATED_BY] = build.into();
    machine_config
}

/// The MachineConfig with a controller as its owner.
pub fn owned_by(kind: &str, mut machine_config: Value) -> Value {
    machine_config["metadata"]["ownerReferences"] =
        json!([{"apiVersion": keys::API_VERSION, "kind": kind, "name": "x", "uid": "1", "controller": true}]);
    machine_config
}

/// A pool that selects MachineConfigs this way.
pub fn pool(name: &str, selector: Value) -> Pool {
    try_pool(name, selector).unwrap()
}

/// The same, when the selector may be wrong.
pub fn try_pool(name: &str, selector: Value) -> Result<Pool, Vec<Finding>> {
    let object = json!({
        "apiVersion": keys::API_VERSION,
        "kind": "MachineConfigPool",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "spec": {"machineConfigSelector": selector},
    });
    Pool::read(&Node::from_json(&object))
}

/// The pool of the workers.
pub fn worker() -> Pool {
    pool("worker", json!({"matchLabels": {keys::ROLE: "worker"}}))
}

/// A pool of the users' own, which inherits from the workers.
pub fn infra() -> Pool {
    pool("infra", json!({"matchExpressions": [{"key": keys::ROLE, "operator": "In", "values": ["worker", "infra"]}]}))
}

/// A context with [`BASE`] as the OS image.
pub fn context() -> Context {
    let controller_config = ControllerConfig { os_image: BASE.to_owned(), ..ControllerConfig::default() };
    Context { controller_config, ..Context::default() }
}

// === Outcome ===

/// Everything that a rendered config says about itself, for keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub name: String,
    pub spec: Value,
    pub object: Value,
    pub annotations: BTreeMap<&'static str, String>,
    pub inputs: Vec<String>,
    pub findings: Vec<Finding>,
    pub provenance: Vec<Line>,
    pub embedded: Vec<Embedded>,
    pub size: usize,
}

/// One value and its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub subject: String,
    pub field: String,
    pub value: Value,
    pub set_by: Option<FieldLocation>,
    pub default: Option<DefaultValue>,
    pub also: Vec<FieldLocation>,
    pub overrode: Vec<(FieldLocation, Option<Value>)>,
    pub fetched: Option<Embedded>,
    /// What was fetched for those that it overrode.
    pub lost: Vec<Option<Embedded>>,
}

/// What was fetched, without the number of its document, which may differ.
fn unnumbered(embedded: &Embedded) -> Embedded {
    Embedded { origin: Origin::NONE, ..embedded.clone() }
}

impl Outcome {
    pub fn of(rendered: Rendered<'_, '_>) -> Self {
        let mut json = Vec::new();
        rendered.write_json(&mut json).unwrap();
        let object: Value = serde_json::from_slice(&json).unwrap();
        let copy = Rendered {
            pool: rendered.pool,
            name: rendered.name.clone(),
            spec: rendered.spec.borrowed(),
            annotations: rendered.annotations.clone(),
            inputs: rendered.inputs.clone(),
            events: Vec::new(),
        };
        assert_eq!(copy.into_manifest().to_json(), object, "the manifest is the object written");
        assert_eq!(rendered.size(), json.len(), "the size is that of what is written");
        let line = |entry: &seaworthy_render::provenance::Entry<'_>| Line {
            subject: entry.subject.to_string(),
            field: entry.field.clone(),
            value: entry.value.to_json(),
            set_by: entry.set_by.clone(),
            default: entry.default.clone(),
            also: entry.also.clone(),
            overrode: entry
                .overrode
                .iter()
                .map(|lost| (lost.place.clone(), lost.value.as_ref().map(Node::to_json)))
                .collect(),
            fetched: entry.fetched.map(unnumbered),
            lost: entry.overrode.iter().map(|lost| lost.fetched.map(unnumbered)).collect(),
        };
        let outcome = Outcome {
            name: rendered.name.clone(),
            spec: rendered.spec.to_json(),
            annotations: rendered.annotations.iter().cloned().collect(),
            inputs: rendered.input_names().map(str::to_owned).collect(),
            findings: rendered.findings(),
            provenance: rendered.provenance().iter().map(line).collect(),
            embedded: rendered.inputs.iter().flat_map(|input| input.embedded.iter().map(unnumbered)).collect(),
            size: json.len(),
            object,
        };
        let mut typed: api::MachineConfig = serde_json::from_value(outcome.object.clone()).unwrap();
        typed.metadata.owner_references = None;
        assert_eq!(rendered.into_object(), typed, "the typed object is the object written");
        outcome
    }

    pub fn config(&self) -> &Value {
        &self.spec["config"]
    }

    pub fn files(&self) -> &Value {
        &self.spec["config"]["storage"]["files"]
    }

    pub fn units(&self) -> &Value {
        &self.spec["config"]["systemd"]["units"]
    }

    /// The hex digits of the name.
    pub fn digest(&self) -> &str {
        self.name.rsplit('-').next().unwrap()
    }

    /// The findings of a code.
    pub fn coded(&self, code: &str) -> Vec<&Finding> {
        self.findings.iter().filter(|finding| finding.code == code).collect()
    }

    /// The only finding of a code.
    pub fn only(&self, code: &str) -> &Finding {
        match self.coded(code)[..] {
            [finding] => finding,
            ref found => panic!("{} findings of {code}: {:#?}", found.len(), self.findings),
        }
    }

    /// The history of a value.
    pub fn line(&self, subject: &str, field: &str) -> &Line {
        let found = self.provenance.iter().find(|line| line.subject == subject && line.field == field);
        found.unwrap_or_else(|| panic!("no {subject} {field}: {:#?}", self.provenance))
    }
}

// === Rendering ===

/// Manifests as documents of their own.
pub fn read(manifests: &[Value]) -> Vec<MachineConfig<'_>> {
    let number = |(doc, json)| {
        let mut node = Node::from_json(json);
        node.number(u32::try_from(doc).unwrap());
        MachineConfig::read(node)
    };
    manifests.iter().enumerate().map(number).collect()
}

/// The items of one manifest, which is a list of others.
pub fn read_list(list: &Value) -> Vec<MachineConfig<'_>> {
    let mut node = Node::from_json(list);
    node.number(0);
    node.take("items").unwrap().into_list().into_iter().map(MachineConfig::read).collect()
}

/// Renders a pool; nothing is fetched.
pub fn try_render(pool: &Pool, manifests: &[Value], context: &Context) -> Result<Outcome, Vec<Finding>> {
    let sources = read(manifests);
    let prepared: Vec<_> = sources.iter().map(prepare).collect();
    let outcome = render(pool, &prepared, context).map(Outcome::of);
    if let Some(objects) = typed(manifests) {
        let sources: Vec<_> = objects.iter().zip(0..).map(|(object, nth)| MachineConfig::of(object, nth)).collect();
        let prepared: Vec<_> = sources.iter().map(prepare).collect();
        let of_objects = render(pool, &prepared, context).map(Outcome::of);
        assert_eq!(of_objects, outcome, "objects of the API are rendered as their manifests are");
    }
    outcome
}

/// Manifests as objects of the API, if those hold all that the manifests say.
fn typed(manifests: &[Value]) -> Option<Vec<api::MachineConfig>> {
    let read = |manifest: &Value| {
        let object: api::MachineConfig = serde_json::from_value(manifest.clone()).ok()?;
        (serde_json::to_value(&object).ok()? == *manifest).then_some(object)
    };
    manifests.iter().map(read).collect()
}

/// Renders a pool that can be rendered.
pub fn rendered(pool: &Pool, manifests: &[Value]) -> Outcome {
    rendered_in(pool, manifests, &context())
}

/// The same in another context.
pub fn rendered_in(pool: &Pool, manifests: &[Value], context: &Context) -> Outcome {
    try_render(pool, manifests, context).unwrap_or_else(|findings| panic!("{}", shown(&findings)))
}

/// What is wrong with a pool that cannot be rendered.
pub fn refused(pool: &Pool, manifests: &[Value]) -> Vec<Finding> {
    refused_in(pool, manifests, &context())
}

/// The same in another context.
pub fn refused_in(pool: &Pool, manifests: &[Value], context: &Context) -> Vec<Finding> {
    match try_render(pool, manifests, context) {
        Err(findings) => {
            assert!(!findings.is_empty() && findings.iter().all(Finding::is_error), "{}", shown(&findings));
            findings
        }
        Ok(outcome) => panic!("it is accepted: {}", outcome.spec),
    }
}

/// The only thing that is wrong.
pub fn one(findings: &[Finding]) -> &Finding {
    match findings {
        [finding] => finding,
        _ => panic!("{} findings:\n{}", findings.len(), shown(findings)),
    }
}

/// Findings as people read them.
pub fn shown(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("[{}] {finding}\n", finding.code)).collect()
}

/// The places of a finding as `name path` or `name path (url)`.
pub fn places(finding: &Finding) -> Vec<String> {
    finding.places.iter().map(place).collect()
}

/// A place as `name path` or `name path (url)`.
pub fn place(place: &FieldLocation) -> String {
    match &place.remote {
        Some(url) => format!("{} {} ({url})", place.name, place.path),
        None => format!("{} {}", place.name, place.path),
    }
}

// === Remote content ===

/// When everything was fetched.
pub fn fetch_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// A server that answers for every wanted thing.
pub type Server<'s> = dyn Fn(&ContentRequest) -> Result<Vec<u8>, FetchError> + 's;

/// What was asked for, round by round.
pub type Rounds = Vec<Vec<ContentRequest>>;

/// Resolves the references of an input with the answers of a server, and returns what was asked for.
pub fn resolve_with(resolver: &mut Resolver, input: &mut Prepared<'_>, server: &Server<'_>) -> Rounds {
    let mut rounds = Vec::new();
    loop {
        let wanted = resolver.resolve(input);
        if wanted.is_empty() {
            return rounds;
        }
        assert!(rounds.len() < 40, "it never ends: {wanted:#?}");
        for wanted in &wanted {
            let answer = server(wanted).map(|bytes| Snapshot::new(bytes, &wanted.request.url, fetch_time()));
            resolver.answer(wanted.key, answer.map_err(FetchFailure::from));
        }
        rounds.push(wanted);
    }
}

/// Renders a pool whose inputs may refer to a server.
pub fn try_render_with(
    pool: &Pool,
    manifests: &[Value],
    context: &Context,
    server: &Server<'_>,
) -> (Result<Outcome, Vec<Finding>>, Rounds) {
    try_render_sources(pool, &read(manifests), context, server)
}

/// The same, of manifests that were read. Their documents have lower numbers than there are manifests.
pub fn try_render_sources(
    pool: &Pool,
    sources: &[MachineConfig<'_>],
    context: &Context,
    server: &Server<'_>,
) -> (Result<Outcome, Vec<Finding>>, Rounds) {
    let mut resolver = Resolver::new(u32::try_from(sources.len()).unwrap());
    let mut prepared: Vec<_> = sources.iter().map(prepare).collect();
    let rounds = prepared.iter_mut().flat_map(|input| resolve_with(&mut resolver, input, server)).collect();
    (render(pool, &prepared, context).map(Outcome::of), rounds)
}
