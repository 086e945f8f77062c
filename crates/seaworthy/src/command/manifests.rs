//! `seaworthy manifests`.

use seaworthy_deploy::{Component, Settings, objects};

use crate::cli::Manifests;
use crate::failure::{Failure, OK};
use crate::{output, paint};

pub fn run(options: &Manifests) -> Result<u8, Failure> {
    if options.only.contains(&Component::Server) && options.apiserver_url.is_none() {
        return Err(Failure::unreadable(
            "--only server: the endpoint hands the API server's address to new machines; say it with --apiserver-url URL",
        ));
    }
    let settings = Settings {
        namespace: options.namespace.clone(),
        image: options.image.clone(),
        apiserver_url: options.apiserver_url.clone(),
        node_kubeconfig: options.node_kubeconfig.clone(),
        components: if options.only.is_empty() { Component::ALL.into() } else { options.only.clone() },
    };
    output::objects(&objects(&settings), options.output)?;
    if settings.deployed().count() < settings.components.len() {
        paint::note("the Ignition endpoint is left out: it needs --apiserver-url URL");
    }
    Ok(OK)
}
