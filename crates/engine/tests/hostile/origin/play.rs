//! Plays one seed and judges it.

use std::fmt::Write as _;

use tidegate_testkit::hostile::{Delivered, judge};
use tokio::runtime::Builder;

use super::choice::Way;
use super::stage::{House, Stage};
use super::{channel, file, output};

/// The number of exchanges that are printed, from the first.
const SHOWN_MAX: usize = 60;

/// How a call ended.
pub(crate) enum Outcome {
    Delivered(Delivered),
    Failed(String),
}

/// The outcome of a seed.
pub(crate) struct Played {
    pub(crate) way: &'static str,
    pub(crate) succeeded: bool,
    /// The violation, in full.
    pub(crate) wrong: Option<String>,
}

/// Plays a seed on its own clock. That clock has no limit, as it also advances while only a
/// file-system thread works.
pub(crate) fn play(house: &House, seed: u64) -> Played {
    let stage = Stage::new(house, seed);
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let outcome = runtime.block_on(async {
        tokio::select! {
            biased;
            () = stage.server.overrun() => Err("it asks again and again".to_owned()),
            outcome = run(&stage) => outcome,
        }
    });
    drop(runtime);
    let (ended, succeeded) = match &outcome {
        Ok(Outcome::Delivered(delivered)) => {
            (format!("delivered {} bytes, {delivered:?}", delivered.bytes.len()), true)
        }
        Ok(Outcome::Failed(error)) => (format!("failed: {error}"), false),
        Err(wrong) => (wrong.clone(), false),
    };
    let wrong = verdict(&stage, outcome).err().map(|wrong| {
        let mut words = format!("{}{:?}\n", stage.server.scenario().words(), stage.choice);
        for (index, exchange) in stage.server.exchanges().iter().enumerate().take(SHOWN_MAX) {
            let _ = writeln!(words, "{index}. {exchange}");
        }
        let ended: String = ended.chars().take(600).collect();
        format!("{words}{ended}\nWRONG: {wrong}")
    });
    Played { way: stage.choice.way.name(), succeeded, wrong }
}

async fn run(stage: &Stage<'_>) -> Result<Outcome, String> {
    match stage.choice.way {
        Way::File => file::once(stage).await,
        Way::Resume => file::again(stage).await,
        Way::Memory => output::memory(stage).await,
        Way::Output => output::ordered(stage).await,
        Way::Channel => channel::once(stage).await,
        Way::Restore => channel::carried(stage).await,
    }
}

fn verdict(stage: &Stage<'_>, outcome: Result<Outcome, String>) -> Result<(), String> {
    let exchanges = stage.server.exchanges();
    let scenario = stage.server.scenario();
    match outcome? {
        Outcome::Delivered(delivered) => judge(scenario, &exchanges, &delivered),
        Outcome::Failed(_) if !stage.choice.must_succeed(scenario) => Ok(()),
        Outcome::Failed(error) => Err(format!("a sound server was no success: {error}")),
    }
}
