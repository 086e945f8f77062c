//! The boot through `rpm-ostree` and `bootc`, with programs that answer as those do and remember what they were asked.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::{Arc, Mutex};

use seaworthy_host::linux::Programs;
use seaworthy_host::{Boot, Driver, Host, HostError, LinuxHost, Output};
use serde_json::{Value, json};

/// Remembers what was asked, and tells of one deployment that is booted.
#[derive(Clone, Default)]
struct Ostree {
    lines: Arc<Mutex<Vec<String>>>,
    booted: Arc<Mutex<Value>>,
}

impl Programs for Ostree {
    fn feed(&self, program: &str, arguments: &[&str], _: &[u8]) -> Result<Output, HostError> {
        let line = format!("{program} {}", arguments.join(" "));
        self.lines.lock().unwrap().push(line.clone());
        let mut booted = self.booted.lock().unwrap().clone();
        booted["booted"] = json!(true);
        let stdout = match line.as_str() {
            "rpm-ostree status --json" => json!({"deployments": [{"booted": false}, booted]}).to_string(),
            "bootc status --format=json" => {
                json!({"status": {"booted": {"image": {"image": {"image": "image-1"}}}}}).to_string()
            }
            _ => String::new(),
        };
        Ok(Output { code: Some(0), stdout, stderr: String::new() })
    }
}

struct Machine {
    root: tempfile::TempDir,
    host: LinuxHost,
    ostree: Ostree,
}

impl Machine {
    /// One that has booted an image, with these programs at hand.
    fn new(programs: &[&str], booted: Value) -> Machine {
        let root = tempfile::tempdir().unwrap();
        for program in programs {
            put(root.path(), &format!("usr/bin/{program}"), "");
        }
        put(root.path(), "run/ostree-booted", "");
        put(root.path(), "proc/sys/kernel/random/boot_id", "boot-1\n");
        put(root.path(), "proc/cmdline", "root=/dev/vda quiet\n");
        let ostree = Ostree { booted: Arc::new(Mutex::new(booted)), ..Ostree::default() };
        let host = LinuxHost::with_programs(root.path(), Box::new(ostree.clone())).unwrap();
        Machine { root, host, ostree }
    }

    fn boot(&self) -> Boot {
        self.host.boot().unwrap()
    }

    /// What was asked since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.ostree.lines.lock().unwrap())
    }
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn what_is_booted_is_asked_for_once_in_each_boot() {
    for (program, asked) in [("rpm-ostree", "rpm-ostree status --json"), ("bootc", "bootc status --format=json")] {
        let booted = json!({"container-image-reference": "ostree-unverified-registry:image-1"});
        let machine = Machine::new(&[program], booted);
        for _ in 0..3 {
            let boot = machine.boot();
            assert_eq!((boot.id.as_str(), boot.image.as_deref()), ("boot-1", Some("image-1")));
        }
        assert_eq!(machine.asked(), [asked]);
        put(machine.root.path(), "proc/sys/kernel/random/boot_id", "boot-2\n");
        assert_eq!(machine.boot().id, "boot-2");
        assert_eq!(machine.asked(), [asked]);
    }
}

#[test]
fn what_is_booted_is_read_from_what_rpm_ostree_says() {
    let booted = json!({
        "container-image-reference": "ostree-remote-registry:fedora:docker://registry.example.org/os@sha256:1",
        "requested-packages": ["sysstat"],
    });
    let boot = Machine::new(&["rpm-ostree"], booted).boot();
    assert_eq!(boot.driver, Driver::RpmOstree);
    assert_eq!(boot.image.as_deref(), Some("registry.example.org/os@sha256:1"));
    assert_eq!(
        (boot.packages, boot.arguments),
        (vec!["sysstat".to_owned()], vec!["root=/dev/vda".to_owned(), "quiet".to_owned()])
    );
}
