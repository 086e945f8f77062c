//! API types: the kinds that Seaworthy reads and writes, and their vocabulary.
//!
//! One folder per API group ([`machineconfiguration`], [`operator`], [`compliance`], [`kmm`], [`cluster`]), one file per
//! kind. [`crds`] turns the kinds into CustomResourceDefinitions, [`vocabulary`] has every label, annotation, condition
//! type and reason, [`meta`] the structures of Kubernetes that kinds embed. The crate has no client, no runtime, no
//! clock and does no input or output.
//!
//! # Conventions
//!
//! *Kinds.* A kind derives [`kube::CustomResource`] and [`kube::KubeSchema`] on its `…Spec`; nested structs derive
//! `KubeSchema` only. Doc comments become the schema's descriptions: one short sentence each. A kind whose fields lie at
//! the root uses `#[kube(no_spec)]` and [`unknown::RootUnknown`].
//!
//! *Nothing is lost.* Every struct ends with `#[serde(flatten)] pub unknown: Unknown`, which keeps keys that we do not
//! know and adds nothing to the schema. The root, `metadata` and other foreign types are covered by
//! [`lossless::Lossless`], which also keeps the difference between absent, `null` and empty. Read an object that will be
//! written back whole as `Lossless<K>`; `K` alone is enough for reading and for server-side apply.
//!
//! Fields that several structs share are a struct of their own, flattened. Of two structs that meet this way exactly one
//! has the catch-all: two of them would both keep, and write, the same keys.
//!
//! *Optional means `Option`.* A field mirrors the wire: what the upstream does not require is `Option<T>` with
//! `#[serde(skip_serializing_if = "Option::is_none")]`, lists and maps included (`list.iter().flatten()` walks one); what
//! it requires is `T`. An `Option` is never nullable in the schema unless the field says
//! `#[schemars(extend("nullable" = true))]`.
//!
//! *A missing spec.* Where the upstream does not require `spec`, the spec derives `Default`, carries
//! `#[serde(remote = "Self")]`, is followed by `optional_spec!(FooSpec);`, and the definition calls `spec_optional()`.
//! (The schema derive copies the struct and the copy's fields are never read then, hence `#[allow(dead_code)]` on the
//! module.)
//!
//! *Schema keywords.*
//!
//! | wanted | written as |
//! |---|---|
//! | bounds, pattern | `#[schemars(length(min = 1, max = 253), regex(pattern = "…"), range(min = 0))]` |
//! | the same for items of a list | `#[schemars(inner(length(max = 63)))]` |
//! | server-side default | `Option<T>` with `#[schemars(extend("default" = 1))]` |
//! | enum | [`words::Open`] of an enum made with [`words!`]; tolerant in reading, strict in the schema |
//! | CEL rule | `#[x_kube(validation = Rule::new("…").message("…"))]` on a field or struct; on the object itself `#[kube(validation = …)]` |
//! | list type | `#[x_kube(merge_strategy = ListMerge::Atomic)]`, `ListMerge::Set`, `ListMerge::Map(vec!["name".into()])` |
//! | anything else on a field or struct | `#[schemars(extend("x-kubernetes-map-type" = "atomic"))]` |
//! | an object kept as it is | `Option<serde_json::Value>` with `#[serde(default)]` and `#[schemars(schema_with = "preserved_object")]` |
//! | the needed part of a larger object | a struct with `#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]` |
//! | required, but read tolerantly when absent | `Option<T>` with `#[schemars(required)]` |
//! | int or string, quantity | [`meta::IntOrString`], [`meta::Quantity`] |
//! | base64 | [`meta::Base64`] |
//! | a structure of Kubernetes that ends up in a pod | [`meta::Embedded`], which keeps the JSON and has the full schema |
//! | a whole object of any kind | `Option<serde_json::Value>` as above with `schema_with = "embedded_resource"` |
//! | time | `Time` of `k8s-openapi` (a leaf; structures come from [`meta`]) |
//!
//! *Rules.* A CEL rule that is an upstream's has the upstream's text, so that both accept the same; the message is ours.
//! Rules of our own use neither `type()` nor optional types: the evaluator that checks manifests offline has neither.
//!
//! *Definitions.* Each group has `definitions()`, built with `Definition::of::<Kind>()` and the few calls for what the
//! attributes cannot say; [`crds::all`] collects them. The schema comes from [`schema::structural`], not from kube's
//! `crd()`, whose `Option`s are all nullable.
//!
//! *Differences* from an upstream are commented `Differs: … because …` and listed, with the reason, in
//! `tests/differences.txt`; the comparison with the upstreams' definitions fails on any other.

// Two printer columns of the same type are no mistake, though they look like a repeated attribute.
#![allow(clippy::duplicated_attributes)]

pub mod cluster;
pub mod compliance;
pub mod crds;
pub mod field_manager;
pub mod kmm;
pub mod lossless;
pub mod machineconfiguration;
pub mod meta;
pub mod operator;
mod optional_spec;
pub mod schema;
pub mod text;
pub mod unknown;
pub mod vocabulary;
pub mod words;
