//! [`Environment`]: the operator's variables for object stores and proxies.

use std::collections::BTreeMap;
use std::fmt;

use crate::{FailureKind, Proxy};

/// The variables that configure object stores. Passed to the fetcher rather than looked
/// up, so that no other variable of the process has an effect.
///
/// For S3: `AWS_ACCESS_KEY_ID` with `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`;
/// `AWS_WEB_IDENTITY_TOKEN_FILE` with `AWS_ROLE_ARN`, `AWS_ROLE_SESSION_NAME` and
/// `AWS_ENDPOINT_URL_STS`; `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`;
/// `AWS_CONTAINER_CREDENTIALS_FULL_URI` with `AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE`;
/// `AWS_REGION`, `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`,
/// `AWS_ALLOW_HTTP`, `AWS_SKIP_SIGNATURE`, `AWS_REQUEST_PAYER`.
///
/// For Google Cloud Storage: `GOOGLE_SERVICE_ACCOUNT`, `GOOGLE_SERVICE_ACCOUNT_KEY`,
/// `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_BASE_URL`, `GOOGLE_ALLOW_HTTP`,
/// `GOOGLE_SKIP_SIGNATURE`, `STORAGE_EMULATOR_HOST`.
///
/// For both: `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case. Requests with
/// credentials use these proxies and no others; all other requests use those of their config.
///
/// Without credentials, objects are asked for anonymously. The credentials that a cloud gives to
/// its machines are never used: any config could otherwise read what the machine may read.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

const NAMES: [&str; 30] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_ALLOW_HTTP",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL_STS",
    "AWS_REGION",
    "AWS_REQUEST_PAYER",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "GOOGLE_ALLOW_HTTP",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_BASE_URL",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_SKIP_SIGNATURE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "STORAGE_EMULATOR_HOST",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Variables whose values must not appear anywhere.
const SECRETS: [&str; 4] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_SERVICE_ACCOUNT_KEY"];

impl Environment {
    /// Takes the variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// The value of a variable; an empty one counts as not set.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name)?;
        (!value.is_empty()).then_some(value)
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "1"))
    }

    /// The values of two variables that only mean something together.
    pub(crate) fn pair(&self, first: &str, second: &str) -> Result<Option<(&str, &str)>, FailureKind> {
        match (self.get(first), self.get(second)) {
            (Some(one), Some(other)) => Ok(Some((one, other))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(half(first, second)),
            (None, Some(_)) => Err(half(second, first)),
        }
    }

    /// The operator's own proxies.
    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::from_variables(|name| self.get(name).map(str::to_owned))
    }

    /// The address of Google's storage emulator as a URL.
    pub(crate) fn emulator(&self) -> Option<String> {
        let host = self.get("STORAGE_EMULATOR_HOST")?;
        Some(if host.contains("://") { host.to_owned() } else { format!("http://{host}") })
    }

    /// The text without any of the secret values.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut text: String = text.chars().filter(|c| !c.is_control()).take(500).collect();
        for secret in SECRETS.iter().filter_map(|name| self.get(name)) {
            text = text.replace(secret, "…");
        }
        text
    }
}

fn half(set: &str, unset: &str) -> FailureKind {
    FailureKind::Credentials { reason: format!("{set} is set, but {unset} is not; set both or neither") }
}

impl FromIterator<(String, String)> for Environment {
    /// Keeps the known variables and ignores the others.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self { variables: variables.into_iter().filter(|(name, _)| NAMES.contains(&name.as_str())).collect() }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        variables.iter().map(owned).collect()
    }

    #[test]
    fn unknown_variables_have_no_effect() {
        let environment = environment(&[("AWS_REGION", "x"), ("AWS_BUCKET", "b"), ("PATH", "p")]);
        assert_eq!(format!("{environment:?}"), r#"{"AWS_REGION"}"#);
    }

    #[test]
    fn secrets_are_neither_shown_nor_passed_on() {
        let environment = environment(&[("AWS_SECRET_ACCESS_KEY", "SECRET")]);
        assert!(!format!("{environment:?}").contains("SECRET\""));
        assert_eq!(environment.scrub("bad key SECRET\n!"), "bad key …!");
    }

    #[test]
    fn half_of_a_pair_is_an_error_that_names_the_other_half() {
        let environment = environment(&[("AWS_ACCESS_KEY_ID", "id")]);
        let pair = environment.pair("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let message = pair.unwrap_err().to_string();
        assert!(message.contains("AWS_SECRET_ACCESS_KEY is not"), "{message}");
    }
}
