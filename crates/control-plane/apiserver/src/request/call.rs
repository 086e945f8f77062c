//! Resolved requests: a request whose resource is known, with everything that a verb may look at.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use crate::access::Identity;
use crate::request::ResourcePath;
use crate::request::media::Accepted;
use crate::request::options::Query;
use crate::resource::registry::Registry;
use crate::resource::{Below, Resource};
use crate::server::Server;

/// A request on a resource.
pub struct Call {
    pub server: Server,
    /// What was served when the request was resolved. Everything that the request looks up later is looked up here, so
    /// that one request never sees two registries.
    pub registry: Arc<Registry>,
    pub resource: Arc<Resource>,
    /// The subresource that the path names; none for the object itself.
    pub below: Option<Below>,
    pub path: ResourcePath,
    pub query: Query,
    pub headers: HeaderMap,
    /// The user, after impersonation.
    pub identity: Identity,
    /// Format and shape of the answer.
    pub accepted: Accepted,
    /// Empty for none.
    pub body: Bytes,
}
