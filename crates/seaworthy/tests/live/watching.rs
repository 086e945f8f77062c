//! `rollout status --watch` while the server restarts.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::live::fleet::{Fleet, has_kubectl};
use crate::program::Outcome;

#[test]
fn watch_survives_a_server_restart() {
    if !has_kubectl() {
        return seaworthy_trial::skip("kubectl", "not found: install it, or run `cargo xtask kube`");
    }
    let mut fleet = Fleet::start();
    fleet.begin();
    let motd = crate::program::given("live/given").join("50-motd.yaml");
    fleet.must(&format!("kubectl apply -f {}", motd.display()));
    fleet.must("kubectl wait mcp/worker --for=condition=Updating --timeout=60s");
    let all = fleet.run(&["rollout", "status"]).expect(1).stdout;
    assert!(all.contains("pool master to ") && all.contains("\n\npool worker to "), "{all}");
    let mut command = fleet.shell("seaworthy rollout status worker --watch");
    let mut watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(watching.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(printed.any(|line| line.contains("0 of 3 nodes updated")));

    fleet.end_server();
    let mut stderr = BufReader::new(watching.stderr.take().unwrap()).lines().map_while(Result::ok);
    let note = stderr.next().unwrap();
    assert!(note.contains("cannot be reached") && note.contains("retrying for 2 min"), "{note}");
    fleet.start_server_again();
    // What was undone is the way to the end here: these nodes never finish an order.
    fleet.must(&format!("kubectl delete -f {}", motd.display()));
    assert!(printed.any(|line| line.contains("3 of 3 nodes updated")), "it looks on");
    assert_eq!(stderr.collect::<Vec<_>>(), [""; 0], "it is reported once");
    Outcome::of(watching.wait_with_output().unwrap()).expect(0);
}
