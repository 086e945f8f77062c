//! Extensions image: the packages of extensions and other kernels, as a repository while a deployment is created from them.
//!
//! Compat: machine-config-operator, `pkg/daemon/update.go`, for where the packages lie in the image.

use super::LinuxHost;
use crate::{Attributes, Host as _, HostError};

/// The repository.
const REPOSITORY: &str = "/etc/yum.repos.d/seaworthy-extensions.repo";
/// The unpacked packages. Differs: on the disk, because upstream uses a tmpfs, and they are hundreds of megabytes.
const FOLDER: &str = "/var/lib/seaworthy/extensions";
/// Their folder in the image.
const IN_IMAGE: &str = "/usr/share/rpm-ostree/extensions";
/// The container that they are copied from; nothing runs in it.
const CONTAINER: &str = "seaworthy-extensions";
/// Credentials for the image.
const PULL_SECRET: &str = "/var/lib/kubelet/config.json";

/// Unpacks the image and has packages taken from it.
pub(super) fn enable(host: &LinuxHost, image: &str) -> Result<(), HostError> {
    if !host.has("podman")? {
        return Err(HostError::Unsupported {
            what: format!("unpack the image of extensions {image}"),
            why: "podman is needed for it".to_owned(),
        });
    }
    host.make_directory(FOLDER, Attributes::of_root(0o755))?;
    let is_there = host.programs.run("podman", &["image", "exists", image])?.is_success();
    if !is_there {
        let mut pull = vec!["pull", "--quiet"];
        if host.exists(PULL_SECRET)? {
            pull.extend(["--authfile", PULL_SECRET]);
        }
        pull.push(image);
        host.must("podman", &pull)?;
    }
    let result = copy(host, image);
    // Leftovers only take space, and image garbage collection removes them: that is no reason to fail.
    let _ = host.programs.run("podman", &["rm", "--force", "--ignore", CONTAINER]);
    if !is_there {
        let _ = host.programs.run("podman", &["rmi", image]);
    }
    result?;
    let text = format!(
        "[seaworthy-extensions]\nname=Packages of {image}\nbaseurl=file://{FOLDER}\nenabled=1\ngpgcheck=0\n\
         metadata_expire=1m\nskip_if_unavailable=False\n"
    );
    host.write(REPOSITORY, text.as_bytes(), Attributes::of_root(0o644))
}

/// Removes the repository, or what a power cut has left of it.
pub(super) fn disable(host: &LinuxHost) -> Result<(), HostError> {
    host.remove(REPOSITORY)?;
    host.remove_directory(FOLDER)
}

fn copy(host: &LinuxHost, image: &str) -> Result<(), HostError> {
    host.must("podman", &["rm", "--force", "--ignore", CONTAINER])?;
    // The command is never run; a container of an image without one needs it.
    host.must("podman", &["create", "--network=none", "--name", CONTAINER, image, "none"])?;
    host.must("podman", &["cp", &format!("{CONTAINER}:{IN_IMAGE}/."), FOLDER])?;
    if host.exists("/sys/fs/selinux/enforce")? && host.has("restorecon")? {
        host.must("restorecon", &["-R", "-F", "--", FOLDER])?;
    }
    Ok(())
}
