//! Events: writes Kubernetes Events about objects, each once.
//!
//! A decision emits events on transitions only. The same message about the same object is counted by kube's recorder instead
//! of written again; another message is another Event, which takes a recorder of its own because a recorder compares the
//! reason only. Repetitions within seconds are not even counted. An Event that cannot be written is tried again a few times,
//! then logged and dropped: it never holds up the work for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use seaworthy_change::ObjectRef;
use seaworthy_values::text::truncate;
use tokio::time::{Instant, sleep, timeout};

use crate::leadership::Leadership;

/// For how long the same message about the same object is dropped.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10);
/// For how long the same message about the same object is counted as one series; kube's recorder forgets it then.
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);
/// The waits before an event is tried again.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// How long one try may take.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes the events of one controller.
#[derive(Clone)]
pub struct Events {
    client: Client,
    reporter: Reporter,
    leadership: Leadership,
    recent: Arc<Mutex<RecentEvents<Recorder>>>,
}

/// The identity of an event: the object's uid, the reason, the related object and the note.
type EventKey = [String; 4];

/// How many events are remembered; an event beyond that is written again.
const MAX_RECENT: usize = 4096;
/// Below this number, pruning is not worth its cost.
const MIN_PRUNE: usize = 64;

/// The events that were written recently: when last, and the recorder that counts them.
struct RecentEvents<R> {
    entries: BTreeMap<EventKey, (Instant, R)>,
    /// The number of entries at which old ones are pruned: twice what was left the last time, so that the cost for each entry
    /// is constant.
    prune_at: usize,
}

impl<R> Default for RecentEvents<R> {
    fn default() -> Self {
        RecentEvents { entries: BTreeMap::new(), prune_at: MIN_PRUNE }
    }
}

impl<R: Clone> RecentEvents<R> {
    /// The recorder to write the event with, unless it was written a moment ago; from now on it counts as written.
    fn claim(&mut self, key: &EventKey, recorder: impl FnOnce() -> R) -> Option<R> {
        if let Some((since, recorder)) = self.entries.get_mut(key).filter(|(since, _)| since.elapsed() < SERIES_TIMEOUT)
        {
            let is_soon = since.elapsed() < REPEAT_INTERVAL;
            *since = if is_soon { *since } else { Instant::now() };
            return (!is_soon).then(|| recorder.clone());
        }
        if self.entries.len() >= self.prune_at {
            self.prune();
        }
        let recorder = recorder();
        self.entries.insert(key.clone(), (Instant::now(), recorder.clone()));
        Some(recorder)
    }

    /// Removes old entries, and if that is too little, the older half.
    fn prune(&mut self) {
        self.entries.retain(|_, (since, _)| since.elapsed() < SERIES_TIMEOUT);
        if self.entries.len() >= MAX_RECENT {
            let mut times: Vec<Instant> = self.entries.values().map(|(since, _)| *since).collect();
            let (_, median, _) = times.select_nth_unstable(self.entries.len() / 2);
            let median = *median;
            self.entries.retain(|_, (since, _)| *since > median);
        }
        self.prune_at = (2 * self.entries.len()).clamp(MIN_PRUNE, MAX_RECENT);
    }

    /// The event was not written after all.
    fn release(&mut self, key: &EventKey) {
        self.entries.remove(key);
    }
}

impl Events {
    /// Events reported by `controller`.
    pub fn new(client: Client, controller: &str, leadership: Leadership) -> Events {
        Events { client, reporter: Reporter::from(controller.to_owned()), leadership, recent: Arc::default() }
    }

    pub async fn emit(&self, object: &ObjectRef, event: &seaworthy_change::Event) {
        if !self.leadership.holds() {
            return;
        }
        let about = reference(object);
        let uid = object.uid.clone().unwrap_or_else(|| object.name.clone());
        let related = event.related.as_ref().map(|related| related.name.clone()).unwrap_or_default();
        let note = truncate(&event.message, MAX_NOTE_BYTES).into_owned();
        let key = [uid, event.reason.to_owned(), related, note.clone()];
        let create = || Recorder::new(self.client.clone(), self.reporter.clone());
        let Some(recorder) = self.recent().claim(&key, create) else { return };
        if event.is_warning {
            tracing::warn!(reason = event.reason, "{object}: {note}");
        } else {
            tracing::info!(reason = event.reason, "{object}: {note}");
        }
        let published = Event {
            type_: if event.is_warning { EventType::Warning } else { EventType::Normal },
            reason: event.reason.to_owned(),
            note: Some(note),
            action: event.reason.to_owned(),
            secondary: event.related.as_ref().map(reference),
        };
        if let Err(error) = with_retries(|| publish(&recorder, &published, &about)).await {
            self.recent().release(&key);
            tracing::warn!(reason = event.reason, %object, error = error.message, "cannot write the event");
        }
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, RecentEvents<Recorder>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object as events refer to it.
fn reference(object: &ObjectRef) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.resource.api_version().into_owned()),
        kind: Some(object.resource.kind.clone().into_owned()),
        name: Some(object.name.clone()),
        namespace: object.namespace.clone(),
        uid: object.uid.clone(),
        ..ObjectReference::default()
    }
}

async fn publish(recorder: &Recorder, event: &Event, about: &ObjectReference) -> Result<(), Unpublished> {
    match timeout(PUBLISH_TIMEOUT, recorder.publish(event, about)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            // An invalid event would be refused again.
            let is_final = matches!(&error, kube::Error::Api(status) if (400..429).contains(&status.code));
            Err(Unpublished { message: error.to_string(), is_final })
        }
        Err(_) => {
            Err(Unpublished { message: format!("no answer within {} s", PUBLISH_TIMEOUT.as_secs()), is_final: false })
        }
    }
}

/// Why an event was not written.
#[derive(Debug)]
struct Unpublished {
    message: String,
    is_final: bool,
}

/// Tries a few times, with delays in between.
async fn with_retries<F: Future<Output = Result<(), Unpublished>>>(publish: impl Fn() -> F) -> Result<(), Unpublished> {
    for wait in RETRY_DELAYS {
        match publish().await {
            Err(error) if !error.is_final => sleep(wait).await,
            result => return result,
        }
    }
    publish().await
}

/// The API server refuses longer notes.
const MAX_NOTE_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(config: &str, note: &str) -> EventKey {
        ["pool", "Completed", config, note].map(str::to_owned)
    }

    #[tokio::test(start_paused = true)]
    async fn same_event_is_not_repeated_soon_and_one_of_another_configuration_is_written() {
        let mut recent = RecentEvents::default();
        assert_eq!(recent.claim(&key("a", "w1"), || 1), Some(1));
        assert_eq!(recent.claim(&key("a", "w1"), || 2), None);
        assert_eq!(recent.claim(&key("b", "w1"), || 3), Some(3), "a second configuration was completed");
        assert_eq!(recent.claim(&key("a", "w2"), || 4), Some(4), "of another node");
        tokio::time::advance(REPEAT_INTERVAL).await;
        assert_eq!(recent.claim(&key("a", "w1"), || 5), Some(1), "the same once more is counted with the first");
        tokio::time::advance(SERIES_TIMEOUT - REPEAT_INTERVAL).await;
        assert_eq!(recent.claim(&key("a", "w2"), || 6), Some(6));
    }

    #[tokio::test(start_paused = true)]
    async fn old_events_are_pruned_and_the_number_of_entries_is_bounded() {
        let mut recent = RecentEvents::default();
        for nth in 0..3 * MIN_PRUNE {
            recent.claim(&key("a", &nth.to_string()), || 1);
        }
        assert_eq!(recent.entries.len(), 3 * MIN_PRUNE, "all of these are recent");
        tokio::time::advance(SERIES_TIMEOUT).await;
        let many = 2 * MAX_RECENT;
        for nth in 0..many {
            tokio::time::advance(Duration::from_millis(1)).await;
            recent.claim(&key("b", &nth.to_string()), || 1);
            assert!(recent.entries.len() <= MAX_RECENT);
        }
        assert!(recent.entries.keys().all(|key| key[2] == "b"), "the older ones go first");
        assert_eq!(recent.claim(&key("b", &(many - 1).to_string()), || 2), None, "the last is remembered");
        assert_eq!(recent.claim(&key("b", "0"), || 2), Some(2), "the first is written again");
    }

    #[tokio::test(start_paused = true)]
    async fn event_that_was_not_written_is_written_the_next_time() {
        let mut recent = RecentEvents::default();
        assert_eq!(recent.claim(&key("a", ""), || 1), Some(1));
        recent.release(&key("a", ""));
        assert_eq!(recent.claim(&key("a", ""), || 2), Some(2));
    }

    /// How often an event is tried that fails so many times.
    async fn tries(failures: usize, is_final: bool) -> (usize, bool) {
        let count = std::cell::Cell::new(0);
        let publish = || {
            count.set(count.get() + 1);
            let fails = count.get() <= failures;
            async move { if fails { Err(Unpublished { message: String::new(), is_final }) } else { Ok(()) } }
        };
        let is_written = with_retries(publish).await.is_ok();
        (count.get(), is_written)
    }

    #[tokio::test(start_paused = true)]
    async fn event_is_retried_a_few_times_unless_it_is_invalid() {
        assert_eq!(tries(0, false).await, (1, true));
        assert_eq!(tries(2, false).await, (3, true));
        assert_eq!(tries(9, false).await, (3, false));
        assert_eq!(tries(9, true).await, (1, false));
    }
}
