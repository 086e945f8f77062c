//! `seaworthy plan`.

use std::io::Write as _;

use jiff::Timestamp;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_controllers::making::Remote;
use seaworthy_controllers::plane::NAMESPACE;
use seaworthy_controllers::preview::{Admission, Applied, Foresight, Means, Objection, PoolForesight, foresee};
use seaworthy_controllers::snapshots::ClusterSnapshots;
use seaworthy_controllers::world::World;
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_ignition::Severity;
use seaworthy_ignition::node::Node;
use seaworthy_plan::duration::short;
use serde_json::{Value, json};

use super::diff::Comparison;
use super::{outlook, templates, workspace};
use crate::cli::{Plan, ReportFormat};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::objects;
use crate::{output, paint, remote};

pub fn run(options: &Plan) -> Result<u8, Failure> {
    let texts = workspace::texts(&options.input)?;
    let mut manifests = Vec::new();
    let mut errors = Vec::new();
    objects::each(&texts, &mut errors, &mut |object| {
        let mut json = object.node.to_json();
        json["kind"] = object.kind.into();
        if let Some(version) = object.list_version.filter(|_| json.get("apiVersion").is_none()) {
            json["apiVersion"] = version.into();
        }
        manifests.push(json);
    });
    if !errors.is_empty() {
        return Err(Failure::all_unreadable(errors));
    }
    let runtime = outlook::runtime()?;
    let result = runtime.block_on(foreseen(options, &manifests));
    runtime.shutdown_background();
    let (mut foresight, objections) = result?;
    let known: Vec<String> = foresight.pools.iter().map(|pool| pool.name.clone()).collect();
    if let Some(missing) = options.pool.iter().find(|pool| !known.contains(pool)) {
        return Err(outlook::no_pool(missing, &known));
    }
    if known.is_empty() {
        objections.iter().for_each(|objection| paint::error(&objection.to_string()));
        let none = if objections.is_empty() { "there is no MachineConfigPool" } else { "no MachineConfigPool is left" };
        return Err(Failure::unreadable(format!(
            "{none}, so nothing would come of these manifests; give pools, or leave --server-less away"
        )));
    }
    foresight.pools.retain(|pool| options.pool.is_empty() || options.pool.contains(&pool.name));
    match options.output {
        ReportFormat::Text => print_text(&foresight, &objections)?,
        ReportFormat::Json => print_json(&foresight, &objections)?,
    }
    let is_news = |pool: &PoolForesight| pool.failure.is_some() || differs(pool);
    let is_refused = objections.iter().any(|objection| objection.is_refusal);
    Ok(if is_refused || foresight.pools.iter().any(is_news) { WRONG } else { OK })
}

/// What would be, and what the API says against the manifests.
async fn foreseen(options: &Plan, manifests: &[Value]) -> Result<(Foresight, Vec<Objection>), Failure> {
    let now = Timestamp::now();
    let templates = templates::read(options.templates.as_deref())?;
    let policy = Policy::allowing(options.remote.allow_host.iter().cloned());
    let (before, snapshots) = if options.server_less {
        (World::default(), remote::snapshots(&options.remote)?)
    } else {
        let client = outlook::client(&options.cluster).await?;
        let world = World::read(&client, true).await.map_err(Failure::unreadable)?;
        // The content that the cluster has pinned; what is fetched beside it is not kept there.
        let snapshots: std::sync::Arc<dyn seaworthy_fetch::Snapshots> =
            match ClusterSnapshots::load(&client, NAMESPACE).await {
                Ok(found) => std::sync::Arc::new(found),
                Err(error) => {
                    paint::note(&format!("the cluster's remote content cannot be read, so it is fetched: {error}"));
                    remote::snapshots(&options.remote)?
                }
            };
        (world, snapshots)
    };
    let mut after = before.clone();
    let admission = if options.server_less { Admission::of_state() } else { Admission::of_changes() };
    let (mut objections, mut ignored) = (Vec::new(), std::collections::BTreeMap::<String, usize>::new());
    for manifest in manifests {
        match after.apply(manifest, &admission, now) {
            Ok(applied) if applied.outcome == Applied::Ignored => {
                let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or("(no kind)");
                *ignored.entry(kind.to_owned()).or_default() += 1;
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
    let means = means(Remote { policy, snapshots, is_offline: options.remote.offline }, templates, now);
    Ok((foresee(&before, after, &means).await, objections))
}

/// What the controllers of this build decide with.
pub fn means(remote: Remote, templates: Templates, now: Timestamp) -> Means {
    let build = format!("seaworthy-{}", env!("CARGO_PKG_VERSION"));
    Means { remote, templates, build, now }
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

/// Prints what would happen, for people.
pub fn print_text(foresight: &Foresight, objections: &[Objection]) -> Result<(), Failure> {
    let mut out = output::painted();
    for objection in objections {
        let severity = if objection.is_refusal { Severity::Error } else { Severity::Warning };
        let style = paint::style(severity);
        writeln!(out, "{style}{severity}[{}]{style:#}: {}", code(objection), paint::plain(objection))?;
    }
    if !objections.is_empty() {
        writeln!(out)?;
    }
    for (nth, pool) in foresight.pools.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        let outlook = &pool.outlook;
        let is_changed = comparison(pool).write(&mut out)?;
        if let Some(failure) = &pool.failure {
            let style = paint::style(Severity::Error);
            let (name, reason) = (paint::plain(&pool.name), failure.reason.as_str());
            writeln!(
                out,
                "{style}pool {name} keeps what it has{style:#} ({reason}): {}",
                paint::plain(&failure.message)
            )?;
        } else if !is_changed {
            let target = outlook.target.as_deref().unwrap_or("nothing");
            writeln!(out, "pool {}: no change, it targets {target}", paint::plain(&pool.name))?;
        }
        if let Some(pinned) = &outlook.pinned {
            writeln!(
                out,
                "pinned to {pinned}: its MachineConfigs have no effect until `seaworthy rollout undo {} --release`",
                paint::plain(&pool.name)
            )?;
        }
        for finding in pool.findings.iter().filter(|finding| is_changed || finding.severity == Severity::Error) {
            let style = paint::style(finding.severity);
            writeln!(out, "{style}{}[{}]{style:#}: {}", finding.severity, finding.code, paint::plain(finding))?;
        }
        outlook::write_disruptions(&mut out, outlook)?;
        let to_move: usize = outlook.forecast.waves.iter().map(|wave| wave.nodes.len()).sum();
        if to_move > 0 {
            let budget = outlook.max_unavailable.as_ref().map_or_else(ToString::to_string, ToString::to_string);
            writeln!(
                out,
                "budget {budget}, {}: done in about {}",
                outlook::each(outlook),
                short(outlook.forecast.seconds)
            )?;
            outlook::write_waves(&mut out, outlook)?;
        } else if outlook.nodes.is_empty() && is_changed {
            writeln!(out, "no node takes its configuration from it")?;
        }
        // Those that wait for their turn are in the waves.
        let stuck: Vec<_> = outlook
            .waiting
            .iter()
            .filter(|waiting| !outlook.forecast.waves.iter().any(|wave| wave.nodes.contains(&waiting.node)))
            .cloned()
            .collect();
        outlook::write_waiting(&mut out, &stuck)?;
    }
    if !foresight.without_pool.is_empty() {
        writeln!(out)?;
        outlook::write_without_pool(&mut out, &foresight.without_pool)?;
    }
    drop(out);
    foresight.problems.iter().for_each(|problem| paint::warning(problem));
    Ok(())
}

/// What is wrong with a manifest, in a word.
fn code(objection: &Objection) -> &'static str {
    if objection.is_refusal { "refused" } else { "unknown-field" }
}

fn print_json(foresight: &Foresight, objections: &[Objection]) -> Result<(), Failure> {
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
        value["findings"] = pool.findings.iter().map(seaworthy_render::Finding::to_json).collect();
        value
    };
    let objection = |objection: &Objection| {
        json!({
            "code": code(objection),
            "severity": if objection.is_refusal { Severity::Error } else { Severity::Warning }.to_string(),
            "object": objection.object,
            "path": objection.path,
            "message": objection.message,
        })
    };
    let value = json!({
        "manifests": objections.iter().map(objection).collect::<Vec<_>>(),
        "withoutPool": foresight.without_pool.iter().map(outlook::waiting_json).collect::<Vec<_>>(),
        "pools": foresight.pools.iter().map(pool).collect::<Vec<_>>(),
        "problems": foresight.problems,
    });
    // A value always has a JSON form.
    writeln!(output::plain(), "{}", serde_json::to_string_pretty(&value).unwrap_or_default())?;
    Ok(())
}

fn name_of(object: &MachineConfig) -> String {
    object.metadata.name.clone().unwrap_or_default()
}
