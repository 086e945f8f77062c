//! Validation of a definition's conversion between versions.

use std::collections::HashSet;

use seaworthy_values::names::{dns_1035_label, dns_subdomain};
use serde_json::{Value, json};

use super::Requirements;
use super::props::Props;
use super::spec::one_of;
use crate::cause::Cause;
use crate::path::Path;

/// Whether a definition's webhook, if it has one, understands a known version of the review.
pub(super) fn has_known_review(spec: Props<'_>) -> bool {
    let versions = review_versions(spec);
    versions.is_empty() || versions.iter().any(|version| matches!(*version, "v1" | "v1beta1"))
}

fn review_versions(spec: Props<'_>) -> Vec<&str> {
    let webhook = spec.get("conversion").and_then(|conversion| Props::of(conversion.get("webhook")?));
    webhook.map(|webhook| webhook.texts("conversionReviewVersions")).unwrap_or_default()
}

pub(super) fn mistakes(spec: Props<'_>, requires: &Requirements, path: &Path<'_>, found: &mut Vec<Cause>) {
    let Some(conversion) = spec.get("conversion").and_then(Props::of) else { return };
    let strategy = conversion.text("strategy").unwrap_or_default();
    if strategy != "None" && spec.flag("preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        found.push(Cause::invalid(path.name("strategy"), strategy, detail));
    }
    one_of(&path.name("strategy"), strategy, &["None", "Webhook"], found);
    let webhook = conversion.get("webhook").and_then(Props::of);
    let client = webhook.and_then(|webhook| Props::of(webhook.get("clientConfig")?));
    let versions = review_versions(spec);
    let (at_client, at_versions) = (path.name("webhookClientConfig"), path.name("conversionReviewVersions"));
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            found.push(Cause::forbidden(at_client, detail));
        }
        if !versions.is_empty() {
            found.push(Cause::forbidden(at_versions, detail));
        }
        return;
    }
    match client {
        None => found.push(Cause::required(at_client, "required when strategy is set to Webhook")),
        Some(client) => match (client.text("url"), client.get("service").and_then(Props::of)) {
            (Some(url), None) => webhook_url(url, &at_client.name("url"), found),
            (None, Some(service)) => webhook_service(service, &at_client.name("service"), found),
            _ => found.push(Cause::required(at_client, "exactly one of url or service is required")),
        },
    }
    if versions.is_empty() {
        found.push(Cause::required(at_versions, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            found.push(Cause::invalid(at_versions.index(index), *version, "duplicate version"));
            continue;
        }
        let broken = dns_1035_label(version);
        found.extend(broken.iter().map(|detail| Cause::invalid(at_versions.index(index), *version, detail)));
    }
    if requires.known_review && !has_known_review(spec) {
        found.push(Cause::invalid(at_versions, &json!(versions), "must include at least one of v1, v1beta1"));
    }
}

fn webhook_url(url: &str, path: &Path<'_>, found: &mut Vec<Cause>) {
    let form = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        found.push(Cause::invalid(path, scheme, &format!("'https' is the only allowed URL scheme{form}")));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.is_empty() || host.is_empty() {
        found.push(Cause::invalid(path, "", &format!("host must be specified{form}")));
    }
    if let Some((user, _)) = host.rsplit_once('@') {
        found.push(Cause::invalid(path, user, "user information is not permitted in the URL"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() {
        found.push(Cause::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if let Some((_, query)) = rest.split_once('?').filter(|(_, query)| !query.is_empty()) {
        found.push(Cause::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

fn webhook_service(service: Props<'_>, path: &Path<'_>, found: &mut Vec<Cause>) {
    // The original mixes up the two, and who has learned its answers expects that.
    for (key, reported) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(key).unwrap_or_default().is_empty() {
            found.push(Cause::required(path.name(reported), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        found.push(Cause::invalid(path.name("port"), port, detail));
    }
    let url = service.text("path").unwrap_or_default();
    if matches!(url, "" | "/") {
        return;
    }
    let mut refuse = |detail: &str| found.push(Cause::invalid(path.name("path"), url, detail));
    if !url.starts_with('/') {
        refuse("must start with a '/'");
    }
    // Whatever the first character is, the segments begin behind it.
    let mut letters = url.chars();
    letters.next();
    let segments = letters.as_str();
    for (index, segment) in segments.strip_suffix('/').unwrap_or(segments).split('/').enumerate() {
        match segment {
            "" => refuse(&format!("segment[{index}] may not be empty")),
            segment => dns_subdomain(segment).iter().for_each(|why| refuse(&format!("segment[{index}]: {why}"))),
        }
    }
}
