//! Player: plays a recorded scenario to the operator, and records what becomes of the clusters.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::api::{Api, Refusal, text};
use crate::comparison::{plain, shaped};
use crate::paths::find;
use crate::world::World;

/// How long a condition may take where a step does not say.
const UNTIL_TIMEOUT: Duration = Duration::from_secs(30);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a condition is checked although nothing has changed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// When an object of each scenario has changed last, from watches that all scenarios share.
#[derive(Default)]
pub struct Changes {
    last: Mutex<HashMap<String, (Instant, Arc<Notify>)>>,
}

impl Changes {
    /// Watches these kinds, as the scenarios name them, on both clusters.
    pub async fn watch(self: &Arc<Self>, world: &World, kinds: &[String]) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for (cluster, client, api) in [
            ("management", world.management_cluster.client(), &world.management),
            ("workload", world.workload_cluster.client(), &world.workload),
        ] {
            for kind in kinds {
                let mut words = kind.rsplitn(3, ' ');
                let (kind, version, on) = (words.next().unwrap(), words.next().unwrap(), words.next());
                if on.is_some_and(|on| on != cluster) {
                    continue;
                }
                let reference = json!({"apiVersion": version, "kind": kind});
                // One that only the other cluster has.
                let Ok(plural) = api.plural(&reference).await else { continue };
                let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
                let resource = ApiResource {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    api_version: text(&reference, "apiVersion").to_owned(),
                    kind: kind.to_owned(),
                    plural,
                };
                tasks.spawn(follow(Arc::clone(self), client.clone(), resource));
            }
        }
        tasks
    }

    fn begin(&self, id: &str) -> Arc<Notify> {
        let notify = Arc::<Notify>::default();
        self.last.lock().unwrap().insert(id.to_owned(), (Instant::now(), Arc::clone(&notify)));
        notify
    }

    fn last(&self, id: &str) -> Instant {
        self.last.lock().unwrap()[id].0
    }

    fn record(&self, object: &str) {
        for (id, (last, notify)) in self.last.lock().unwrap().iter_mut() {
            if object.contains(id.as_str()) {
                *last = Instant::now();
                notify.notify_waiters();
            }
        }
    }
}

async fn follow(changes: Arc<Changes>, client: Client, resource: ApiResource) {
    let api = kube::Api::<DynamicObject>::all_with(client, &resource);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        if let Ok(watcher::Event::Apply(object) | watcher::Event::Delete(object)) = event {
            changes.record(&serde_json::to_string(&object).unwrap());
        }
    }
}

/// One pass of one scenario.
pub struct Player<'a> {
    world: &'a World,
    scenario: &'a Value,
    changes: &'a Changes,
    changed: Arc<Notify>,
    id: String,
    variables: BTreeMap<String, String>,
    answers: Vec<Value>,
}

impl<'a> Player<'a> {
    /// `id` distinguishes this pass from all others: six characters that no other text has.
    pub fn new(world: &'a World, changes: &'a Changes, scenario: &'a Value, id: String) -> Player<'a> {
        let namespace = format!("{}-{id}", text(scenario, "name"));
        let namespace = namespace[namespace.len().saturating_sub(63)..].to_owned();
        let variables = BTreeMap::from([
            ("id".to_owned(), id.clone()),
            ("ns".to_owned(), namespace),
            ("workload_kubeconfig".to_owned(), world.kubeconfig()),
        ]);
        let changed = changes.begin(&id);
        Player { world, scenario, changes, changed, id, variables, answers: Vec::new() }
    }

    /// What becomes of the clusters, as it is recorded.
    pub async fn play(mut self) -> Value {
        if self.scenario["namespace"] == true {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.variables["ns"]},
            });
            for api in [&self.world.management, &self.world.workload] {
                api.create(&namespace).await.unwrap();
            }
        }
        for step in self.scenario["steps"].as_array().unwrap() {
            if let Err(problem) = self.step(step).await {
                let name = step["name"].as_str().or_else(|| step.as_object()?.keys().next().map(String::as_str));
                self.answers.push(json!({"step": name, "failed": plain(&json!(problem.to_string()))}));
                if step["may_fail"] != true {
                    break;
                }
            }
        }
        let recording = json!({"scenario": self.scenario["name"], "answers": self.answers});
        serde_json::from_str(&recording.to_string().replace(&self.id, "ID")).unwrap()
    }

    fn api(&self, step: &Value) -> &'a Api {
        match step["on"].as_str() {
            None | Some("management") => &self.world.management,
            Some("workload") => &self.world.workload,
            Some(other) => panic!("there is no cluster {other}"),
        }
    }

    /// The value with its variables replaced; a variable may be inside another.
    fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let mut text = text.clone();
                while let Some((start, name)) = innermost(&text) {
                    let found = self.variables.get(&name).unwrap_or_else(|| panic!("no variable {name}"));
                    text.replace_range(start..start + name.len() + 3, found);
                }
                text.into()
            }
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(fields) => {
                let key = |key: &str| self.fill(&json!(key)).as_str().unwrap().to_owned();
                Value::Object(fields.iter().map(|(name, value)| (key(name), self.fill(value))).collect())
            }
            other => other.clone(),
        }
    }

    fn remember(&mut self, object: &Value) {
        let name = format!("uid:{}/{}", text(object, "kind"), text(&object["metadata"], "name"));
        self.variables.insert(name, text(&object["metadata"], "uid").to_owned());
    }

    async fn step(&mut self, step: &Value) -> Result<(), Problem> {
        let api = self.api(step);
        if let Some(object) = step.get("create") {
            let object = self.fill(object);
            let created = api.create(&object).await?;
            self.remember(&created);
            if let Some(status) = step.get("status") {
                api.patch(&created, Some("status"), &json!({"status": self.fill(status)})).await?;
            }
        } else if let Some(reference) = step.get("patch") {
            let patch = self.fill(&step["with"]);
            let patched = api.patch(&self.fill(reference), step["sub"].as_str(), &patch).await?;
            self.remember(&patched);
        } else if let Some(reference) = step.get("delete") {
            api.delete(&self.fill(reference)).await?;
        } else if let Some(quiet) = step.get("settle") {
            let quiet = Duration::from_secs_f64(quiet.as_f64().filter(|quiet| *quiet > 0.0).unwrap_or(1.5));
            self.settle(quiet, seconds(step).unwrap_or(SETTLE_TIMEOUT)).await?;
        } else if step.get("until").is_some() {
            self.until(api, step).await?;
        } else if let Some(references) = step.get("snapshot") {
            self.snapshot(api, step, &self.fill(references)).await?;
        } else {
            panic!("unknown step {step}");
        }
        Ok(())
    }

    /// Waits until no object of the scenario has changed for so long.
    async fn settle(&self, quiet: Duration, timeout: Duration) -> Result<(), Problem> {
        let begin = Instant::now();
        loop {
            let until = self.changes.last(&self.id).max(begin) + quiet;
            if until <= Instant::now() {
                return Ok(());
            }
            if until > begin + timeout {
                return Err(Problem::Timeout(format!("not settled after {timeout:?}")));
            }
            tokio::time::sleep_until(until).await;
        }
    }

    async fn until(&mut self, api: &Api, step: &Value) -> Result<(), Problem> {
        let (reference, wanted) = (self.fill(&step["until"]), step.get("is").map(|wanted| self.fill(wanted)));
        let deadline = Instant::now() + seconds(step).unwrap_or(UNTIL_TIMEOUT);
        loop {
            // Before the check, so that no change falls between them.
            let changed = Arc::clone(&self.changed);
            let mut changed = std::pin::pin!(changed.notified());
            changed.as_mut().enable();
            match api.get(&reference).await {
                Ok(found) => {
                    self.remember(&found);
                    let value = step["at"].as_str().map_or(Some(&found), |at| find(&found, at));
                    let is_met = match &wanted {
                        Some(wanted) => value == Some(wanted),
                        None => value.is_some_and(|value| !value.is_null()),
                    };
                    if is_met && step["gone"] != true {
                        return Ok(());
                    }
                }
                Err(refusal) if refusal.code == 404 && step["gone"] == true => return Ok(()),
                Err(_) => {}
            }
            if Instant::now() > deadline {
                let now = api.get(&reference).await.unwrap_or_else(|refusal| json!(refusal.to_string()));
                return Err(Problem::Timeout(format!("never met: {step}; it is {now}")));
            }
            let _ = timeout_at(deadline.min(Instant::now() + CHECK_INTERVAL), changed).await;
        }
    }

    async fn snapshot(&mut self, api: &Api, step: &Value, references: &Value) -> Result<(), Problem> {
        let mut objects = Vec::new();
        for reference in references.as_array().unwrap() {
            let found = match reference.get("name") {
                Some(_) => api.get(reference).await.map(|object| vec![object]),
                None => api.list(reference).await,
            };
            match found {
                Ok(found) => objects.extend(found),
                Err(refusal) if refusal.code == 404 => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        objects.iter().for_each(|object| self.remember(object));
        let mut objects: Vec<Value> = objects.into_iter().map(|object| shaped(step, object)).collect();
        let metadata = |object: &Value, key: &str| text(&object["metadata"], key).to_owned();
        objects.sort_by_cached_key(|object| {
            let kind = text(object, "kind").to_owned();
            (kind, metadata(object, "namespace"), metadata(object, "name"), object.to_string())
        });
        let name = step["name"].as_str().unwrap_or("snapshot");
        self.answers.push(json!({"step": name, "objects": objects}));
        Ok(())
    }
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Timeout(String),
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        Problem::Refused(refusal)
    }
}

fn seconds(step: &Value) -> Option<Duration> {
    step["timeout"].as_f64().map(Duration::from_secs_f64)
}

/// Where the first variable without another inside begins, and its name.
fn innermost(text: &str) -> Option<(usize, String)> {
    let end = text.match_indices('}').map(|(end, _)| end).find(|end| text[..*end].contains("${"))?;
    let start = text[..end].rfind("${")?;
    Some((start, text[start + 2..end].to_owned()))
}
