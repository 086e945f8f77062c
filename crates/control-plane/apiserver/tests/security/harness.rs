//! Test harness: a server in memory, and requests with or without credentials.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use seaworthy_apiserver::{ClockAndEntropy, FixedClock, Identity, Server, ServerOptions, SigningKey, StaticTokens};
use serde_json::{Value, json};

/// The token of the administrator.
pub const ADMIN: &str = "admin-token";
/// The token of a user without any right.
pub const ANN: &str = "ann-token";

/// A world whose time can be moved.
#[derive(Debug)]
pub struct Clock {
    chance: FixedClock,
    now: Mutex<Timestamp>,
}

impl ClockAndEntropy for Clock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap()
    }

    fn entropy(&self, buffer: &mut [u8]) {
        self.chance.entropy(buffer);
    }
}

/// A server and the clock on its wall.
pub struct Cluster {
    pub server: Server,
    pub clock: Arc<Clock>,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub body: Value,
    /// Everything that came back, headers included.
    pub text: String,
    pub warnings: Vec<String>,
}

impl Reply {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The answer, which must have this code.
    #[track_caller]
    pub fn is(self, code: u16) -> Reply {
        assert_eq!(self.code, code, "{}", self.text);
        self
    }
}

/// Keys that only this test has.
pub fn signing_key() -> Arc<SigningKey> {
    Arc::new(SigningKey::read(&SigningKey::generate().unwrap()).unwrap())
}

/// A request.
pub struct Ask<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub token: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub kind: &'a str,
    pub body: Bytes,
}

impl Cluster {
    pub async fn open() -> Cluster {
        Cluster::open_with(signing_key()).await
    }

    pub async fn open_with(signing_key: Arc<SigningKey>) -> Cluster {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let clock = Arc::new(Clock { chance: FixedClock::at(now), now: Mutex::new(now) });
        let mut tokens = StaticTokens::default();
        tokens.add(ADMIN, Identity::authenticated("admin", ["system:masters".to_owned()]));
        tokens.add(ANN, Identity::authenticated("ann", []));
        let options = ServerOptions { tokens, signing_key, ..ServerOptions::in_memory(clock.clone()).unwrap() };
        let server = Server::open(options).unwrap();
        server.prepare().await.unwrap();
        Cluster { server, clock }
    }

    /// Lets time pass.
    pub fn wait(&self, seconds: i64) {
        *self.clock.now.lock().unwrap() += SignedDuration::from_secs(seconds);
    }

    /// Sends a request.
    pub async fn ask(&self, ask: Ask<'_>) -> Reply {
        let mut request = Request::builder().method(Method::from_bytes(ask.method.as_bytes()).unwrap()).uri(ask.path);
        if !ask.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", ask.token));
        }
        if !ask.kind.is_empty() {
            request = request.header("content-type", ask.kind);
        }
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let response = self.server.answer(request.body(Full::new(ask.body)).unwrap()).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let warnings = parts.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned());
        Reply {
            code: parts.status.as_u16(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            text: format!("{:?} {:?} {}", parts.status, parts.headers, String::from_utf8_lossy(&bytes)),
            warnings: warnings.collect(),
        }
    }

    /// Sends a JSON body, or none.
    pub async fn send(&self, token: &str, method: &str, path: &str, body: Value) -> Reply {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        self.ask(Ask { method, path, token, headers: &[], kind: "application/json", body }).await
    }

    pub async fn get(&self, token: &str, path: &str) -> Reply {
        self.send(token, "GET", path, Value::Null).await
    }

    /// Creates an object as the administrator.
    pub async fn create(&self, path: &str, object: Value) -> Value {
        self.send(ADMIN, "POST", path, object).await.is(201).body
    }

    /// A merge patch.
    pub async fn patch(&self, token: &str, path: &str, patch: Value) -> Reply {
        let kind = "application/merge-patch+json";
        self.ask(Ask { method: "PATCH", path, token, headers: &[], kind, body: patch.to_string().into() }).await
    }

    /// Gives a user rules everywhere.
    pub async fn allow(&self, name: &str, user: &str, rules: Value) {
        let group = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules});
        self.create(&format!("{group}/clusterroles"), role).await;
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        self.create(&format!("{group}/clusterrolebindings"), binding).await;
    }
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

/// Where ConfigMaps of the namespace `default` are.
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
