//! Request paths: the resource and the verb of a request, from its method and path alone.
//!
//! Resources appear at run time, so there is no routing table: the path is split into group, version, namespace,
//! resource, name and subresource, and the registry is asked later whether such a resource exists.

use http::Method;
use percent_encoding::percent_decode_str;

/// API verbs, as RBAC rules name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Add one object.
    Create,
    /// Replace one object.
    Update,
    /// Change parts of one object.
    Patch,
    /// Remove one object.
    Delete,
    /// Remove many.
    DeleteCollection,
    /// A method that no resource has.
    Other,
}

impl Verb {
    /// The name in RBAC rules and discovery.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Other => "",
        }
    }
}

/// A parsed request path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestPath {
    /// Something below `/api/VERSION` or `/apis/GROUP/VERSION`.
    Resource(ResourcePath),
    /// A non-resource path: discovery, health, version, OpenAPI.
    NonResource(String),
}

/// The parts of a resource's path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourcePath {
    /// Empty for the core group.
    pub group: String,
    /// `v1`, `v1beta1` …
    pub version: String,
    /// Empty when the path names none.
    pub namespace: String,
    /// The plural name.
    pub resource: String,
    /// Empty for a collection.
    pub name: String,
    /// Empty for the object itself; may contain slashes.
    pub subresource: String,
    /// Whether the deprecated `/watch/` prefix was used.
    pub is_watch_path: bool,
}

impl RequestPath {
    pub fn parse(path: &str) -> RequestPath {
        let other = || RequestPath::NonResource(path.to_owned());
        // An escaped slash is a slash, as for the real server; empty parts are ignored.
        if path.contains("//") {
            return other();
        }
        let path = &*decoded(path);
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let (group, version) = match parts.next() {
            Some("api") => ("", parts.next()),
            Some("apis") => match parts.next() {
                Some(group) => (group, parts.next()),
                None => return other(),
            },
            _ => return other(),
        };
        let Some(version) = version else { return other() };
        let mut parts = parts.map(str::to_owned).peekable();
        let is_watch_path = parts.next_if(|part| part == "watch").is_some();
        let Some(first) = parts.next() else { return other() };
        let mut resource =
            ResourcePath { group: group.to_owned(), version: version.to_owned(), is_watch_path, ..Default::default() };
        let rest: Vec<String> = parts.collect();
        let below = match (first.as_str(), rest.as_slice()) {
            // `namespaces/NAME/status` and `/finalize` are subresources of the namespace itself.
            ("namespaces", [name, below, ..])
                if group.is_empty() && !matches!(below.as_str(), "status" | "finalize") =>
            {
                resource.namespace.clone_from(name);
                resource.resource.clone_from(below);
                &rest[2..]
            }
            ("namespaces", [name, below, ..]) if !group.is_empty() => {
                resource.namespace.clone_from(name);
                resource.resource.clone_from(below);
                &rest[2..]
            }
            _ => {
                resource.resource = first;
                &rest[..]
            }
        };
        if let [name, subresource @ ..] = below {
            resource.name.clone_from(name);
            resource.subresource = subresource.join("/");
        }
        RequestPath::Resource(resource)
    }
}

impl ResourcePath {
    /// The verb of a method on this path. `is_watch`: the query has `watch`.
    pub fn verb(&self, method: &Method, is_watch: bool) -> Verb {
        let is_collection = self.name.is_empty();
        match *method {
            // Whatever the method: only some of them are allowed there.
            _ if self.is_watch_path => Verb::Watch,
            Method::GET | Method::HEAD if is_collection && is_watch => Verb::Watch,
            Method::GET | Method::HEAD if is_collection => Verb::List,
            Method::GET | Method::HEAD => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if is_collection => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        }
    }
}

/// A percent-decoded path. Invalid UTF-8 cannot be a name, so such a path is kept as it is and matches nothing.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8().map_or_else(|_| part.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/api/v1/pods", "", "v1", "", "pods", "", "")]
    #[case("/api/v1/namespaces/a/pods/p/status", "", "v1", "a", "pods", "p", "status")]
    #[case("/api/v1/namespaces/a", "", "v1", "", "namespaces", "a", "")]
    #[case("/api/v1/namespaces/a/finalize", "", "v1", "", "namespaces", "a", "finalize")]
    #[case("/apis/apps/v1/namespaces/a/daemonsets/", "apps", "v1", "a", "daemonsets", "", "")]
    #[case("/apis/g.example.com/v1/nodes/n/proxy/a/b", "g.example.com", "v1", "", "nodes", "n", "proxy/a/b")]
    #[case("/api/v1/nodes/a%2Fb", "", "v1", "", "nodes", "a", "b")]
    fn path_of_a_resource_falls_into_its_parts(
        #[case] path: &str,
        #[case] group: &str,
        #[case] version: &str,
        #[case] namespace: &str,
        #[case] resource: &str,
        #[case] name: &str,
        #[case] subresource: &str,
    ) {
        let RequestPath::Resource(found) = RequestPath::parse(path) else { panic!("{path} is no resource") };
        let ResourcePath { group: g, version: v, namespace: n, resource: r, name: o, subresource: s, .. } = found;
        assert_eq!((&*g, &*v, &*n, &*r, &*o, &*s), (group, version, namespace, resource, name, subresource));
    }

    #[rstest]
    #[case("/")]
    #[case("/api")]
    #[case("/api/v1")]
    #[case("/apis/apps/v1/")]
    #[case("/version")]
    #[case("/healthz/ping")]
    fn path_without_a_resource_is_something_else(#[case] path: &str) {
        assert_eq!(RequestPath::parse(path), RequestPath::NonResource(path.to_owned()));
    }

    #[test]
    fn old_watch_path_watches_whatever_the_query_says() {
        let RequestPath::Resource(path) = RequestPath::parse("/api/v1/watch/namespaces/a/configmaps/c") else {
            panic!()
        };
        assert_eq!(path.verb(&Method::GET, false), Verb::Watch);
        assert_eq!((&*path.namespace, &*path.resource, &*path.name), ("a", "configmaps", "c"));
    }

    proptest! {
        #[test]
        fn any_path_is_taken_apart(path in "/?(api|apis|watch|namespaces|%|%zz|[a-z/%2F]{0,8}|/){0,9}") {
            RequestPath::parse(&path);
        }
    }
}
