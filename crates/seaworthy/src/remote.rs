//! Remote content, the half with a network: obtains what MachineConfigs refer to, from snapshots or from servers.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use seaworthy_fetch::{Environment, Fetcher, FolderSnapshots, MemorySnapshots, Policy, Snapshots};
use seaworthy_ignition::Severity;
use seaworthy_render::remote::{Answers, Resolution, Wanted, resolve};
use seaworthy_render::{Finding, Prepared};

use crate::cli;
use crate::failure::Failure;
use crate::paint;

/// How much the snapshots of one folder may hold.
const MOST_SNAPSHOTS: u64 = 1 << 30;
/// How often a config may lead to further fetches: the depth of references bounds it well below this.
const MOST_ROUNDS: usize = 32;
/// How many fetches run at the same time.
const AT_ONCE: usize = 8;
/// How long all fetches of a run may take together: one may take a minute, and a config may name many.
const LONGEST_RUN: Duration = Duration::from_secs(600);

/// Resolves the remote content of all MachineConfigs. What fails becomes a finding of its MachineConfig, so that pools
/// which do not select it are rendered all the same.
pub fn resolve_all<'t>(
    prepared: &mut [Prepared<'t>],
    next_doc: u32,
    options: &cli::Remote,
    is_wanted: impl Fn(&Prepared<'t>) -> bool,
) -> Result<(), Failure> {
    let mut next_doc = next_doc;
    let mut answers = Answers::default();
    let mut source: Option<Source> = None;
    for input in prepared.iter_mut().filter(|input| input.is_valid() && is_wanted(input)) {
        for round in 0.. {
            match resolve(input, &mut next_doc, &answers) {
                Resolution::Unchanged => break,
                Resolution::Resolved(resolved) => {
                    *input = resolved;
                    break;
                }
                Resolution::Failed(findings) => {
                    input.findings.extend(findings);
                    break;
                }
                Resolution::Missing(wanted) if round < MOST_ROUNDS => {
                    let source = match &source {
                        Some(source) => source,
                        None => source.insert(Source::open(options)?),
                    };
                    let refused = source.obtain(wanted, &mut answers);
                    if !refused.is_empty() {
                        input.findings.extend(refused);
                        break;
                    }
                }
                Resolution::Missing(_) => {
                    input.findings.push(Finding {
                        severity: Severity::Error,
                        code: "remote-depth",
                        pool: None,
                        subject: String::new(),
                        places: Vec::new(),
                        message: format!("remote configs lead to further ones after {MOST_ROUNDS} rounds of fetching"),
                    });
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Where content comes from.
struct Source {
    snapshots: Box<dyn Snapshots>,
    fetcher: Option<Fetcher>,
    runtime: tokio::runtime::Runtime,
    deadline: Instant,
    /// The options that were recommended so far: many files come from one host.
    recommended: RefCell<BTreeSet<String>>,
}

impl Source {
    fn open(options: &cli::Remote) -> Result<Self, Failure> {
        let memory = || -> Box<dyn Snapshots> { Box::new(MemorySnapshots::new(MOST_SNAPSHOTS)) };
        let open = |folder: PathBuf| FolderSnapshots::open(folder, MOST_SNAPSHOTS);
        let snapshots: Box<dyn Snapshots> = match (&options.snapshots, default_folder()) {
            _ if options.no_snapshots => memory(),
            (Some(folder), _) => Box::new(open(folder.clone()).map_err(Failure::unreadable)?),
            // Looking for snapshots must not leave a folder behind.
            (None, Some(folder)) if options.offline && !folder.exists() => memory(),
            (None, Some(folder)) => match open(folder) {
                Ok(snapshots) => Box::new(snapshots),
                // Nobody asked for this folder, so the work goes on without it.
                Err(error) => {
                    paint::warning(&format!("{error}; what is fetched is not kept: name a folder with --snapshots"));
                    memory()
                }
            },
            (None, None) => memory(),
        };
        let fetcher = (!options.offline).then(|| {
            let policy = Policy::allowing(options.allow_host.iter().cloned());
            Fetcher::new(policy, Arc::new(SystemTime::now)).with_environment(Environment::of_process())
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::unreadable(format!("cannot prepare for fetching remote content: {error}")))?;
        let deadline = Instant::now() + LONGEST_RUN;
        Ok(Source { snapshots, fetcher, runtime, deadline, recommended: RefCell::default() })
    }

    /// Obtains what is wanted; what may not be fetched comes back as findings.
    fn obtain(&self, wanted: Vec<Wanted>, answers: &mut Answers) -> Vec<Finding> {
        let Some(fetcher) = &self.fetcher else { return self.obtain_offline(wanted, answers) };
        self.runtime.block_on(async {
            for (nth, batch) in wanted.chunks(AT_ONCE).enumerate() {
                let fetches = batch
                    .iter()
                    .map(|wanted| fetcher.fetch_or_reuse(self.snapshots.as_ref(), &wanted.key, &wanted.request));
                let left = self.deadline.saturating_duration_since(Instant::now());
                let Ok(outcomes) = tokio::time::timeout(left, join_all(fetches.collect())).await else {
                    return wanted[nth * AT_ONCE..].iter().map(out_of_time).collect();
                };
                for (wanted, outcome) in batch.iter().zip(outcomes) {
                    if let Err(error) = &outcome
                        && let Some(pattern) = error.allow_pattern()
                        && self.recommended.borrow_mut().insert(pattern.to_owned())
                    {
                        paint::note(&format!("--allow-host {pattern} lets remote content come from there"));
                    }
                    let outcome = outcome.map(|resolved| {
                        for problem in &resolved.problems {
                            paint::warning(&problem.to_string());
                        }
                        resolved.snapshot
                    });
                    answers.insert(wanted.key, outcome);
                }
            }
            Vec::new()
        })
    }

    fn obtain_offline(&self, wanted: Vec<Wanted>, answers: &mut Answers) -> Vec<Finding> {
        let mut refused = Vec::new();
        for wanted in wanted {
            match self.snapshots.get(&wanted.key) {
                Ok(Some(snapshot)) => answers.insert(wanted.key, Ok(snapshot)),
                other => {
                    if let Err(problem) = other {
                        paint::warning(&problem.to_string());
                    }
                    refused.push(Finding {
                        severity: Severity::Error,
                        code: "RemoteFetchFailed",
                        pool: None,
                        subject: String::new(),
                        places: vec![wanted.place],
                        message: format!(
                            "{} is remote, there is no snapshot of it, and --offline forbids fetching it; run once without \
                             --offline, or embed the content as a data URL",
                            seaworthy_fetch::redact(&wanted.request.url)
                        ),
                    });
                }
            }
        }
        refused
    }
}

fn out_of_time(wanted: &Wanted) -> Finding {
    Finding {
        severity: Severity::Error,
        code: "RemoteFetchFailed",
        pool: None,
        subject: String::new(),
        places: vec![wanted.place.clone()],
        message: format!(
            "{} was not fetched: all fetches of a run may take {} minutes together; render fewer pools at once, or find out \
             which server is slow",
            seaworthy_fetch::redact(&wanted.request.url),
            LONGEST_RUN.as_secs() / 60
        ),
    }
}

/// Waits for all futures at once.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(move |context| {
        let mut is_done = true;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => is_done = false,
                }
            }
        }
        if !is_done {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(futures.iter_mut().filter_map(|(_, output)| output.take()).collect())
    })
    .await
}

/// The user's cache folder.
fn default_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| variable("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("seaworthy").join("snapshots"))
}
