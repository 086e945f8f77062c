//! Answers: the configs of all pools in every version, encoded before they are requested.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use seaworthy_ignition::Version;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::servable_config::ServableConfig;

/// One body, and its entity tag.
#[derive(Clone, Debug)]
pub struct EncodedBody {
    /// The bytes.
    pub body: Bytes,
    /// The `ETag`: changes whenever the bytes do.
    pub tag: HeaderValue,
}

/// One config in one version.
#[derive(Debug)]
pub struct Answer {
    plain: EncodedBody,
    /// Compressed at the first request for it: few clients ask for it.
    gzip: OnceLock<EncodedBody>,
}

impl Answer {
    /// An answer with this body.
    pub fn new(body: Vec<u8>) -> Answer {
        let hex: String = digest(&SHA256, &body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Answer { plain: EncodedBody { body: body.into(), tag: tag(&hex) }, gzip: OnceLock::new() }
    }

    /// The body without compression.
    pub fn plain(&self) -> &EncodedBody {
        &self.plain
    }

    /// The body compressed with gzip.
    pub fn gzip(&self) -> &EncodedBody {
        self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Writing to memory does not fail; if it did, the plain bytes would still be a right answer.
            let compressed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
            let Ok(compressed) = compressed else { return self.plain.clone() };
            let name = self.plain.tag.to_str().unwrap_or_default().trim_matches('"');
            EncodedBody { body: compressed.into(), tag: tag(&format!("{name}-gzip")) }
        })
    }
}

fn tag(name: &str) -> HeaderValue {
    // Hexadecimal digits and a suffix are always a valid header value.
    HeaderValue::from_str(&format!("\"{name}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// One pool's config in every version: an answer, or the reason why there is none.
#[derive(Debug)]
pub struct Answers {
    by_version: [Result<Answer, String>; Version::WRITABLE.len()],
    created: Instant,
    is_missing: bool,
}

impl Answers {
    /// The result of `serve` for each version.
    pub fn of(serve: impl Fn(Version) -> Result<Vec<u8>, String>) -> Answers {
        let by_version = Version::WRITABLE.map(|version| serve(version).map(Answer::new));
        Answers { by_version, created: Instant::now(), is_missing: false }
    }

    /// A MachineConfig in every version.
    pub fn of_config(config: &ServableConfig) -> Answers {
        Answers::of(|version| config.serve(version).map_err(|error| error.to_string()))
    }

    /// No version can be served.
    pub fn refused(reason: &str) -> Answers {
        Answers::of(|_| Err(reason.to_owned()))
    }

    /// The config does not exist.
    pub fn missing(reason: &str) -> Answers {
        Answers { is_missing: true, ..Answers::refused(reason) }
    }

    /// Whether the config does not exist, rather than being invalid.
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// The answer in a version.
    pub fn get(&self, version: Version) -> Result<&Answer, &str> {
        match Version::WRITABLE.iter().position(|known| *known == version) {
            Some(at) => self.by_version[at].as_ref().map_err(String::as_str),
            None => Err("this Ignition version is not served"),
        }
    }

    /// Time since they were built.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.created)
    }

    /// Why not even the newest version can be served.
    pub fn refusal(&self) -> Option<&str> {
        self.get(Version::INTERNAL).err()
    }
}

/// The answers of all pools, by name.
pub type PoolAnswers = BTreeMap<String, Arc<Answers>>;

/// The current answers of all pools. A source replaces all of them at once; the endpoint reads them.
#[derive(Debug, Default)]
pub struct AnswerStore {
    pools: watch::Sender<Option<Arc<PoolAnswers>>>,
    /// Since when the source of answers is unreachable.
    unreachable_since: Mutex<Option<Instant>>,
}

impl AnswerStore {
    /// Replaces all answers.
    pub fn publish(&self, pools: PoolAnswers) {
        self.pools.send_replace(Some(Arc::new(pools)));
    }

    /// The current answers; `None` until they are published for the first time.
    pub fn current(&self) -> Option<Arc<PoolAnswers>> {
        self.pools.borrow().clone()
    }

    /// Records whether the source of answers was reachable when it was last tried.
    pub fn record_attempt(&self, is_reachable: bool) {
        let mut since = self.unreachable_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if is_reachable { None } else { Some(since.unwrap_or_else(Instant::now)) };
    }

    /// How long the source of answers has been unreachable.
    pub fn unreachable_for(&self, now: Instant) -> Duration {
        let since = *self.unreachable_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Waits until the answers meet a condition.
    pub async fn wait_until(&self, is_met: impl Fn(&PoolAnswers) -> bool) -> Arc<PoolAnswers> {
        let mut changes = self.pools.subscribe();
        loop {
            let pools = changes.borrow_and_update().clone();
            match pools.filter(|pools| is_met(pools)) {
                Some(pools) => return pools,
                // The sender lives in self, so waiting cannot fail.
                None => drop(changes.changed().await),
            }
        }
    }
}
