//! Start and stop of `seaworthy apiserver`: what it refuses to start with, and orderly shutdown.

use crate::served;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::program::{Outcome, Program};
use crate::served::{CONFIG_MAPS, JSON, Served, TOKEN, revision};
use serde_json::json;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A folder with a server's data, which has stopped.
fn stopped() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    stop(Served::start(folder.path()));
    let data = folder.path().join("data");
    (folder, data)
}

/// Asks a server to stop, and returns what it printed last.
fn stop(mut server: Served) -> String {
    server.terminate();
    let status = server.process.wait().unwrap();
    let mut stderr = String::new();
    server.process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(status.code(), Some(0), "{stderr}");
    stderr
}

/// Tries to start a server that must refuse.
#[track_caller]
fn refuse(folder: &Path, args: &[&str]) -> String {
    let mut command = served::command(folder, args);
    let Outcome { stdout, stderr, .. } = Outcome::of(command.output().unwrap()).expect(2);
    assert!(stdout.is_empty() && stderr.starts_with("error: "), "{stdout}{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

/// Every file below a folder with its content. The lock names the last holder.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
        } else if !path.ends_with("lock") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn everything_that_is_written_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    // An empty folder that others can look into, and a kubeconfig that others can read.
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o755);
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, "old").unwrap();
    set_mode(&kubeconfig, 0o644);
    let server = Served::start(folder.path());
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("pki")), 0o700);
    for file in content(&data).into_keys().chain([data.join("lock")]) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    stop(server);
    let mut process =
        served::command(folder.path(), &["--kubeconfig-out", kubeconfig.to_str().unwrap()]).spawn().unwrap();
    let (address, tls) = Served::wait(&mut process, folder.path()).unwrap();
    stop(Served { process, address, tls });
    assert_eq!(mode(&kubeconfig), 0o600);
    assert!(fs::read_to_string(&kubeconfig).unwrap().contains("current-context: seaworthy"));
}

#[test]
fn second_start_is_refused_and_the_first_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path());
    let mut client = server.client();
    let before = content(&folder.path().join("data/pki"));
    let stderr = refuse(folder.path(), &[]);
    let holder = format!("in use by process {}", server.process.id());
    says(
        &stderr,
        &["data folder ", folder.path().to_str().unwrap(), &holder, "stop that process first or name another"],
    );
    assert!(content(&folder.path().join("data/pki")) == before);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    client.ask("POST", CONFIG_MAPS, JSON, &object).unwrap().is(201);
}

#[test]
fn taken_port_is_refused_with_the_way_out() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Served::start(first.path());
    let stderr = refuse(second.path(), &["--listen", &server.address.to_string()]);
    says(&stderr, &[&format!("cannot listen on {}: ", server.address), "in use", "--listen", "port 0"]);
    // What was begun is of use for the next start.
    stop(Served::start(second.path()));
}

#[test]
fn damaged_store_is_refused_and_stays_as_it_is() {
    let (folder, data) = stopped();
    let file = data.join("store.redb");
    let good = fs::read(&file).unwrap();
    for bad in [b"no store at all".to_vec(), good[..good.len() / 2].to_vec(), Vec::new(), vec![0; good.len()]] {
        fs::write(&file, &bad).unwrap();
        let before = content(&data);
        let stderr = refuse(folder.path(), &[]);
        says(
            &stderr,
            &[file.to_str().unwrap(), "damaged or not a store: ", "nothing was changed", "backup", "move it away"],
        );
        assert!(content(&data) == before, "{stderr}");
    }
    fs::write(&file, &good).unwrap();
    stop(Served::start(folder.path()));
}

#[test]
fn store_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let (folder, data) = stopped();
    let file = data.join("store.redb");
    let database = redb::Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(redb::TableDefinition::<&str, u64>::new("meta")).unwrap().insert("format", 9).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let before = content(&data);
    let stderr = refuse(folder.path(), &[]);
    says(&stderr, &[file.to_str().unwrap(), "format 9", "up to 1", "nothing was changed", "newer version"]);
    assert!(content(&data) == before);
}

#[test]
fn what_is_no_folder_of_ours_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "letter").unwrap();
    for place in [file.clone(), file.join("below")] {
        let stderr = refuse(folder.path(), &["--data", place.to_str().unwrap()]);
        says(&stderr, &[place.to_str().unwrap(), "not a folder", "choose another path"]);
    }
    assert_eq!(fs::read(&file).unwrap(), b"letter");
    // A user's home.
    let home = folder.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("letter"), "dear").unwrap();
    set_mode(&home, 0o755);
    let stderr = refuse(folder.path(), &["--data", home.to_str().unwrap()]);
    says(&stderr, &[home.to_str().unwrap(), "mode 755", "contains other files", "chmod 700"]);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "something was written there");
    assert_eq!(mode(&home), 0o755);
}

#[test]
fn file_of_tokens_that_cannot_be_used_is_named_and_never_shown() {
    let program = Program::new();
    let data = program.path("data");
    let folder = program.file("tokens/.keep", "");
    let folder = folder.parent().unwrap();
    let refuse = |file: &Path| {
        let mut command = program.command(["apiserver", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(&data).arg("--token-auth-file").arg(file);
        Outcome::of(command.output().unwrap()).expect(2).says(&["error: token file ", file.to_str().unwrap()]).stderr
    };
    says(&refuse(Path::new("missing.csv")), &["No such file", "--token-auth-file"]);
    says(&refuse(folder), &["Is a directory", "--token-auth-file"]);
    let form = "a line is: token,user,uid";
    for (text, parts) in [
        (&b"good,user,1\nhidden,user\n"[..], ["line 2", "fewer than three fields"]),
        (b"hidden,,1\n", ["line 1", "must not be empty"]),
        (b",user,1\n", ["line 1", "must not be empty"]),
        (b"hidden,user,1,\"open\n", ["line 1", "quote is not closed"]),
    ] {
        let stderr = refuse(&program.file("tokens.csv", text));
        says(&stderr, &parts);
        says(&stderr, &[form]);
        assert!(!stderr.contains("hidden"), "{stderr}");
    }
    says(&refuse(&program.file("tokens.csv", b"\xff\xfe,user,1\n")), &["UTF-8", "text file"]);
    assert!(!data.exists(), "a folder was made for nothing");
}

#[test]
fn keys_that_cannot_be_used_are_refused_and_stay_as_they_are() {
    let (folder, data) = stopped();
    let good = content(&data);
    let restore = |path: &Path| fs::write(path, &good[path]).unwrap();
    for name in ["ca.key", "ca.crt", "service-account.key"] {
        let path = data.join("pki").join(name);
        for bad in ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n"] {
            fs::write(&path, bad).unwrap();
            let before = content(&data);
            let stderr = refuse(folder.path(), &[]);
            says(&stderr, &[path.to_str().unwrap(), "nothing was changed", "backup", "move"]);
            assert!(content(&data) == before, "{stderr}");
        }
        restore(&path);
    }
    // A new key would not fit the certificate that clients know.
    let key = data.join("pki/ca.key");
    fs::remove_file(&key).unwrap();
    says(&refuse(folder.path(), &[]), &[key.to_str().unwrap(), "missing", "ca.crt exists", "backup"]);
    assert!(!key.exists());
    restore(&key);
    stop(Served::start(folder.path()));
}

#[test]
fn kubeconfig_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("no/such/kubeconfig");
    let stderr = refuse(folder.path(), &["--kubeconfig-out", file.to_str().unwrap()]);
    says(&stderr, &["kubeconfig", file.to_str().unwrap(), "No such file", "--kubeconfig-out"]);
}

#[test]
fn stopping_server_answers_requests_in_progress_and_ends_watches() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path());
    let mut client = server.client();
    let began = revision(&client.ask("GET", CONFIG_MAPS, JSON, "").unwrap().is(200));
    let mut watching = server.client().watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={began}")).unwrap();
    let mut idle = server.client();
    idle.ask("GET", "/readyz", JSON, "").unwrap();
    // The server has the head of a write and waits for the rest: it says so.
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}).to_string();
    let (first, rest) = object.split_at(10);
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\nexpect: 100-continue\r\n\
         content-type: {JSON}\r\ncontent-length: {}\r\n\r\n",
        object.len()
    );
    client.write(head.as_bytes()).unwrap();
    assert_eq!(client.interim().unwrap(), 100);
    client.write(first.as_bytes()).unwrap();
    server.terminate();
    // The watch ends as answers do, with nothing but what happened before. By then the server is stopping.
    assert_eq!(watching.next().unwrap(), None);
    assert!(idle.is_closed());
    client.write(rest.as_bytes()).unwrap();
    assert_eq!(client.reply().unwrap().is(201)["metadata"]["name"], "late");
    assert!(client.is_closed());
    let mut server = server;
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    // It is there at the next start.
    let server = Served::start(folder.path());
    server.client().ask("GET", &format!("{CONFIG_MAPS}/late"), JSON, "").unwrap().is(200);
}

#[test]
fn stopping_server_does_not_wait_for_silent_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path());
    let mut slow = server.client();
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\
         expect: 100-continue\r\ncontent-type: {JSON}\r\ncontent-length: 100\r\n\r\n"
    );
    slow.write(head.as_bytes()).unwrap();
    assert_eq!(slow.interim().unwrap(), 100);
    assert!(!stop(server).contains("panicked"));
    assert!(slow.is_closed());
}
