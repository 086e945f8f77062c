//! `seaworthy plan`: preview of applying manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;

use jiff::Timestamp;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_change::ObjectRef;
use seaworthy_controllers::{OperatorOptions, operators};
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_ignition::Severity;
use seaworthy_ignition::node::Node;
use seaworthy_ignition::path::Path;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_machineconfig::preview::{PoolPreview, Preview, PreviewInputs, preview_changes, reverted_target};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_machineconfig::render::snapshots::ClusterSnapshots;
use seaworthy_manifest::{EntryPart, FileLocation};
use seaworthy_plan::duration::short;
use seaworthy_plan::rollout::waiting::{Reason, Waiting};
use seaworthy_preview::{AdmissionIssue, ApplyOutcome, Effect, PreviewPart, PreviewProblem};
use seaworthy_render::{FieldLocation, Finding};
use seaworthy_runtime::{NAMESPACE, admission_policies, build};
use serde_json::{Value, json};

use super::diff::Comparison;
use super::{loading, outlook, templates};
use crate::cli::{Plan, ReportFormat};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::manifest::misspelt;
use crate::manifest::objects::{self, ObjectLocation};
use crate::{output, remote, terminal};

/// The namespace of manifests without one, where no kubeconfig names another.
const DEFAULT_NAMESPACE: &str = "default";

/// A manifest of the input, and where it is.
struct InputManifest<'t> {
    json: Value,
    location: ObjectLocation<'t>,
}

/// The result of a preview, with locations in the manifests.
pub struct PlanReport<'t> {
    pub preview: Preview,
    /// Objections of the API to the manifests.
    pub objections: Vec<AdmissionIssue>,
    /// Locations of the manifests.
    locations: BTreeMap<ObjectRef, ObjectLocation<'t>>,
    /// Whether the manifests were applied to a cluster, where other changes may be pending.
    is_on_cluster: bool,
}

pub fn run(options: &Plan) -> Result<u8, Failure> {
    let texts = loading::texts(&options.input)?;
    let mut given = Vec::new();
    let mut errors = Vec::new();
    let mut wrong = Vec::new();
    objects::each(&texts, &mut errors, &mut |object| {
        let mut json = object.node.to_json();
        json["kind"] = object.kind.into();
        if let Some(version) = object.list_version.filter(|_| json.get("apiVersion").is_none()) {
            json["apiVersion"] = version.into();
        }
        let version = json.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if let Some(message) = misspelt(version, object.kind, name_in(&json)) {
            wrong.push(object.location.error_at_key("kind", &message));
        }
        given.push(InputManifest { json, location: object.location.clone() });
    });
    errors.append(&mut wrong);
    if !errors.is_empty() {
        return Err(Failure::all_invalid(errors));
    }
    if given.is_empty() {
        let next = "pass manifests, or use `seaworthy rollout status` to show the state of a cluster";
        return Err(Failure::invalid(format!("the input has no objects, so there is nothing to plan; {next}")));
    }
    let runtime = outlook::runtime()?;
    let result = runtime.block_on(create_report(options, given));
    runtime.shutdown_background();
    let mut report = result?;
    let preview = &mut report.preview;
    let known: Vec<String> = preview.pools.iter().map(|pool| pool.name.clone()).collect();
    if let Some(missing) = options.pool.iter().find(|pool| !known.contains(pool)) {
        return Err(outlook::no_pool(missing, &known));
    }
    if known.is_empty() {
        report.objections.iter().for_each(|objection| terminal::error(&objection.to_string()));
        let none =
            if report.objections.is_empty() { "no MachineConfigPool found" } else { "no MachineConfigPool is left" };
        let next = if options.server_less {
            "pass MachineConfigPools, or omit --server-less"
        } else {
            "a ControllerConfig creates the pools master and worker (examples/controller-config.yaml); create any \
             other as a MachineConfigPool"
        };
        return Err(Failure::invalid(format!("{none}, so these manifests have no effect; {next}")));
    }
    preview.pools.retain(|pool| options.pool.is_empty() || options.pool.contains(&pool.name));
    match options.output {
        ReportFormat::Text => print_text(&report, options.summary)?,
        ReportFormat::Json => print_json(&report)?,
    }
    Ok(if report.needs_attention() { EXIT_FAILED } else { EXIT_OK })
}

/// Previews the manifests: the future state, and objections of the API.
async fn create_report<'t>(options: &Plan, given: Vec<InputManifest<'t>>) -> Result<PlanReport<'t>, Failure> {
    let now = Timestamp::now();
    let parts = preview_parts(templates::read(options.templates.as_deref())?);
    let admission = operators::admission();
    let policy = Policy::allowing(options.remote.allow_host.iter().cloned());
    let (before, namespace, snapshots, admission) = if options.server_less {
        let state = ClusterState::default().with_parts(&parts).map_err(Failure::failed)?;
        (state, DEFAULT_NAMESPACE.to_owned(), remote::snapshots(&options.remote)?, admission)
    } else {
        let client = outlook::client(&options.cluster).await?;
        let state = ClusterState::read(&client, ReadScope::Preview(&parts)).await.map_err(Failure::invalid)?;
        // The content that the cluster has pinned; what is fetched beside it is not kept there.
        let snapshots: Arc<dyn seaworthy_fetch::Snapshots> = match ClusterSnapshots::load(&client, NAMESPACE).await {
            Ok(found) => Arc::new(found),
            Err(error) => {
                terminal::note(&format!(
                    "cannot read the cluster's snapshots of remote content, fetching it \
                                          instead: {error}"
                ));
                remote::snapshots(&options.remote)?
            }
        };
        let admission = admission_policies::for_changes_to(&client, admission).await;
        (state, client.default_namespace().to_owned(), snapshots, admission)
    };
    let mut after = before.clone();
    let (mut objections, mut ignored) = (Vec::new(), BTreeMap::<String, usize>::new());
    for InputManifest { json, .. } in &given {
        let outcome = match options.delete {
            true => after.delete(json, &namespace, &admission),
            false => after.apply(json, &namespace, &admission, now),
        };
        match outcome {
            Ok(applied) if applied.outcome == ApplyOutcome::Ignored => {
                *ignored.entry(kind_in(json).to_owned()).or_default() += 1;
            }
            Ok(applied) => objections.extend(applied.dropped),
            Err(refused) => objections.extend(refused),
        }
    }
    if !ignored.is_empty() {
        let kinds: Vec<String> = ignored.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
        terminal::note(&format!("ignored objects of other kinds: {}", kinds.join(", ")));
    }
    // Without a cluster, the pools' present targets are among the manifests.
    let before = if options.server_less { after.clone() } else { before };
    let remote = Remote { policy, snapshots, is_offline: options.remote.offline };
    let inputs = preview_inputs(remote, parts, now, !options.server_less);
    let overruled: Vec<PreviewProblem> = match options.delete {
        true => Vec::new(),
        false => given.iter().filter_map(|given| reverted_target(&before, &given.json)).collect(),
    };
    let mut preview = preview_changes(&before, after, &inputs).await;
    preview.problems.extend(overruled);
    preview.problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    let locate = |given: InputManifest<'t>| Some((before.object_of(&given.json, &namespace)?, given.location));
    let locations = given.into_iter().filter_map(locate).collect();
    Ok(PlanReport::new(preview, objections, locations, !options.server_less))
}

/// The preview parts of all operators of this build.
pub fn preview_parts(templates: Templates) -> Vec<Box<dyn PreviewPart>> {
    let machineconfig = MachineConfigOptions { templates: Arc::new(templates), ..MachineConfigOptions::default() };
    operators::preview_parts(OperatorOptions { machineconfig })
}

/// Inputs of the preview with the controllers of this build, for a cluster or for manifests alone.
pub fn preview_inputs(
    remote: Remote,
    parts: Vec<Box<dyn PreviewPart>>,
    now: Timestamp,
    is_cluster: bool,
) -> PreviewInputs {
    PreviewInputs { parts, remote, build: build(), now, is_cluster }
}

fn kind_in(json: &Value) -> &str {
    json.get("kind").and_then(Value::as_str).unwrap_or("(no kind)")
}

fn name_in(json: &Value) -> &str {
    json.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

impl PlanReport<'_> {
    /// The report on manifests that are not from a file.
    pub fn of_cluster(
        preview: Preview,
        objections: Vec<AdmissionIssue>,
        given: &BTreeSet<ObjectRef>,
    ) -> PlanReport<'static> {
        PlanReport {
            preview: restricted_to(preview, |object| given.contains(object)),
            objections,
            locations: BTreeMap::new(),
            is_on_cluster: true,
        }
    }

    fn new<'t>(
        preview: Preview,
        objections: Vec<AdmissionIssue>,
        locations: BTreeMap<ObjectRef, ObjectLocation<'t>>,
        is_on_cluster: bool,
    ) -> PlanReport<'t> {
        let preview = restricted_to(preview, |object| locations.contains_key(object));
        PlanReport { preview, objections, locations, is_on_cluster }
    }

    /// Whether something changes, something is wrong with the manifests, or something may be missing here: then the exit code is
    /// 1.
    fn needs_attention(&self) -> bool {
        let is_affected = |pool: &PoolPreview| pool.failure.is_some() || differs(pool) || !pool.moved_nodes.is_empty();
        let is_wrong = |problem: &&PreviewProblem| {
            problem.is_incomplete_preview() || problem.severity == Severity::Error && self.is_given(problem)
        };
        !self.objections.is_empty()
            || !self.preview.unselected.is_empty()
            || !self.preview.newly_unassigned.is_empty()
            || self.preview.problems.iter().any(|problem| is_wrong(&problem))
            || self.preview.pools.iter().any(is_affected)
    }

    fn is_given(&self, problem: &PreviewProblem) -> bool {
        problem.object.as_ref().is_some_and(|object| self.locations.contains_key(object))
    }

    /// The file location of a field with a colon behind it; empty if it is in no file.
    fn place(&self, object: &ObjectRef, path: &str, part: EntryPart) -> String {
        let found = self.file(object, path, part);
        found.map(|found| format!("{found}: ")).unwrap_or_default()
    }

    fn file(&self, object: &ObjectRef, path: &str, part: EntryPart) -> Option<FileLocation<'_>> {
        Some(self.locations.get(object)?.file(&Path::parse(path), part))
    }

    /// The same for the first place of a finding.
    fn place_of(&self, finding: &Finding) -> String {
        let Some(place) = finding.places.first() else { return String::new() };
        let part = EntryPart::of_finding(finding.code);
        object_at(place).map(|object| self.place(&object, &place.path, part)).unwrap_or_default()
    }

    /// Errors, warnings and other findings about the manifests, the most severe first.
    fn messages(&self) -> Vec<Message> {
        let mut all = Vec::new();
        for objection in &self.objections {
            let place = self.place(&objection.object, &objection.path, part_of(objection));
            // kubectl's strict validation refuses it, also a field that the API would drop.
            all.push(Message { severity: Severity::Error, code: code(objection), place, text: objection.to_string() });
        }
        for problem in &self.preview.problems {
            let place = |object: &ObjectRef| self.place(object, &problem.path, EntryPart::Value);
            let place = problem.object.as_ref().map(place).unwrap_or_default();
            let PreviewProblem { severity, code, message, .. } = problem;
            all.push(Message { severity: *severity, code, place, text: message.clone() });
        }
        for finding in &self.preview.unselected {
            let (severity, code, text) = (finding.severity, finding.code, finding.to_string());
            all.push(Message { severity, code, place: self.place_of(finding), text });
        }
        all.sort_by_key(|message: &Message| std::cmp::Reverse(message.severity));
        all
    }
}

/// A preview without findings that are neither about the manifests nor caused by them.
fn restricted_to(mut preview: Preview, is_given: impl Fn(&ObjectRef) -> bool) -> Preview {
    let stranded = &preview.newly_unselected;
    let concerns = |finding: &Finding| {
        let mut of = finding.places.iter();
        of.any(|place| object_at(place).is_some_and(|object| is_given(&object)) || stranded.contains(&place.name))
    };
    preview.unselected.retain(concerns);
    preview
}

/// The object that a finding is about, if it is of a kind that a preview reads.
fn object_at(place: &FieldLocation) -> Option<ObjectRef> {
    let of = [
        ObjectRef::named::<MachineConfig>,
        ObjectRef::named::<MachineConfigPool>,
        ObjectRef::named::<ControllerConfig>,
    ];
    of.into_iter().map(|of| of(&place.name)).find(|object| object.resource.kind == place.kind)
}

/// The part of an entry that an objection is about.
fn part_of(objection: &AdmissionIssue) -> EntryPart {
    if objection.effect == Effect::Dropped { EntryPart::Key } else { EntryPart::Value }
}

/// An error, warning or other finding about a manifest.
struct Message {
    severity: Severity,
    code: &'static str,
    place: String,
    text: String,
}

impl Message {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_finding(out, self.severity, self.code, format!("{}{}", self.place, self.text))
    }
}

fn write_finding(out: &mut dyn Write, severity: Severity, code: &str, text: impl Display) -> io::Result<()> {
    let style = terminal::style(severity);
    writeln!(out, "{style}{severity}[{code}]{style:#}: {}", terminal::sanitized(text))
}

fn comparison(pool: &PoolPreview) -> Comparison {
    let side = |object: &MachineConfig| {
        let spec = serde_json::to_value(&object.spec).unwrap_or_default();
        (name_of(object), Node::from_json(&spec).into_owned())
    };
    Comparison::new(&pool.name, pool.before.as_deref().map(side), pool.after.as_deref().map(side))
}

fn differs(pool: &PoolPreview) -> bool {
    comparison(pool).json().1
}

/// Prints the plan as text: findings about the manifests first, then pool by pool. In a summary files are named, and their
/// lines only counted.
pub fn print_text(report: &PlanReport<'_>, is_summary: bool) -> Result<(), Failure> {
    let mut out = output::colored();
    let preview = &report.preview;
    let messages = report.messages();
    for message in &messages {
        message.write(&mut out)?;
    }
    if !messages.is_empty() {
        writeln!(out)?;
    }
    for (nth, pool) in preview.pools.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        write_pool(&mut out, report, pool, is_summary)?;
    }
    if !preview.without_pool.is_empty() {
        writeln!(out)?;
        outlook::write_without_pool(&mut out, &preview.without_pool)?;
        for (pool, nodes) in grouped(preview.newly_unassigned.iter().map(|(node, pool)| (pool, node))) {
            let leave = if nodes.len() == 1 { "leaves" } else { "leave" };
            let (who, pool) = (outlook::names(nodes), terminal::sanitized(pool));
            writeln!(out, "because of these manifests: {who} {leave} pool {pool}; the running configuration stays")?;
        }
    }
    Ok(())
}

fn write_pool(out: &mut dyn Write, report: &PlanReport<'_>, pool: &PoolPreview, is_summary: bool) -> io::Result<()> {
    let (outlook, name) = (&pool.outlook, terminal::sanitized(&pool.name));
    let is_changed = comparison(pool).write(out, is_summary)?;
    if let Some(failure) = &pool.failure {
        let style = terminal::style(Severity::Error);
        let reason = failure.reason.as_str();
        let what = if outlook.target.is_some() { "keeps its current configuration" } else { "gets no configuration" };
        writeln!(out, "{style}pool {name} {what}{style:#} ({reason}): {}", terminal::sanitized(&failure.message))?;
    } else if !is_changed {
        let target = outlook.target.as_deref().unwrap_or("nothing");
        writeln!(out, "pool {name}: no change (target {target})")?;
    }
    if let Some(pinned) = &outlook.pinned {
        writeln!(
            out,
            "pinned to {pinned}: its MachineConfigs have no effect until `seaworthy rollout undo {name} --release`"
        )?;
    }
    for finding in pool.findings.iter().filter(|finding| is_changed || finding.severity == Severity::Error) {
        let text = format!("{}{finding}", report.place_of(finding));
        write_finding(out, finding.severity, finding.code, text)?;
    }
    if outlook.target.is_none() && !outlook.nodes.is_empty() {
        let nodes = outlook::names(outlook.nodes.iter().map(|node| node.name.as_str()));
        writeln!(out, "its nodes are not updated until it has one: {nodes}")?;
    }
    // Those that wait for their turn are in the waves.
    let forecast = &outlook.forecast;
    let behind = forecast.behind.iter().filter(|_| !forecast.blocked.is_empty());
    let in_waves: BTreeSet<&String> = forecast.waves.iter().flat_map(|wave| &wave.nodes).chain(behind).collect();
    let is_stuck = |waiting: &&Waiting| {
        !matches!(waiting.reason, Reason::NoConfiguration { .. }) && !in_waves.contains(&waiting.node)
    };
    let stuck: Vec<_> = outlook.waiting.iter().filter(is_stuck).cloned().collect();
    let to_move: usize = outlook.forecast.waves.iter().map(|wave| wave.nodes.len()).sum();
    let is_caused = |node: &str| pool.moved_nodes.contains_key(node);
    let (caused, other): (Vec<_>, Vec<_>) =
        outlook::moving(outlook).into_iter().partition(|node| is_caused(&node.name));
    // If the pool changes, its difference is printed above; without a cluster nothing is pending.
    let separates_causes = !is_changed && report.is_on_cluster;
    let mut because = Vec::new();
    write_origins(&mut because, pool)?;
    outlook::write_disruptions(&mut because, &caused)?;
    if separates_causes && !because.is_empty() {
        writeln!(out, "because of these manifests:")?;
    }
    out.write_all(&because)?;
    let is_left = !other.is_empty() || stuck.iter().any(|waiting| !is_caused(&waiting.node));
    if separates_causes && is_left {
        writeln!(out, "already pending, not because of these manifests:")?;
    }
    outlook::write_disruptions(out, &other)?;
    if to_move > 0 {
        let budget = outlook.max_unavailable.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        let (each, all) = (outlook::each(outlook), short(outlook.forecast.seconds));
        let but = if forecast.blocked.is_empty() { "" } else { ", if pods can be evicted" };
        let both = if separates_causes && !caused.is_empty() && !other.is_empty() { "all of it: " } else { "" };
        writeln!(out, "{both}budget {budget}, {each}: done in about {all}{but}")?;
    } else if outlook.nodes.is_empty() && is_changed {
        writeln!(out, "no node belongs to it")?;
    }
    outlook::write_remark(out, outlook)?;
    outlook::write_waves(out, outlook)?;
    outlook::write_waiting(out, &stuck)
}

/// Writes which pools nodes come from that were in another pool before. For a new node its disruption is enough.
fn write_origins(out: &mut dyn Write, pool: &PoolPreview) -> io::Result<()> {
    let from = pool.moved_nodes.iter().filter_map(|(node, from)| Some((from.as_ref()?, node)));
    for (from, nodes) in grouped(from.filter(|(from, _)| **from != pool.name)) {
        let come = if nodes.len() == 1 { "comes" } else { "come" };
        writeln!(out, "{} {come} from pool {}", outlook::names(nodes), terminal::sanitized(from))?;
    }
    Ok(())
}

/// Nodes by their pool.
fn grouped<'n>(nodes: impl Iterator<Item = (&'n String, &'n String)>) -> BTreeMap<&'n str, Vec<&'n str>> {
    let mut pools: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    nodes.for_each(|(pool, node)| pools.entry(pool).or_default().push(node));
    pools
}

/// The code of an objection.
fn code(objection: &AdmissionIssue) -> &'static str {
    match objection.effect {
        Effect::Refused => "refused",
        Effect::Reverted => "reverted",
        Effect::Dropped => "unknown-field",
    }
}

fn print_json(report: &PlanReport<'_>) -> Result<(), Failure> {
    let preview = &report.preview;
    let pool = |pool: &PoolPreview| {
        let mut value = outlook::to_json(&pool.name, &pool.outlook);
        value["before"] = json!(pool.before.as_ref().map(|object| name_of(object)));
        value["after"] = json!(pool.after.as_ref().map(|object| name_of(object)));
        value["diff"] = comparison(pool).json().0;
        value["failure"] = json!(
            pool.failure
                .as_ref()
                .map(|failure| { json!({"reason": failure.reason.as_str(), "message": failure.message}) })
        );
        value["findings"] = pool.findings.iter().map(Finding::to_json).collect();
        for node in value["nodes"].as_array_mut().into_iter().flatten() {
            let caused = pool.moved_nodes.get(node["node"].as_str().unwrap_or_default());
            node["byManifests"] = caused.is_some().into();
            if let Some(from) = caused {
                node["poolBefore"] = json!(from);
            }
        }
        value
    };
    let unassigned = |waiting: &Waiting| {
        let mut value = outlook::waiting_json(waiting);
        value["poolBefore"] = json!(preview.newly_unassigned.get(&waiting.node));
        value
    };
    let placed = |mut value: Value, found: Option<FileLocation<'_>>| {
        if let Some(FileLocation { file, position }) = found {
            value["file"] = file.into();
            if let Some((line, column)) = position {
                value["line"] = line.into();
                value["column"] = column.into();
            }
        }
        value
    };
    let objection = |objection: &AdmissionIssue| {
        let value = json!({
            "code": code(objection),
            "severity": Severity::Error.to_string(),
            "object": objection.subject(),
            "path": objection.path,
            "message": objection.message,
        });
        placed(value, report.file(&objection.object, &objection.path, part_of(objection)))
    };
    let problem = |problem: &PreviewProblem| {
        let file = |object: &ObjectRef| report.file(object, &problem.path, EntryPart::Value);
        placed(outlook::problem_json(problem), problem.object.as_ref().and_then(file))
    };
    let value = json!({
        "manifests": report.objections.iter().map(objection).collect::<Vec<_>>(),
        "findings": preview.unselected.iter().map(Finding::to_json).collect::<Vec<_>>(),
        "withoutPool": preview.without_pool.iter().map(unassigned).collect::<Vec<_>>(),
        "pools": preview.pools.iter().map(pool).collect::<Vec<_>>(),
        "problems": preview.problems.iter().map(problem).collect::<Vec<_>>(),
    });
    // A value always has a JSON form.
    writeln!(output::plain(), "{}", seaworthy_manifest::pretty(&value))?;
    Ok(())
}

fn name_of(object: &MachineConfig) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use seaworthy_change::memory::MemoryError;

    use super::*;

    #[test]
    fn incomplete_preview_needs_attention() {
        let report = |problems: Vec<PreviewProblem>| {
            let preview = Preview {
                pools: Vec::new(),
                without_pool: Vec::new(),
                newly_unassigned: BTreeMap::new(),
                problems,
                unselected: Vec::new(),
                newly_unselected: BTreeSet::new(),
            };
            PlanReport::of_cluster(preview, Vec::new(), &BTreeSet::new())
        };
        let missing = MemoryError::Missing(ObjectRef::named::<MachineConfigPool>("infra"));
        assert!(report(vec![PreviewProblem::unperformed(&missing)]).needs_attention());
        let infra = ObjectRef::named::<MachineConfigPool>("infra");
        let elsewhere = PreviewProblem::new(Severity::Error, "base", String::new()).about(infra);
        assert!(!report(vec![elsewhere, PreviewProblem::note("unsettled", String::new())]).needs_attention());
    }
}
