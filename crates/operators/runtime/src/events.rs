//! Events: what happened, recorded once, on the object that it happened to.
//!
//! A decision emits events on transitions only. The same message about the same object is counted by kube's recorder instead
//! of written again; another message is another Event, which takes a recorder of its own because a recorder compares the
//! reason only. Repetitions within seconds are not even counted. An Event that cannot be written is retried a few times, then
//! logged and dropped: it never holds up the work for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use seaworthy_change::ObjectRef;
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
    recent: Arc<Mutex<Recent<Recorder>>>,
}

/// What was told: of which object, the reason, what else it is about, and the sentence.
type Occurrence = [String; 4];

/// How much is remembered at most; whatever is beyond is told anew.
const MAX_RECENT: usize = 4096;
/// From how much on it is worth while to look for what is to be forgotten.
const MIN_PRUNE: usize = 64;

/// What was told lately, when last, and the recorder that counts it.
struct Recent<R> {
    entries: BTreeMap<Occurrence, (Instant, R)>,
    /// How many there may be before the old ones are looked for: twice what was left the last time, so that to look costs each of them
    /// the same, however many there are.
    room: usize,
}

impl<R> Default for Recent<R> {
    fn default() -> Self {
        Recent { entries: BTreeMap::new(), room: MIN_PRUNE }
    }
}

impl<R: Clone> Recent<R> {
    /// The recorder to tell it with, if it was not told a moment ago; from now on it was.
    fn claim(&mut self, said: &Occurrence, recorder: impl FnOnce() -> R) -> Option<R> {
        if let Some((since, recorder)) =
            self.entries.get_mut(said).filter(|(since, _)| since.elapsed() < SERIES_TIMEOUT)
        {
            let is_soon = since.elapsed() < REPEAT_INTERVAL;
            *since = if is_soon { *since } else { Instant::now() };
            return (!is_soon).then(|| recorder.clone());
        }
        if self.entries.len() >= self.room {
            self.forget();
        }
        let recorder = recorder();
        self.entries.insert(said.clone(), (Instant::now(), recorder.clone()));
        Some(recorder)
    }

    /// Forgets what was told long ago, and if that is too little, the older half.
    fn forget(&mut self) {
        self.entries.retain(|_, (since, _)| since.elapsed() < SERIES_TIMEOUT);
        if self.entries.len() >= MAX_RECENT {
            let mut times: Vec<Instant> = self.entries.values().map(|(since, _)| *since).collect();
            let (_, median, _) = times.select_nth_unstable(self.entries.len() / 2);
            let median = *median;
            self.entries.retain(|_, (since, _)| *since > median);
        }
        self.room = (2 * self.entries.len()).clamp(MIN_PRUNE, MAX_RECENT);
    }

    /// It was not told after all.
    fn release(&mut self, said: &Occurrence) {
        self.entries.remove(said);
    }
}

impl Events {
    /// Events reported by `controller`.
    pub fn new(client: Client, controller: &str, leadership: Leadership) -> Events {
        Events { client, reporter: Reporter::from(controller.to_owned()), leadership, recent: Arc::default() }
    }

    /// Emits an event about an object.
    pub async fn emit(&self, object: &ObjectRef, event: &seaworthy_change::Event) {
        if !self.leadership.holds() {
            return;
        }
        let about = reference(object);
        let uid = object.uid.clone().unwrap_or_else(|| object.name.clone());
        let related = event.related.as_ref().map(|related| related.name.clone()).unwrap_or_default();
        let note = shorten(event.message.clone());
        let occurrence = [uid, event.reason.to_owned(), related, note.clone()];
        let create = || Recorder::new(self.client.clone(), self.reporter.clone());
        let Some(recorder) = self.recent().claim(&occurrence, create) else { return };
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
        if let Err(error) = retried(|| publish(&recorder, &published, &about)).await {
            self.recent().release(&occurrence);
            tracing::warn!(reason = event.reason, %object, error = error.message, "cannot write the event");
        }
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent<Recorder>> {
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
            // What was refused for what it is will be refused again.
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

/// Tries a few times, with waits in between.
async fn retried<F: Future<Output = Result<(), Unpublished>>>(publish: impl Fn() -> F) -> Result<(), Unpublished> {
    for wait in RETRY_DELAYS {
        match publish().await {
            Err(error) if !error.is_final => sleep(wait).await,
            result => return result,
        }
    }
    publish().await
}

/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1024;

fn shorten(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let mut end = LONGEST_NOTE - "…".len();
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_note_is_cut_at_a_character() {
        let short = "é".repeat(10);
        assert_eq!(shorten(short.clone()), short);
        let cut = shorten("é".repeat(2000));
        assert!(cut.len() <= LONGEST_NOTE && cut.ends_with('…'));
    }

    fn said(config: &str, note: &str) -> Occurrence {
        ["pool", "Completed", config, note].map(str::to_owned)
    }

    #[tokio::test(start_paused = true)]
    async fn same_is_not_told_again_soon_and_another_configuration_is() {
        let mut recent = Recent::default();
        assert_eq!(recent.claim(&said("a", "w1"), || 1), Some(1));
        assert_eq!(recent.claim(&said("a", "w1"), || 2), None);
        assert_eq!(recent.claim(&said("b", "w1"), || 3), Some(3), "a second configuration was completed");
        assert_eq!(recent.claim(&said("a", "w2"), || 4), Some(4), "of another node");
        tokio::time::advance(REPEAT_INTERVAL).await;
        assert_eq!(recent.claim(&said("a", "w1"), || 5), Some(1), "the same once more is counted with the first");
        tokio::time::advance(SERIES_TIMEOUT - REPEAT_INTERVAL).await;
        assert_eq!(recent.claim(&said("a", "w2"), || 6), Some(6));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_long_ago_is_forgotten_and_never_is_too_much_remembered() {
        let mut recent = Recent::default();
        for nth in 0..3 * MIN_PRUNE {
            recent.claim(&said("a", &nth.to_string()), || 1);
        }
        assert_eq!(recent.entries.len(), 3 * MIN_PRUNE, "all of that is lately");
        tokio::time::advance(SERIES_TIMEOUT).await;
        let many = 2 * MAX_RECENT;
        for nth in 0..many {
            tokio::time::advance(Duration::from_millis(1)).await;
            recent.claim(&said("b", &nth.to_string()), || 1);
            assert!(recent.entries.len() <= MAX_RECENT);
        }
        assert!(recent.entries.keys().all(|said| said[2] == "b"), "the older ones go first");
        assert_eq!(recent.claim(&said("b", &(many - 1).to_string()), || 2), None, "the last is remembered");
        assert_eq!(recent.claim(&said("b", "0"), || 2), Some(2), "the first is told anew");
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_told_is_told_the_next_time() {
        let mut recent = Recent::default();
        assert_eq!(recent.claim(&said("a", ""), || 1), Some(1));
        recent.release(&said("a", ""));
        assert_eq!(recent.claim(&said("a", ""), || 2), Some(2));
    }

    /// How often an event is tried that fails so many times.
    async fn tries(failures: usize, is_final: bool) -> (usize, bool) {
        let count = std::cell::Cell::new(0);
        let publish = || {
            count.set(count.get() + 1);
            let fails = count.get() <= failures;
            async move { if fails { Err(Unpublished { message: String::new(), is_final }) } else { Ok(()) } }
        };
        let is_told = retried(publish).await.is_ok();
        (count.get(), is_told)
    }

    #[tokio::test(start_paused = true)]
    async fn event_is_tried_a_few_times_unless_it_is_refused_for_what_it_is() {
        assert_eq!(tries(0, false).await, (1, true));
        assert_eq!(tries(2, false).await, (3, true));
        assert_eq!(tries(9, false).await, (3, false));
        assert_eq!(tries(9, true).await, (1, false));
    }
}
