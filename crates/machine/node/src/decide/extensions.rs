//! Extensions of the operating system, and their packages.

use std::collections::BTreeSet;

/// Packages by extension.
///
/// Compat: machine-config-operator, `pkg/controller/common/helpers.go`.
const EXTENSIONS: [(&str, &[&str]); 7] = [
    ("two-node-ha", &["pacemaker", "pcs", "fence-agents-all"]),
    ("ipsec", &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"]),
    ("usbguard", &["usbguard"]),
    ("kerberos", &["krb5-workstation", "libkadm5"]),
    ("kernel-devel", &["kernel-devel", "kernel-headers"]),
    ("sandboxed-containers", &["kata-containers"]),
    ("sysstat", &["sysstat"]),
];
/// The package that older machines do not have for `ipsec`.
const IPSEC_ADDED: &str = "openvswitch3.5-ipsec";

pub fn packages(extension: &str) -> Option<&'static [&'static str]> {
    EXTENSIONS.iter().find(|(name, _)| *name == extension).map(|(_, packages)| *packages)
}

/// The names in a list that are not extensions.
pub fn unknown(extensions: &[String]) -> Vec<&str> {
    extensions.iter().map(String::as_str).filter(|name| packages(name).is_none()).collect()
}

/// The packages to install and to uninstall so that the machine has these extensions; packages of no extension stay.
pub fn change(wanted: &[String], installed: &[String]) -> (Vec<String>, Vec<String>) {
    let required: BTreeSet<&str> = wanted.iter().filter_map(|name| packages(name)).flatten().copied().collect();
    let managed: BTreeSet<&str> = EXTENSIONS.iter().flat_map(|(_, packages)| packages.iter().copied()).collect();
    let installed: BTreeSet<&str> = installed.iter().map(String::as_str).collect();
    let texts = |list: Vec<&&str>| list.into_iter().map(|text| (*text).to_owned()).collect();
    let install = required.iter().filter(|package| !installed.contains(**package)).collect();
    let uninstall =
        installed.iter().filter(|package| managed.contains(**package) && !required.contains(**package)).collect();
    (texts(install), texts(uninstall))
}

/// The extensions that packages belong to.
pub fn of_packages(packages: &[String]) -> Vec<String> {
    let has_any = |own: &[&str]| own.iter().any(|package| packages.iter().any(|it| it == package));
    EXTENSIONS.iter().filter(|(_, own)| has_any(own)).map(|(name, _)| (*name).to_owned()).collect()
}

/// The packages that the machine lacks; the older set of `ipsec` is sufficient.
pub fn missing(wanted: &[String], installed: &[String]) -> Vec<&'static str> {
    let is_there = |package: &str| installed.iter().any(|there| there == package);
    let required = wanted.iter().filter_map(|name| packages(name)).flatten().copied();
    required.filter(|package| !is_there(package) && *package != IPSEC_ADDED).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[rstest]
    #[case(&["sysstat"], &[], &["sysstat"], &[])]
    #[case(&[], &["sysstat"], &[], &["sysstat"])]
    #[case(&["ipsec"], &["sysstat"], &["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"], &["sysstat"])]
    #[case(&["sysstat"], &["vim", "sysstat"], &[], &[])]
    #[case(&[], &["vim"], &[], &[])]
    fn d27_packages_come_and_go_with_their_extension_and_foreign_ones_stay(
        #[case] wanted: &[&str],
        #[case] installed: &[&str],
        #[case] install: &[&str],
        #[case] uninstall: &[&str],
    ) {
        assert_eq!(change(&texts(wanted), &texts(installed)), (texts(install), texts(uninstall)));
    }

    #[rstest]
    #[case(&["NetworkManager-libreswan", "libreswan"], 0)]
    #[case(&["NetworkManager-libreswan", "libreswan", "openvswitch3.5-ipsec"], 0)]
    #[case(&["libreswan"], 1)]
    fn d28_ipsec_is_there_with_the_older_set_and_with_the_current_one(
        #[case] installed: &[&str],
        #[case] lacking: usize,
    ) {
        assert_eq!(missing(&texts(&["ipsec"]), &texts(installed)).len(), lacking);
    }
}
