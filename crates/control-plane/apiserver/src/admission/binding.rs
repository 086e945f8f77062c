//! ValidatingAdmissionPolicyBinding: selects writes, parameters and validation actions for a policy.

use serde_json::Value;

use crate::object::field_access::FieldAccess;
use crate::object::{Metadata, Object};
use crate::resource::Resource;
use crate::resource::registry::Registry;
use crate::response::present;
use crate::selector::LabelSelector;
use crate::server::{Server, key};

use super::matching::Constraints;
use super::policy::AdmissionPolicy;

#[derive(Debug)]
pub struct PolicyBinding {
    pub name: String,
    pub policy: String,
    /// The writes that it applies to; none for all that the policy matches.
    pub constraints: Option<Constraints>,
    /// Whether violations deny the write.
    pub denies: bool,
    /// Whether violations become warnings.
    pub warns: bool,
    params: Option<Reference>,
}

/// `spec.paramRef`: the parameter objects of the policy.
#[derive(Debug)]
struct Reference {
    name: String,
    namespace: String,
    selector: Option<LabelSelector>,
    denies_missing: bool,
}

impl PolicyBinding {
    /// Reads a ValidatingAdmissionPolicyBinding.
    ///
    /// Differs: `Audit` does nothing, because there is no audit log yet.
    pub fn read(object: &Object) -> PolicyBinding {
        let acts = |word: &str| object.list("spec.validationActions").iter().any(|action| action == word);
        let given = |path: &str| object.at(path).filter(|value| !value.is_null());
        let params = given("spec.paramRef").map(|reference| Reference {
            name: reference.text("name").to_owned(),
            namespace: reference.text("namespace").to_owned(),
            selector: reference.at("selector").and_then(LabelSelector::of_object),
            denies_missing: reference.text("parameterNotFoundAction") == "Deny",
        });
        PolicyBinding {
            name: object.name().to_owned(),
            policy: object.text("spec.policyName").to_owned(),
            constraints: given("spec.matchResources").map(Constraints::read),
            denies: acts("Deny"),
            warns: acts("Warn"),
            params,
        }
    }

    /// The parameter objects for a write in this namespace: the policy is evaluated once for each of them, and once
    /// with `None` if it takes no parameters.
    pub fn params(
        &self,
        server: &Server,
        policy: &AdmissionPolicy,
        kind: Option<&Resource>,
        namespace: &str,
    ) -> Result<Vec<Option<Object>>, String> {
        let (Some((version, word)), Some(reference)) = (&policy.param_kind, &self.params) else {
            return Ok(vec![None]);
        };
        let kind = kind.ok_or_else(|| format!("paramKind kind `{version}, Kind={word}` not known"))?;
        let place = match (kind.is_namespaced, reference.namespace.as_str(), namespace) {
            (false, "", _) => "",
            (false, _, _) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
            }
            (true, "", "") => {
                let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(why.to_owned());
            }
            (true, "", own) => own,
            (true, named, _) => named,
        };
        let records = match (&reference.selector, reference.name.as_str()) {
            (None, name) => server.store().get(&key(kind, place, name)).into_iter().collect(),
            (Some(_), "") => server.store().list(&kind.storage, kind.is_namespaced.then_some(place)).records,
            (Some(_), _) => return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned()),
        };
        let found = records.iter().map(|record| present::object(kind, &record.body()));
        let params: Vec<Option<Object>> = found.filter(|object| reference.selects(object)).map(Some).collect();
        if params.is_empty() && reference.denies_missing {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(params)
    }
}

impl Reference {
    fn selects(&self, object: &Object) -> bool {
        let labels = object.metadata().get("labels").and_then(Value::as_object);
        let has =
            |selector: &LabelSelector| selector.matches(|key| labels.and_then(|labels| labels.get(key)?.as_str()));
        self.selector.as_ref().is_none_or(has)
    }
}

/// The resource of a policy's parameter objects.
pub fn param_resource<'r>(registry: &'r Registry, policy: &AdmissionPolicy) -> Result<Option<&'r Resource>, String> {
    let Some((version, kind)) = &policy.param_kind else { return Ok(None) };
    match registry.of_kind(version, kind) {
        Some(resource) => Ok(Some(&**resource)),
        None => Err(format!("failed to find resource referenced by paramKind: '{version}, Kind={kind}'")),
    }
}
