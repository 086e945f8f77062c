//! What a machine has booted of that which configurations choose, and the way from there to what it should boot.
//!
//! A machine may boot into part of a change. What is prepared then, on or back, starts from what is there: nothing comes twice,
//! and nothing is taken for old because it was booted.

use std::collections::BTreeSet;

use seaworthy_host::{Boot, BootChange, Driver, Kernel};
use serde::{Deserialize, Serialize};

/// What a machine has booted, or should boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Booted {
    /// The image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The kernel's arguments.
    pub arguments: Vec<String>,
    /// The kernel.
    pub kernel: Kernel,
    /// Packages that were added by request.
    pub packages: Vec<String>,
    /// The image that packages come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions_image: Option<String>,
}

impl From<&Boot> for Booted {
    fn from(boot: &Boot) -> Self {
        Booted {
            image: boot.image.clone(),
            arguments: boot.arguments.clone(),
            kernel: boot.kernel,
            packages: boot.packages.clone(),
            extensions_image: None,
        }
    }
}

impl Booted {
    /// What becomes of it by a change.
    pub fn after(mut self, change: &BootChange) -> Self {
        if change.image.is_some() {
            self.image = change.image.clone();
        }
        for gone in &change.delete {
            if let Some(at) = self.arguments.iter().position(|argument| argument == gone) {
                self.arguments.remove(at);
            }
        }
        self.arguments.extend(change.append.iter().cloned());
        if let Some((_, kernel)) = change.kernel {
            self.kernel = kernel;
        }
        self.packages.retain(|package| !change.uninstall.contains(package));
        self.packages.extend(change.install.iter().cloned());
        self.extensions_image = change.extensions_image.clone();
        self
    }
}

/// What a boot lacks to be what it should be, each as some words. Only that is looked at which `about` is about: the rest is
/// none of our business.
pub fn lacking(boot: &Boot, goal: &Booted, about: &BootChange) -> Vec<String> {
    let mut lacking = Vec::new();
    if let Some(image) = goal.image.as_ref().filter(|_| about.image.is_some() && boot.image != goal.image) {
        lacking.push(format!("image {image}"));
    }
    lacking.extend(lacking_arguments(boot, goal, about));
    if about.kernel.is_some() && boot.kernel != goal.kernel {
        lacking.push(format!("kernel {:?}", goal.kernel));
    }
    let (install, uninstall) = packages(boot, goal, about);
    lacking.extend(install.iter().map(|it| format!("package {it}")));
    lacking.extend(uninstall.iter().map(|it| format!("a boot without package {it}")));
    lacking
}

/// The change that leads from a boot to what it should be, as far as `about` is about it; empty if nothing is lacking.
pub fn way(boot: &Boot, goal: &Booted, about: &BootChange) -> BootChange {
    if lacking(boot, goal, about).is_empty() {
        return BootChange::default();
    }
    let image = goal.image.clone().filter(|_| about.image.is_some() && boot.image != goal.image);
    let (mut delete, mut append) = (Vec::new(), Vec::new());
    if !lacking_arguments(boot, goal, about).is_empty() {
        // All that is there goes and all that should be there comes, so that none is there twice and the order is right.
        let ours = arguments(about);
        let of = |list: &[String]| list.iter().filter(|argument| ours.contains(argument)).cloned().collect();
        (delete, append) = (of(&boot.arguments), of(&goal.arguments));
    }
    let is_kernel_new = boot.kernel != goal.kernel || (image.is_some() && goal.kernel != Kernel::Default);
    let kernel = (about.kernel.is_some() && is_kernel_new).then_some((boot.kernel, goal.kernel));
    let (install, uninstall) = packages(boot, goal, about);
    let mut way = BootChange { image, delete, append, kernel, install, uninstall, extensions_image: None };
    if needs_packages(&way) {
        way.extensions_image = goal.extensions_image.clone();
    }
    way
}

/// Whether the packages that a machine has beside its image are put together anew for a change.
pub fn needs_packages(change: &BootChange) -> bool {
    change.image.is_some() || change.kernel.is_some() || !(change.install.is_empty() && change.uninstall.is_empty())
}

/// Whether what a driver prepares starts from what is booted. A boot loader's menu starts from what the menu was.
pub fn starts_from_boot(driver: Driver) -> bool {
    matches!(driver, Driver::RpmOstree | Driver::Bootc)
}

/// The arguments that a change is about.
fn arguments(about: &BootChange) -> BTreeSet<&String> {
    about.delete.iter().chain(&about.append).collect()
}

/// Too few are lacking only where there is none: some boot loaders keep no second one. Too many are always too many.
fn lacking_arguments(boot: &Boot, goal: &Booted, about: &BootChange) -> Vec<String> {
    let count = |list: &[String], one: &String| list.iter().filter(|it| *it == one).count();
    let mut lacking = Vec::new();
    for argument in arguments(about) {
        let (there, wanted) = (count(&boot.arguments, argument), count(&goal.arguments, argument));
        if there == 0 && wanted > 0 {
            lacking.push(format!("kernel argument {argument}"));
        } else if there > wanted {
            lacking.push(format!("a boot without kernel argument {argument}"));
        }
    }
    lacking
}

/// The packages that come and those that go.
fn packages(boot: &Boot, goal: &Booted, about: &BootChange) -> (Vec<String>, Vec<String>) {
    let ours: BTreeSet<&String> = about.install.iter().chain(&about.uninstall).collect();
    let only = |here: &[String], not_there: &[String]| {
        here.iter().filter(|package| ours.contains(package) && !not_there.contains(package)).cloned().collect()
    };
    (only(&goal.packages, &boot.packages), only(&boot.packages, &goal.packages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    fn boot(image: &str, arguments: &[&str], kernel: Kernel, packages: &[&str]) -> Boot {
        Boot {
            id: "1".to_owned(),
            driver: Driver::RpmOstree,
            image: Some(image.to_owned()),
            arguments: texts(arguments),
            kernel,
            packages: texts(packages),
            is_fips: false,
        }
    }

    fn change() -> BootChange {
        BootChange {
            image: Some("new".to_owned()),
            delete: texts(&["a=1"]),
            append: texts(&["b=2", "c=3"]),
            kernel: Some((Kernel::Default, Kernel::Realtime)),
            install: texts(&["sysstat"]),
            uninstall: texts(&["usbguard"]),
            extensions_image: Some("new-extensions".to_owned()),
        }
    }

    fn old() -> Boot {
        boot("old", &["root", "a=1"], Kernel::Default, &["vim", "usbguard"])
    }

    #[test]
    fn on_from_part_of_a_change_only_the_rest_comes_and_nothing_twice() {
        let (change, goal) = (change(), Booted::from(&old()).after(&change()));
        let part = boot("new", &["root", "b=2"], Kernel::Default, &["vim", "sysstat", "usbguard"]);
        let rest = way(&part, &goal, &change);
        assert_eq!((rest.image, rest.kernel), (None, Some((Kernel::Default, Kernel::Realtime))));
        assert_eq!((rest.delete, rest.append), (texts(&["b=2"]), texts(&["b=2", "c=3"])));
        assert_eq!((rest.install, rest.uninstall), (texts(&[]), texts(&["usbguard"])));
        assert_eq!(rest.extensions_image.as_deref(), Some("new-extensions"));
    }

    #[test]
    fn back_from_part_of_a_change_exactly_that_part_goes() {
        let (change, mut goal) = (change(), Booted::from(&old()));
        goal.extensions_image = Some("old-extensions".to_owned());
        let part = boot("new", &["root", "b=2"], Kernel::Realtime, &["vim", "sysstat"]);
        let back = way(&part, &goal, &change);
        assert_eq!((back.image.as_deref(), back.kernel), (Some("old"), Some((Kernel::Realtime, Kernel::Default))));
        assert_eq!((back.delete, back.append), (texts(&["b=2"]), texts(&["a=1"])));
        assert_eq!((back.install, back.uninstall), (texts(&["usbguard"]), texts(&["sysstat"])));
        assert_eq!(back.extensions_image.as_deref(), Some("old-extensions"));
        assert!(way(&old(), &goal, &change).is_empty());
    }

    #[test]
    fn what_a_change_is_not_about_is_nobodys_business() {
        let about = BootChange { append: texts(&["b=2"]), ..BootChange::default() };
        let goal = Booted::from(&old()).after(&about);
        let other = boot("other", &["root", "x", "b=2"], Kernel::Pages64k, &[]);
        assert_eq!(lacking(&other, &goal, &about), texts(&[]));
        assert!(way(&other, &goal, &about).is_empty());
    }

    #[test]
    fn a_second_one_of_the_same_argument_is_too_many_and_one_for_two_is_enough() {
        let about = BootChange { append: texts(&["quiet"]), ..BootChange::default() };
        let goal = Booted { arguments: texts(&["quiet", "quiet"]), ..Booted::default() };
        assert!(lacking(&boot("i", &["quiet"], Kernel::Default, &[]), &goal, &about).is_empty());
        assert!(!lacking(&boot("i", &["quiet"; 3], Kernel::Default, &[]), &goal, &about).is_empty());
        assert!(!lacking(&boot("i", &[], Kernel::Default, &[]), &goal, &about).is_empty());
    }
}
