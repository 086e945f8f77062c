//! Full disk: an API server whose disk fills up, turns read-only, and recovers.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::served::{APPLY, CONFIG_MAPS, Client, JSON, JSON_PATCH, MERGE, STRATEGIC, Served, Watching, revision};
use seaworthy_trial::small_disk;
use serde_json::{Value, json};

const SIZE: usize = 100_000;

#[test]
fn server_on_a_full_or_read_only_disk_refuses_writes_serves_reads_and_recovers() {
    small_disk::run_child("full_disk::child", 24);
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x".repeat(SIZE)}})
}

fn create(client: &mut Client, name: &str) -> (u16, Value) {
    let reply = client.ask("POST", CONFIG_MAPS, JSON, &config_map(name).to_string()).unwrap();
    (reply.code, reply.body)
}

/// Every kind of write, none of which can be done.
fn refused_writes(client: &mut Client, code: u16, reason: &str, parts: &[&str]) {
    let one = format!("{CONFIG_MAPS}/c-000");
    let large = "y".repeat(SIZE);
    let applied = format!("{one}?fieldManager=test&force=true");
    let mut changed = config_map("c-000");
    changed["data"]["text"] = json!(large);
    let writes = [
        ("POST", CONFIG_MAPS, JSON, config_map("late")),
        ("PUT", &one, JSON, changed.clone()),
        ("PATCH", &one, MERGE, json!({"data": {"more": large}})),
        ("PATCH", &one, STRATEGIC, json!({"data": {"more": large}})),
        ("PATCH", &one, JSON_PATCH, json!([{"op": "add", "path": "/data/more", "value": large}])),
        ("PATCH", &applied, APPLY, changed),
    ];
    for (method, path, kind, body) in writes {
        let reply = client.ask(method, path, kind, &body.to_string()).unwrap();
        let message = reply.body["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!((reply.code, reply.body["reason"].as_str()), (code, Some(reason)), "{method} {kind}: {message}");
        assert_eq!((&reply.body["kind"], &reply.body["code"]), (&json!("Status"), &json!(code)));
        assert!(parts.iter().all(|part| message.contains(part)), "{method} {kind}: {message}");
    }
}

fn names(client: &mut Client) -> Vec<String> {
    let list = client.ask("GET", CONFIG_MAPS, JSON, "").unwrap().is(200);
    let items = list["items"].as_array().unwrap().iter();
    let names = items.map(|item| {
        let name = item["metadata"]["name"].as_str().unwrap();
        let is_ours = name.starts_with("c-");
        assert!(!is_ours || item["data"] == config_map(name)["data"], "{name} was changed");
        name.to_owned()
    });
    names.filter(|name| name.starts_with("c-")).collect()
}

/// Reads events up to the one of an object.
fn events_to(watching: &mut Watching, name: &str) -> Vec<String> {
    let mut names = Vec::new();
    while names.last().is_none_or(|last| last != name) {
        let event = watching.next().unwrap().unwrap();
        assert_eq!(event["type"], "ADDED", "{event}");
        names.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names.retain(|name| name.starts_with("c-"));
    names
}

fn mount(args: &[&str], place: &Path) {
    assert!(Command::new("mount").args(args).arg(place).status().unwrap().success(), "mount {args:?}");
}

/// Takes all the room that is left.
fn fill(ballast: &Path) {
    let mut file = OpenOptions::new().append(true).create(true).open(ballast).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

#[test]
#[ignore = "the child process of the test above"]
fn child() {
    let Some(disk) = small_disk::folder() else { return };
    let disk = disk.as_path();
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; 12 << 20]).unwrap();
    let mut server = Served::start(disk);
    let mut client = server.client();
    let began = revision(&client.ask("GET", CONFIG_MAPS, JSON, "").unwrap().is(200));
    let mut watching = server.client().watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={began}")).unwrap();

    let mut written = Vec::new();
    let refused = loop {
        let name = format!("c-{:03}", written.len());
        match create(&mut client, &name) {
            (201, _) => written.push(name),
            refused => break refused,
        }
    };
    assert!(written.len() > 5, "{written:?}");
    assert_eq!((refused.0, refused.1["reason"].as_str()), (507, Some("InsufficientStorage")), "{}", refused.1);
    fill(&ballast);
    let advice = ["No space left on device", "free space on the disk of the data folder"];
    refused_writes(&mut client, 507, "InsufficientStorage", &advice);

    // Reads go on: whole, no more and no less than was acknowledged.
    assert_eq!(names(&mut client), written);
    assert_eq!(events_to(&mut watching, written.last().unwrap()), written);
    let mut second = server.client().watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={began}")).unwrap();
    assert_eq!(events_to(&mut second, written.last().unwrap()), written);
    assert_eq!(client.ask("GET", "/readyz", JSON, "").unwrap().code, 200);

    // The disk turns read-only as well. The store's file was closed by the failed write, so it is opened again.
    let file = disk.join("data/store.redb");
    mount(&["--bind", file.to_str().unwrap()], &file);
    mount(&["-o", "remount,bind,ro"], &file);
    fs::remove_file(&ballast).unwrap();
    refused_writes(&mut client, 500, "InternalError", &["Read-only file system", "the disk of the data folder"]);
    assert_eq!(names(&mut client), written);
    assert!(Command::new("umount").arg(&file).status().unwrap().success());

    // Well again: the same server writes, and the watches that waited see it.
    let name = format!("c-{:03}", written.len());
    assert_eq!(create(&mut client, &name).0, 201);
    written.push(name.clone());
    assert_eq!(events_to(&mut watching, &name), [name.as_str()]);
    assert_eq!(names(&mut client), written);

    // Full again, and killed: nothing is lost, and the next server serves what there is.
    fill(&ballast);
    assert_eq!(create(&mut client, "late").0, 507);
    server.kill();
    let server = Served::start(disk);
    let mut client = server.client();
    assert_eq!(names(&mut client), written);
    refused_writes(&mut client, 507, "InsufficientStorage", &advice);
    fs::remove_file(&ballast).unwrap();
    assert_eq!(create(&mut client, "late").0, 201);
    assert_eq!(names(&mut client), written);
    small_disk::done();
}
