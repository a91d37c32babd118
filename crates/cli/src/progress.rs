//! The progress display of a transfer: a bar on a terminal, or a line every few seconds if standard
//! error is a file or a log.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tidegate::Progress;
use tokio::task::JoinHandle;

use crate::console::Console;
use crate::report::count;
use crate::size;
use crate::terminal;

/// Fast enough for smooth motion, slow enough to cost no measurable time.
const FRAME: Duration = Duration::from_millis(100);
/// Keeps a log short; a transfer that ends before this writes no line at all.
const LINE: Duration = Duration::from_secs(5);
/// The displayed rate is the average of this long: a shorter window makes it jump, a longer one
/// makes it lag.
const RATE_WINDOW: Duration = Duration::from_secs(4);

/// Counters of one blob, or of all of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Total {
    /// `None` until the length of every blob is known.
    len_bytes: Option<u64>,
    done_bytes: u64,
    /// Bytes that were reused instead of fetched.
    reused_bytes: u64,
    in_flight: u64,
    restarts: u64,
}

/// A display on standard error that follows a transfer until [`Display::end`].
#[derive(Debug)]
pub(crate) struct Display {
    console: Console,
    task: JoinHandle<()>,
}

impl Display {
    /// Follows `blobs`: with a bar on a terminal, otherwise with lines.
    pub(crate) fn start(console: &Console, blobs: Vec<Arc<Progress>>) -> Self {
        let follower = Follower { blobs, meter: Meter::default(), start: Instant::now() };
        let task = if Console::is_terminal() {
            tokio::spawn(follower.draw(console.clone()))
        } else {
            tokio::spawn(follower.log(console.clone()))
        };
        Self { console: console.clone(), task }
    }

    /// Removes everything that was drawn.
    pub(crate) async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
        self.console.clear();
    }
}

struct Follower {
    blobs: Vec<Arc<Progress>>,
    meter: Meter,
    start: Instant,
}

impl Follower {
    async fn draw(mut self, console: Console) {
        let bar = ProgressBar::with_draw_target(Some(0), terminal::target());
        console.show(&bar);
        let mut known = false;
        let mut ticks = tokio::time::interval(FRAME);
        loop {
            ticks.tick().await;
            let (total, rate) = self.sample();
            if let Some(len) = total.len_bytes {
                if !known {
                    // The template is a constant; if it were wrong, the bar would only look plain.
                    if let Ok(style) = ProgressStyle::with_template("{wide_bar:.cyan/dim} {msg}") {
                        bar.set_style(style.progress_chars("━╸─"));
                    }
                    known = true;
                }
                bar.set_length(len);
            } else if !known && let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
                known = false;
            }
            bar.set_position(total.done_bytes);
            bar.set_message(describe(&total, rate));
            bar.tick();
        }
    }

    async fn log(mut self, console: Console) {
        let mut frames: u32 = 0;
        let mut ticks = tokio::time::interval(FRAME);
        loop {
            ticks.tick().await;
            let (total, rate) = self.sample();
            frames += 1;
            if FRAME * frames > LINE {
                frames = 1;
                console.line(&describe(&total, rate));
            }
        }
    }

    fn sample(&mut self) -> (Total, Option<f64>) {
        let total = total(&self.blobs);
        let fetched = total.done_bytes.saturating_sub(total.reused_bytes);
        (total, self.meter.sample(self.start.elapsed(), fetched))
    }
}

fn total(blobs: &[Arc<Progress>]) -> Total {
    let mut total = Total { len_bytes: Some(0), ..Total::default() };
    for blob in blobs {
        let blob = blob.snapshot();
        total.len_bytes = total.len_bytes.zip(blob.len_bytes).map(|(a, b)| a.saturating_add(b));
        total.done_bytes += blob.done_bytes + blob.going_bytes;
        total.reused_bytes += blob.reused_bytes;
        total.in_flight += u64::from(blob.in_flight);
        total.restarts += blob.restarts;
    }
    total
}

/// `1.20 GiB of 4.00 GiB, 812 MiB/s, 4 s left, 32 in flight, 2 restarts`.
fn describe(total: &Total, rate: Option<f64>) -> String {
    let mut text = size::human(total.done_bytes);
    // Writing to a String cannot fail, here and below.
    if let Some(len) = total.len_bytes {
        let _ = write!(text, " of {}", size::human(len));
    }
    if let Some(rate) = rate {
        let _ = write!(text, ", {}", size::human_rate(rate));
        if let Some(left) = left(total, rate) {
            let _ = write!(text, ", {left} left");
        }
    }
    // Each counts as one request: a shard, a chunk or a batch of chunks.
    let _ = write!(text, ", {} in flight", total.in_flight);
    if total.restarts > 0 {
        let _ = write!(text, ", {}", count(total.restarts, "restart"));
    }
    text
}

/// The remaining time at this rate: `42 s`, `3 min`, `5 h`.
fn left(total: &Total, rate: f64) -> Option<String> {
    let rest = total.len_bytes?.saturating_sub(total.done_bytes);
    if rate < 1.0 {
        return None;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; the cast saturates"
    )]
    let seconds = (rest as f64 / rate).ceil() as u64;
    Some(match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    })
}

/// The rate of the last few seconds.
#[derive(Debug, Default)]
struct Meter {
    /// Time, and the bytes fetched by then; oldest first.
    samples: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// Bytes a second up to `now`; `None` until there are enough samples.
    fn sample(&mut self, now: Duration, bytes: u64) -> Option<f64> {
        self.samples.push_back((now, bytes));
        while self.samples.get(1).is_some_and(|(time, _)| now.saturating_sub(*time) >= RATE_WINDOW)
        {
            self.samples.pop_front();
        }
        let (then, before) = *self.samples.front()?;
        let seconds = now.saturating_sub(then).as_secs_f64();
        (seconds > 0.0).then(|| crate::report::rate(bytes.saturating_sub(before), seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut meter = Meter::default();
        assert_eq!(meter.sample(Duration::ZERO, 0), None);
        assert_eq!(meter.sample(Duration::from_secs(1), 1000), Some(1000.0));
        for second in 2..=20 {
            meter.sample(Duration::from_secs(second), 1000);
        }
        assert_eq!(meter.sample(Duration::from_secs(21), 1000), Some(0.0));
    }

    #[test]
    fn a_line_tells_what_there_is_to_tell() {
        let mut total = Total { done_bytes: 1 << 30, in_flight: 1, ..Total::default() };
        assert_eq!(describe(&total, None), "1.00 GiB, 1 in flight");
        total.len_bytes = Some(4 << 30);
        total.restarts = 2;
        assert_eq!(
            describe(&total, Some(1024.0 * 1024.0 * 1024.0)),
            "1.00 GiB of 4.00 GiB, 1.00 GiB/s, 3 s left, 1 in flight, 2 restarts"
        );
        assert!(!describe(&total, Some(0.0)).contains("left"));
    }
}
