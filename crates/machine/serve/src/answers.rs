//! Everything that may be asked for, encoded before it is.

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

use crate::content::Dish;

/// One body, and what names it.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The bytes.
    pub body: Bytes,
    /// Changes whenever they do.
    pub tag: HeaderValue,
}

/// One config in one version.
#[derive(Debug)]
pub struct Answer {
    plain: Encoded,
    /// Packed when somebody asks for it first: few do.
    packed: OnceLock<Encoded>,
}

impl Answer {
    /// An answer of these bytes.
    pub fn new(body: Vec<u8>) -> Answer {
        let hex: String = digest(&SHA256, &body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Answer { plain: Encoded { body: body.into(), tag: tag(&hex) }, packed: OnceLock::new() }
    }

    /// As it is.
    pub fn plain(&self) -> &Encoded {
        &self.plain
    }

    /// As gzip.
    pub fn packed(&self) -> &Encoded {
        self.packed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Writing to memory does not fail; if it did, the plain bytes would still be a right answer.
            let packed = encoder.write_all(&self.plain.body).and_then(|()| encoder.finish());
            let Ok(packed) = packed else { return self.plain.clone() };
            let name = self.plain.tag.to_str().unwrap_or_default().trim_matches('"');
            Encoded { body: packed.into(), tag: tag(&format!("{name}-gzip")) }
        })
    }
}

fn tag(name: &str) -> HeaderValue {
    // Hexadecimal digits and a word are always a header's value.
    HeaderValue::from_str(&format!("\"{name}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// One pool's config in every version, each an answer or the reason why there is none.
#[derive(Debug)]
pub struct Answers {
    by_version: [Result<Answer, String>; Version::WRITABLE.len()],
    made: Instant,
    is_missing: bool,
}

impl Answers {
    /// What a function gives for each version.
    pub fn of(serve: impl Fn(Version) -> Result<Vec<u8>, String>) -> Answers {
        let by_version = Version::WRITABLE.map(|version| serve(version).map(Answer::new));
        Answers { by_version, made: Instant::now(), is_missing: false }
    }

    /// A MachineConfig in every version.
    pub fn of_dish(dish: &Dish) -> Answers {
        Answers::of(|version| dish.serve(version).map_err(|refusal| refusal.to_string()))
    }

    /// No version can be had.
    pub fn refused(reason: &str) -> Answers {
        Answers::of(|_| Err(reason.to_owned()))
    }

    /// There is nothing where it should be.
    pub fn missing(reason: &str) -> Answers {
        Answers { is_missing: true, ..Answers::refused(reason) }
    }

    /// Whether there is nothing, rather than something wrong.
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// The answer in a version.
    pub fn get(&self, version: Version) -> Result<&Answer, &str> {
        match Version::WRITABLE.iter().position(|known| *known == version) {
            Some(at) => self.by_version[at].as_ref().map_err(String::as_str),
            None => Err("nothing is served in this version"),
        }
    }

    /// How long ago they were made.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.made)
    }

    /// Why not even the newest version can be had.
    pub fn refusal(&self) -> Option<&str> {
        self.get(Version::INTERNAL).err()
    }
}

/// The answers of all pools at one moment.
pub type Pools = BTreeMap<String, Arc<Answers>>;

/// Where the answers lie. Whoever makes them puts all of them down at once; whoever gives them out takes what lies there.
#[derive(Debug, Default)]
pub struct Shelf {
    pools: watch::Sender<Option<Arc<Pools>>>,
    /// Since when that cannot be reached which the answers are made of.
    away: Mutex<Option<Instant>>,
}

impl Shelf {
    /// Puts these answers in the place of the former ones.
    pub fn put(&self, pools: Pools) {
        self.pools.send_replace(Some(Arc::new(pools)));
    }

    /// What lies there; nothing until something was put down for the first time.
    pub fn take(&self) -> Option<Arc<Pools>> {
        self.pools.borrow().clone()
    }

    /// Notes whether the source of answers could be reached when it was last tried.
    pub fn tried(&self, is_reached: bool) {
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        *away = if is_reached { None } else { Some(away.unwrap_or_else(Instant::now)) };
    }

    /// How long the source of answers has been out of reach.
    pub fn away(&self, now: Instant) -> Duration {
        let away = *self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Waits until what lies there is as it should be.
    pub async fn until(&self, is_right: impl Fn(&Pools) -> bool) -> Arc<Pools> {
        let mut changes = self.pools.subscribe();
        loop {
            let pools = changes.borrow_and_update().clone();
            match pools.filter(|pools| is_right(pools)) {
                Some(pools) => return pools,
                // The sender lives in self, so waiting cannot fail.
                None => drop(changes.changed().await),
            }
        }
    }
}
