//! Remote content: fetches what MachineConfigs refer to, or takes it from snapshots.

mod progress;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use seaworthy_fetch::{
    Environment, FailureKind, FetchError, FetchRun, Fetcher, FolderSnapshots, MemorySnapshots, Policy, Snapshots,
};
use seaworthy_render::remote::{ContentRequest, Resolution};

use crate::cli;
use crate::failure::Failure;
use crate::terminal;
use progress::FetchProgress;

/// The size limit of a snapshot folder.
const MAX_SNAPSHOT_BYTES: u64 = 1 << 30;

/// Resolves the remote content of MachineConfigs.
pub fn resolve_all(resolution: &mut Resolution<'_, '_>, options: &cli::Remote) -> Result<(), Failure> {
    let mut source: Option<RemoteSource> = None;
    loop {
        let needed = resolution.needed();
        if needed.is_empty() {
            break;
        }
        let source = match &mut source {
            Some(source) => source,
            None => source.insert(RemoteSource::open(options)?),
        };
        source.obtain(needed, resolution);
    }
    if let Some(source) = source {
        // A name that is still being resolved must not delay the result.
        source.runtime.shutdown_background();
    }
    Ok(())
}

/// Remote content with its snapshots.
struct RemoteSource {
    run: FetchRun,
    runtime: tokio::runtime::Runtime,
    progress: Arc<FetchProgress>,
    /// The hosts whose option has been recommended: many files come from one host.
    recommended: BTreeSet<String>,
}

impl RemoteSource {
    fn open(options: &cli::Remote) -> Result<Self, Failure> {
        let snapshots = snapshots(options)?;
        let policy = Policy::allowing(options.allow_host.iter().cloned());
        let progress = Arc::new(FetchProgress::new());
        let run = if options.offline {
            FetchRun::offline(policy, snapshots)
        } else {
            let fetcher = Fetcher::new(policy, Arc::new(SystemTime::now))
                .with_environment(Environment::of_process())
                .with_observer(progress.clone());
            FetchRun::new(fetcher, snapshots)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::invalid(format!("cannot prepare for fetching remote content: {error}")))?;
        Ok(RemoteSource { run, runtime, progress, recommended: BTreeSet::new() })
    }

    /// Fetches the requested content and answers the requests with it.
    fn obtain(&mut self, wanted: Vec<ContentRequest>, resolution: &mut Resolution<'_, '_>) {
        let (keys, wanted): (Vec<_>, Vec<_>) =
            wanted.into_iter().map(|wanted| (wanted.key, (wanted.key, wanted.request))).unzip();
        let (run, progress) = (&mut self.run, &self.progress);
        let outcomes = self.runtime.block_on(async {
            let mut obtaining = pin!(run.obtain(&wanted));
            loop {
                match tokio::time::timeout(progress::INTERVAL, &mut obtaining).await {
                    Ok(outcomes) => return outcomes,
                    Err(_) => progress.report(),
                }
            }
        });
        let mut reused = Vec::new();
        for (key, outcome) in keys.into_iter().zip(outcomes) {
            for problem in &outcome.problems {
                terminal::warning(&problem.to_string());
            }
            if outcome.is_reused
                && let Ok(snapshot) = &outcome.content
            {
                reused.push(snapshot.clone());
            }
            resolution.answer(key, outcome.content, |error| self.advice(error));
        }
        self.progress.reused(&reused);
    }

    /// The option of this program that helps against a fetch error.
    fn advice(&mut self, error: &FetchError) -> Option<String> {
        match (&error.kind, error.allow_pattern()) {
            (FailureKind::Offline, _) => {
                Some("; run once without --offline, or embed the content as a data URL".to_owned())
            }
            (_, Some(pattern)) if self.recommended.insert(pattern.to_owned()) => {
                Some(format!("; to allow this host, add --allow-host {pattern}"))
            }
            _ => None,
        }
    }
}

/// The snapshots that the options name.
pub fn snapshots(options: &cli::Remote) -> Result<Arc<dyn Snapshots>, Failure> {
    let memory = || Arc::new(MemorySnapshots::new(MAX_SNAPSHOT_BYTES));
    let open = |folder: PathBuf| FolderSnapshots::open(folder, MAX_SNAPSHOT_BYTES);
    Ok(match (&options.snapshots, default_folder()) {
        _ if options.no_snapshots => memory(),
        (Some(file), _) if file.is_file() => {
            let message =
                format!("--snapshots {} is a file; pass a folder, which is created if missing", file.display());
            return Err(Failure::invalid(message));
        }
        (Some(folder), _) => Arc::new(open(folder.clone()).map_err(Failure::invalid)?),
        // Looking for snapshots must not leave a folder behind.
        (None, Some(folder)) if options.offline && !folder.exists() => memory(),
        (None, Some(folder)) => match open(folder) {
            Ok(snapshots) => Arc::new(snapshots),
            // The user did not choose this folder, so the command continues without it.
            Err(error) => {
                terminal::warning(&format!("{error}; fetched content is not kept: choose a folder with --snapshots"));
                memory()
            }
        },
        (None, None) => memory(),
    })
}

/// The user's cache folder.
fn default_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| variable("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("seaworthy").join("snapshots"))
}
