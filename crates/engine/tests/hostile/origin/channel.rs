//! Reads through a channel: by one process, and by a second one that continues from a captured
//! state.

use std::time::Duration;

use tidegate::Location;
use tidegate::read::{ReadChannel, ReadState, Verification, Verify};
use tidegate_testkit::hostile::Delivered;
use tokio::io::AsyncReadExt as _;

use super::choice::{Choice, named};
use super::output::bare;
use super::play::Outcome;
use super::stage::Stage;
use crate::call::ReadOptions;

/// A time on the paused clock, which advances only when all tasks are idle. So the client has
/// received everything that was sent before the clock advances. Shorter than the stall timeout.
const QUIET: Duration = Duration::from_secs(5);

/// Processes that take part in a read, the first included.
const PROCESSES_MAX: usize = 3;

fn options(choice: &Choice) -> ReadOptions {
    ReadOptions {
        range: choice.range(),
        verify: match choice.expected() {
            Some(expected) => Verify::Against(expected),
            None => Verify::Stored,
        },
        retry: choice.retry(),
        buffer_bytes: Some(if choice.variant & 1 == 0 { 0 } else { 64 << 10 }),
        budget: Stage::budget(),
        ..ReadOptions::default()
    }
}

/// Reads until the end, until `stop` bytes are there, or until an error.
async fn read(
    channel: &mut ReadChannel,
    bytes: &mut Vec<u8>,
    stop: usize,
    in_pieces: bool,
) -> Result<bool, String> {
    while bytes.len() < stop {
        if in_pieces {
            let mut piece = [0; 700];
            let room = piece.len().min(stop - bytes.len());
            let count =
                channel.read(&mut piece[..room]).await.map_err(|error| error.to_string())?;
            bytes.extend_from_slice(&piece[..count]);
            if count == 0 {
                return Ok(true);
            }
        } else {
            match channel.next().await.map_err(|error| error.chain())? {
                Some(piece) => bytes.extend_from_slice(&piece),
                None => return Ok(true),
            }
        }
    }
    Ok(false)
}

/// The outcome that a channel reports at its end.
async fn delivered(
    stage: &Stage<'_>,
    channel: &mut ReadChannel,
    bytes: Vec<u8>,
) -> Result<Outcome, String> {
    let verified = match channel.verified() {
        Verification::Verified(sum) => {
            vec![(sum.algorithm().name().to_owned(), sum.as_bytes().to_vec())]
        }
        Verification::Mismatch { .. } => return Err("the end of what is damaged".to_owned()),
        _ => Vec::new(),
    };
    // A channel that was restored at the end has sent no request yet, and its request may be
    // refused.
    let version = channel.info().await.ok().and_then(|info| info.version.clone());
    let named = named(version.as_ref());
    Ok(Outcome::Delivered(Delivered { named, verified, ..bare(&stage.choice, bytes) }))
}

/// One process.
pub(crate) async fn once(stage: &Stage<'_>) -> Result<Outcome, String> {
    let location = match stage.locate() {
        Ok(location) => location,
        Err(error) => return Ok(Outcome::Failed(error.chain())),
    };
    let mut channel = crate::call::read(location, options(&stage.choice));
    let mut bytes = Vec::new();
    let in_pieces = stage.choice.variant & 2 == 0;
    match read(&mut channel, &mut bytes, usize::MAX, in_pieces).await {
        Ok(_) => delivered(stage, &mut channel, bytes).await,
        Err(error) => Ok(Outcome::Failed(error)),
    }
}

/// Processes in sequence. The first one reads until it fails, until the server is silent, or until
/// it has read enough. Then the channel is captured, and the next process continues.
pub(crate) async fn carried(stage: &Stage<'_>) -> Result<Outcome, String> {
    stage.server.hold();
    let location = match stage.locate() {
        Ok(location) => location,
        Err(error) => return Ok(Outcome::Failed(error.chain())),
    };
    let mut channel = crate::call::read(location, options(&stage.choice));
    let mut bytes = Vec::new();
    let mut last = "the first process was captured".to_owned();
    for process in 0..PROCESSES_MAX {
        let is_first = process == 0;
        let enough = usize::try_from(stage.choice.carried_after).unwrap_or(0);
        let stop = if is_first { enough } else { usize::MAX };
        let held = async {
            stage.server.held().await;
            tokio::time::sleep(QUIET).await;
        };
        tokio::select! {
            biased;
            outcome = read(&mut channel, &mut bytes, stop, stage.choice.variant & 2 == 0) => {
                match outcome {
                    Ok(true) => return delivered(stage, &mut channel, bytes).await,
                    Ok(false) => {}
                    Err(error) => last = error,
                }
            }
            // CANCEL: the bytes that were read are in `bytes`. A dropped read loses nothing.
            () = held, if is_first => {}
        }
        let Ok(captured) = channel.capture() else { return Ok(Outcome::Failed(last)) };
        stage.server.next_run();
        let Ok(location) = stage.locate() else { return Ok(Outcome::Failed(last)) };
        channel = match restored(&location, &captured, &stage.choice) {
            Ok(channel) => channel,
            Err(wrong) => return Err(wrong),
        };
    }
    Ok(Outcome::Failed(last))
}

/// Restores from text, as another process would.
fn restored(
    location: &Location,
    state: &ReadState,
    choice: &Choice,
) -> Result<ReadChannel, String> {
    let read: ReadState =
        state.to_string().parse().map_err(|error| format!("{state}: {error:?}"))?;
    let restored = crate::call::client_with(&Stage::budget()).restore(location, &read);
    restored.retry(choice.retry()).open().map_err(|error| error.chain())
}
