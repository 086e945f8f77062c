//! `seaworthy plan`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};

use jiff::Timestamp;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_ignition::Severity;
use seaworthy_ignition::node::Node;
use seaworthy_ignition::path::Path;
use seaworthy_machineconfig::context::build;
use seaworthy_machineconfig::operator::NAMESPACE;
use seaworthy_machineconfig::preview::{
    Admission, Applied, Effect, Foresight, Means, Objection, PoolForesight, Problem, foresee,
};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_machineconfig::render::snapshots::ClusterSnapshots;
use seaworthy_machineconfig::world::World;
use seaworthy_plan::duration::short;
use seaworthy_plan::rollout::waiting::{Reason, Waiting};
use seaworthy_render::Finding;
use serde_json::{Value, json};

use super::diff::Comparison;
use super::{outlook, templates, workspace};
use crate::cli::{Plan, ReportFormat};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::objects::{self, Place};
use crate::manifest::{FilePlace, Part, misspelt};
use crate::{output, paint, remote};

/// A manifest that was given, and where it stands.
struct Given<'t> {
    json: Value,
    place: Place<'t>,
}

/// What came of a look ahead.
pub struct Report<'t> {
    /// What would be.
    pub foresight: Foresight,
    /// What the API says against the manifests.
    pub objections: Vec<Objection>,
    /// Where the manifests stand, by kind and name.
    places: BTreeMap<(String, String), Place<'t>>,
    /// Whether the manifests were laid over a cluster, which has a life of its own.
    is_on_cluster: bool,
}

pub fn run(options: &Plan) -> Result<u8, Failure> {
    let texts = workspace::texts(&options.input)?;
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
            wrong.push(object.place.complaint("kind", &message));
        }
        given.push(Given { json, place: object.place.clone() });
    });
    errors.append(&mut wrong);
    if !errors.is_empty() {
        return Err(Failure::all_unreadable(errors));
    }
    if given.is_empty() {
        let next = "pass manifests, or use `seaworthy rollout status` to show the state of a cluster";
        return Err(Failure::unreadable(format!("the input has no objects, so there is nothing to plan; {next}")));
    }
    let runtime = outlook::runtime()?;
    let result = runtime.block_on(foreseen(options, given));
    runtime.shutdown_background();
    let mut report = result?;
    let foresight = &mut report.foresight;
    let known: Vec<String> = foresight.pools.iter().map(|pool| pool.name.clone()).collect();
    if let Some(missing) = options.pool.iter().find(|pool| !known.contains(pool)) {
        return Err(outlook::no_pool(missing, &known));
    }
    if known.is_empty() {
        report.objections.iter().for_each(|objection| paint::error(&objection.to_string()));
        let none =
            if report.objections.is_empty() { "no MachineConfigPool found" } else { "no MachineConfigPool is left" };
        let next = if options.server_less {
            "pass MachineConfigPools, or omit --server-less"
        } else {
            "a ControllerConfig creates the pools master and worker (examples/controller-config.yaml); create any \
             other as a MachineConfigPool"
        };
        return Err(Failure::unreadable(format!("{none}, so these manifests have no effect; {next}")));
    }
    foresight.pools.retain(|pool| options.pool.is_empty() || options.pool.contains(&pool.name));
    match options.output {
        ReportFormat::Text => print_text(&report, options.summary)?,
        ReportFormat::Json => print_json(&report)?,
    }
    Ok(if report.is_news() { WRONG } else { OK })
}

/// What would be, and what the API says against the manifests.
async fn foreseen<'t>(options: &Plan, given: Vec<Given<'t>>) -> Result<Report<'t>, Failure> {
    let now = Timestamp::now();
    let templates = templates::read(options.templates.as_deref())?;
    let policy = Policy::allowing(options.remote.allow_host.iter().cloned());
    let (before, snapshots, admission) = if options.server_less {
        (World::default(), remote::snapshots(&options.remote)?, Admission::of_state())
    } else {
        let client = outlook::client(&options.cluster).await?;
        let world = World::read(&client, true).await.map_err(Failure::unreadable)?;
        // The content that the cluster has pinned; what is fetched beside it is not kept there.
        let snapshots: std::sync::Arc<dyn seaworthy_fetch::Snapshots> =
            match ClusterSnapshots::load(&client, NAMESPACE).await {
                Ok(found) => std::sync::Arc::new(found),
                Err(error) => {
                    paint::note(&format!(
                        "cannot read the cluster's snapshots of remote content, fetching it \
                                          instead: {error}"
                    ));
                    remote::snapshots(&options.remote)?
                }
            };
        (world, snapshots, Admission::of_changes_to(&client).await)
    };
    let mut after = before.clone();
    let (mut objections, mut ignored) = (Vec::new(), BTreeMap::<String, usize>::new());
    for Given { json, .. } in &given {
        let outcome = match options.delete {
            true => after.delete(json, &admission),
            false => after.apply(json, &admission, now),
        };
        match outcome {
            Ok(applied) if applied.outcome == Applied::Ignored => {
                *ignored.entry(kind_in(json).to_owned()).or_default() += 1;
            }
            Ok(applied) => objections.extend(applied.dropped),
            Err(refused) => objections.extend(refused),
        }
    }
    if !ignored.is_empty() {
        let kinds: Vec<String> = ignored.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
        paint::note(&format!("ignored objects of other kinds: {}", kinds.join(", ")));
    }
    // Without a cluster, the pools' present targets are among the manifests.
    let before = if options.server_less { after.clone() } else { before };
    let remote = Remote { policy, snapshots, is_offline: options.remote.offline };
    let means = means(remote, templates, now, !options.server_less);
    let overruled: Vec<Problem> = match options.delete {
        true => Vec::new(),
        false => given.iter().filter_map(|given| Problem::overruled(&before, &given.json)).collect(),
    };
    let mut foresight = foresee(&before, after, &means).await;
    foresight.problems.extend(overruled);
    foresight.problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
    Ok(Report::new(foresight, objections, given, !options.server_less))
}

/// What the controllers of this build decide with, about a cluster or about manifests alone.
pub fn means(remote: Remote, templates: Templates, now: Timestamp, is_cluster: bool) -> Means {
    Means { remote, templates, build: build(), now, is_cluster }
}

fn kind_in(json: &Value) -> &str {
    json.get("kind").and_then(Value::as_str).unwrap_or("(no kind)")
}

fn name_in(json: &Value) -> &str {
    json.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

impl Report<'_> {
    /// What is foreseen for a cluster, of manifests that stand in no file.
    pub fn of_cluster(foresight: Foresight, objections: Vec<Objection>, manifests: &[Value]) -> Report<'static> {
        let key = |json: &Value| (kind_in(json).to_owned(), name_in(json).to_owned());
        let given = manifests.iter().map(key).collect();
        Report { foresight: concerning(foresight, &given), objections, places: BTreeMap::new(), is_on_cluster: true }
    }

    fn new<'t>(
        foresight: Foresight,
        objections: Vec<Objection>,
        given: Vec<Given<'t>>,
        is_on_cluster: bool,
    ) -> Report<'t> {
        let key = |json: &Value| (kind_in(json).to_owned(), name_in(json).to_owned());
        let places: BTreeMap<_, _> = given.into_iter().map(|given| (key(&given.json), given.place)).collect();
        let given = places.keys().cloned().collect();
        Report { foresight: concerning(foresight, &given), objections, places, is_on_cluster }
    }

    /// Whether somebody should look: something changes, or something is wrong with what was given.
    fn is_news(&self) -> bool {
        let is_news = |pool: &PoolForesight| pool.failure.is_some() || differs(pool) || !pool.caused.is_empty();
        let is_wrong = |problem: &&Problem| problem.severity == Severity::Error && self.is_given(problem);
        !self.objections.is_empty()
            || !self.foresight.unselected.is_empty()
            || !self.foresight.lost.is_empty()
            || self.foresight.problems.iter().any(|problem| is_wrong(&problem))
            || self.foresight.pools.iter().any(is_news)
    }

    fn is_given(&self, problem: &Problem) -> bool {
        let object = problem.object.as_ref();
        object.is_some_and(|(kind, name)| self.places.contains_key(&((*kind).to_owned(), name.clone())))
    }

    /// Where something stands, with a colon behind it; nothing where it stands in no file.
    fn place(&self, kind: &str, name: &str, path: &str, part: Part) -> String {
        let found = self.file(kind, name, path, part);
        found.map(|found| format!("{found}: ")).unwrap_or_default()
    }

    fn file(&self, kind: &str, name: &str, path: &str, part: Part) -> Option<FilePlace<'_>> {
        let place = self.places.get(&(kind.to_owned(), name.to_owned()))?;
        Some(place.file(&Path::parse(path), part))
    }

    /// Everything that is wrong with the manifests, or worth knowing about them: its severity, its word, where it stands,
    /// what it is; the gravest first.
    fn said(&self) -> Vec<Said> {
        let mut all = Vec::new();
        for objection in &self.objections {
            let (kind, name) = objection.object.split_once(' ').unwrap_or((&objection.object, ""));
            let part = if objection.effect == Effect::Dropped { Part::Key } else { Part::Value };
            let place = self.place(kind, name, &objection.path, part);
            // Whoever applies it with kubectl is told no, also of a field that the API would drop.
            all.push(Said { severity: Severity::Error, code: code(objection), place, text: objection.to_string() });
        }
        for problem in &self.foresight.problems {
            let object = problem.object.as_ref();
            let place =
                object.map(|(kind, name)| self.place(kind, name, &problem.path, Part::Value)).unwrap_or_default();
            let Problem { severity, code, message, .. } = problem;
            all.push(Said { severity: *severity, code, place, text: message.clone() });
        }
        for finding in &self.foresight.unselected {
            let place = finding.places.first();
            let place = place.map(|place| self.place(place.kind, &place.name, &place.path, Part::of(finding.code)));
            let (severity, code, text) = (finding.severity, finding.code, finding.to_string());
            all.push(Said { severity, code, place: place.unwrap_or_default(), text });
        }
        all.sort_by_key(|said| std::cmp::Reverse(said.severity));
        all
    }
}

/// A foresight without what is neither about the manifests nor caused by them: of the rest of the cluster nobody has asked.
fn concerning(mut foresight: Foresight, given: &BTreeSet<(String, String)>) -> Foresight {
    let stranded = &foresight.stranded;
    let concerns = |finding: &Finding| {
        let mut of = finding.places.iter();
        of.any(|place| given.contains(&(place.kind.to_owned(), place.name.clone())) || stranded.contains(&place.name))
    };
    foresight.unselected.retain(concerns);
    foresight
}

/// Something that is wrong, or worth knowing.
struct Said {
    severity: Severity,
    code: &'static str,
    place: String,
    text: String,
}

impl Said {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write_finding(out, self.severity, self.code, format!("{}{}", self.place, self.text))
    }
}

fn write_finding(out: &mut impl Write, severity: Severity, code: &str, text: impl Display) -> io::Result<()> {
    let style = paint::style(severity);
    writeln!(out, "{style}{severity}[{code}]{style:#}: {}", paint::plain(text))
}

fn comparison(pool: &PoolForesight) -> Comparison {
    let side = |object: &MachineConfig| {
        let spec = serde_json::to_value(&object.spec).unwrap_or_default();
        (name_of(object), Node::from_json(&spec).into_owned())
    };
    Comparison::new(&pool.name, pool.before.as_deref().map(side), pool.after.as_deref().map(side))
}

fn differs(pool: &PoolForesight) -> bool {
    comparison(pool).json().1
}

/// Prints what would happen, for people: what is wrong with the manifests first, then pool by pool. In a summary files are
/// named, and their lines only counted.
pub fn print_text(report: &Report<'_>, is_summary: bool) -> Result<(), Failure> {
    let mut out = output::painted();
    let foresight = &report.foresight;
    let said = report.said();
    for said in &said {
        said.write(&mut out)?;
    }
    if !said.is_empty() {
        writeln!(out)?;
    }
    for (nth, pool) in foresight.pools.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        write_pool(&mut out, report, pool, is_summary)?;
    }
    if !foresight.without_pool.is_empty() {
        writeln!(out)?;
        outlook::write_without_pool(&mut out, &foresight.without_pool)?;
        for (pool, nodes) in grouped(foresight.lost.iter().map(|(node, pool)| (pool, node))) {
            let leave = if nodes.len() == 1 { "leaves" } else { "leave" };
            let (who, pool) = (outlook::names(nodes), paint::plain(pool));
            writeln!(out, "because of these manifests: {who} {leave} pool {pool}; the running configuration stays")?;
        }
    }
    Ok(())
}

fn write_pool(out: &mut impl Write, report: &Report<'_>, pool: &PoolForesight, is_summary: bool) -> io::Result<()> {
    let (outlook, name) = (&pool.outlook, paint::plain(&pool.name));
    let is_changed = comparison(pool).write(out, is_summary)?;
    if let Some(failure) = &pool.failure {
        let style = paint::style(Severity::Error);
        let reason = failure.reason.as_str();
        let what = if outlook.target.is_some() { "keeps its current configuration" } else { "gets no configuration" };
        writeln!(out, "{style}pool {name} {what}{style:#} ({reason}): {}", paint::plain(&failure.message))?;
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
        let place = finding.places.first();
        let place = place.map(|place| report.place(place.kind, &place.name, &place.path, Part::of(finding.code)));
        let text = format!("{}{finding}", place.unwrap_or_default());
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
    let is_caused = |node: &str| pool.caused.contains_key(node);
    let (caused, other): (Vec<_>, Vec<_>) =
        outlook::moving(outlook).into_iter().partition(|node| is_caused(&node.name));
    // Where the pool changes, that stands above; without a cluster nothing is on its way.
    let is_told_apart = !is_changed && report.is_on_cluster;
    let mut because = Vec::new();
    write_origins(&mut because, pool)?;
    outlook::write_disruptions(&mut because, &caused)?;
    if is_told_apart && !because.is_empty() {
        writeln!(out, "because of these manifests:")?;
    }
    out.write_all(&because)?;
    let is_left = !other.is_empty() || stuck.iter().any(|waiting| !is_caused(&waiting.node));
    if is_told_apart && is_left {
        writeln!(out, "already pending, not because of these manifests:")?;
    }
    outlook::write_disruptions(out, &other)?;
    if to_move > 0 {
        let budget = outlook.max_unavailable.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        let (each, all) = (outlook::each(outlook), short(outlook.forecast.seconds));
        let but = if forecast.blocked.is_empty() { "" } else { ", if pods can be evicted" };
        let both = if is_told_apart && !caused.is_empty() && !other.is_empty() { "all of it: " } else { "" };
        writeln!(out, "{both}budget {budget}, {each}: done in about {all}{but}")?;
    } else if outlook.nodes.is_empty() && is_changed {
        writeln!(out, "no node belongs to it")?;
    }
    outlook::write_remark(out, outlook)?;
    outlook::write_waves(out, outlook)?;
    outlook::write_waiting(out, &stuck)
}

/// Says from where nodes come that have not been in the pool before. What is on a node that is new is told by its disruption.
fn write_origins(out: &mut impl Write, pool: &PoolForesight) -> io::Result<()> {
    let from = pool.caused.iter().filter_map(|(node, from)| Some((from.as_ref()?, node)));
    for (from, nodes) in grouped(from.filter(|(from, _)| **from != pool.name)) {
        let come = if nodes.len() == 1 { "comes" } else { "come" };
        writeln!(out, "{} {come} from pool {}", outlook::names(nodes), paint::plain(from))?;
    }
    Ok(())
}

/// Nodes by their pool.
fn grouped<'n>(nodes: impl Iterator<Item = (&'n String, &'n String)>) -> BTreeMap<&'n str, Vec<&'n str>> {
    let mut pools: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    nodes.for_each(|(pool, node)| pools.entry(pool).or_default().push(node));
    pools
}

/// What is wrong with a manifest, in a word.
fn code(objection: &Objection) -> &'static str {
    match objection.effect {
        Effect::Refused => "refused",
        Effect::PutBack => "reverted",
        Effect::Dropped => "unknown-field",
    }
}

fn print_json(report: &Report<'_>) -> Result<(), Failure> {
    let foresight = &report.foresight;
    let pool = |pool: &PoolForesight| {
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
            let caused = pool.caused.get(node["node"].as_str().unwrap_or_default());
            node["byManifests"] = caused.is_some().into();
            if let Some(from) = caused {
                node["poolBefore"] = json!(from);
            }
        }
        value
    };
    let stray = |waiting: &Waiting| {
        let mut value = outlook::waiting_json(waiting);
        value["poolBefore"] = json!(foresight.lost.get(&waiting.node));
        value
    };
    let placed = |mut value: Value, found: Option<FilePlace<'_>>| {
        if let Some(FilePlace { file, position }) = found {
            value["file"] = file.into();
            if let Some((line, column)) = position {
                value["line"] = line.into();
                value["column"] = column.into();
            }
        }
        value
    };
    let objection = |objection: &Objection| {
        let (kind, name) = objection.object.split_once(' ').unwrap_or((&objection.object, ""));
        let part = if objection.effect == Effect::Dropped { Part::Key } else { Part::Value };
        let value = json!({
            "code": code(objection),
            "severity": Severity::Error.to_string(),
            "object": objection.object,
            "path": objection.path,
            "message": objection.message,
        });
        placed(value, report.file(kind, name, &objection.path, part))
    };
    let problem = |problem: &Problem| {
        let object = problem.object.as_ref();
        placed(
            outlook::problem_json(problem),
            object.and_then(|(kind, name)| report.file(kind, name, &problem.path, Part::Value)),
        )
    };
    let value = json!({
        "manifests": report.objections.iter().map(objection).collect::<Vec<_>>(),
        "findings": foresight.unselected.iter().map(Finding::to_json).collect::<Vec<_>>(),
        "withoutPool": foresight.without_pool.iter().map(stray).collect::<Vec<_>>(),
        "pools": foresight.pools.iter().map(pool).collect::<Vec<_>>(),
        "problems": foresight.problems.iter().map(problem).collect::<Vec<_>>(),
    });
    // A value always has a JSON form.
    writeln!(output::plain(), "{}", serde_json::to_string_pretty(&value).unwrap_or_default())?;
    Ok(())
}

fn name_of(object: &MachineConfig) -> String {
    object.metadata.name.clone().unwrap_or_default()
}
