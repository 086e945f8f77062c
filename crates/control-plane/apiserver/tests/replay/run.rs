//! Scenario runner: executes one scenario once.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::compare::is_equal;
use crate::fill::Variables;
use crate::normal::recording;
use crate::path::find;
use crate::reshape::Filters;
use crate::scenario::{Scenario, Step, Until};
use crate::text::plain;
use crate::transport::{Stream, Transport};

/// The server that scenarios run against.
#[derive(Clone)]
pub struct TargetServer {
    pub transport: Arc<dyn Transport>,
    /// The default bearer token, of a user who may do everything.
    pub token: String,
    /// Whether the garbage collector and the namespace controller run there. If not, namespaces are finalized here.
    pub has_controllers: bool,
    /// An upper limit for all waits.
    pub max_wait: Duration,
}

/// A step could not be carried out: no connection, a missing variable, a condition never met.
#[derive(Debug)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server that does not answer within this time has no connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a condition is waited for unless a step says otherwise.
const DEFAULT_UNTIL_TIMEOUT_SECONDS: f64 = 20.0;
/// How long a watch may be silent unless a step says otherwise.
const DEFAULT_SILENCE_TIMEOUT_SECONDS: f64 = 10.0;
/// Between two attempts.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// What still arrives this long after everything expected is one event too many.
const TRAILING_EVENTS_TIMEOUT: Duration = Duration::from_millis(150);
/// Recorded in `managedFields` as the manager, so it is the recorder's name.
const USER_AGENT_VALUE: &str = "apireplay/1.0";
/// The headers that count.
const KEPT_HEADERS: [&str; 4] = ["content-type", "warning", "retry-after", "location"];
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

struct Reply {
    code: u16,
    headers: Map<String, Value>,
    text: String,
    json: Option<Value>,
}

struct Run<'a> {
    target: &'a TargetServer,
    scenario: &'a Scenario,
    /// The random part of names.
    id: String,
    variables: Variables,
    answers: Vec<(Filters, Value)>,
    created: Vec<String>,
}

/// Runs a scenario and returns what was answered, ready to be compared.
pub async fn run(target: &TargetServer, scenario: &Scenario) -> Value {
    let id = random_id();
    let namespace = format!("{}-{id}", scenario.name);
    let mut variables = Variables::default();
    variables.set("group", format!("{namespace}.example.com").into());
    variables.set("ns", namespace.into());
    let mut run = Run { target, scenario, id, variables, answers: Vec::new(), created: Vec::new() };
    match run.prepare().await {
        Ok(()) => {
            for step in &scenario.steps {
                run.step(step).await;
            }
        }
        Err(problem) => run.add(&Step::default(), json!({"problem": problem.0})),
    }
    run.clean_up().await;
    recording(scenario, run.answers, Timestamp::now())
}

impl Run<'_> {
    async fn prepare(&mut self) -> Result<(), Problem> {
        let created = Some(Until { code: Some(201), timeout: Some(1.0), ..Until::default() });
        let create = |path: &str, body: Value| Step {
            request: Some(format!("POST {path}")),
            body: Some(body),
            until: created.clone(),
            ..Step::default()
        };
        if self.scenario.namespace {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}"}});
            self.perform(&create("/api/v1/namespaces", body)).await?;
        }
        for crd in &self.scenario.crds {
            self.perform(&create(DEFINITIONS, crd.clone())).await?;
            let spec = &crd["spec"];
            let (group, plural) = (plain(&spec["group"]), plain(&spec["names"]["plural"]));
            for version in spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true)
            {
                self.perform(&Step {
                    request: Some(format!("GET /apis/{group}/{}/{plural}", plain(&version["name"]))),
                    until: Some(Until { code: Some(200), ..Until::default() }),
                    ..Step::default()
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) {
        if let Some(opening) = &step.watch {
            return self.watch(step, opening).await;
        }
        let answer = match self.perform(step).await {
            Err(problem) => json!({"problem": problem.0}),
            Ok(reply) if step.code_only => json!({"code": reply.code}),
            Ok(mut reply) => {
                if step.any_type {
                    reply.headers.remove("content-type");
                }
                let body = reply.json.unwrap_or_else(|| reply.text.trim().into());
                json!({"code": reply.code, "headers": reply.headers, "body": body})
            }
        };
        self.add(step, answer);
    }

    /// Opens a watch, makes the nested requests while it is open, and records its events.
    async fn watch(&mut self, step: &Step, opening: &Step) {
        let mut silence = self.bounded(step.timeout.unwrap_or(DEFAULT_SILENCE_TIMEOUT_SECONDS));
        let mut is_expecting = step.until.is_some();
        let mut events: Vec<Value> = Vec::new();
        let sent = match self.request(opening) {
            Ok(request) => timeout(silence, self.target.transport.send(request)).await,
            Err(problem) => Ok(Err(problem.0)),
        };
        let timed_out = |is_expecting: bool| if is_expecting { "timeout" } else { "as expected" }.to_owned();
        let ended = match sent {
            Err(_) => timed_out(is_expecting),
            Ok(Err(problem)) => format!("problem: {problem}"),
            Ok(Ok(response)) if response.status() != 200 => match Reply::read(response).await {
                Ok(Reply { code, headers, json, .. }) => {
                    return self.add(step, json!({"code": code, "headers": headers, "body": json}));
                }
                Err(problem) => format!("problem: {problem}"),
            },
            Ok(Ok(response)) => {
                for nested in &step.steps {
                    Box::pin(self.step(nested)).await;
                }
                let mut lines = Lines { body: response.into_body(), buffer: Vec::new() };
                loop {
                    let line = match timeout(silence, lines.next()).await {
                        Err(_) => break timed_out(is_expecting),
                        Ok(Ok(Some(line))) => line,
                        Ok(Ok(None)) => break "closed by server".to_owned(),
                        Ok(Err(problem)) => break format!("problem: {problem}"),
                    };
                    let event: Value = match serde_json::from_slice(&line) {
                        Ok(event) => event,
                        Err(error) => break format!("problem: {error}"),
                    };
                    let Some(kind) = event["type"].as_str() else { break "problem: event without type".to_owned() };
                    let is_bookmark = kind == "BOOKMARK";
                    if is_bookmark && (!step.bookmarks || events.iter().any(|event| event["type"] == "BOOKMARK")) {
                        continue;
                    }
                    events.push(event);
                    let until = step.until.as_ref().filter(|_| is_expecting);
                    if until.is_some_and(|u| u.count == Some(events.len()) || u.bookmark && is_bookmark) {
                        is_expecting = false;
                        silence = TRAILING_EVENTS_TIMEOUT;
                    }
                }
            }
        };
        self.add(step, json!({"ended": ended, "events": events}));
    }

    /// Sends one request, again and again with `until`; remembers what it created and captured.
    async fn perform(&mut self, step: &Step) -> Result<Reply, Problem> {
        let until = step.until.clone().unwrap_or_default();
        let wanted = until.is.as_ref().map(|value| self.variables.value(value)).transpose()?;
        let path = until.at.as_ref().map(|path| self.variables.text(path)).transpose()?;
        let deadline = Instant::now() + self.bounded(until.timeout.unwrap_or(DEFAULT_UNTIL_TIMEOUT_SECONDS));
        let reply = loop {
            let request = self.request(step)?;
            let reply = self.call(request).await?;
            let found = match &path {
                Some(path) => reply.json.as_ref().and_then(|json| find(json, path)).unwrap_or(&Value::Null),
                None => &Value::Bool(true),
            };
            let is_there = wanted.as_ref().map_or(!found.is_null(), |wanted| is_equal(wanted, found));
            if until.code.is_none_or(|code| code == reply.code) && is_there {
                break reply;
            }
            if Instant::now() > deadline {
                let start: String = reply.text.chars().take(400).collect();
                return Err(Problem(format!("{until} was never met; last answer {} {start}", reply.code)));
            }
            sleep(RETRY_DELAY).await;
        };
        let (method, target) = self.target(step)?;
        let json = reply.json.as_ref().unwrap_or(&Value::Null);
        if reply.code == 201 && json["metadata"]["uid"].is_string() && !target.contains("dryRun") {
            let path = target.split('?').next().unwrap_or_default();
            let name = plain(&json["metadata"]["name"]);
            self.created.push(if method == "POST" { format!("{path}/{name}") } else { path.to_owned() });
        }
        for (name, path) in &step.capture {
            self.variables.set(name, find(json, &plain(path)).cloned().unwrap_or_default());
        }
        Ok(reply)
    }

    async fn call(&self, request: Request<Full<Bytes>>) -> Result<Reply, Problem> {
        let label = format!("{} {}", request.method(), request.uri());
        let exchange = async { Reply::read(self.target.transport.send(request).await?).await };
        match timeout(RESPONSE_TIMEOUT, exchange).await {
            Ok(result) => result.map_err(|error| Problem(format!("{label}: {error}"))),
            Err(_) => Err(Problem(format!("{label}: no answer within {} s", RESPONSE_TIMEOUT.as_secs()))),
        }
    }

    fn target(&self, step: &Step) -> Result<(String, String), Problem> {
        let line = self.variables.text(step.request.as_deref().unwrap_or_default())?;
        let (method, path) = line.split_once(' ').ok_or_else(|| Problem(format!("{line:?} is no request")))?;
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in &step.query {
            match self.variables.value(value)? {
                Value::Array(values) => values.iter().for_each(|value| {
                    query.append_pair(key, &plain(value));
                }),
                value => {
                    query.append_pair(key, &plain(&value));
                }
            }
        }
        let query = query.finish();
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        Ok((method.to_owned(), target))
    }

    fn request(&self, step: &Step) -> Result<Request<Full<Bytes>>, Problem> {
        let (method, target) = self.target(step)?;
        let body = match (&step.raw, &step.body) {
            (Some(raw), _) => Some(self.variables.text(raw)?),
            (None, Some(body)) => Some(self.variables.value(body)?.to_string()),
            (None, None) => None,
        };
        let token = match &step.token {
            Some(token) => self.variables.text(token)?,
            None => self.target.token.clone(),
        };
        let unusable = |error: &dyn fmt::Display| Problem(format!("{method} {target}: {error}"));
        let mut request = Request::builder().method(method.as_str()).uri(&target);
        request = request.header(ACCEPT, "application/json").header(USER_AGENT, USER_AGENT_VALUE);
        if !token.is_empty() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, media_type(step.media_type.as_deref().unwrap_or("json")));
        }
        let mut request = request.body(Full::from(body.unwrap_or_default())).map_err(|error| unusable(&error))?;
        for (name, value) in &step.headers {
            let value = plain(&self.variables.value(value)?);
            let name = name.parse::<HeaderName>().map_err(|error| unusable(&error))?;
            request.headers_mut().insert(name, HeaderValue::from_str(&value).map_err(|error| unusable(&error))?);
        }
        Ok(request)
    }

    /// Records an answer; the random part of names is replaced before anything is compared.
    fn add(&mut self, step: &Step, answer: Value) {
        let mut parts = answer.as_object().cloned().unwrap_or_default();
        parts.insert("step".to_owned(), step.label().into());
        let paths = |paths: &Option<Vec<String>>| -> Result<Option<Vec<String>>, Problem> {
            paths.as_ref().map(|paths| paths.iter().map(|path| self.path(path)).collect()).transpose()
        };
        let filters = || -> Result<Filters, Problem> {
            Ok(Filters {
                pick: step.pick.as_ref().map(|path| self.path(path)).transpose()?,
                only: paths(&step.only)?,
                ignore: paths(&step.ignore)?,
                shape: step.shape,
            })
        };
        let filters = filters().unwrap_or_else(|problem| {
            parts.insert("problem".to_owned(), problem.0.into());
            Filters::default()
        });
        self.answers.push((filters, without_id(&Value::Object(parts), &self.id)));
    }

    fn path(&self, path: &str) -> Result<String, Problem> {
        Ok(self.variables.text(path)?.replace(&self.id, "ID"))
    }

    /// Deletes what was created, newest first, without waiting for it to go.
    async fn clean_up(&mut self) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
            "propagationPolicy": "Background"});
        for path in std::mem::take(&mut self.created).into_iter().rev() {
            let step = |verb: &str, path: &str, body: &Value| Step {
                request: Some(format!("{verb} {path}")),
                body: Some(body.clone()),
                ..Step::default()
            };
            // What cannot be removed stays: it has a name of its own, and does not matter to the next run.
            let Ok(left) = self.perform(&step("DELETE", &path, &options)).await else { continue };
            let name = path.strip_prefix("/api/v1/namespaces/").filter(|name| !name.contains('/'));
            if let Some(name) = name
                && !self.target.has_controllers
            {
                let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                let _ = self.perform(&step("PUT", &format!("{path}/finalize"), &body)).await;
            } else if !path.starts_with(DEFINITIONS)
                && left.json.is_some_and(|left| left["metadata"]["finalizers"].is_array())
            {
                let mut patch = step("PATCH", &path, &json!({"metadata": {"finalizers": null}}));
                patch.media_type = Some("merge".to_owned());
                let _ = self.perform(&patch).await;
            }
        }
    }

    fn bounded(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds).min(self.target.max_wait)
    }
}

impl Reply {
    async fn read(response: Response<Stream>) -> Result<Reply, String> {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = if text.starts_with(['{', '[']) { serde_json::from_str(&text).ok() } else { None };
        let mut headers = Map::new();
        for name in KEPT_HEADERS {
            let values: Vec<Value> = parts
                .headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned().into())
                .collect();
            if !values.is_empty() {
                headers.insert(name.to_owned(), values.into());
            }
        }
        Ok(Reply { code: parts.status.as_u16(), headers, text, json })
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map(|code| format!("code {code}"));
        let at = self.at.as_ref().map(|at| match &self.is {
            Some(value) => format!("{at} = {value}"),
            None => format!("something at {at}"),
        });
        f.write_str(&code.into_iter().chain(at).collect::<Vec<_>>().join(" and "))
    }
}

/// The lines of a body, as they come.
struct Lines {
    body: Stream,
    buffer: Vec<u8>,
}

impl Lines {
    /// Nothing is lost if the future is dropped before it is ready.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.drain(..=end).collect()));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => return Ok(Some(std::mem::take(&mut self.buffer))),
            }
        }
    }
}

fn media_type(word: &str) -> &str {
    match word {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "merge" => "application/merge-patch+json",
        "json-patch" => "application/json-patch+json",
        "apply" => "application/apply-patch+yaml",
        "strategic" => "application/strategic-merge-patch+json",
        other => other,
    }
}

fn without_id(value: &Value, id: &str) -> Value {
    match value {
        Value::String(text) => text.replace(id, "ID").into(),
        Value::Array(list) => list.iter().map(|child| without_id(child, id)).collect(),
        Value::Object(map) => map.iter().map(|(key, child)| (key.replace(id, "ID"), without_id(child, id))).collect(),
        other => other.clone(),
    }
}

/// A letter and five more: no vowels, so that no words come out.
fn random_id() -> String {
    const LETTERS: &[u8] = b"bcdfghjkmnpqrstvwxz2456789";
    let mut number = RandomState::new().hash_one(());
    let mut id = "q".to_owned();
    for _ in 0..5 {
        let length = LETTERS.len() as u64;
        id.push(char::from(LETTERS[usize::try_from(number % length).unwrap()]));
        number /= length;
    }
    id
}
