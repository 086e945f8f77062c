//! `seaworthy plan`: preview of applying manifests.

mod json;
mod report;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use seaworthy_controllers::operators;
use seaworthy_fetch::Policy;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::preview::{preview_changes, reverted_target};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_machineconfig::render::snapshots::ContentSnapshots;
use seaworthy_preview::{ApplyOutcome, PreviewProblem};
use seaworthy_runtime::{NAMESPACE, admission_policies};
use serde_json::Value;

pub use self::report::PlanReport;
pub use self::text::print as print_text;
use super::loading;
use crate::cli::{Plan, ReportFormat};
use crate::cluster::{client, no_pool};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::manifest::objects::{self, ObjectLocation};
use crate::manifest::templates;
use crate::process::block_on;
use crate::{preview, remote, terminal};

/// The namespace of manifests without one, where no kubeconfig names another.
const DEFAULT_NAMESPACE: &str = "default";

/// A manifest of the input, and where it is.
struct InputManifest<'t> {
    json: Value,
    location: ObjectLocation<'t>,
}

pub fn run(options: &Plan) -> Result<u8, Failure> {
    let texts = loading::texts(&options.input)?;
    let mut given = Vec::new();
    objects::each(&texts, &mut |object| {
        if let Some(message) = object.misspelt_kind() {
            return Err(vec![object.location.error_at_key("kind", &message)]);
        }
        let mut json = object.node.to_json();
        json["kind"] = object.kind.into();
        if json.get("apiVersion").is_none() && !object.api_version.is_empty() {
            json["apiVersion"] = object.api_version.into();
        }
        given.push(InputManifest { json, location: object.location });
        Ok(())
    })?;
    if given.is_empty() {
        let next = "pass manifests, or use `seaworthy rollout status` to show the state of a cluster";
        return Err(Failure::invalid(format!("the input has no objects, so there is nothing to plan; {next}")));
    }
    let mut report = block_on(create_report(options, given))?;
    let preview = &mut report.preview;
    let known: Vec<String> = preview.pools.iter().map(|pool| pool.name.clone()).collect();
    if let Some(missing) = options.pool.iter().find(|pool| !known.contains(pool)) {
        return Err(no_pool(missing, &known));
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
        ReportFormat::Json => json::print(&report)?,
    }
    Ok(if report.needs_attention() { EXIT_FAILED } else { EXIT_OK })
}

/// Previews the manifests: the future state, and objections of the API.
async fn create_report<'t>(options: &Plan, given: Vec<InputManifest<'t>>) -> Result<PlanReport<'t>, Failure> {
    let now = Timestamp::now();
    let parts = preview::parts(templates::read(options.templates.as_deref())?);
    let admission = operators::admission();
    let policy = Policy::allowing(options.remote.allow_host.iter().cloned());
    let (before, namespace, snapshots, admission) = if options.server_less {
        let state = ClusterState::default().with_parts(&parts).map_err(Failure::failed)?;
        (state, DEFAULT_NAMESPACE.to_owned(), remote::snapshots(&options.remote)?, admission)
    } else {
        let client = client(&options.cluster).await?;
        let state = ClusterState::read(&client, ReadScope::Preview(&parts)).await.map_err(Failure::invalid)?;
        // The content that the cluster has pinned; what is fetched beside it is not kept there.
        let snapshots: Arc<dyn seaworthy_fetch::Snapshots> = match ContentSnapshots::load(&client, NAMESPACE).await {
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
    let inputs = preview::inputs(remote, parts, now, !options.server_less);
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

fn kind_in(json: &Value) -> &str {
    json.get("kind").and_then(Value::as_str).unwrap_or("(no kind)")
}
