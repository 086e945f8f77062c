//! The pure half of remote content, with answers made by hand: nothing is fetched.

mod bodies;
mod configs;
mod provenance;
mod settings;
mod snapshots;

use std::collections::BTreeMap;

use seaworthy_fetch::{FailureKind, FetchError, redact};
use seaworthy_render::Finding;
use seaworthy_render::remote::ContentRequest;
use serde_json::{Value, json};

use crate::support::*;

/// What lies where.
#[derive(Default)]
struct Web(BTreeMap<String, Vec<u8>>);

impl Web {
    fn with(mut self, url: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.insert(url.to_owned(), bytes.into());
        self
    }

    /// A config of 3.5.0 with these sections lies there.
    fn config(self, url: &str, sections: Value) -> Self {
        self.with(url, with_version("3.5.0", sections).to_string())
    }

    fn answer(&self, wanted: &ContentRequest) -> Result<Vec<u8>, FetchError> {
        let url = &wanted.request.url;
        self.0.get(url).cloned().ok_or_else(|| failure(url, FailureKind::NotFound))
    }

    /// Renders the worker pool.
    fn try_render(&self, manifests: &[Value]) -> (Result<Outcome, Vec<Finding>>, Rounds) {
        try_render_with(&worker(), manifests, &context(), &|wanted| self.answer(wanted))
    }

    fn render(&self, manifests: &[Value]) -> Outcome {
        self.try_render(manifests).0.unwrap_or_else(|findings| panic!("{}", shown(&findings)))
    }

    fn refused(&self, manifests: &[Value]) -> Vec<Finding> {
        match self.try_render(manifests).0 {
            Err(findings) => findings,
            Ok(outcome) => panic!("it is accepted: {}", outcome.spec),
        }
    }
}

fn failure(url: &str, kind: FailureKind) -> FetchError {
    FetchError { url: redact(url), redirected_to: None, attempts: 1, kind }
}

/// The sections of a config that refers to others.
fn merging(urls: &[&str]) -> Value {
    let merge: Vec<Value> = urls.iter().map(|url| json!({"source": url})).collect();
    json!({"ignition": {"config": {"merge": merge}}})
}

/// A MachineConfig that refers to others and has a section of its own.
fn referring(urls: &[&str], storage: Value) -> Value {
    let mut sections = merging(urls);
    sections["storage"] = storage;
    ign("00", sections)
}

/// The sources of the files of a result, by path.
fn sources(outcome: &Outcome) -> BTreeMap<&str, &str> {
    let files = outcome.files().as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().map(|file| (text(&file["path"]), text(&file["contents"]["source"]))).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The URLs that were asked for, round by round.
fn urls(rounds: &Rounds) -> Vec<Vec<&str>> {
    rounds.iter().map(|round| round.iter().map(|wanted| wanted.request.url.as_str()).collect()).collect()
}
