//! A process that waits nearly always, and should weigh as little as what it waits with.

use std::time::Duration;

use seaworthy_resident::give_back_code;

/// When code is given back for the first time: most of it was for the start.
const FIRST: Duration = Duration::from_secs(1);
/// How often at most. What the process needs all the time comes again at once, some dozens of pages from the page cache.
const OFTEN: Duration = Duration::from_secs(5);

/// Keeps this process small for as long as it is waited for.
pub async fn stay_small() {
    let mut pause = FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = OFTEN.min(pause * 2);
        if let Err(error) = give_back_code() {
            tracing::debug!("cannot release unused code pages: {error}");
            return;
        }
    }
}
