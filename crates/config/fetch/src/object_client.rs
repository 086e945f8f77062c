//! [`ObjectClient`]: fetches objects from S3, compatible stores, and Google Cloud Storage.

use std::sync::Arc;

use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{ClientConfigKey, StaticCredentialProvider};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, RetryConfig};
use url::Url;

use crate::connector::{Connector, Exchange, LastResponse};
use crate::object_url::{ObjectUrl, S3Container, S3Object, is_region};
use crate::transport::{Link, Target, Transport};
use crate::{Environment, FailureKind, redact};

/// Where ECS and compatible agents hand out credentials; the variable only gives a path on it.
const CONTAINER_CREDENTIALS: &str = "http://169.254.170.2/";

const GOOGLE_STORAGE: &str = "https://storage.googleapis.com";

/// Fetches from object stores for one fetch.
pub(crate) struct ObjectClient<'a> {
    pub(crate) transport: &'a Arc<Transport>,
    /// For requests without credentials: with the config's settings.
    pub(crate) link: &'a Arc<Link>,
    /// For requests with credentials: with the operator's settings.
    pub(crate) operator_link: &'a Arc<Link>,
    pub(crate) environment: &'a Environment,
    /// The largest object.
    pub(crate) limit: u64,
}

/// A store that has been set up for one attempt.
struct PreparedStore {
    store: Box<dyn ObjectStore>,
    exchange: Arc<Exchange>,
    is_anonymous: bool,
}

impl ObjectClient<'_> {
    /// One attempt to get an object.
    pub(crate) async fn get(&self, object: &ObjectUrl) -> Result<Bytes, FailureKind> {
        match object {
            ObjectUrl::Gs { bucket, key } => self.read(self.google(bucket)?, key, None).await,
            ObjectUrl::S3(object) => self.get_s3(object).await,
        }
    }

    async fn get_s3(&self, object: &S3Object) -> Result<Bytes, FailureKind> {
        let prepared = self.s3(object, None)?;
        let exchange = prepared.exchange.clone();
        let version = object.version.clone();
        let result = self.read(prepared, &object.key, version.clone()).await;
        // A bucket in another region answers with the name of that region.
        let elsewhere = match exchange.last().map(|outcome| outcome.answer) {
            Some(Ok(answer)) if matches!(answer.code, 301 | 307 | 400) => answer.region,
            _ => None,
        };
        match elsewhere {
            // The answer comes from outside, and the region becomes part of a host name.
            Some(region) if result.is_err() && is_region(&region) && self.s3_endpoint().is_none() => {
                let prepared = self.s3(object, Some(&region))?;
                self.read(prepared, &object.key, version).await
            }
            _ => result,
        }
    }

    async fn read(&self, prepared: PreparedStore, key: &str, version: Option<String>) -> Result<Bytes, FailureKind> {
        let path =
            Path::parse(key).map_err(|_| FailureKind::Url { reason: "its key cannot be requested".to_owned() })?;
        let options = GetOptions { version, ..GetOptions::default() };
        let result = match prepared.store.get_opts(&path, options).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        result.map_err(|error| self.explain(&prepared, &error))
    }

    /// The failure behind an error of the library, from the last response.
    fn explain(&self, prepared: &PreparedStore, error: &object_store::Error) -> FailureKind {
        let Some(LastResponse { is_for_credentials, answer }) = prepared.exchange.last() else {
            // Nothing was sent: reading a token file or signing failed.
            return FailureKind::Credentials { reason: self.environment.scrub(&error.to_string()) };
        };
        match (is_for_credentials, answer) {
            (_, Err(failure)) => failure,
            (true, Ok(answer)) if answer.code >= 500 => {
                FailureKind::Transport { reason: format!("the token service answered {}", answer.code) }
            }
            (true, Ok(answer)) => FailureKind::Credentials {
                reason: match answer.detail {
                    Some(detail) => format!("the token service answered {} ({detail})", answer.code),
                    None => format!("the token service answered {}", answer.code),
                },
            },
            (false, Ok(answer)) => match answer.code {
                404 => FailureKind::NotFound,
                200..=299 => FailureKind::Transport {
                    reason: format!("invalid HTTP response: {}", self.environment.scrub(&error.to_string())),
                },
                code => FailureKind::Status { code, detail: answer.detail, is_anonymous: prepared.is_anonymous },
            },
        }
    }

    fn s3_endpoint(&self) -> Option<&str> {
        let own = self.environment.get("AWS_ENDPOINT_URL_S3");
        own.or_else(|| self.environment.get("AWS_ENDPOINT_URL"))
    }

    fn s3(&self, object: &S3Object, region: Option<&str>) -> Result<PreparedStore, FailureKind> {
        let environment = self.environment;
        let default_region = environment.get("AWS_REGION").or_else(|| environment.get("AWS_DEFAULT_REGION"));
        let own_region = match &object.container {
            S3Container::Bucket { region, .. } => region.as_deref(),
            S3Container::AccessPoint { region, .. } => Some(region.as_str()),
        };
        let (S3Container::Bucket { partition, .. } | S3Container::AccessPoint { partition, .. }) = &object.container;
        let region = region.or(own_region).or(default_region).unwrap_or(partition.region);
        let service = match &object.container {
            S3Container::Bucket { .. } => "s3",
            S3Container::AccessPoint { .. } => "s3-accesspoint",
        };
        let mut endpoint = match self.s3_endpoint() {
            Some(endpoint) => {
                usable_endpoint("AWS_ENDPOINT_URL", endpoint, environment.is_true("AWS_ALLOW_HTTP"), "AWS_ALLOW_HTTP")?
            }
            None => {
                usable_endpoint("AWS_REGION", &format!("https://{service}.{region}.{}", partition.domain), false, "")?
            }
        };
        let bucket = match &object.container {
            S3Container::Bucket { bucket, .. } => bucket.clone(),
            S3Container::AccessPoint { account, name, .. } => {
                // An access point has a host name of its own, also below another endpoint.
                let name = format!("{name}-{account}");
                let host = format!("{name}.{}", endpoint.host_str().unwrap_or_default());
                endpoint
                    .set_host(Some(&host))
                    .map_err(|error| FailureKind::Url { reason: format!("{host} is not a host: {error}") })?;
                name
            }
        };
        let mut builder = AmazonS3Builder::new()
            .with_retry(no_retries())
            .with_region(region)
            .with_bucket_name(bucket)
            .with_endpoint(endpoint.as_str().trim_end_matches('/'))
            // With the bucket in the path, names with dots match the endpoint's certificate; the
            // host of an access point already contains everything.
            .with_virtual_hosted_style_request(matches!(object.container, S3Container::AccessPoint { .. }))
            .with_allow_http(endpoint.scheme() == "http");
        if let Some(payer) = environment.get("AWS_REQUEST_PAYER") {
            builder = builder.with_config(AmazonS3ConfigKey::RequestPayer, payer);
        }
        let (builder, operator) = self.s3_credentials(builder)?;
        let is_anonymous = operator.is_none();
        let builder = builder.with_skip_signature(is_anonymous);
        let exchange = self.exchange(&endpoint, operator)?;
        let store = builder
            .with_http_connector(Connector(exchange.clone()))
            .build()
            .map_err(|_| unusable_credentials("the AWS_ variables of the environment"))?;
        Ok(PreparedStore { store: Box::new(store), exchange, is_anonymous })
    }

    /// Adds the credentials of the environment, if there are any; returns the endpoints that the
    /// operator names for them, or `None` without credentials.
    fn s3_credentials(
        &self,
        mut builder: AmazonS3Builder,
    ) -> Result<(AmazonS3Builder, Option<Vec<Target>>), FailureKind> {
        use AmazonS3ConfigKey as Key;
        let environment = self.environment;
        if environment.is_true("AWS_SKIP_SIGNATURE") {
            return Ok((builder, None));
        }
        if let Some((id, secret)) = environment.pair("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")? {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
            if let Some(token) = environment.get("AWS_SESSION_TOKEN") {
                builder = builder.with_token(token);
            }
            return Ok((builder, Some(Vec::new())));
        }
        if let Some((file, role)) = environment.pair("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")? {
            builder = builder.with_config(Key::WebIdentityTokenFile, file).with_config(Key::RoleArn, role);
            let optional =
                [("AWS_ROLE_SESSION_NAME", Key::RoleSessionName), ("AWS_ENDPOINT_URL_STS", Key::StsEndpoint)];
            for (name, key) in optional {
                if let Some(value) = environment.get(name) {
                    builder = builder.with_config(key, value);
                }
            }
            return Ok((builder, Some(Vec::new())));
        }
        if let Some(path) = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            if !path.starts_with('/') {
                return Err(unusable_credentials(
                    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, which does not begin with /,",
                ));
            }
            builder = builder.with_config(Key::ContainerCredentialsRelativeUri, path);
            return Ok((builder, Some(vec![operator_target(CONTAINER_CREDENTIALS)?])));
        }
        if let Some((uri, file)) =
            environment.pair("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?
        {
            builder = builder
                .with_config(Key::ContainerCredentialsFullUri, uri)
                .with_config(Key::ContainerAuthorizationTokenFile, file);
            return Ok((builder, Some(vec![operator_target(uri)?])));
        }
        Ok((builder, None))
    }

    fn google(&self, bucket: &str) -> Result<PreparedStore, FailureKind> {
        use GoogleConfigKey as Key;
        let environment = self.environment;
        let emulator = environment.emulator();
        let endpoint = match (&emulator, environment.get("GOOGLE_BASE_URL")) {
            (Some(emulator), _) => usable_endpoint("STORAGE_EMULATOR_HOST", emulator, true, "")?,
            (None, Some(base)) => {
                usable_endpoint("GOOGLE_BASE_URL", base, environment.is_true("GOOGLE_ALLOW_HTTP"), "GOOGLE_ALLOW_HTTP")?
            }
            (None, None) => usable_endpoint("", GOOGLE_STORAGE, false, "")?,
        };
        let credentials = [
            ("GOOGLE_SERVICE_ACCOUNT", Key::ServiceAccount),
            ("GOOGLE_SERVICE_ACCOUNT_KEY", Key::ServiceAccountKey),
            ("GOOGLE_APPLICATION_CREDENTIALS", Key::ApplicationCredentials),
        ];
        let found = credentials
            .into_iter()
            .find_map(|(name, key)| Some((name, key, environment.get(name)?)))
            .filter(|_| emulator.is_none() && !environment.is_true("GOOGLE_SKIP_SIGNATURE"));
        let builder = GoogleCloudStorageBuilder::new()
            .with_retry(no_retries())
            .with_bucket_name(bucket)
            .with_base_url(endpoint.as_str().trim_end_matches('/'))
            .with_config(Key::Client(ClientConfigKey::AllowHttp), (endpoint.scheme() == "http").to_string());
        let (builder, source) = match found {
            Some((name, key, value)) => (builder.with_config(key, value), name),
            None => {
                // Credentials of no use keep the library from looking for some in the home
                // folder and at the metadata service.
                let none = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
                let builder = builder.with_credentials(Arc::new(none)).with_skip_signature(true);
                (builder, "the GOOGLE_ variables of the environment")
            }
        };
        let exchange = self.exchange(&endpoint, found.map(|_| Vec::new()))?;
        let store = builder
            .with_http_connector(Connector(exchange.clone()))
            .build()
            .map_err(|_| unusable_credentials(source))?;
        Ok(PreparedStore { store: Box::new(store), exchange, is_anonymous: found.is_none() })
    }

    /// Requests with credentials, whose endpoints the operator names (`Some`), use the operator's
    /// link; anonymous ones (`None`) use the config's.
    fn exchange(&self, endpoint: &Url, operator: Option<Vec<Target>>) -> Result<Arc<Exchange>, FailureKind> {
        let link = if operator.is_some() { self.operator_link } else { self.link };
        let data = Target::from_url(endpoint)?;
        Ok(Exchange::new(self.transport.clone(), link.clone(), data, operator.unwrap_or_default(), self.limit))
    }
}

/// Attempts are repeated by the fetcher, by the same rules for every scheme.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn operator_target(url: &str) -> Result<Target, FailureKind> {
    let url = Url::parse(url).ok();
    let target = url.and_then(|url| Target::from_url(&url).ok());
    target.ok_or_else(|| unusable_credentials("the URL in AWS_CONTAINER_CREDENTIALS_FULL_URI"))
}

/// Names the setting at fault without its value or the library's error, since both may contain the
/// credentials.
fn unusable_credentials(source: &str) -> FailureKind {
    FailureKind::Credentials { reason: format!("{source} cannot be used; check the value and the file that it names") }
}

fn usable_endpoint(variable: &str, endpoint: &str, allow_http: bool, allow_variable: &str) -> Result<Url, FailureKind> {
    let unusable = |reason: &str| FailureKind::Environment {
        variable: variable.to_owned(),
        reason: format!("{}: {reason}", redact(endpoint)),
    };
    let url = Url::parse(endpoint).map_err(|_| unusable("not a URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if allow_http => {}
        "http" => {
            return Err(unusable(&format!("http is not encrypted; set {allow_variable}=true if that is intended")));
        }
        _ => return Err(unusable("expected an http or https URL")),
    }
    if url.host().is_none() || !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("expected a URL with a host and no user"));
    }
    Ok(url)
}
