//! Memory of an idle process: code pages that it does not use are released periodically.

use std::time::Duration;

use seaworthy_resident::OwnCode;

/// When code pages are released first: most of them were for the start.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest pause between releases. Pages in use are read back at once, some dozens from the page cache.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Releases unused code pages until the future is dropped.
pub async fn release_periodically() {
    let own = match OwnCode::find() {
        Ok(own) => own,
        Err(error) => return tracing::debug!("cannot find the program's own code pages: {error}"),
    };
    let mut pause = FIRST_DELAY;
    loop {
        tokio::time::sleep(pause).await;
        pause = MAX_DELAY.min(pause * 2);
        if let Err(error) = own.release() {
            tracing::debug!("cannot release unused code pages: {error}");
            return;
        }
    }
}
