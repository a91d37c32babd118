//! Downloads into a file: by one run, and by a second run after the first was killed or failed.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate::{Report, Target};

use super::output::{bare, delivered, options};
use super::play::Outcome;
use super::stage::Stage;
use crate::call::download;

/// The content of the target's name before, in half of all cases.
const OLD: &[u8] = b"what was there before";

/// The part file that a killed run may leave next to the target.
const PART: &str = ".target.tidegate-part";

/// Runs until a success. The first is killed or fails, the second resumes, and the third resumes
/// the second's leftovers.
const RUNS_MAX: u64 = 3;

/// Scheduler turns before a run is killed. By then each task has received everything that was sent
/// to it. The clock must not advance meanwhile, so that nothing times out.
const TURNS: usize = 1000;

/// The most bytes that a kill tears off the end of a part file: a few records of its journal.
const TORN_BYTES_MAX: u64 = 300;

/// A folder with a target in it.
struct Place {
    folder: TempDir,
    old: Option<&'static [u8]>,
}

impl Place {
    fn new(had_target: bool) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), old: had_target.then_some(OLD) };
        if let Some(old) = place.old {
            fs::write(place.target(), old).unwrap();
        }
        place
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("target")
    }

    fn part(&self) -> PathBuf {
        self.folder.path().join(PART)
    }

    /// The content of the target's name.
    fn content(&self) -> Option<Vec<u8>> {
        fs::read(self.target()).ok()
    }

    /// A failed run leaves the target's name unchanged, and no other files.
    fn assert_failed(&self) -> Result<(), String> {
        if self.content().as_deref() != self.old {
            return Err("it failed, and the target is not what it was".to_owned());
        }
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let name = entry.unwrap().file_name();
            if name != "target" && name != PART {
                return Err(format!("it left {} behind", name.display()));
            }
        }
        Ok(())
    }

    fn succeeded(&self, stage: &Stage<'_>, report: &Report) -> Result<Outcome, String> {
        if self.part().exists() {
            return Err("it succeeded, and left its part file".to_owned());
        }
        let bytes = self.content().ok_or("it succeeded, and there is no target")?;
        delivered(&stage.choice, report, bytes)
    }
}

/// One run.
pub(crate) async fn once(stage: &Stage<'_>) -> Result<Outcome, String> {
    let place = Place::new(stage.choice.had_target);
    match run(stage, &place.target()).await {
        Ok(report) => place.succeeded(stage, &report),
        Err(error) => {
            place.assert_failed()?;
            Ok(Outcome::Failed(error.chain()))
        }
    }
}

async fn run(stage: &Stage<'_>, target: &Path) -> tidegate::Result<Report> {
    let target = Target::File(target.to_path_buf());
    download(&stage.locate()?, target, &options(&stage.choice)).await
}

/// A run that is killed midway, if it gets that far, and later runs.
pub(crate) async fn again(stage: &Stage<'_>) -> Result<Outcome, String> {
    stage.server.hold();
    let place = Place::new(stage.choice.had_target);
    if let Some(report) = killed(stage, &place).await? {
        return place.succeeded(stage, &report);
    }
    if place.content().as_deref() != place.old {
        // The run was killed after its last step.
        let content = place.content().unwrap_or_default();
        return Ok(Outcome::Delivered(bare(&stage.choice, content)));
    }
    let mut last = String::new();
    for _ in 1..RUNS_MAX {
        stage.server.next_run();
        place.assert_failed()?;
        match run(stage, &place.target()).await {
            Ok(report) => return place.succeeded(stage, &report),
            Err(error) => last = error.chain(),
        }
    }
    place.assert_failed()?;
    Ok(Outcome::Failed(last))
}

/// The first run. Returns its report if it succeeds before it is killed.
async fn killed(stage: &Stage<'_>, place: &Place) -> Result<Option<Report>, String> {
    let Ok(location) = stage.locate() else { return Ok(None) };
    let options = options(&stage.choice);
    let mut download = Box::pin(download(&location, Target::File(place.target()), &options));
    let held = async {
        stage.server.held().await;
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        outcome = &mut download => return Ok(outcome.ok()),
        () = held => {}
    }
    match stage.choice.variant % 3 {
        // Cancelled: the bytes that have arrived are written first.
        0 => {
            options.cancel.cancel();
            return Ok(download.await.ok());
        }
        // Dropped. Or dropped as by SIGKILL, so that the last records of the journal never reached
        // the disk.
        kind => {
            drop(download);
            let part = place.part();
            let torn = if kind == 1 { 0 } else { stage.choice.variant / 3 % TORN_BYTES_MAX };
            tokio::task::spawn_blocking(move || tear(&part, torn)).await.unwrap();
        }
    }
    Ok(None)
}

/// Cuts bytes off the end of a part file after the run that wrote it has released it.
fn tear(part: &Path, bytes: u64) {
    let Ok(file) = fs::OpenOptions::new().write(true).open(part) else { return };
    file.lock().unwrap();
    // The run may have ended before it was dropped.
    if part.exists() {
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(bytes)).unwrap();
    }
}
