//! Boot: what a machine has booted, and changes of its next boot.

use serde::{Deserialize, Serialize};

/// What a machine has booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Changes with each boot.
    pub id: String,
    pub driver: BootDriver,
    /// The image of the operating system, if it boots from one.
    pub image: Option<String>,
    /// The kernel's command line.
    pub arguments: Vec<String>,
    pub kernel: Kernel,
    /// Packages that were added to the image by request.
    pub packages: Vec<String>,
    /// Whether the kernel restricts cryptography to what FIPS allows.
    pub is_fips: bool,
}

/// The program that changes the next boot of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootDriver {
    /// `rpm-ostree`: image, kernel arguments, kernel, packages.
    RpmOstree,
    /// `bootc`: image only.
    Bootc,
    /// `grubby`: kernel arguments only.
    Grubby,
    /// `update-grub`: kernel arguments only.
    UpdateGrub,
    /// None that is supported.
    None,
}

impl BootDriver {
    /// The name for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            BootDriver::RpmOstree => "rpm-ostree",
            BootDriver::Bootc => "bootc",
            BootDriver::Grubby => "grubby",
            BootDriver::UpdateGrub => "update-grub",
            BootDriver::None => "nothing",
        }
    }
}

/// A flavour of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kernel {
    #[default]
    Default,
    /// The real-time kernel.
    Realtime,
    /// The one with pages of 64 KiB.
    Pages64k,
}

impl Kernel {
    /// The packages of the flavour.
    ///
    /// Compat: machine-config-operator, `pkg/daemon/update.go`.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Kernel::Default => {
                &["kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"]
            }
            Kernel::Realtime => &["kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-extra"],
            Kernel::Pages64k => {
                &["kernel-64k-core", "kernel-64k-modules", "kernel-64k-modules-core", "kernel-64k-modules-extra"]
            }
        }
    }
}

/// A change of the next boot, relative to the present one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootChange {
    /// Another image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Kernel arguments to delete, one by one.
    pub delete: Vec<String>,
    /// Kernel arguments to append, in order.
    pub append: Vec<String>,
    /// Another kernel: the old one and the new one. With another image they may be equal, to install it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<(Kernel, Kernel)>,
    pub install: Vec<String>,
    pub uninstall: Vec<String>,
    /// The image with the packages; without one they come from the machine's own repositories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions_image: Option<String>,
}

impl BootChange {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The arguments in a kernel command line. Blanks separate them; double quotes protect blanks and are kept.
pub fn arguments(line: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut argument = String::new();
    let mut is_quoted = false;
    for c in line.chars() {
        if c == '"' {
            is_quoted = !is_quoted;
        }
        if c.is_whitespace() && !is_quoted {
            if !argument.is_empty() {
                arguments.push(std::mem::take(&mut argument));
            }
        } else {
            argument.push(c);
        }
    }
    if !argument.is_empty() {
        arguments.push(argument);
    }
    arguments
}
