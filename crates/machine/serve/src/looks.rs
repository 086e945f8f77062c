//! Looks that are taken again and again, while everything else goes on: at files, which can lie on another machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

/// Takes a look from time to time, and never ends. One that was held up is not made up for: `pause` lies between all others.
pub async fn again_and_again(pause: Duration, mut look: impl FnMut() + Send + 'static) {
    let mut looks = tokio::time::interval(pause);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let looked = tokio::task::spawn_blocking(move || {
            // What it knows is of the last look at worst, and the next one may go well.
            let is_well = catch_unwind(AssertUnwindSafe(&mut look)).is_ok();
            (look, is_well)
        });
        // It is given up only with the process.
        let Ok((again, is_well)) = looked.await else { return };
        look = again;
        if !is_well {
            tracing::error!("a look at a file has ended in a panic; the next one is taken all the same");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn looks_are_apart_from_each_other_also_after_one_that_was_held_up() {
        let start = Instant::now();
        let (told, mut taken) = tokio::sync::mpsc::unbounded_channel();
        let (let_go, held) = channel::<()>();
        let looks = tokio::spawn(again_and_again(PAUSE, move || {
            let _ = told.send(start.elapsed());
            // Only the first is: afterwards there is nobody left to wait for.
            let _ = held.recv();
        }));
        assert_eq!(taken.recv().await, Some(Duration::ZERO));
        tokio::time::advance(PAUSE * 10).await;
        drop(let_go);
        // What was missed is one look, which comes at once.
        for wanted in [10, 11, 12] {
            assert_eq!(taken.recv().await, Some(PAUSE * wanted));
        }
        looks.abort();
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn look_that_ends_in_a_panic_is_said_and_is_not_the_last() {
        let log = Log::default();
        let lines = log.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || lines.clone()).finish();
        let _logging = tracing::subscriber::set_default(lines);
        let (told, mut taken) = tokio::sync::mpsc::unbounded_channel();
        let mut count = 0;
        let looks = tokio::spawn(again_and_again(PAUSE, move || {
            count += 1;
            told.send(count).unwrap();
            assert_ne!(count, 1);
        }));
        assert_eq!((taken.recv().await, taken.recv().await), (Some(1), Some(2)));
        looks.abort();
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("ended in a panic").count(), 1, "{text}");
    }
}
