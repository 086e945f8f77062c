//! Resolved requests: a request whose resource is known, with everything that a verb may read.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use crate::access::Identity;
use crate::request::ResourcePath;
use crate::request::media::NegotiatedFormat;
use crate::request::options::Query;
use crate::resource::registry::Registry;
use crate::resource::{Resource, ServedSubresource};
use crate::server::Server;

/// A request on a resource.
pub struct Call {
    pub server: Server,
    /// The registry at the time when the request was resolved. All later look-ups for the resource of the request use
    /// it, so that they agree with each other. What a body must not outlive, such as a terminating definition and the
    /// parameters of admission policies, is looked up in the registry of the server.
    pub registry: Arc<Registry>,
    pub resource: Arc<Resource>,
    /// The subresource that the path names; none for the object itself.
    pub subresource: Option<ServedSubresource>,
    pub path: ResourcePath,
    pub query: Query,
    pub headers: HeaderMap,
    /// The user, after impersonation.
    pub identity: Identity,
    /// Format and shape of the answer.
    pub accepted: NegotiatedFormat,
    /// Empty for none.
    pub body: Bytes,
}
