//! Upgrade: the data folder and the machine that an earlier build left are understood; nothing boots, no history is lost.
//!
//! The archives were recorded with the build named in their folder, on a data folder and a machine of its own:
//! `SEAWORTHY_RECORD_UPGRADE=PROGRAM cargo test -p seaworthy --test suite upgrade` writes them with that program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::daemon::world::{CONFIGS, NODES, POOLS, World, annotation};
use crate::served::JSON;

/// Where the machine's root filesystem is, in the folder of a world.
const MACHINE: &str = "machine";
/// What `rollout history` printed before the upgrade.
const HISTORY: &str = "history.txt";
/// How many of a pool's rendered MachineConfigs are kept however old they are.
const MAX_KEPT: usize = 10;
/// The commit before the annotations, the files on a node and the folders of the daemon were renamed.
const BUILD: &str = "4be5606";

fn archive(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/upgrade/{BUILD}/{name}.tar.gz"))
}

fn tar(arguments: &[&str], archive: &Path, folder: &Path) {
    let mut command = Command::new("tar");
    command.args(arguments).arg("--file").arg(archive).arg("--directory").arg(folder);
    if arguments.contains(&"--create") {
        command.args(["data", "tokens.of.all", MACHINE, HISTORY]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The folder that a build left.
fn left_by_earlier_build(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    tar(&["--extract", "--gzip", "--same-permissions"], &archive(name), folder.path());
    folder
}

/// The names of a history, and what changed at each but the first: the age depends on the day.
fn history(table: &str) -> Vec<(String, String)> {
    let cell = |row: &str, nth: usize| {
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).nth(nth).unwrap_or_default().to_owned()
    };
    let rows = table.lines().skip(1).enumerate();
    rows.map(|(nth, row)| (cell(row, 0), if nth == 0 { String::new() } else { cell(row, 2) })).collect()
}

fn names(table: &str) -> Vec<String> {
    history(table).into_iter().map(|(name, _)| name).collect()
}

fn boots(root: &Path) -> String {
    std::fs::read_to_string(root.join("var/lib/seaworthy/boots")).unwrap_or_default()
}

fn target(world: &World) -> String {
    let pool = world.server.client().ask("GET", &format!("{POOLS}/worker"), JSON, "").unwrap().is(200);
    pool["spec"]["configuration"]["name"].as_str().unwrap().to_owned()
}

fn rendered(world: &World) -> BTreeSet<String> {
    let list = world.server.client().ask("GET", CONFIGS, JSON, "").unwrap().is(200);
    let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
    names.filter(|name| name.starts_with("rendered-")).map(str::to_owned).collect()
}

fn annotations(world: &World, path: &str) -> Value {
    world.server.client().ask("GET", path, JSON, "").unwrap().is(200)["metadata"]["annotations"].clone()
}

/// Makes the archives with the program that the variable names.
fn record(program: &Path) {
    // At rest: three changes, two of them with a boot.
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(MACHINE);
    std::fs::create_dir(&root).unwrap();
    let world = World::start_with(folder, program);
    let first = world.join_at(&root);
    let daemon = world.daemon(&root);
    world.runs(&first);
    world.apply("50-motd", "/etc/motd", "aye\n");
    let second = world.target_after(&first);
    world.runs(&second);
    world.apply("60-chrony", "/etc/chrony.d/pool.conf", "pool example.org\n");
    let third = world.target_after(&second);
    world.runs(&third);
    world.apply("50-motd", "/etc/motd", "aye, aye\n");
    let fourth = world.target_after(&third);
    world.runs(&fourth);
    world.until(POOLS, "worker", |pool| pool["status"]["updatedMachineCount"] == 1);
    std::fs::write(world.folder().join(HISTORY), world.asked(&["rollout", "history", "worker"])).unwrap();
    drop(daemon);
    tar(&["--create", "--gzip"], &archive("at-rest"), world.stop().path());

    // In the middle of an update that needs no boot.
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(MACHINE);
    std::fs::create_dir(&root).unwrap();
    let world = World::start_with(folder, program);
    let first = world.join_at(&root);
    let mut daemon = world.daemon(&root);
    world.runs(&first);
    let paths: Vec<String> = (0..200).map(|nth| format!("/etc/chrony.d/{nth}.conf")).collect();
    for round in 0.. {
        world.apply_all("50-many", &paths, &format!("pool {round}.example.org\n"));
        let next = world.target_after(&target(&world));
        world.until(NODES, "w0", |node| {
            annotation(node, "desiredConfig") == next && annotation(node, "state") != "Done"
        });
        daemon.0.kill().unwrap();
        daemon.0.wait().unwrap();
        if root.join("etc/machine-config-daemon/journal").exists() {
            break;
        }
        daemon = world.daemon(&root);
        world.runs(&next);
    }
    std::fs::write(world.folder().join(HISTORY), world.asked(&["rollout", "history", "worker"])).unwrap();
    tar(&["--create", "--gzip"], &archive("interrupted"), world.stop().path());
}

#[test]
fn nothing_boots_and_no_history_is_lost_on_what_an_earlier_build_left() {
    if let Some(program) = std::env::var_os("SEAWORTHY_RECORD_UPGRADE") {
        std::fs::create_dir_all(archive("x").parent().unwrap()).unwrap();
        record(Path::new(&program));
    }
    let folder = left_by_earlier_build("at-rest");
    let root = folder.path().join(MACHINE);
    let (recorded, booted) = (std::fs::read_to_string(folder.path().join(HISTORY)).unwrap(), boots(&root));
    assert_eq!(history(&recorded).len(), 4, "{recorded}");
    let world = World::start_in(folder);
    let (was, had) = (target(&world), rendered(&world));
    assert_eq!(history(&recorded).last().unwrap().0, was);
    let orders = annotations(&world, &format!("{NODES}/w0"));

    let _daemon = world.daemon(&root);
    world.runs(&was);
    world.until(POOLS, "worker", |pool| pool["status"]["updatedMachineCount"] == 1);
    assert_eq!(history(&world.asked(&["rollout", "history", "worker"])), history(&recorded));
    assert_eq!((target(&world), rendered(&world), boots(&root)), (was.clone(), had, booted.clone()));
    let orders_now = annotations(&world, &format!("{NODES}/w0"));
    for key in ["desiredConfig", "currentConfig", "lastAppliedDrain"] {
        let key = format!("machineconfiguration.openshift.io/{key}");
        assert_eq!(orders_now[&key], orders[&key], "{key}");
    }

    // The way back is known, and what an earlier build wrote under other names is replaced at the next write.
    let pool = annotations(&world, &format!("{POOLS}/worker"));
    assert!(pool.get("seaworthy.dev/turns").is_some() && pool.get("seaworthy.dev/target-history").is_none(), "{pool}");
    world.asked(&["rollout", "undo", "worker"]);
    let before = world.target_after(&was);
    assert_eq!(before, history(&recorded)[2].0);
    world.runs(&before);
    assert_eq!(std::fs::read_to_string(root.join("etc/motd")).unwrap(), "aye\n");
    assert_ne!(boots(&root), booted, "it boots for this change");
    let (pool, node) = (annotations(&world, &format!("{POOLS}/worker")), annotations(&world, &format!("{NODES}/w0")));
    for (found, former, now) in
        [(&pool, "turns", "target-history"), (&pool, "promised", "reserved-nodes"), (&node, "ordered", "last-order")]
    {
        assert!(found.get(format!("seaworthy.dev/{former}")).is_none(), "{former}: {found}");
        assert!(found.get(format!("seaworthy.dev/{now}")).is_some(), "{now}: {found}");
    }
    let rows = history(&world.asked(&["rollout", "history", "worker"]));
    assert_eq!(rows.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), 4, "{rows:?}");
}

#[test]
fn update_that_an_earlier_build_began_is_completed_without_a_boot() {
    let folder = left_by_earlier_build("interrupted");
    let root = folder.path().join(MACHINE);
    let journal = root.join("etc/machine-config-daemon/journal");
    assert!(journal.exists());
    let recorded = std::fs::read_to_string(folder.path().join(HISTORY)).unwrap();
    let world = World::start_in(folder);
    let was = target(&world);
    let _daemon = world.daemon(&root);
    world.runs(&was);
    assert!(!journal.exists());
    assert_eq!(boots(&root), "", "nothing of it needs a boot");
    let texts: BTreeSet<String> =
        (0..200).map(|nth| std::fs::read_to_string(root.join(format!("etc/chrony.d/{nth}.conf"))).unwrap()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    // Rendered MachineConfigs that are older than an hour and not among the newest are being deleted, whichever build made them.
    let (recorded, found) = (names(&recorded), names(&world.asked(&["rollout", "history", "worker"])));
    let kept = recorded.len().saturating_sub(MAX_KEPT);
    assert!(found.ends_with(&recorded[kept..]), "{found:?} after {recorded:?}");
    let mut left = recorded.iter();
    assert!(found.iter().all(|name| left.any(|known| known == name)), "{found:?} after {recorded:?}");
}
