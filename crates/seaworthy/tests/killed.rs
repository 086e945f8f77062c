//! Killed API server: `seaworthy apiserver` is killed at random moments under write load, and no acknowledged write is lost.
//!
//! Writers go through every kind of write, each with an object of its own, and a watcher looks on, until the server is
//! killed. The next one must have what was acknowledged or seen, nothing by halves, and go on where the last one ended.
//! `SEAWORTHY_KILLS=5000` runs longer; `SEAWORTHY_KILLS_SEED` repeats the plan of one run.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod served;

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde_json::{Value, json};
use served::{APPLY, CONFIG_MAPS, Client, JSON, JSON_PATCH, MERGE, Reach, STRATEGIC, Served, revision};

/// Writers, each with one object.
const WRITERS: usize = 4;
/// Servers that are worked on at the same time.
const LANES: u64 = 2;
/// Then a new folder is begun: a long history makes starts slow, and the first start is to be killed more than once.
const KILLS_OF_A_FOLDER: u64 = 25;
/// Enough for an object to fill most of a page of the file.
const FILLER: usize = 500;

/// What an object is, as far as it matters here: the mark of the write that made it, or nothing.
type Mark = Option<String>;

/// A write and what comes of it.
struct Write {
    method: &'static str,
    kind: &'static str,
    mark: Mark,
    body: String,
}

fn name(writer: usize) -> String {
    format!("writer-{writer}")
}

/// Three values that belong together, long enough to be torn apart.
fn data(mark: &str) -> Value {
    let long = format!("{mark} {}", "x".repeat(FILLER));
    json!({"first": long, "second": long, "third": long})
}

/// The next write for an object in this state. Which one it is goes round with the number.
fn next_write(writer: usize, number: usize, mark: String, before: Option<&Value>) -> Write {
    let name = name(writer);
    let data = data(&mark);
    let whole = |revision: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "resourceVersion": revision},
            "data": data})
    };
    let (method, kind, body) = match (before, number % 6) {
        (None, 0 | 2 | 4) => ("POST", JSON, whole(Value::Null)),
        (None, _) | (Some(_), 3) => {
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
            ("PATCH", APPLY, config)
        }
        (Some(before), 0) => ("PUT", JSON, whole(before["metadata"]["resourceVersion"].clone())),
        (Some(_), 1) => ("PATCH", MERGE, json!({"data": data})),
        (Some(_), 2) => ("PATCH", JSON_PATCH, json!([{"op": "replace", "path": "/data", "value": data}])),
        (Some(_), 4) => ("PATCH", STRATEGIC, json!({"data": data})),
        (Some(_), _) => return Write { method: "DELETE", kind: JSON, mark: None, body: String::new() },
    };
    Write { method, kind, mark: Some(mark), body: body.to_string() }
}

/// The mark of a whole object; anything else is a failure.
#[track_caller]
fn mark_of(object: &Value) -> String {
    let data = object["data"].as_object().unwrap();
    let first = data["first"].as_str().unwrap();
    assert_eq!(data.len(), 3, "half a write: {object}");
    assert!(data.values().all(|value| value == first), "two writes in one object: {object}");
    let (mark, filler) = first.split_once(' ').unwrap();
    assert_eq!(filler.len(), FILLER, "half a value: {object}");
    mark.to_owned()
}

/// What a client reports.
enum ClientEvent {
    /// A write is about to be sent.
    Begun { writer: usize, mark: Mark },
    /// It was answered: the object, or none for a deletion.
    Acknowledged { writer: usize, object: Option<Value> },
    /// An event was seen.
    Seen(Value),
}

/// Writes until the server is gone.
fn write_until_killed(
    mut client: Client,
    run: usize,
    writer: usize,
    mut state: Option<Value>,
    events: &Sender<ClientEvent>,
) {
    for number in 0.. {
        let write = next_write(writer, number, format!("{run}-{writer}-{number}"), state.as_ref());
        let path = match write.method {
            "POST" => CONFIG_MAPS.to_owned(),
            _ if write.kind == APPLY => {
                format!("{CONFIG_MAPS}/{}?fieldManager=writer&force=true", name(writer))
            }
            _ => format!("{CONFIG_MAPS}/{}", name(writer)),
        };
        events.send(ClientEvent::Begun { writer, mark: write.mark.clone() }).unwrap();
        let Ok(reply) = client.ask(write.method, &path, write.kind, &write.body) else { return };
        assert!(matches!(reply.code, 200 | 201), "{} {path}: {}", write.method, reply.body);
        state = write.mark.is_some().then_some(reply.body);
        events.send(ClientEvent::Acknowledged { writer, object: state.clone() }).unwrap();
    }
}

fn watch_until_killed(client: Client, from: u64, events: &Sender<ClientEvent>) {
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
    let Ok(mut watching) = client.watch(&path) else { return };
    while let Ok(Some(event)) = watching.next() {
        events.send(ClientEvent::Seen(event)).unwrap();
    }
}

/// What the outside world knows of one folder.
#[derive(Default)]
struct Known {
    /// Of each revision, the kind of event and the mark.
    revisions: BTreeMap<u64, (String, String)>,
    /// The newest revision that any client saw.
    newest: u64,
    /// Of each writer, the object as it was last acknowledged or found.
    objects: [Option<Value>; WRITERS],
    /// Of each writer, the write that has no answer yet.
    under_way: [Option<Mark>; WRITERS],
    /// Where the last run began.
    began: u64,
    tally: Tally,
}

/// What happened, so that a run that tried nothing is seen as one.
#[derive(Default)]
struct Tally {
    kills: u64,
    /// Kills during the start.
    early: u64,
    acknowledged: u64,
    seen: u64,
    /// Writes without an answer that were made all the same, and those that were not.
    kept: u64,
    lost: u64,
    resumed: u64,
    expired: u64,
}

impl Known {
    /// Two things never have the same revision.
    #[track_caller]
    fn note(&mut self, revision: u64, event: &str, mark: &str) {
        let found = (event.to_owned(), mark.to_owned());
        let known = self.revisions.entry(revision).or_insert_with(|| found.clone());
        assert_eq!(*known, found, "revision {revision} was given out twice");
        self.newest = self.newest.max(revision);
    }

    /// One event of a watch, if it is about a writer's object.
    fn note_event(&mut self, event: &Value) -> Option<u64> {
        let object = &event["object"];
        object["metadata"]["name"].as_str().unwrap().starts_with("writer-").then(|| {
            let at = revision(object);
            self.note(at, event["type"].as_str().unwrap(), &mark_of(object));
            at
        })
    }

    fn record(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Begun { writer, mark } => self.under_way[writer] = Some(mark),
            ClientEvent::Acknowledged { writer, object } => {
                self.tally.acknowledged += 1;
                self.under_way[writer] = None;
                let before = std::mem::replace(&mut self.objects[writer], object);
                let Some(object) = &self.objects[writer] else { return };
                let (at, mark) = (revision(object), mark_of(object));
                if let Some(before) = &before {
                    assert!(at > revision(before), "{} came after {}", revision(before), at);
                    assert_eq!(object["metadata"]["uid"], before["metadata"]["uid"]);
                }
                self.note(at, if before.is_some() { "MODIFIED" } else { "ADDED" }, &mark);
            }
            ClientEvent::Seen(event) => {
                self.tally.seen += 1;
                self.note_event(&event);
            }
        }
    }

    /// Compares what a started server has with what is known.
    fn check(&mut self, client: &mut Client) {
        let list = client.ask("GET", CONFIG_MAPS, JSON, "").unwrap().is(200);
        let opened = revision(&list);
        assert!(opened >= self.newest, "it begins at {opened}, but {} was given out", self.newest);
        self.newest = opened;
        for writer in 0..WRITERS {
            let items = list["items"].as_array().unwrap();
            let found = items.iter().find(|item| item["metadata"]["name"] == name(writer).as_str()).cloned();
            let mark = found.as_ref().map(mark_of);
            let known = self.objects[writer].as_ref();
            let expected = known.map(mark_of);
            if mark == expected && known.map(revision) == found.as_ref().map(revision) {
                let uid = |object: Option<&Value>| object.map(|object| object["metadata"]["uid"].clone());
                assert_eq!(uid(known), uid(found.as_ref()));
                self.tally.lost += u64::from(self.under_way[writer].is_some());
            } else {
                assert_eq!(
                    Some(&mark),
                    self.under_way[writer].as_ref(),
                    "writer {writer}: acknowledged was {expected:?}, at {:?}",
                    known.map(revision)
                );
                self.tally.kept += 1;
            }
            self.under_way[writer] = None;
            self.objects[writer] = found;
        }
    }

    /// Watches from a revision before the crash: all that is known to have come since, in order, or "start over".
    fn check_history(&mut self, reach: &Reach, client: &mut Client, from: u64, run: usize) {
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
        let mut watching = reach.client().unwrap().watch(&path).unwrap();
        // Its event ends what is to be read.
        let sentinel = format!("{CONFIG_MAPS}/sentinel?fieldManager=test&force=true");
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sentinel"},
            "data": {"run": run.to_string()}});
        let reply = client.ask("PATCH", &sentinel, APPLY, &config.to_string()).unwrap();
        assert!(matches!(reply.code, 200 | 201), "{}", reply.body);
        let end = revision(&reply.body);
        let mut seen = Vec::new();
        let mut last = from;
        loop {
            let event = watching.next().unwrap().expect("the watch ends before its time");
            if event["type"] == "ERROR" {
                assert_eq!(event["object"]["code"], 410, "{event}");
                assert!(seen.is_empty(), "events, and then {event}");
                self.tally.expired += 1;
                return;
            }
            let at = revision(&event["object"]);
            assert!(at > last, "{at} came after {last}");
            last = at;
            seen.extend(self.note_event(&event));
            if at == end {
                break;
            }
        }
        let known: Vec<u64> = self.revisions.range(from + 1..end).map(|(at, _)| *at).collect();
        assert_eq!(seen, known, "from {from} to {end}");
        self.newest = self.newest.max(end);
        self.tally.resumed += 1;
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Kills a process at some moment of the next while.
fn kill_soon(process: &mut Child, random: &mut Random, longest: u32) {
    let limit = 1 << random.below(longest.into());
    for _ in 0..random.below(limit) {
        thread::yield_now();
    }
    process.kill().unwrap();
}

fn one_run(folder: &Path, run: usize, random: &mut Random, known: &mut Known) {
    let mut process = served::command(folder, &[]).spawn().unwrap();
    // Now and then, at some moment of the start.
    if random.below(10) == 0 {
        kill_soon(&mut process, random, 18);
        let status = process.wait().unwrap();
        assert!(status.code().is_none(), "it ended by itself: {status}");
        known.tally.early += 1;
        return;
    }
    let Some((address, tls)) = Served::wait(&mut process, folder) else {
        panic!("run {run}: it does not start: {:?}", process.wait_with_output().unwrap());
    };
    let mut server = Served { process, address, tls };
    let mut client = server.client();
    let from = if random.below(4) == 0 { 1 } else { known.began.max(1) };
    known.check(&mut client);
    known.check_history(&server.reach(), &mut client, from, run);
    known.began = known.newest;
    let (events, received) = mpsc::channel();
    thread::scope(|scope| {
        let reach = server.reach();
        let (watcher_reach, watcher_events, began) = (reach.clone(), events.clone(), known.began);
        scope.spawn(move || {
            let Ok(client) = watcher_reach.client() else { return };
            watch_until_killed(client, began, &watcher_events);
        });
        for writer in 0..WRITERS {
            let (reach, events, state) = (reach.clone(), events.clone(), known.objects[writer].clone());
            scope.spawn(move || {
                let Ok(client) = reach.client() else { return };
                write_until_killed(client, run, writer, state, &events);
            });
        }
        drop(events);
        let mut left = random.below(24);
        let mut is_killed = false;
        // To the end: what was answered before the kill is received after it.
        loop {
            if left == 0 && !is_killed {
                kill_soon(&mut server.process, random, 9);
                is_killed = true;
            }
            let Ok(event) = received.recv() else { break };
            left = left.saturating_sub(u64::from(matches!(event, ClientEvent::Acknowledged { .. })));
            known.record(event);
        }
        assert!(is_killed, "run {run}: the server ended by itself");
    });
    assert!(server.process.wait().unwrap().code().is_none());
}

#[test]
fn killed_server_keeps_its_word() {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("SEAWORTHY_KILLS").unwrap_or(200);
    let seed = number("SEAWORTHY_KILLS_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("SEAWORTHY_KILLS_SEED={seed}");
    let tallies = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                scope.spawn(move || {
                    let mut random = Random(seed ^ lane);
                    let mut left = kills.div_ceil(LANES);
                    let mut tallies = Vec::new();
                    while left > 0 {
                        let kills = left.min(KILLS_OF_A_FOLDER);
                        tallies.push(one_folder(kills, &mut random));
                        left -= kills;
                    }
                    tallies
                })
            })
            .collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect::<Vec<_>>()
    });
    let sum = |part: fn(&Tally) -> u64| tallies.iter().map(part).sum::<u64>();
    let (killed, acknowledged, seen) =
        (sum(|tally| tally.kills), sum(|tally| tally.acknowledged), sum(|tally| tally.seen));
    let resumed = sum(|tally| tally.resumed);
    println!(
        "{killed} kills in {} folders, {} of them during the start; {acknowledged} writes acknowledged, {seen} events \
         seen; of the writes under way {} were kept and {} not; watches: {resumed} resumed, {} expired",
        tallies.len(),
        sum(|tally| tally.early),
        sum(|tally| tally.kept),
        sum(|tally| tally.lost),
        sum(|tally| tally.expired),
    );
    assert!(killed >= kills);
    assert!(killed < 50 || (acknowledged > killed && seen > killed && resumed > killed / 2));
}

/// Kills a server in one folder so many times.
fn one_folder(kills: u64, random: &mut Random) -> Tally {
    let folder = tempfile::tempdir().unwrap();
    let mut known = Known::default();
    for run in 0..kills {
        one_run(folder.path(), run as usize, random, &mut known);
    }
    let server = Served::start(folder.path());
    let mut client = server.client();
    let began = known.began.max(1);
    known.check(&mut client);
    known.check_history(&server.reach(), &mut client, began, kills as usize);
    Tally { kills, ..known.tally }
}
