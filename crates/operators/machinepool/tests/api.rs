//! API: one server, with objects as JSON.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

use http::Request;
use kube::Client;
use serde_json::{Value, json};

pub struct Api {
    client: Client,
    /// Plural, and whether objects are in namespaces, by version and kind.
    kinds: Mutex<HashMap<(String, String), (String, bool)>>,
}

/// A request that failed.
#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// The string at a key; empty if there is none.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

impl Api {
    pub fn new(client: Client) -> Api {
        Api { client, kinds: Mutex::default() }
    }

    pub async fn call(&self, method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Value, Refusal> {
        let mut request = Request::builder().method(method).uri(path).header("Accept", "application/json");
        if let Some((content_type, _)) = body {
            request = request.header("Content-Type", content_type);
        }
        let bytes = body.map(|(_, body)| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        match self.client.request_text(request.body(bytes).unwrap()).await {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap_or(Value::Null)),
            Err(kube::Error::Api(status)) => {
                let text = format!("{method} {path}: {} {}: {}", status.code, status.reason, status.message);
                Err(Refusal { code: status.code, text })
            }
            Err(error) => Err(Refusal { code: 0, text: format!("{method} {path}: {error}") }),
        }
    }

    /// The plural of a kind.
    pub async fn plural(&self, reference: &Value) -> Result<String, Refusal> {
        let path = self.collection(reference).await?;
        Ok(path.rsplit('/').next().unwrap_or_default().to_owned())
    }

    /// The path of the collection that an object or a reference belongs to.
    async fn collection(&self, reference: &Value) -> Result<String, Refusal> {
        let (version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
        let base = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let key = (version.to_owned(), kind.to_owned());
        let known = self.kinds.lock().unwrap().get(&key).cloned();
        let (plural, is_namespaced) = match known {
            Some(known) => known,
            None => {
                let found = self.call("GET", &base, None).await?;
                let resources = found["resources"].as_array().cloned().unwrap_or_default();
                let resource = resources
                    .iter()
                    .find(|resource| resource["kind"] == kind && !text(resource, "name").contains('/'))
                    .ok_or_else(|| Refusal { code: 404, text: format!("{version} has no kind {kind}") })?;
                let known = (text(resource, "name").to_owned(), resource["namespaced"] == true);
                self.kinds.lock().unwrap().insert(key, known.clone());
                known
            }
        };
        let namespace = reference["namespace"].as_str().or_else(|| reference["metadata"]["namespace"].as_str());
        Ok(match namespace.filter(|_| is_namespaced) {
            Some(namespace) => format!("{base}/namespaces/{namespace}/{plural}"),
            None => format!("{base}/{plural}"),
        })
    }

    async fn object(&self, reference: &Value) -> Result<String, Refusal> {
        let name = reference["name"].as_str().or_else(|| reference["metadata"]["name"].as_str()).unwrap_or_default();
        Ok(format!("{}/{name}", self.collection(reference).await?))
    }

    pub async fn get(&self, reference: &Value) -> Result<Value, Refusal> {
        self.call("GET", &self.object(reference).await?, None).await
    }

    /// The objects of a kind, with the labels that the reference names.
    pub async fn list(&self, reference: &Value) -> Result<Vec<Value>, Refusal> {
        let labels = reference["labels"].as_object().into_iter().flatten();
        let labels: Vec<String> = labels
            .map(|(key, value)| value.as_str().map_or_else(|| key.clone(), |value| format!("{key}={value}")))
            .collect();
        let mut path = self.collection(reference).await?;
        if !labels.is_empty() {
            path = format!("{path}?labelSelector={}", labels.join(","));
        }
        let list = self.call("GET", &path, None).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Ok(items
            .into_iter()
            .map(|mut item| {
                item["apiVersion"] = reference["apiVersion"].clone();
                item["kind"] = reference["kind"].clone();
                item
            })
            .collect())
    }

    pub async fn create(&self, object: &Value) -> Result<Value, Refusal> {
        let path = self.collection(object).await?;
        self.call("POST", &path, Some(("application/json", object))).await
    }

    /// A merge patch of an object, or of its subresource.
    pub async fn patch(&self, reference: &Value, subresource: Option<&str>, patch: &Value) -> Result<Value, Refusal> {
        let mut path = self.object(reference).await?;
        if let Some(subresource) = subresource {
            path = format!("{path}/{subresource}");
        }
        self.call("PATCH", &path, Some(("application/merge-patch+json", patch))).await
    }

    pub async fn delete(&self, reference: &Value) -> Result<(), Refusal> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
        let path = self.object(reference).await?;
        self.call("DELETE", &path, Some(("application/json", &options))).await.map(drop)
    }
}
