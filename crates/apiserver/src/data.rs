//! The built-in kinds as data: their names and verbs, and their schemas. Made by `cargo xtask openapi`.

/// Resources by group and version, as aggregated discovery has them: a list of `{group, version, resources}`.
pub const DISCOVERY: &str = include_str!("../data/discovery.json");

/// Schemas of the built-in kinds and of all that they refer to, one object of schemas by name per package.
pub const SCHEMAS: [&str; 20] = [
    include_str!("../data/schemas/io.k8s.api.admissionregistration.v1.json"),
    include_str!("../data/schemas/io.k8s.api.apps.v1.json"),
    include_str!("../data/schemas/io.k8s.api.authentication.v1.json"),
    include_str!("../data/schemas/io.k8s.api.authorization.v1.json"),
    include_str!("../data/schemas/io.k8s.api.autoscaling.v1.json"),
    include_str!("../data/schemas/io.k8s.api.batch.v1.json"),
    include_str!("../data/schemas/io.k8s.api.coordination.v1.json"),
    include_str!("../data/schemas/io.k8s.api.core.v1.json"),
    include_str!("../data/schemas/io.k8s.api.discovery.v1.json"),
    include_str!("../data/schemas/io.k8s.api.events.v1.json"),
    include_str!("../data/schemas/io.k8s.api.node.v1.json"),
    include_str!("../data/schemas/io.k8s.api.policy.v1.json"),
    include_str!("../data/schemas/io.k8s.api.rbac.v1.json"),
    include_str!("../data/schemas/io.k8s.api.scheduling.v1.json"),
    include_str!("../data/schemas/io.k8s.api.scheduling.v1alpha3.json"),
    include_str!("../data/schemas/io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.json"),
    include_str!("../data/schemas/io.k8s.apimachinery.pkg.api.resource.json"),
    include_str!("../data/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.json"),
    include_str!("../data/schemas/io.k8s.apimachinery.pkg.runtime.json"),
    include_str!("../data/schemas/io.k8s.apimachinery.pkg.util.intstr.json"),
];
