//! What the machine booted, and what it should boot next.

use serde::{Deserialize, Serialize};

/// What the machine booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Changes whenever the machine boots.
    pub id: String,
    /// What changes the next boot.
    pub driver: Driver,
    /// The image of the operating system, where it is one.
    pub image: Option<String>,
    /// The kernel's command line.
    pub arguments: Vec<String>,
    /// The flavour of the kernel.
    pub kernel: Kernel,
    /// Packages that were added to the image by request.
    pub packages: Vec<String>,
    /// Whether the kernel restricts cryptography to what FIPS allows.
    pub is_fips: bool,
}

/// What changes the next boot of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// `rpm-ostree`: image, kernel arguments, kernel, packages.
    RpmOstree,
    /// `bootc`: image only.
    Bootc,
    /// `grubby`: kernel arguments only.
    Grubby,
    /// `update-grub`: kernel arguments only.
    UpdateGrub,
    /// Nothing that is known.
    None,
}

impl Driver {
    /// Its name for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Driver::RpmOstree => "rpm-ostree",
            Driver::Bootc => "bootc",
            Driver::Grubby => "grubby",
            Driver::UpdateGrub => "update-grub",
            Driver::None => "nothing",
        }
    }
}

/// A flavour of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kernel {
    /// The usual one.
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

/// What the next boot should have that this one has not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootChange {
    /// Another image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Kernel arguments that go, one by one.
    pub delete: Vec<String>,
    /// Kernel arguments that come, in order.
    pub append: Vec<String>,
    /// Another kernel: the one that goes and the one that comes. With another image the same one may come anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<(Kernel, Kernel)>,
    /// Packages that come.
    pub install: Vec<String>,
    /// Packages that go.
    pub uninstall: Vec<String>,
    /// The image that has the packages in it; without one they come from where the machine gets its packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions_image: Option<String>,
}

impl BootChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The arguments in a command line of the kernel. Blanks part them, double quotes protect blanks and stay.
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
