//! `tidegate store check`: reads every value of a store that is not in use, and compares its
//! checksums.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use tidegate::{Error, ErrorKind, Operation, Result};
use tidegate_core::printable::escaped;
use tidegate_server::store::{StoreCheck, StoreCheckReport};

use crate::args::StoreCheckArgs;
use crate::exit::Exit;
use crate::report::{self, Failure};
use crate::session::Session;
use crate::size;

/// The JSON.
#[derive(Debug, Serialize)]
struct Checked {
    store: String,
    values: u64,
    bytes: u64,
    damaged: u64,
    damaged_shards: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

pub(super) fn run(session: &Session, args: &StoreCheckArgs) -> Exit {
    let start = Instant::now();
    let store = args.folder.display().to_string();
    let found = match check(&args.folder) {
        Ok(found) => found,
        Err(error) => return session.fail(&error),
    };
    let is_damaged = found.damaged > 0 || found.damaged_shards > 0;
    let damage = is_damaged.then(|| damaged(&store, &found));
    let StoreCheckReport { values, bytes, damaged, damaged_shards } = found;
    let seconds = start.elapsed().as_secs_f64();
    let error = damage.as_ref().map(Failure::new);
    let end = damage.as_ref().map_or(Exit::Success, Exit::from);
    let printed = if session.output.json {
        let checked = Checked { store, values, bytes, damaged, damaged_shards, seconds, error };
        session.json(&checked)
    } else {
        session.say(&format!(
            "{}  {} in {}, {} ({})",
            escaped(&store),
            report::count(values, "value"),
            report::seconds(seconds),
            size::human(bytes),
            size::human_rate(report::rate(bytes, seconds)),
        ));
        if let Some(error) = error {
            session.console.line(&error.text());
        }
        Exit::Success
    };
    if end == Exit::Success { printed } else { end }
}

fn check(folder: &Path) -> Result<StoreCheckReport> {
    let mut check = StoreCheck::open(folder)?;
    loop {
        let (found, is_done) = check.step()?;
        if is_done {
            return Ok(found);
        }
    }
}

fn damaged(store: &str, found: &StoreCheckReport) -> Error {
    let values = format!("{} of {} values are damaged", found.damaged, found.values);
    let message = match found.damaged_shards {
        0 => values,
        count => {
            let parts = report::count(count, "part");
            format!("{values}, and {parts} of the index, whose values are missing")
        }
    };
    Error::new(ErrorKind::Integrity, Operation::Read, store, message).with_hint(
        "the store never delivers a damaged value: it is a miss, and can be put again; check the \
         disk",
    )
}
