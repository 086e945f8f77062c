//! Units of a folder, enabled by us and by the real `systemctl --root`: equal links and states.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use seaworthy_host::{FolderHost, Host as _};

/// The real one, or a line in the list of what was skipped.
fn systemctl() -> Option<PathBuf> {
    let found = std::env::var_os("SEAWORTHY_SYSTEMCTL").map(PathBuf::from).or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("systemctl")).find(|program| program.exists())
    });
    if found.is_none() {
        let why = std::env::var("SEAWORTHY_SYSTEMCTL_MISSING").unwrap_or_else(|_| "not found".to_owned());
        let line = format!("SKIPPED systemctl: {why}\n");
        match std::env::var_os("SEAWORTHY_SKIPPED") {
            Some(list) => {
                let mut list = std::fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
                list.write_all(line.as_bytes()).unwrap();
            }
            None => eprint!("{line}"),
        }
    }
    found
}

const UNITS: [(&str, &str); 9] = [
    ("etc/systemd/system/a.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"),
    (
        "etc/systemd/system/b.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nRequiredBy=x.target\nWantedBy=multi-user.target y.target\nAlias=bee.service\n",
    ),
    ("etc/systemd/system/plain.service", "[Service]\nExecStart=/bin/true\n"),
    (
        "usr/lib/systemd/system/vendor.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlso=vendor.socket\n",
    ),
    ("usr/lib/systemd/system/vendor.socket", "[Socket]\nListenStream=/run/v\n[Install]\nWantedBy=sockets.target\n"),
    (
        "usr/lib/systemd/system/tty@.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nDefaultInstance=one\nWantedBy=getty.target\n",
    ),
    ("usr/lib/systemd/system-preset/90-a.preset", "disable a.service\nenable a*\ndisable *\n"),
    ("etc/systemd/system-preset/10-b.preset", "# comment\nenable b.service\n"),
    ("usr/lib/systemd/system/early.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"),
];

fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in UNITS {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    std::os::unix::fs::symlink("/dev/null", root.path().join("etc/systemd/system/masked.service")).unwrap();
    root
}

/// Every link below a folder, with where it points.
fn links(folder: &Path, top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
        if path.is_symlink() {
            found.insert(name, std::fs::read_link(&path).unwrap().to_string_lossy().into_owned());
        } else if path.is_dir() {
            found.insert(name, "folder".to_owned());
            found.extend(links(&path, top));
        }
    }
    found
}

#[test]
fn verbs_leave_the_same_links_and_print_the_same_as_the_real_one() {
    let Some(program) = systemctl() else { return };
    let real = |root: &Path, arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(format!("--root={}", root.display())).args(arguments);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let stories: [&[(&str, &str)]; 9] = [
        &[("enable", "a.service")],
        &[("enable", "b.service"), ("disable", "b.service")],
        &[("enable", "a.service"), ("enable", "b.service"), ("disable", "a.service")],
        &[("enable", "vendor.service")],
        &[("enable", "vendor.service"), ("disable", "vendor.service")],
        &[("enable", "tty@two.service")],
        &[("enable", "tty@.service")],
        &[("enable", "a.service"), ("preset", "a.service"), ("preset", "b.service")],
        &[
            ("enable", "early.service"),
            ("preset", "early.service"),
            ("enable", "masked.service"),
            ("enable", "gone.service"),
        ],
    ];
    let units = [
        "a.service",
        "b.service",
        "plain.service",
        "vendor.service",
        "vendor.socket",
        "masked.service",
        "gone.service",
    ];
    for story in stories {
        let (ours, theirs) = (root(), root());
        let host = FolderHost::open(ours.path()).unwrap();
        for (verb, unit) in story {
            // Refusals are compared by what they leave.
            let _ = match *verb {
                "enable" => host.enable(&[unit]),
                "disable" => host.disable(&[unit]),
                _ => host.preset(&[unit]),
            };
            real(theirs.path(), &[verb, unit]);
        }
        assert_eq!(links(ours.path(), ours.path()), links(theirs.path(), theirs.path()), "{story:?}");
        for unit in units {
            let word = real(theirs.path(), &["is-enabled", unit]);
            let word = if word.is_empty() { "not-found".to_owned() } else { word };
            assert_eq!(host.unit_state(unit).unwrap().as_str(), word, "{unit} after {story:?}");
        }
    }
}

#[test]
fn a_folder_of_a_machine_that_runs_is_refused() {
    let root = root();
    std::fs::create_dir_all(root.path().join("run/systemd/system")).unwrap();
    let error = FolderHost::open(root.path()).err().unwrap().to_string();
    assert!(error.contains("it is running") && error.contains("chroot"), "{error}");
    let error = FolderHost::open(Path::new("/")).err().unwrap().to_string();
    assert!(error.contains("it is running"), "{error}");
}

#[test]
fn nothing_is_notified_or_run_and_a_boot_is_a_number() {
    let root = root();
    let host = FolderHost::open(root.path()).unwrap();
    assert!(!host.is_running());
    assert_eq!(host.boot().unwrap().id, "folder-1");
    for done in [host.daemon_reload(), host.reload("a.service"), host.restart("no-such.service"), host.reboot("test")] {
        done.unwrap();
    }
    assert_eq!(host.boot().unwrap().id, "folder-2");
    assert!(host.run("true", &[]).unwrap_err().to_string().contains("no program is run there"));
}

#[test]
fn a_password_is_changed_in_its_line_only() {
    let root = root();
    let shadow = root.path().join("etc/shadow");
    std::fs::write(&shadow, "root:*:1:2\ncore:old:3:4:5\n").unwrap();
    std::fs::write(root.path().join("etc/passwd"), "core:x:1000:1000::/home/core:/bin/sh\n").unwrap();
    let host = FolderHost::open(root.path()).unwrap();
    host.set_password("core", "$6$new").unwrap();
    assert_eq!(std::fs::read_to_string(&shadow).unwrap(), "root:*:1:2\ncore:$6$new:3:4:5\n");
    assert_eq!(host.user("core").unwrap().unwrap().password, "$6$new");
    assert!(host.set_password("missing-user", "x").is_err());
    assert!(host.set_password("core", "a:b").is_err());
}
