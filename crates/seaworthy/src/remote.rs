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
use seaworthy_render::Prepared;
use seaworthy_render::remote::{ContentRequest, FetchFailure, Resolver};

use crate::cli;
use crate::failure::Failure;
use crate::terminal;
use progress::FetchProgress;

/// The size limit of a snapshot folder.
const MAX_SNAPSHOT_BYTES: u64 = 1 << 30;

/// Resolves the remote content of these MachineConfigs. What fails becomes a finding of its MachineConfig, so that pools
/// which do not select it are rendered all the same.
pub fn resolve_all(
    resolver: &mut Resolver,
    inputs: &mut [&mut Prepared<'_>],
    options: &cli::Remote,
) -> Result<(), Failure> {
    // By name: which content is one too many must not depend on the order of the files.
    inputs.sort_by_key(|input| input.source.name());
    let mut source: Option<RemoteSource> = None;
    loop {
        // The requests of all MachineConfigs in one round, so that none waits for another's servers.
        let wanted: Vec<ContentRequest> = inputs.iter_mut().flat_map(|input| resolver.resolve(input)).collect();
        if wanted.is_empty() {
            break;
        }
        let source = match &mut source {
            Some(source) => source,
            None => source.insert(RemoteSource::open(options)?),
        };
        source.obtain(wanted, resolver);
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

    /// Fetches the requested content and passes it to the resolver.
    fn obtain(&mut self, wanted: Vec<ContentRequest>, resolver: &mut Resolver) {
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
            resolver.answer(key, outcome.content.map_err(|error| self.unavailable(error)));
        }
        self.progress.reused(&reused);
    }

    /// A fetch error, with the option of this program that helps.
    fn unavailable(&mut self, error: FetchError) -> FetchFailure {
        let advice = match (&error.kind, error.allow_pattern()) {
            (FailureKind::Offline, _) => "; run once without --offline, or embed the content as a data URL".to_owned(),
            (_, Some(pattern)) if self.recommended.insert(pattern.to_owned()) => {
                format!("; to allow this host, add --allow-host {pattern}")
            }
            _ => String::new(),
        };
        let mut unavailable = FetchFailure::from(error);
        unavailable.message.push_str(&advice);
        unavailable
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
