//! Remote content, the half with a network: obtains what MachineConfigs refer to, from snapshots or from servers.

mod progress;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use seaworthy_fetch::{
    Environment, FailureKind, FetchError, Fetcher, FolderSnapshots, MemorySnapshots, Policy, Run, Snapshots,
};
use seaworthy_render::Prepared;
use seaworthy_render::remote::{Resolver, Unavailable, Wanted};

use crate::cli;
use crate::failure::Failure;
use crate::paint;
use progress::Progress;

/// How much the snapshots of one folder may hold.
const MOST_SNAPSHOTS: u64 = 1 << 30;

/// Resolves the remote content of these MachineConfigs. What fails becomes a finding of its MachineConfig, so that pools
/// which do not select it are rendered all the same.
pub fn resolve_all(
    resolver: &mut Resolver,
    inputs: &mut [&mut Prepared<'_>],
    options: &cli::Remote,
) -> Result<(), Failure> {
    // By name: which content is one too many must not depend on the order of the files.
    inputs.sort_by_key(|input| input.source.name());
    let mut source: Option<Source> = None;
    loop {
        // Everybody's needs of one round together, so that nobody waits for the servers of others.
        let wanted: Vec<Wanted> = inputs.iter_mut().flat_map(|input| resolver.resolve(input)).collect();
        if wanted.is_empty() {
            break;
        }
        let source = match &mut source {
            Some(source) => source,
            None => source.insert(Source::open(options)?),
        };
        source.obtain(wanted, resolver);
    }
    if let Some(source) = source {
        // A name that is still being looked up must not keep anybody from the result.
        source.runtime.shutdown_background();
    }
    Ok(())
}

/// Where content comes from.
struct Source {
    run: Run,
    runtime: tokio::runtime::Runtime,
    progress: Arc<Progress>,
    /// The hosts whose option has been recommended: many files come from one host.
    recommended: BTreeSet<String>,
}

impl Source {
    fn open(options: &cli::Remote) -> Result<Self, Failure> {
        let snapshots = snapshots(options)?;
        let policy = Policy::allowing(options.allow_host.iter().cloned());
        let progress = Arc::new(Progress::new());
        let run = if options.offline {
            Run::offline(policy, snapshots)
        } else {
            let fetcher = Fetcher::new(policy, Arc::new(SystemTime::now))
                .with_environment(Environment::of_process())
                .with_watch(progress.clone());
            Run::new(fetcher, snapshots)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::unreadable(format!("cannot prepare for fetching remote content: {error}")))?;
        Ok(Source { run, runtime, progress, recommended: BTreeSet::new() })
    }

    /// Obtains what is wanted, and answers.
    fn obtain(&mut self, wanted: Vec<Wanted>, resolver: &mut Resolver) {
        let (keys, wanted): (Vec<_>, Vec<_>) =
            wanted.into_iter().map(|wanted| (wanted.key, (wanted.key, wanted.request))).unzip();
        let (run, progress) = (&mut self.run, &self.progress);
        let outcomes = self.runtime.block_on(async {
            let mut obtaining = pin!(run.obtain(&wanted));
            loop {
                match tokio::time::timeout(progress::PATIENCE, &mut obtaining).await {
                    Ok(outcomes) => return outcomes,
                    Err(_) => progress.tell(),
                }
            }
        });
        let mut reused = Vec::new();
        for (key, outcome) in keys.into_iter().zip(outcomes) {
            for problem in &outcome.problems {
                paint::warning(&problem.to_string());
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

    /// Why something could not be had, with what the options of this program can do about it.
    fn unavailable(&mut self, error: FetchError) -> Unavailable {
        let advice = match (&error.kind, error.allow_pattern()) {
            (FailureKind::Offline, _) => "; run once without --offline, or embed the content as a data URL".to_owned(),
            (_, Some(pattern)) if self.recommended.insert(pattern.to_owned()) => {
                format!("; to allow this host, add --allow-host {pattern}")
            }
            _ => String::new(),
        };
        let mut unavailable = Unavailable::from(error);
        unavailable.message.push_str(&advice);
        unavailable
    }
}

/// The snapshots that the options name.
pub fn snapshots(options: &cli::Remote) -> Result<Arc<dyn Snapshots>, Failure> {
    let memory = || Arc::new(MemorySnapshots::new(MOST_SNAPSHOTS));
    let open = |folder: PathBuf| FolderSnapshots::open(folder, MOST_SNAPSHOTS);
    Ok(match (&options.snapshots, default_folder()) {
        _ if options.no_snapshots => memory(),
        (Some(file), _) if file.is_file() => {
            let message =
                format!("--snapshots {} is a file; pass a folder, which is created if missing", file.display());
            return Err(Failure::unreadable(message));
        }
        (Some(folder), _) => Arc::new(open(folder.clone()).map_err(Failure::unreadable)?),
        // Looking for snapshots must not leave a folder behind.
        (None, Some(folder)) if options.offline && !folder.exists() => memory(),
        (None, Some(folder)) => match open(folder) {
            Ok(snapshots) => Arc::new(snapshots),
            // Nobody asked for this folder, so the work goes on without it.
            Err(error) => {
                paint::warning(&format!("{error}; fetched content is not kept: choose a folder with --snapshots"));
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
