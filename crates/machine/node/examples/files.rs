//! Times an update that adds many files beside plain writes of the same files, in turns, for `cargo xtask bench daemon`.
//!
//! `files FOLDER COUNT ROUNDS`: the folder is on the disk that is measured. Prints nanoseconds, as JSON.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::FolderHost;
use seaworthy_node::order::NextAttempt;
use seaworthy_node::{Agent, AgentOptions, Config, ConfigSpec, Order};
use serde_json::{Value, json};

/// A folder whose files need no action: neither a drain nor a reboot delays the update.
const PLACE: &str = "/etc/nmstate/openshift";
/// As large as the files of a rendered configuration are on average.
const BYTES: usize = 1200;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count, rounds] = arguments.as_slice() else { return Err("files FOLDER COUNT ROUNDS".into()) };
    let (folder, count, rounds) = (Path::new(folder), count.parse()?, rounds.parse::<usize>()?);
    let text = "x".repeat(BYTES);
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let place = folder.join(format!("plain-{round}"));
        fs::create_dir_all(&place)?;
        let start = Instant::now();
        for nth in 0..count {
            let mut file = File::create(place.join(nth.to_string()))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        plain.push(start.elapsed().as_nanos());

        let place = folder.join(format!("ours-{round}"));
        fs::create_dir_all(&place)?;
        ours.push(update(&place, count, &text)?);
    }
    println!("{}", json!({"plain": numbers(&plain)?, "ours": numbers(&ours)?}));
    Ok(())
}

/// The duration of an update that adds the files: journal, files, originals, syncs, the record of the configuration.
fn update(root: &Path, count: usize, text: &str) -> Result<u128, Box<dyn Error>> {
    let first = config("first", 0, text)?;
    let mut order = Order { desired: Some(first.clone()), current: Some(first), ..Order::default() };
    let mut agent = Agent::new(FolderHost::open(root)?, AgentOptions::default());
    follow(&mut agent, &mut order)?;
    order.desired = Some(config("many", count, text)?);
    let start = Instant::now();
    follow(&mut agent, &mut order)?;
    Ok(start.elapsed().as_nanos())
}

fn follow(agent: &mut Agent<FolderHost>, order: &mut Order) -> Result<(), Box<dyn Error>> {
    loop {
        let report = agent.sync(order, &mut |_| true);
        order.state = Some(report.state);
        match (report.state, report.next_attempt) {
            (_, NextAttempt::Now) => {}
            (State::Done, _) => return Ok(()),
            _ => return Err(report.reason.into()),
        }
    }
}

fn config(name: &str, count: usize, text: &str) -> Result<Config, serde_json::Error> {
    let source = seaworthy_ignition::data_url::encode(text.as_bytes());
    let file = |nth: usize| json!({"path": format!("{PLACE}/{nth}"), "mode": 0o644, "contents": {"source": source}});
    let files: Vec<Value> = (0..count).map(file).collect();
    let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}});
    let spec: MachineConfigSpec = serde_json::from_value(spec)?;
    Ok(Config { name: name.to_owned(), spec: ConfigSpec::Found(Arc::new(spec)), image: None })
}

/// JSON has no larger numbers.
fn numbers(all: &[u128]) -> Result<Vec<u64>, std::num::TryFromIntError> {
    all.iter().map(|number| u64::try_from(*number)).collect()
}
