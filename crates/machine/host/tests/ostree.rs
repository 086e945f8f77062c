//! Boot management with fakes of `rpm-ostree` and `bootc` that record their calls.

use std::path::Path;
use std::sync::{Arc, Mutex};

use seaworthy_host::linux::ProgramRunner;
use seaworthy_host::{Boot, BootChange, BootDriver, Host, HostError, Kernel, LinuxHost, Output};
use serde_json::{Value, json};

/// Records its calls, and reports one booted deployment.
#[derive(Clone, Default)]
struct Ostree {
    lines: Arc<Mutex<Vec<String>>>,
    booted: Arc<Mutex<Value>>,
    /// Lines that fail.
    broken: Arc<Mutex<Vec<String>>>,
}

impl ProgramRunner for Ostree {
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
            line if line.starts_with("rpm -q ") => {
                "kernel\nkernel-core\npackage kernel-modules-core is not installed\n".to_owned()
            }
            _ => String::new(),
        };
        let is_broken = self.broken.lock().unwrap().iter().any(|broken| line.starts_with(broken));
        if is_broken {
            return Ok(Output { code: Some(1), stdout: String::new(), stderr: "it broke".to_owned() });
        }
        Ok(Output { code: Some(0), stdout, stderr: String::new() })
    }
}

struct OstreeMachine {
    root: tempfile::TempDir,
    host: LinuxHost,
    ostree: Ostree,
}

impl OstreeMachine {
    /// One that has booted an image, with these programs at hand.
    fn new(programs: &[&str], booted: Value) -> OstreeMachine {
        let root = tempfile::tempdir().unwrap();
        for program in programs {
            put(root.path(), &format!("usr/bin/{program}"), "");
        }
        put(root.path(), "run/ostree-booted", "");
        put(root.path(), "proc/sys/kernel/random/boot_id", "boot-1\n");
        put(root.path(), "proc/cmdline", "root=/dev/vda quiet\n");
        let ostree = Ostree { booted: Arc::new(Mutex::new(booted)), ..Ostree::default() };
        let host = LinuxHost::with_programs(root.path(), Box::new(ostree.clone())).unwrap();
        OstreeMachine { root, host, ostree }
    }

    fn boot(&self) -> Boot {
        self.host.boot().unwrap()
    }

    /// Nothing of the extensions is left.
    fn is_clean(&self) {
        for path in ["etc/yum.repos.d/seaworthy-extensions.repo", "var/lib/seaworthy/extensions"] {
            assert!(!self.root.path().join(path).exists(), "{path}");
        }
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
        let machine = OstreeMachine::new(&[program], booted);
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
fn what_is_booted_is_read_from_rpm_ostrees_output() {
    let booted = json!({
        "container-image-reference": "ostree-remote-registry:fedora:docker://registry.example.org/os@sha256:1",
        "requested-packages": ["sysstat"],
    });
    let boot = OstreeMachine::new(&["rpm-ostree"], booted).boot();
    assert_eq!(boot.driver, BootDriver::RpmOstree);
    assert_eq!(boot.image.as_deref(), Some("registry.example.org/os@sha256:1"));
    assert_eq!(
        (boot.packages, boot.arguments),
        (vec!["sysstat".to_owned()], vec!["root=/dev/vda".to_owned(), "quiet".to_owned()])
    );
}

const EXTENSIONS: &str = "registry.example.org/extensions@sha256:2";

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn layered(kernel: &[&str], removed: &[&str]) -> Value {
    json!({"requested-packages": kernel, "requested-base-removals": removed})
}

#[test]
fn packages_come_from_the_image_of_extensions_which_is_unpacked_first_and_gone_afterwards() {
    let machine = OstreeMachine::new(&["rpm-ostree", "podman"], json!({}));
    machine.ostree.broken.lock().unwrap().push("podman image exists".to_owned());
    put(machine.root.path(), "var/lib/kubelet/config.json", "{}");
    let change = BootChange {
        install: texts(&["sysstat"]),
        kernel: Some((Kernel::Default, Kernel::Realtime)),
        extensions_image: Some(EXTENSIONS.to_owned()),
        ..BootChange::default()
    };
    machine.host.stage(&change).unwrap();
    let asked = machine.asked();
    let wanted = [
        "rpm-ostree cleanup -p",
        &format!("podman image exists {EXTENSIONS}"),
        &format!("podman pull --quiet --authfile /var/lib/kubelet/config.json {EXTENSIONS}"),
        "podman rm --force --ignore seaworthy-extensions",
        &format!("podman create --network=none --name seaworthy-extensions {EXTENSIONS} none"),
        "podman cp seaworthy-extensions:/usr/share/rpm-ostree/extensions/. /var/lib/seaworthy/extensions",
        "podman rm --force --ignore seaworthy-extensions",
        &format!("podman rmi {EXTENSIONS}"),
        "rpm-ostree status --json",
        "rpm -q --queryformat=%{NAME}\n kernel kernel-core kernel-modules kernel-modules-core kernel-modules-extra",
        "rpm-ostree override remove kernel kernel-core --install=kernel-rt-core --install=kernel-rt-modules \
         --install=kernel-rt-modules-extra",
        "rpm-ostree update --install=sysstat",
    ];
    assert_eq!(asked, wanted);
    machine.is_clean();
}

#[test]
fn the_repository_of_extensions_is_there_while_packages_are_installed_and_goes_when_that_fails() {
    let machine = OstreeMachine::new(&["rpm-ostree", "podman"], json!({}));
    machine.ostree.broken.lock().unwrap().push("rpm-ostree update".to_owned());
    let seen = Arc::new(Mutex::new(None));
    let change = BootChange {
        install: texts(&["sysstat"]),
        extensions_image: Some(EXTENSIONS.to_owned()),
        ..BootChange::default()
    };
    let watcher =
        Watcher { ostree: machine.ostree.clone(), root: machine.root.path().to_owned(), seen: Arc::clone(&seen) };
    let host = LinuxHost::with_programs(machine.root.path(), Box::new(watcher)).unwrap();
    assert!(host.stage(&change).unwrap_err().to_string().contains("it broke"));
    let text = seen.lock().unwrap().clone().unwrap();
    assert!(text.contains("baseurl=file:///var/lib/seaworthy/extensions\nenabled=1\n"), "{text}");
    machine.is_clean();
    // What a cut has left goes as well.
    put(machine.root.path(), "etc/yum.repos.d/seaworthy-extensions.repo", "x");
    put(machine.root.path(), "var/lib/seaworthy/extensions/a.rpm", "x");
    machine.host.unstage(&change).unwrap();
    machine.is_clean();
}

/// Looks at the repository when packages are installed.
struct Watcher {
    ostree: Ostree,
    root: std::path::PathBuf,
    seen: Arc<Mutex<Option<String>>>,
}

impl ProgramRunner for Watcher {
    fn feed(&self, program: &str, arguments: &[&str], input: &[u8]) -> Result<Output, HostError> {
        if arguments.first() == Some(&"update") {
            *self.seen.lock().unwrap() =
                std::fs::read_to_string(self.root.join("etc/yum.repos.d/seaworthy-extensions.repo")).ok();
        }
        self.ostree.feed(program, arguments, input)
    }
}

#[test]
fn back_from_another_kernel_its_packages_go_and_only_those_of_the_image_come_back() {
    let booted = layered(&["kernel-rt-core", "kernel-rt-modules", "sysstat"], &["kernel", "kernel-core", "nano"]);
    let machine = OstreeMachine::new(&["rpm-ostree"], booted.clone());
    let back = BootChange { kernel: Some((Kernel::Realtime, Kernel::Default)), ..BootChange::default() };
    machine.host.stage(&back).unwrap();
    let reset = "rpm-ostree override reset kernel kernel-core --uninstall=kernel-rt-core --uninstall=kernel-rt-modules";
    assert_eq!(machine.asked(), ["rpm-ostree cleanup -p", "rpm-ostree status --json", reset]);

    // Into another image the same kernel is installed again.
    let on = BootChange {
        image: Some("image-2".to_owned()),
        kernel: Some((Kernel::Realtime, Kernel::Realtime)),
        ..BootChange::default()
    };
    machine.host.stage(&on).unwrap();
    let wanted = [
        "rpm-ostree cleanup -p",
        reset,
        "rpm-ostree rebase --experimental ostree-unverified-registry:image-2",
        "rpm-ostree override remove kernel kernel-core --install=kernel-rt-core --install=kernel-rt-modules \
         --install=kernel-rt-modules-extra",
    ];
    assert_eq!(machine.asked(), wanted);
}

#[test]
fn packages_without_an_image_to_take_them_from_are_named_where_they_fail() {
    let machine = OstreeMachine::new(&["rpm-ostree"], json!({}));
    machine.ostree.broken.lock().unwrap().push("rpm-ostree update".to_owned());
    let change = BootChange { install: texts(&["sysstat"]), ..BootChange::default() };
    let error = machine.host.stage(&change).unwrap_err().to_string();
    assert!(error.contains("it broke; the configuration names no baseOSExtensionsContainerImage"), "{error}");
    let change = BootChange { extensions_image: Some(EXTENSIONS.to_owned()), ..change };
    let error = machine.host.stage(&change).unwrap_err().to_string();
    assert!(error.contains(EXTENSIONS) && error.contains("podman is needed"), "{error}");
}
