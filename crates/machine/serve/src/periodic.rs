//! Periodic jobs on a thread of their own, such as reading files again, which may be on a network file system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

/// Runs a blocking job at an interval, and never ends. A delayed run is not made up for: later ones keep the interval.
pub async fn run_periodically(interval: Duration, mut job: impl FnMut() + Send + 'static) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let run = tokio::task::spawn_blocking(move || {
            // At worst its state is that of the run before, and the next run may succeed.
            let is_ok = catch_unwind(AssertUnwindSafe(&mut job)).is_ok();
            (job, is_ok)
        });
        // It is cancelled only when the process ends.
        let Ok((returned, is_ok)) = run.await else { return };
        job = returned;
        if !is_ok {
            tracing::error!("periodic job panicked; it runs again at the next interval");
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

    const INTERVAL: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn interval_is_kept_also_after_a_run_that_was_delayed() {
        let start = Instant::now();
        let (sent, mut received) = tokio::sync::mpsc::unbounded_channel();
        let (release, blocked) = channel::<()>();
        let job = tokio::spawn(run_periodically(INTERVAL, move || {
            let _ = sent.send(start.elapsed());
            // Only the first run blocks: afterwards the sender is gone.
            let _ = blocked.recv();
        }));
        assert_eq!(received.recv().await, Some(Duration::ZERO));
        tokio::time::advance(INTERVAL * 10).await;
        drop(release);
        // One run was missed, which comes at once.
        for wanted in [10, 11, 12] {
            assert_eq!(received.recv().await, Some(INTERVAL * wanted));
        }
        job.abort();
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
    async fn job_that_panics_is_logged_and_runs_again() {
        let log = Log::default();
        let lines = log.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || lines.clone()).finish();
        let _logging = tracing::subscriber::set_default(lines);
        let (sent, mut received) = tokio::sync::mpsc::unbounded_channel();
        let mut count = 0;
        let job = tokio::spawn(run_periodically(INTERVAL, move || {
            count += 1;
            sent.send(count).unwrap();
            assert_ne!(count, 1);
        }));
        assert_eq!((received.recv().await, received.recv().await), (Some(1), Some(2)));
        job.abort();
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("job panicked").count(), 1, "{text}");
    }
}
