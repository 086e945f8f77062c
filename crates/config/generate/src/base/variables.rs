//! Template variables: what templates can use of the cluster.

use seaworthy_api::machineconfiguration::ControllerConfig;
use seaworthy_api::machineconfiguration::kubelet_config::TlsSecurityProfile;
use seaworthy_api::meta::Base64;

use super::template::{TemplateError, Variables};
use crate::tls;

/// The image of the process that holds a pod's namespaces, if the ControllerConfig names none.
const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";

/// The variables for a role.
pub(super) fn variables(
    role: &str,
    controller_config: &ControllerConfig,
    cluster_tls: Option<&TlsSecurityProfile>,
) -> Result<Variables, Vec<TemplateError>> {
    let spec = &controller_config.spec;
    let proxy = spec.proxy.as_ref();
    let infrastructure = spec.infra.as_ref().and_then(|infra| infra.status.as_ref());
    let tls = tls::settings(cluster_tls);
    let ciphers: Vec<String> = tls.ciphers.iter().map(|cipher| format!("{cipher:?}")).collect();
    let api_server_ca = pem("spec.kubeAPIServerServingCAData", spec.kube_api_server_serving_ca_data.as_ref());
    let root_ca = pem("spec.rootCAData", spec.root_ca_data.as_ref());
    let mut errors = Vec::new();
    let mut certificates = |pem: Result<String, TemplateError>| {
        pem.unwrap_or_else(|error| {
            errors.push(error);
            String::new()
        })
    };
    let (api_server_ca, root_ca) = (certificates(api_server_ca), certificates(root_ca));
    let mut line = |field: &'static str, value: Option<&str>| {
        let value = value.unwrap_or_default();
        // The values are in quotes or after an equals sign, each on a line of its own.
        if value.contains(|c: char| c.is_control() || c == '"' || c == '\\') {
            let why = format!("found {value:?}; expected text without quotes, backslashes and line breaks");
            errors.push(TemplateError::Value { field, why });
        }
        value.to_owned()
    };
    let pause = spec.images.as_ref().and_then(|images| images.get("pause")).map(String::as_str);
    let api_server = infrastructure.and_then(|status| status.api_server_internal_uri.as_deref());
    let variables = Variables::from([
        ("apiServerCAFile", if api_server_ca.is_empty() { "" } else { "/etc/kubernetes/kubelet-ca.crt" }.to_owned()),
        ("apiServerCA", api_server_ca),
        ("apiServerURL", line("spec.infra.status.apiServerInternalURI", api_server)),
        ("clusterDNSIP", line("spec.clusterDNSIP", spec.cluster_dns_ip.as_deref())),
        ("httpProxy", line("spec.proxy.httpProxy", proxy.and_then(|proxy| proxy.http_proxy.as_deref()))),
        ("httpsProxy", line("spec.proxy.httpsProxy", proxy.and_then(|proxy| proxy.https_proxy.as_deref()))),
        ("noProxy", line("spec.proxy.noProxy", proxy.and_then(|proxy| proxy.no_proxy.as_deref()))),
        ("pauseImage", line("spec.images.pause", Some(pause.unwrap_or(PAUSE_IMAGE)))),
        ("role", role.to_owned()),
        ("rootCA", root_ca),
        ("tlsCipherSuites", format!("[{}]", ciphers.join(", "))),
        ("tlsMinVersion", tls.min_version.unwrap_or_else(|| "\"\"".to_owned())),
    ]);
    if errors.is_empty() { Ok(variables) } else { Err(errors) }
}

/// Certificates as text.
fn pem(field: &'static str, data: Option<&Base64>) -> Result<String, TemplateError> {
    let Some(data) = data else { return Ok(String::new()) };
    let wrong = |why: String| TemplateError::Value { field, why };
    let bytes = data.decode().map_err(|error| wrong(format!("it is not base64: {error}")))?;
    String::from_utf8(bytes).map_err(|_| wrong("it is not text; expected certificates in PEM form".to_owned()))
}
