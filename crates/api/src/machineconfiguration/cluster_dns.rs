//! ClusterDns: the cluster's DNS object as a ControllerConfig embeds it.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::infrastructure::PlatformType;
use crate::schema::plain_object;
use crate::unknown::Unknown;
use crate::words::Open;

/// The cluster's DNS object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-embedded-resource" = true))]
pub struct ClusterDns {
    /// Group and version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,

    /// Kind of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name, labels and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "plain_object")]
    pub metadata: Option<Value>,

    /// Domain and zones of the cluster.
    pub spec: ClusterDnsSpec,

    /// Has no fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "plain_object")]
    pub status: Option<Value>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Domain and zones of the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDnsSpec {
    /// Domain below which all names of the cluster lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_domain: Option<String>,

    /// Settings of the infrastructure that hosts the zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<DnsPlatform>,

    /// Zone for names inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_zone: Option<DnsZone>,

    /// Zone for names that the world sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_zone: Option<DnsZone>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Settings of the infrastructure that hosts the zones.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'AWS' ?  has(self.aws) : !has(self.aws)")
    .message("'aws' goes with the type AWS and with no other"))]
pub struct DnsPlatform {
    /// Settings for AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsDns>,

    /// Which infrastructure it is; empty means none in particular.
    #[serde(rename = "type")]
    #[x_kube(validation = Rule::new("self in ['','AWS']").message("must be empty or 'AWS'"))]
    pub type_: Open<PlatformType>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// DNS settings for AWS.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwsDns {
    /// Role that may change the private zone.
    #[serde(rename = "privateZoneIAMRole", skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("matches(self, '^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/.*$')")
        .message("must be the ARN of an IAM role"))]
    pub private_zone_iam_role: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A DNS zone, by id or by tags.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsZone {
    /// Id of the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Tags by which the zone is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
