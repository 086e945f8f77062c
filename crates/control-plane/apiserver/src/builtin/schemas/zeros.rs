//! Serialisation of built-in fields, which their schemas do not describe: fields that the real server omits when they
//! are zero or false, and fields that it keeps when they are empty.
//!
//! kube-apiserver reads objects into typed structures. An optional number or bool that is not a pointer cannot be
//! distinguished from a missing one, so its zero value is omitted; behind a pointer it can.

/// The definition of times with microseconds.
pub const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

/// Numbers and truth values that are left out when they are zero or false, by definition.
pub const ZEROS: &[(&str, &[&str])] = &[
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", &["generation"]),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Condition", &["observedGeneration"]),
    ("io.k8s.api.core.v1.PodSpec", &["hostIPC", "hostNetwork", "hostPID"]),
    ("io.k8s.api.core.v1.PodStatus", &["observedGeneration"]),
    ("io.k8s.api.core.v1.PodCondition", &["observedGeneration"]),
    ("io.k8s.api.core.v1.Container", &["stdin", "stdinOnce", "tty"]),
    ("io.k8s.api.core.v1.EphemeralContainer", &["stdin", "stdinOnce", "tty"]),
    ("io.k8s.api.core.v1.ContainerPort", &["hostPort"]),
    ("io.k8s.api.core.v1.ContainerStateTerminated", &["signal"]),
    (
        "io.k8s.api.core.v1.Probe",
        &["failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds"],
    ),
    ("io.k8s.api.core.v1.VolumeMount", &["readOnly"]),
    ("io.k8s.api.core.v1.VolumeMountStatus", &["readOnly"]),
    ("io.k8s.api.core.v1.PersistentVolumeClaimVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.NFSVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.ISCSIVolumeSource", &["chapAuthDiscovery", "chapAuthSession", "readOnly"]),
    ("io.k8s.api.core.v1.FCVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.RBDVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.CephFSVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.FlexVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.AzureFileVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.CinderVolumeSource", &["readOnly"]),
    ("io.k8s.api.core.v1.AWSElasticBlockStoreVolumeSource", &["partition", "readOnly"]),
    ("io.k8s.api.core.v1.GCEPersistentDiskVolumeSource", &["partition", "readOnly"]),
    ("io.k8s.api.core.v1.NodeSpec", &["unschedulable"]),
    ("io.k8s.api.core.v1.ContainerImage", &["sizeBytes"]),
    ("io.k8s.api.core.v1.ServiceSpec", &["healthCheckNodePort", "publishNotReadyAddresses"]),
    ("io.k8s.api.core.v1.ServicePort", &["nodePort"]),
    ("io.k8s.api.core.v1.Event", &["count"]),
    ("io.k8s.api.core.v1.EventSeries", &["count"]),
    ("io.k8s.api.events.v1.Event", &["deprecatedCount"]),
    ("io.k8s.api.apps.v1.DaemonSetSpec", &["minReadySeconds"]),
    (
        "io.k8s.api.apps.v1.DaemonSetStatus",
        &["numberAvailable", "numberUnavailable", "observedGeneration", "updatedNumberScheduled"],
    ),
    ("io.k8s.api.apps.v1.DeploymentSpec", &["minReadySeconds", "paused"]),
    (
        "io.k8s.api.apps.v1.DeploymentStatus",
        &[
            "availableReplicas",
            "observedGeneration",
            "readyReplicas",
            "replicas",
            "unavailableReplicas",
            "updatedReplicas",
        ],
    ),
    ("io.k8s.api.batch.v1.JobStatus", &["active", "failed", "succeeded"]),
    ("io.k8s.api.policy.v1.PodDisruptionBudgetStatus", &["observedGeneration"]),
    ("io.k8s.api.scheduling.v1.PriorityClass", &["globalDefault"]),
    ("io.k8s.api.authorization.v1.SubjectAccessReviewStatus", &["denied"]),
    ("io.k8s.api.authentication.v1.TokenReviewStatus", &["authenticated"]),
    ("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyStatus", &["observedGeneration"]),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec",
        &["preserveUnknownFields"],
    ),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion", &["deprecated"]),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceColumnDefinition", &["priority"]),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        &[
            "exclusiveMaximum",
            "exclusiveMinimum",
            "nullable",
            "uniqueItems",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ],
    ),
];

/// Numbers that are always there, though the schema does not call them required, by definition.
pub const ALWAYS: &[(&str, &[&str])] = &[
    (
        "io.k8s.api.policy.v1.PodDisruptionBudgetStatus",
        &["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"],
    ),
    ("io.k8s.api.scheduling.v1.PriorityClass", &["value"]),
];

/// Fields that the schema calls required, though objects may lack them, by definition.
pub const OPTIONAL: &[(&str, &[&str])] =
    &[("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", &["validationActions"])];

/// Texts and lists that are kept when they are empty, by definition.
pub const KEPT: &[(&str, &[&str])] = &[
    ("io.k8s.api.rbac.v1.ClusterRole", &["rules"]),
    ("io.k8s.api.rbac.v1.Role", &["rules"]),
    ("io.k8s.api.core.v1.HostPathVolumeSource", &["type"]),
    ("io.k8s.api.core.v1.PodSpec", &["runtimeClassName"]),
    ("io.k8s.api.core.v1.GRPCAction", &["service"]),
    ("io.k8s.api.core.v1.ServiceSpec", &["loadBalancerClass"]),
    ("io.k8s.api.coordination.v1.LeaseSpec", &["holderIdentity"]),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionVersion",
        &["deprecationWarning"],
    ),
    ("io.k8s.api.discovery.v1.EndpointPort", &["appProtocol", "name", "protocol"]),
];
