//! Objects of simulated kubelets: the parts of Pods and Nodes that they read.
//!
//! The whole types have a thousand fields. Code that deserializes them is a megabyte of the program, and nothing here reads it.

use std::borrow::Cow;

use k8s_openapi::api::core::v1 as core;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The part of a Pod that is read, and what a new one is created with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pod {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<PodSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PodStatus>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(default)]
    pub containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Container {
    #[serde(default)]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// The part of a Node that is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Node {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Option<NodeSpec>,
    #[serde(default)]
    pub status: Option<NodeStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeSpec {
    #[serde(default)]
    pub unschedulable: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeStatus {
    #[serde(default)]
    pub conditions: Option<Vec<Condition>>,
}

/// A condition of either.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
}

/// Whether the condition `Ready` is true.
pub fn is_ready(conditions: Option<&[Condition]>) -> bool {
    conditions.unwrap_or_default().iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

impl Resource for Pod {
    type DynamicType = ();
    type Scope = <core::Pod as Resource>::Scope;

    fn kind(type_: &()) -> Cow<'_, str> {
        core::Pod::kind(type_)
    }

    fn group(type_: &()) -> Cow<'_, str> {
        core::Pod::group(type_)
    }

    fn version(type_: &()) -> Cow<'_, str> {
        core::Pod::version(type_)
    }

    fn plural(type_: &()) -> Cow<'_, str> {
        core::Pod::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Resource for Node {
    type DynamicType = ();
    type Scope = <core::Node as Resource>::Scope;

    fn kind(type_: &()) -> Cow<'_, str> {
        core::Node::kind(type_)
    }

    fn group(type_: &()) -> Cow<'_, str> {
        core::Node::group(type_)
    }

    fn version(type_: &()) -> Cow<'_, str> {
        core::Node::version(type_)
    }

    fn plural(type_: &()) -> Cow<'_, str> {
        core::Node::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
