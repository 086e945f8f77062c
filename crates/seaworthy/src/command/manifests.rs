//! `seaworthy manifests`: everything that an installation needs in a cluster.

use seaworthy_controllers::operators;
use seaworthy_deploy::{Component, DeploymentOptions, objects};

use crate::cli::Manifests;
use crate::failure::{EXIT_OK, Failure};
use crate::{output, terminal};

pub fn run(options: &Manifests) -> Result<u8, Failure> {
    if options.only.contains(&Component::Server) && options.apiserver_url.is_none() {
        return Err(Failure::invalid(
            "--only server requires --apiserver-url URL, which the endpoint passes to new machines",
        ));
    }
    let settings = settings(options);
    let operators = operators::manifests(&settings.namespace);
    output::objects(&objects(&settings, &operators), options.output)?;
    if settings.deployed().count() < settings.components.len() {
        terminal::note("the Ignition endpoint is left out: it requires --apiserver-url URL");
    }
    Ok(EXIT_OK)
}

fn settings(options: &Manifests) -> DeploymentOptions {
    DeploymentOptions {
        namespace: options.namespace.clone(),
        image: options.image.clone(),
        apiserver_url: options.apiserver_url.clone(),
        node_kubeconfig: options.node_kubeconfig.clone(),
        components: if options.only.is_empty() { Component::ALL.into() } else { options.only.clone() },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn uninstalling_as_the_page_says_leaves_no_component_behind() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/uninstall.md")).unwrap();
        let section = page.split("# Uninstall").nth(1).unwrap();
        let line = section.lines().find(|line| line.contains("seaworthy manifests")).unwrap();
        let (words, rest) = line.split_once(" | ").unwrap();
        assert!(rest.starts_with("kubectl delete"), "{line}");
        let Command::Manifests(options) = Cli::parse_from(words.split_whitespace()).command else { panic!("{words}") };
        assert_eq!(settings(&options).deployed().collect::<Vec<_>>(), Component::ALL);
    }
}
