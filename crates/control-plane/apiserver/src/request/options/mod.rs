//! Query parameters and request options, parsed and validated.

mod delete;
mod list;
mod write;

pub use delete::{DeleteOptions, Preconditions, Propagation};
pub use list::{ListOptions, RevisionMatch};
pub use write::{FieldValidation, WriteKind, WriteOptions};

use seaworthy_schema::Cause;

use crate::response::status::{Failure, GroupResource};

/// A query taken apart, in the order it was written.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part of a URI behind the question mark.
    pub fn parse(text: Option<&str>) -> Query {
        Query(form_urlencoded::parse(text.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    /// All values of a key.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A flag: a key with no value, or with one that reads as true.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    fn number(&self, key: &str) -> Result<Option<i64>, Failure> {
        let Some(value) = self.get(key).filter(|value| !value.is_empty()) else { return Ok(None) };
        let number = value.parse();
        number
            .map(Some)
            .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax")))
    }
}

fn invalid(kind: &str, causes: Vec<Cause>) -> Failure {
    Failure::invalid(GroupResource { group: "meta.k8s.io", resource: kind }, "", causes)
}
