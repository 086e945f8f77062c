//! A server in memory or in a folder, and requests to it.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use seaworthy_apiserver::{ClockAndEntropy, DataFolder, Identity, Server, ServerOptions, StorageLocation};
use serde_json::{Value, json};

/// Where the config maps of the default namespace are.
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Where its secrets are.
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A clock that the test turns.
pub struct Clock {
    seconds: AtomicI64,
    entropy_counter: AtomicU64,
    next: Mutex<Option<(CallPoint, Callback)>>,
}

type Callback = Box<dyn FnOnce() + Send>;

/// When something happens in the middle of a request: when it asks for chance or for the time, which it does after it
/// has looked around and before it changes anything.
#[derive(Clone, Copy, PartialEq)]
pub enum CallPoint {
    Entropy,
    Now,
}

impl Clock {
    fn reached(&self, point: CallPoint) {
        let next = self.next.lock().unwrap().take_if(|(at, _)| *at == point);
        if let Some((_, happen)) = next {
            happen();
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

impl ClockAndEntropy for Clock {
    fn now(&self) -> Timestamp {
        self.reached(CallPoint::Now);
        Timestamp::from_second(self.seconds.load(Ordering::Relaxed)).unwrap()
    }

    fn entropy(&self, buffer: &mut [u8]) {
        self.reached(CallPoint::Entropy);
        for chunk in buffer.chunks_mut(8) {
            let number = self.entropy_counter.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&number.to_be_bytes()[..chunk.len()]);
        }
    }
}

/// A server and its clock.
pub struct Cluster {
    pub server: Server,
    pub clock: Arc<Clock>,
}

impl Cluster {
    pub async fn start() -> Cluster {
        Cluster::at(StorageLocation::Memory, 1).await
    }

    /// A server on what is in a folder. Runs on the same folder draw different identities.
    pub async fn in_folder(folder: &Path, run: u64) -> Cluster {
        Cluster::at(StorageLocation::Folder(DataFolder::open(folder).unwrap()), run << 32).await
    }

    async fn at(storage: StorageLocation, entropy_counter: u64) -> Cluster {
        let clock = Arc::new(Clock {
            seconds: AtomicI64::new(1_800_000_000),
            entropy_counter: AtomicU64::new(entropy_counter),
            next: Mutex::default(),
        });
        let options = ServerOptions { storage, ..ServerOptions::in_memory(clock.clone()).unwrap() };
        let server = Server::open(options).unwrap();
        server.prepare().await.unwrap();
        Cluster { server, clock }
    }

    pub fn advance(&self, by: SignedDuration) {
        self.clock.seconds.fetch_add(by.as_secs(), Ordering::Relaxed);
    }

    /// Sends a request in the middle of the next one, and puts everything in order before that one goes on.
    pub fn send_amid(&self, point: CallPoint, method: Method, path: &str, body: Value) {
        let (cluster, path) = (Cluster { server: self.server.clone(), clock: self.clock.clone() }, path.to_owned());
        // A thread with a runtime of its own: the one of the test waits meanwhile.
        let send = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (code, answer) = cluster.send(method, &path, body).await;
                assert!(code < 300, "{answer}");
                cluster.server.settle().await;
            });
        };
        *self.clock.next.lock().unwrap() = Some((point, Box::new(|| std::thread::spawn(send).join().unwrap())));
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let kind = match method {
            Method::PATCH if path.contains("fieldManager=") => "application/apply-patch+yaml",
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let mut request = request.header("user-agent", "test/1").body(Full::new(bytes)).unwrap();
        request.extensions_mut().insert(Identity::authenticated("admin", ["system:masters".to_owned()]));
        let response = self.server.answer(request).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Creates an object, and returns what the server made of it.
    pub async fn create(&self, path: &str, object: Value) -> Value {
        let (code, created) = self.send(Method::POST, path, object).await;
        assert_eq!(code, 201, "{path}: {created}");
        created
    }

    /// The object, none if there is none.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let (code, object) = self.send(Method::GET, path, Value::Null).await;
        assert!(matches!(code, 200 | 404), "{path}: {code} {object}");
        (code == 200).then_some(object)
    }

    /// Changes an object.
    pub async fn patch(&self, path: &str, patch: Value) -> Value {
        let (code, object) = self.send(Method::PATCH, path, patch).await;
        assert_eq!(code, 200, "{path}: {object}");
        object
    }

    /// Deletes an object with a propagation policy, none for the kind's own.
    pub async fn delete(&self, path: &str, policy: Option<&str>) -> Value {
        let body =
            policy.map(|policy| json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}));
        let (code, answer) = self.send(Method::DELETE, path, body.unwrap_or_default()).await;
        assert_eq!(code, 200, "{path}: {answer}");
        answer
    }
}

/// A config map with these owners.
pub fn config_map(name: &str, owners: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

/// A reference to an object.
pub fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"],
    })
}

/// A reference to an object that is to wait.
pub fn blocked(object: &Value) -> Value {
    let mut reference = owner(object);
    reference["blockOwnerDeletion"] = true.into();
    reference
}

/// A definition of a kind of boats, with namespaces.
pub fn boats() -> Value {
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}
