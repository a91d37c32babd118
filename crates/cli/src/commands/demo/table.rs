//! The table at the end of the demo.

use std::fmt::Write as _;

use serde::Serialize;

use super::interruption::{Caught, Resumption};
use crate::report::{self, Done};
use crate::size;

/// The runs compared.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    bytes: u64,
    runs: Vec<Run>,
    /// Time of the first run divided by the time of the last.
    speed_up: f64,
    resumed: Resumption,
    caught: Caught,
}

#[derive(Debug, Serialize)]
struct Run {
    name: &'static str,
    #[serde(flatten)]
    done: Done,
}

impl Table {
    pub(super) fn new(
        bytes: u64,
        runs: Vec<(&'static str, Done)>,
        resumed: Resumption,
        caught: Caught,
    ) -> Self {
        let seconds = |run: Option<&(&str, Done)>| run.map_or(0.0, |(_, done)| done.seconds);
        let speed_up = seconds(runs.first()) / seconds(runs.last()).max(1e-6);
        let runs = runs.into_iter().map(|(name, done)| Run { name, done }).collect();
        Self { bytes, runs, speed_up, resumed, caught }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "\n{} from a server in this process: 20 ms before each answer, 100 MiB/s a \
             connection,\nand four connections cut on the way\n\n",
            size::human(self.bytes)
        );
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{:<18}{:>8}{:>13}{:>10}{:>10}  verified by",
            "", "time", "rate", "requests", "restarts"
        );
        for Run { name, done } in &self.runs {
            let _ = writeln!(
                text,
                "{:<18}{:>8}{:>13}{:>10}{:>10}  {}",
                name,
                report::seconds(done.seconds),
                size::human_rate(report::rate(done.bytes, done.seconds)),
                done.requests,
                done.restarts,
                done.verified.join(", "),
            );
        }
        let _ = writeln!(text, "\n{:.1} times as fast in shards", self.speed_up);
        let Resumption { killed_after_bytes, resumed_bytes, verified } = &self.resumed;
        let _ = writeln!(
            text,
            "\na copy killed (SIGKILL) after {}, run again: {} already on disk, verified {}",
            size::human(*killed_after_bytes),
            size::human_part(*resumed_bytes, self.bytes),
            verified.join(", "),
        );
        let Caught { flipped_at, error } = &self.caught;
        let _ = writeln!(
            text,
            "one bit flipped at {}, on the way: caught, and no file is left\n  {error}",
            size::human(*flipped_at),
        );
        text
    }
}
