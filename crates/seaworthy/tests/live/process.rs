//! The controllers as a process: probes, the lease, orderly shutdown.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::live::fleet::{Fleet, has_kubectl};

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: probes\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn process_answers_probes_and_releases_the_lease_on_a_stop_signal() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::server();
    let mut command =
        fleet.program.command(["controllers", "--install", "--metrics", "127.0.0.1:0", "--log-format", "json"]);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
    let (mut address, mut running) = (None, BTreeSet::new());
    let is_running = stderr.by_ref().any(|line| {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        address = event["address"].as_str().map(str::to_owned).or(address.take());
        if event["message"] == "controllers running" {
            running.insert(event["operator"].to_string());
        }
        // While one of them starts, the process is not ready.
        running.len() == 2
    });
    assert!(is_running);
    let address = address.unwrap();
    for (path, part) in [("/readyz", "ok"), ("/healthz", "ok"), ("/metrics", "# EOF")] {
        let answer = get(&address, path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(part), "{path}: {answer}");
    }
    let holder = "kubectl -n seaworthy-system get lease seaworthy-controllers -o jsonpath='{.spec.holderIdentity}'";
    assert!(!fleet.must(holder).is_empty());
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(0));
    assert_eq!(fleet.must(holder), "");
}

#[test]
fn process_that_loses_the_lease_exits_with_a_message() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let fleet = Fleet::server();
    let mut command = fleet.program.command(["controllers", "--install"]);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(stderr.any(|line| line.contains("controllers running") && line.contains("machineconfig")));
    fleet.must(
        "kubectl -n seaworthy-system patch lease seaworthy-controllers --type=merge \
                -p '{\"spec\": {\"holderIdentity\": \"another\"}}'",
    );
    let rest: Vec<String> = stderr.collect();
    assert_eq!(process.wait().unwrap().code(), Some(1));
    assert!(rest.iter().any(|line| line.contains("lost the lease seaworthy-system/seaworthy-controllers")), "{rest:?}");
}
