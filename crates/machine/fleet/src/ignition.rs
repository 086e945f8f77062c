//! Simulated Ignition: fetches the configuration of a new machine from the URL in its stub.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use seaworthy_fetch::{FetchSettings, Fetcher, HostPattern, Policy, Request};
use seaworthy_ignition::data_url;
use serde_json::Value;

/// Returns the stub for new machines of a pool, as `seaworthy ignition stub` prints it.
pub type StubSource = Arc<dyn Fn(&str) -> Value + Send + Sync>;

/// The delay after a failed attempt.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The limit for one attempt, with its immediate retries.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The stub is the owner's own, so every address is allowed.
static FETCHER: LazyLock<Fetcher> = LazyLock::new(|| {
    let everywhere: Vec<HostPattern> = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect();
    Fetcher::new(Policy::allowing(everywhere), Arc::new(SystemTime::now))
});

/// Fetches the configuration that a stub points to. Like Ignition it retries; after the timeout the last error is returned.
///
/// # Errors
///
/// If the stub has no URL, or no attempt succeeds in time.
pub async fn fetch_config(stub: &Value, timeout: Duration) -> Result<Value, String> {
    let request = request(stub)?;
    let mut last_error = format!("{}: no answer", request.url);
    let attempts = async {
        loop {
            match FETCHER.fetch(&request).await {
                Ok(found) => return found,
                Err(error) => last_error = error.to_string(),
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    };
    match tokio::time::timeout(timeout, attempts).await {
        Ok(found) => serde_json::from_slice(found.bytes())
            .map_err(|error| format!("{}: not an Ignition config: {error}", request.url)),
        Err(_) => Err(last_error),
    }
}

/// The request of a stub: URL, headers and certificate authorities.
fn request(stub: &Value) -> Result<Request, String> {
    let reference = &stub["ignition"]["config"]["merge"][0];
    let url = reference["source"].as_str().ok_or("the pointer config has no ignition.config.merge[0].source")?;
    let mut request = Request::config(url);
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    request.headers = list(&reference["httpHeaders"]).map(|it| (text(it, "name"), text(it, "value"))).collect();
    let authorities = list(&stub["ignition"]["security"]["tls"]["certificateAuthorities"]).map(|authority| {
        let source = authority["source"].as_str().unwrap_or_default();
        let pem = data_url::decode(source)
            .map_err(|error| format!("the pointer config's certificateAuthorities: {error}"))?;
        Ok(Arc::from(pem.as_ref()))
    });
    let certificate_authorities = authorities.collect::<Result<_, String>>()?;
    request.settings =
        FetchSettings { certificate_authorities, total_timeout: Some(ATTEMPT_TIMEOUT), ..FetchSettings::default() };
    Ok(request)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::request;

    #[test]
    fn stub_has_the_url_the_headers_and_the_authorities() {
        let stub = json!({"ignition": {
            "version": "3.1.0",
            "config": {"merge": [{
                "source": "https://localhost:22623/config/worker",
                "httpHeaders": [{"name": "Authorization", "value": "Bearer word"}],
            }]},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,pem"}]}},
        }});
        let request = request(&stub).unwrap();
        assert_eq!(request.url, "https://localhost:22623/config/worker");
        assert_eq!(request.headers, [("Authorization".to_owned(), "Bearer word".to_owned())]);
        assert_eq!(*request.settings.certificate_authorities[0], *b"pem");
    }

    #[test]
    fn stub_without_a_url_is_refused() {
        assert!(request(&json!({"ignition": {"version": "3.1.0"}})).unwrap_err().contains("merge[0].source"));
    }
}
