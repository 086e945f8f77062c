//! Events: what happened, told once, on the object it happened to.
//!
//! A decision says what happened, on transitions only. The same sentence about the same object is counted instead of written
//! again, by kube's recorder; another sentence is another Event, which takes a recorder of its own, because one looks at the
//! reason only. What follows soon is not even counted: a controller that looks often would say the same many times a second. An
//! Event that cannot be written is tried a few times, then
//! logged and forgotten: it never holds up the work for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

use tokio::time::{Instant, sleep, timeout};

use crate::leadership::Leadership;

/// How long the same thing about the same object is not told again.
const REPEAT: Duration = Duration::from_secs(10);
/// How long the same thing about the same object is counted instead of told anew; kube's recorder forgets it then.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// The waits before an event is tried again.
const RETRIES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// As intended.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Writes the events of one controller.
#[derive(Clone)]
pub struct Events {
    client: Client,
    reporter: Reporter,
    leadership: Leadership,
    told: Arc<Mutex<Told<Recorder>>>,
}

/// What was told: of which object, the reason, what else it is about, and the sentence.
type Said = [String; 4];

/// How much is remembered at most; whatever is beyond is told anew.
const REMEMBERED: usize = 4096;
/// From how much on it is worth while to look for what is to be forgotten.
const WORTH_A_LOOK: usize = 64;

/// What was told lately, when last, and the recorder that counts it.
struct Told<R> {
    told: BTreeMap<Said, (Instant, R)>,
    /// How many there may be before the old ones are looked for: twice what was left the last time, so that to look costs each of them
    /// the same, however many there are.
    room: usize,
}

impl<R> Default for Told<R> {
    fn default() -> Self {
        Told { told: BTreeMap::new(), room: WORTH_A_LOOK }
    }
}

impl<R: Clone> Told<R> {
    /// The recorder to tell it with, if it was not told a moment ago; from now on it was.
    fn claim(&mut self, said: &Said, recorder: impl FnOnce() -> R) -> Option<R> {
        if let Some((since, recorder)) = self.told.get_mut(said).filter(|(since, _)| since.elapsed() < SERIES) {
            let is_soon = since.elapsed() < REPEAT;
            *since = if is_soon { *since } else { Instant::now() };
            return (!is_soon).then(|| recorder.clone());
        }
        if self.told.len() >= self.room {
            self.forget();
        }
        let recorder = recorder();
        self.told.insert(said.clone(), (Instant::now(), recorder.clone()));
        Some(recorder)
    }

    /// Forgets what was told long ago, and if that is too little, the older half.
    fn forget(&mut self) {
        self.told.retain(|_, (since, _)| since.elapsed() < SERIES);
        if self.told.len() >= REMEMBERED {
            let mut times: Vec<Instant> = self.told.values().map(|(since, _)| *since).collect();
            let (_, median, _) = times.select_nth_unstable(self.told.len() / 2);
            let median = *median;
            self.told.retain(|_, (since, _)| *since > median);
        }
        self.room = (2 * self.told.len()).clamp(WORTH_A_LOOK, REMEMBERED);
    }

    /// It was not told after all.
    fn release(&mut self, said: &Said) {
        self.told.remove(said);
    }
}

impl Events {
    /// Events told by `controller`.
    pub fn new(client: Client, controller: &str, leadership: Leadership) -> Events {
        Events { client, reporter: Reporter::from(controller.to_owned()), leadership, told: Arc::default() }
    }

    /// Tells what happened to `object`.
    pub async fn tell<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        gravity: Gravity,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.tell_of(object, gravity, reason, None, message).await;
    }

    /// Tells what happened to `object` with something else. The same with another one, or in other words, is another event.
    pub async fn tell_of<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        gravity: Gravity,
        reason: &str,
        with: Option<ObjectReference>,
        message: impl Into<String>,
    ) {
        let about = object.object_ref(&());
        let uid = about.uid.clone().or_else(|| about.name.clone()).unwrap_or_default();
        let other = with.as_ref().and_then(|with| with.name.clone()).unwrap_or_default();
        let note = shorten(message.into());
        let said = [uid, reason.to_owned(), other, note.clone()];
        if !self.leadership.holds() {
            return;
        }
        let made = || Recorder::new(self.client.clone(), self.reporter.clone());
        let Some(recorder) = self.told().claim(&said, made) else { return };
        let kind = about.kind.as_deref().unwrap_or_default();
        let name = about.name.as_deref().unwrap_or_default();
        match gravity {
            Gravity::Normal => tracing::info!(reason, "{kind} {name}: {note}"),
            Gravity::Warning => tracing::warn!(reason, "{kind} {name}: {note}"),
        }
        let event = Event {
            type_: match gravity {
                Gravity::Normal => EventType::Normal,
                Gravity::Warning => EventType::Warning,
            },
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: with,
        };
        if let Err(error) = retried(|| publish(&recorder, &event, &about)).await {
            self.told().release(&said);
            tracing::warn!(reason, object = about.name, error = error.what, "an event could not be written");
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told<Recorder>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn publish(recorder: &Recorder, event: &Event, about: &ObjectReference) -> Result<(), Unpublished> {
    match timeout(PATIENCE, recorder.publish(event, about)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            // What was refused for what it is will be refused again.
            let is_final = matches!(&error, kube::Error::Api(status) if (400..429).contains(&status.code));
            Err(Unpublished { what: error.to_string(), is_final })
        }
        Err(_) => Err(Unpublished { what: format!("no answer within {} s", PATIENCE.as_secs()), is_final: false }),
    }
}

/// Why an event was not written.
#[derive(Debug)]
struct Unpublished {
    what: String,
    is_final: bool,
}

/// Tries a few times, with waits in between.
async fn retried<F: Future<Output = Result<(), Unpublished>>>(publish: impl Fn() -> F) -> Result<(), Unpublished> {
    for wait in RETRIES {
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

    fn said(config: &str, note: &str) -> Said {
        ["pool", "Completed", config, note].map(str::to_owned)
    }

    #[tokio::test(start_paused = true)]
    async fn same_is_not_told_again_soon_and_another_configuration_is() {
        let mut told = Told::default();
        assert_eq!(told.claim(&said("a", "w1"), || 1), Some(1));
        assert_eq!(told.claim(&said("a", "w1"), || 2), None);
        assert_eq!(told.claim(&said("b", "w1"), || 3), Some(3), "a second configuration was completed");
        assert_eq!(told.claim(&said("a", "w2"), || 4), Some(4), "of another node");
        tokio::time::advance(REPEAT).await;
        assert_eq!(told.claim(&said("a", "w1"), || 5), Some(1), "the same once more is counted with the first");
        tokio::time::advance(SERIES - REPEAT).await;
        assert_eq!(told.claim(&said("a", "w2"), || 6), Some(6));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_long_ago_is_forgotten_and_never_is_too_much_remembered() {
        let mut told = Told::default();
        for nth in 0..3 * WORTH_A_LOOK {
            told.claim(&said("a", &nth.to_string()), || 1);
        }
        assert_eq!(told.told.len(), 3 * WORTH_A_LOOK, "all of that is lately");
        tokio::time::advance(SERIES).await;
        let many = 2 * REMEMBERED;
        for nth in 0..many {
            tokio::time::advance(Duration::from_millis(1)).await;
            told.claim(&said("b", &nth.to_string()), || 1);
            assert!(told.told.len() <= REMEMBERED);
        }
        assert!(told.told.keys().all(|said| said[2] == "b"), "the older ones go first");
        assert_eq!(told.claim(&said("b", &(many - 1).to_string()), || 2), None, "the last is remembered");
        assert_eq!(told.claim(&said("b", "0"), || 2), Some(2), "the first is told anew");
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_told_is_told_the_next_time() {
        let mut told = Told::default();
        assert_eq!(told.claim(&said("a", ""), || 1), Some(1));
        told.release(&said("a", ""));
        assert_eq!(told.claim(&said("a", ""), || 2), Some(2));
    }

    /// How often an event is tried that fails so many times.
    async fn tries(failures: usize, is_final: bool) -> (usize, bool) {
        let count = std::cell::Cell::new(0);
        let publish = || {
            count.set(count.get() + 1);
            let fails = count.get() <= failures;
            async move { if fails { Err(Unpublished { what: String::new(), is_final }) } else { Ok(()) } }
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
