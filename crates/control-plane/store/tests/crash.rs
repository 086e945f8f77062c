//! Crash test: the process is killed at random moments under a write load.
//!
//! A child process (this program, with variables in its environment) opens the store, prints its contents, and writes from
//! several tasks at once, printing what was acknowledged, until it is killed. `SEAWORTHY_STORE_KILLS` sets how often, for
//! longer runs; `SEAWORTHY_STORE_SEED` repeats the random moments of a run.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{LogStorage, body, indexer};
use seaworthy_store::{Change, EventWindow, Expect, Key, Store};

const FOLDER: &str = "SEAWORTHY_STORE_CRASH_FOLDER";
const RUN: &str = "SEAWORTHY_STORE_CRASH_RUN";
const TASKS: usize = 4;
const PARTS: usize = 3;

/// The three objects that a task writes, always all of them in one commit.
fn part(task: usize, part: usize) -> Key {
    Key::new("core/pods", format!("task-{task}"), format!("part-{part}"))
}

/// Every seventh commit of a task deletes its objects.
fn is_delete(n: usize) -> bool {
    n % 7 == 6
}

fn text(run: usize, task: usize, n: usize) -> String {
    format!("{run}-{task}-{n}")
}

async fn write_until_killed(store: Store, run: usize, task: usize) {
    for n in 0.. {
        let changes = (0..PARTS)
            .filter(|p| !is_delete(n) || store.get(&part(task, *p)).is_some())
            .map(|p| {
                let (key, expected, body) = (part(task, p), Expect::Any, body(&text(run, task, n)));
                if is_delete(n) { Change::Delete { key, expected, body } } else { Change::Put { key, expected, body } }
            })
            .collect();
        let done = store.commit(changes).await.unwrap();
        print(&format!("acknowledged {task} {n} {}\n", done.revision));
        if task == 0 && n % 5 == 4 {
            store.compact(done.revision.saturating_sub(40)).await.unwrap();
        }
    }
}

/// One write for the whole text, so that lines of several tasks do not mix.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "the child process of the test below"]
fn child() {
    let (Ok(folder), Ok(run)) = (env::var(FOLDER), env::var(RUN)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Store::open(Path::new(&folder), indexer(), EventWindow::default()).unwrap();
    print(&dump(&store));
    runtime.block_on(async {
        let run = run.parse().unwrap();
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(write_until_killed(store.clone(), run, task))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Everything in the store, as lines.
fn dump(store: &Store) -> String {
    let mut text = String::from("\n");
    let listed = store.list("core/pods", None);
    for record in &listed.records {
        let body = record.body();
        let body = str::from_utf8(&body).unwrap();
        writeln!(text, "object {} {} {body}", record.key.namespace, record.key.name).unwrap();
    }
    // The history goes back to the last compaction; try backwards where it begins.
    let mut from = listed.revision;
    while from > 0 && store.watch_all(from - 1).is_ok() {
        from -= 1;
    }
    let mut watch = store.watch_all(from).unwrap();
    while let Some(batch) = watch.try_next().unwrap() {
        for event in batch.events {
            writeln!(text, "event {} {}", event.revision(), str::from_utf8(&event.record.body()).unwrap()).unwrap();
        }
    }
    writeln!(text, "opened {}", listed.revision).unwrap();
    text
}

/// What an observer knows.
#[derive(Default)]
struct Known {
    /// The body of each revision, as far as it was seen.
    revisions: BTreeMap<u64, String>,
    newest: u64,
    /// Of each task, the text of its objects, if it has any.
    objects: [Option<String>; TASKS],
    run: usize,
    /// Of each task, how many of its commits were acknowledged in this run.
    acknowledged: [usize; TASKS],
    total_acknowledged: usize,
}

impl Known {
    fn see(&mut self, revision: u64, text: &str) {
        let before = self.revisions.entry(revision).or_insert_with(|| text.to_owned());
        assert_eq!(before, text, "revision {revision} was given out twice");
    }

    fn acknowledge(&mut self, task: usize, n: usize, revision: u64) {
        assert_eq!(n, self.acknowledged[task], "commits of a task are acknowledged in order");
        self.acknowledged[task] += 1;
        self.total_acknowledged += 1;
        self.newest = self.newest.max(revision);
        let text = text(self.run, task, n);
        if !is_delete(n) {
            for p in 0..PARTS as u64 {
                self.see(revision - p, &format!("{text}@{}", revision - p));
            }
        }
        self.objects[task] = (!is_delete(n)).then_some(text);
    }

    /// Compares the contents after a restart with what is known.
    fn check(&mut self, lines: &[String]) {
        let mut objects: [Vec<String>; TASKS] = Default::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["object", task, _, body] => {
                    let task: usize = task.strip_prefix("task-").unwrap().parse().unwrap();
                    objects[task].push(body.to_owned());
                }
                ["event", revision, body] => {
                    let revision = revision.parse().unwrap();
                    assert!(body.ends_with(&format!("@{revision}")), "{line}");
                    self.see(revision, body);
                }
                ["opened", revision] => {
                    let revision: u64 = revision.parse().unwrap();
                    assert!(revision >= self.newest, "ends at {revision}, but {} was acknowledged", self.newest);
                    self.newest = revision;
                }
                _ => {}
            }
        }
        for (task, bodies) in objects.into_iter().enumerate() {
            let texts: Vec<&str> = bodies.iter().map(|body| body.split('@').next().unwrap()).collect();
            let found = texts.first().map(|text| (*text).to_owned());
            assert!(texts.is_empty() || texts.len() == PARTS, "half of a commit: {bodies:?}");
            assert!(texts.iter().all(|text| Some(*text) == found.as_deref()), "half of a commit: {bodies:?}");
            // The last acknowledged state, or that of the one commit that was under way.
            let next = self.acknowledged[task];
            let under_way = (!is_delete(next)).then(|| text(self.run, task, next));
            let allowed = [self.objects[task].clone(), under_way];
            assert!(allowed.contains(&found), "task {task}: found {found:?}, allowed {allowed:?}");
            self.objects[task] = found;
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("SEAWORTHY_STORE_KILLS").unwrap_or(200);
    let mut seed = number("SEAWORTHY_STORE_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("SEAWORTHY_STORE_SEED={seed}");
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let storage = LogStorage::disk();
    let LogStorage::Disk(folder) = &storage else { unreachable!() };
    let mut known = Known::default();
    let mut killed_while_opening = 0;
    for run in 0..kills as usize {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .envs([(FOLDER, folder.path().as_os_str()), (RUN, run.to_string().as_ref())])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        // After so many acknowledged commits, or, now and then, at some moment of the start.
        let mut left = random(10);
        let is_early = random(10) == 0;
        let (mut opening, mut is_open) = (Vec::new(), false);
        let mut line = String::new();
        let mut is_killed = false;
        let mut kill = |child: &mut std::process::Child| {
            if !std::mem::replace(&mut is_killed, true) {
                // The start takes long, a commit does not; the moments are to fall all over both.
                let longest = 1 << random(if is_early { 18 } else { 9 });
                for _ in 0..random(longest) {
                    std::thread::yield_now();
                }
                child.kill().unwrap();
            }
        };
        if is_early {
            kill(&mut child);
        }
        // To the end of the pipe: what was printed before the kill counts as acknowledged. Half a line does not.
        while out
            .read_line({
                line.clear();
                &mut line
            })
            .unwrap()
            > 0
            && line.ends_with('\n')
        {
            let words: Vec<&str> = line.trim_end().split(' ').collect();
            if let ["acknowledged", task, n, revision] = words[..] {
                known.acknowledge(task.parse().unwrap(), n.parse().unwrap(), revision.parse().unwrap());
                left = left.saturating_sub(1);
            } else if !is_open {
                opening.push(line.trim_end().to_owned());
                if words[0] == "opened" {
                    is_open = true;
                    known.check(&opening);
                    known.run = run;
                    known.acknowledged = [0; TASKS];
                }
            }
            if is_open && left == 0 {
                kill(&mut child);
            }
        }
        let status = child.wait().unwrap();
        assert!(!status.success() && status.code().is_none(), "run {run}: the child ended by itself: {status}");
        killed_while_opening += u64::from(!is_open);
    }
    let store = storage.store();
    known.check(&dump(&store).lines().map(str::to_owned).collect::<Vec<_>>());
    println!(
        "{kills} kills, {killed_while_opening} of them while opening; {} commits acknowledged, revision {}",
        known.total_acknowledged, known.newest
    );
    assert!(kills < 50 || known.total_acknowledged as u64 > kills, "{} acknowledged", known.total_acknowledged);
}
