//! What Ignition does on a new machine: it follows the few lines that the machine was given to its configuration.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use seaworthy_fetch::{Fetcher, HostPattern, Policy, Request, Settings};
use seaworthy_ignition::data_url;
use serde_json::Value;

/// Says what a new machine of a pool is given to find its configuration: what `seaworthy ignition stub` prints.
pub type Stubs = Arc<dyn Fn(&str) -> Value + Send + Sync>;

/// How long it waits before it asks again, wherever it was refused.
const AGAIN: Duration = Duration::from_millis(200);

/// How long one attempt may take, with those that follow it at once.
const ATTEMPT: Duration = Duration::from_secs(5);

/// A machine may go wherever its stub leads: it is the owner's own.
static FETCHER: LazyLock<Fetcher> = LazyLock::new(|| {
    let everywhere: Vec<HostPattern> = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect();
    Fetcher::new(Policy::allowing(everywhere), Arc::new(SystemTime::now))
});

/// The configuration that a stub leads to. Like Ignition it asks until it is answered; the last refusal is told when `patience`
/// is over.
///
/// # Errors
///
/// If the stub leads nowhere, or nobody answers in time.
pub async fn fetched(stub: &Value, patience: Duration) -> Result<Value, String> {
    let request = request(stub)?;
    let mut refusal = format!("{}: no answer", request.url);
    let asking = async {
        loop {
            match FETCHER.fetch(&request).await {
                Ok(found) => return found,
                Err(error) => refusal = error.to_string(),
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    match tokio::time::timeout(patience, asking).await {
        Ok(found) => serde_json::from_slice(found.bytes())
            .map_err(|error| format!("{}: not an Ignition config: {error}", request.url)),
        Err(_) => Err(refusal),
    }
}

/// What a stub asks for: where, with which headers, and whom it trusts.
fn request(stub: &Value) -> Result<Request, String> {
    let reference = &stub["ignition"]["config"]["merge"][0];
    let url = reference["source"].as_str().ok_or("the stub has no ignition.config.merge[0].source")?;
    let mut request = Request::config(url);
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    request.headers = list(&reference["httpHeaders"]).map(|it| (text(it, "name"), text(it, "value"))).collect();
    let authorities = list(&stub["ignition"]["security"]["tls"]["certificateAuthorities"]).map(|authority| {
        let source = authority["source"].as_str().unwrap_or_default();
        let pem = data_url::decode(source).map_err(|error| format!("the stub's certificateAuthorities: {error}"))?;
        Ok(Arc::from(pem.as_ref()))
    });
    let certificate_authorities = authorities.collect::<Result<_, String>>()?;
    request.settings = Settings { certificate_authorities, total_timeout: Some(ATTEMPT), ..Settings::default() };
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
    fn stub_says_where_to_go_what_to_show_and_whom_to_trust() {
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
    fn stub_that_leads_nowhere_is_refused() {
        assert!(request(&json!({"ignition": {"version": "3.1.0"}})).unwrap_err().contains("merge[0].source"));
    }
}
