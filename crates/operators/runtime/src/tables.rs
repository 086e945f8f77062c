//! Tables of a cluster: all objects of some kinds, read once, for commands.
//!
//! A kind that an operator needs beside those of a command may not be served, or not be readable for this user. Its table is left
//! out then: an empty one would look as if all its objects were deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use seaworthy_change::{ResourceType, Table, Tables};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client_error::summary;
use crate::cluster::{ClusterError, call_error};

const PAGE_SIZE: u32 = 500;

/// A kind whose objects were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedKind {
    pub resource: ResourceType,
    pub reason: OmissionReason,
}

/// Why the objects of a kind were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OmissionReason {
    /// The cluster has no such kind.
    NotServed,
    /// This user may not list them; with the answer of the server.
    Forbidden(String),
}

/// Fills these tables.
///
/// # Errors
///
/// If one of the kinds cannot be read.
pub async fn fill(client: &Client, tables: &mut Tables) -> Result<(), ClusterError> {
    for table in tables.iter_mut() {
        fill_table(client, table).await.map_err(|error| list_error(table.resource(), &error))?;
    }
    Ok(())
}

/// Fills those of these tables whose kinds are served and may be listed, and takes the others out. Returns what it took out.
///
/// # Errors
///
/// If one of the kinds cannot be read for another reason.
pub async fn fill_readable(client: &Client, tables: &mut Tables) -> Result<Vec<OmittedKind>, ClusterError> {
    let mut omitted: Vec<OmittedKind> = Vec::new();
    for table in tables.iter_mut() {
        let reason = match fill_table(client, table).await {
            Ok(()) => continue,
            Err(kube::Error::Api(status)) if status.is_not_found() => OmissionReason::NotServed,
            Err(error) if is_forbidden(&error) => OmissionReason::Forbidden(summary(&error)),
            Err(error) => return Err(list_error(table.resource(), &error)),
        };
        omitted.push(OmittedKind { resource: table.resource().clone(), reason });
    }
    tables.retain(|table| omitted.iter().all(|kind| kind.resource != *table.resource()));
    Ok(omitted)
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

/// Fills a table with all objects of its kind. They are parsed one by one from the pages, so that only the parser is compiled
/// for every kind.
async fn fill_table(client: &Client, table: &mut dyn Table) -> Result<(), kube::Error> {
    let path = table.resource().path(None);
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let request = Request::new(path.clone()).list(&params).map_err(kube::Error::BuildRequest)?;
        let page: Page = client.request(request).await?;
        for item in page.items {
            table.push_json(item.get()).map_err(kube::Error::SerdeError)?;
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

fn list_error(resource: &ResourceType, error: &kube::Error) -> ClusterError {
    call_error(&format!("list {}", resource.plural), error)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
    use kube::ResourceExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A cluster that answers each path with this.
    fn client(answer: fn(&str) -> (u16, Value)) -> Client {
        let service = tower::service_fn(move |request: http::Request<Body>| async move {
            let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            let (code, body) = answer(&target);
            let response = http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        });
        Client::new(service, "default")
    }

    fn failure(code: u16, reason: &str) -> (u16, Value) {
        let message = format!("{reason}: no");
        (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}))
    }

    fn answer(target: &str) -> (u16, Value) {
        let list = |name: &str, token: &str| {
            (200, json!({"metadata": {"continue": token}, "items": [{"metadata": {"name": name}}]}))
        };
        match target.split_once('?').map_or(target, |(path, _)| path) {
            "/api/v1/nodes" if target.contains("continue=more") => list("w2", ""),
            "/api/v1/nodes" => list("w1", "more"),
            "/api/v1/pods" => failure(403, "Forbidden"),
            "/api/v1/configmaps" => failure(404, "NotFound"),
            _ => failure(500, "InternalError"),
        }
    }

    #[tokio::test]
    async fn all_pages_of_a_kind_are_read() {
        let mut tables = Tables::default().with::<Node>();
        fill(&client(answer), &mut tables).await.unwrap();
        assert_eq!(tables.of::<Node>().iter().map(|node| node.name_any()).collect::<Vec<_>>(), ["w1", "w2"]);
    }

    #[tokio::test]
    async fn kinds_that_are_not_served_or_forbidden_are_taken_out() {
        let mut tables = Tables::default().with::<Pod>().with::<Node>().with::<ConfigMap>();
        let omitted = fill_readable(&client(answer), &mut tables).await.unwrap();
        let of = |resource: ResourceType, reason: OmissionReason| OmittedKind { resource, reason };
        let forbidden = OmissionReason::Forbidden("Forbidden: no (403)".to_owned());
        let expected =
            [of(ResourceType::of::<Pod>(), forbidden), of(ResourceType::of::<ConfigMap>(), OmissionReason::NotServed)];
        assert_eq!(omitted, expected);
        assert!(tables.get::<Pod>().is_none() && tables.get::<ConfigMap>().is_none());
        assert_eq!(tables.of::<Node>().len(), 2);
    }

    #[tokio::test]
    async fn other_errors_name_the_resource() {
        let mut tables = Tables::default().with::<Pod>();
        let error = fill(&client(answer), &mut tables).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot list pods: Forbidden: no; ask for a role"), "{error}");
        let broken = client(|_| failure(500, "InternalError"));
        let error = fill_readable(&broken, &mut tables).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot list pods: InternalError: no"), "{error}");
    }
}
