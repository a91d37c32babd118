//! The progress display of a transfer: a bar on a terminal, or a line every few seconds if standard
//! error is a file or a log.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ::console::truncate_str;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate::{Error, Progress};
use tidegate_core::printable::escaped;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::console::Console;
use crate::meter::Meter;
use crate::report::count;
use crate::size;
use crate::terminal;
use crate::transfer_events::{self, TransferEvents};

/// Fast enough for smooth motion, slow enough to cost no measurable time.
const FRAME: Duration = Duration::from_millis(100);
/// Keeps a log short; a transfer that ends before this writes no line at all.
const LINE: Duration = Duration::from_secs(5);

/// A blob of the display.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    name: String,
    progress: Arc<Progress>,
    /// Whether the transfer succeeded, once it has ended.
    outcome: Arc<OnceLock<bool>>,
    /// With `--progress json`.
    events: Option<Arc<TransferEvents>>,
}

impl Followed {
    pub(crate) fn new(name: String) -> Self {
        Self { name, progress: Arc::default(), outcome: Arc::default(), events: None }
    }

    /// The same as a transfer with events for programs, if the console is for them.
    pub(crate) fn between(self, console: &Console, source: &str, target: &str) -> Self {
        let events = console.is_json().then(|| {
            let (source, target) = (source.to_owned(), target.to_owned());
            Arc::new(TransferEvents::new(console, source, target, self.progress()))
        });
        Self { events, ..self }
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Reports that the transfer begins.
    pub(crate) fn begin(&self) {
        if let Some(events) = &self.events {
            events.begin();
        }
    }

    /// Reports the end of the transfer. From then on a failed blob counts as no longer than what
    /// arrived of it, so the total of the others stays known.
    pub(crate) fn end(&self, failure: Option<&Error>) {
        let _ = self.outcome.set(failure.is_none());
        if let Some(events) = &self.events {
            events.end(failure);
        }
    }
}

/// Counters of one blob, or of all of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Total {
    /// `None` until the length of every blob is known.
    len_bytes: Option<u64>,
    done_bytes: u64,
    /// Bytes that were reused instead of fetched.
    reused_bytes: u64,
    restarts: u64,
}

impl Total {
    fn of(blobs: &[Followed]) -> Self {
        let mut total = Self { len_bytes: Some(0), ..Self::default() };
        for followed in blobs {
            let blob = followed.progress.snapshot();
            let done_bytes = blob.done_bytes + blob.going_bytes;
            let len_bytes = match followed.outcome.get() {
                Some(false) => Some(done_bytes),
                _ => blob.len_bytes,
            };
            total.len_bytes = total.len_bytes.zip(len_bytes).map(|(a, b)| a.saturating_add(b));
            total.done_bytes += done_bytes;
            total.reused_bytes += blob.reused_bytes;
            total.restarts += blob.restarts;
        }
        total
    }

    /// The part that is done, in per cent, rounded down: 100 is the end.
    fn percent(&self) -> Option<u64> {
        let len = self.len_bytes.filter(|len| *len > 0)?;
        Some(
            u64::try_from(u128::from(self.done_bytes) * 100 / u128::from(len))
                .map_or(100, |p| p.min(100)),
        )
    }
}

/// A display on standard error that follows a transfer until [`Display::end`].
#[derive(Debug)]
pub(crate) struct Display {
    console: Console,
    task: JoinHandle<()>,
}

impl Display {
    /// Follows `blobs`: with a bar on a terminal, otherwise with lines.
    pub(crate) fn start(console: &Console, blobs: Vec<Followed>) -> Self {
        let follower = Follower {
            blobs,
            meter: Meter::default(),
            rates: SteadyUnit::default(),
            start: Instant::now(),
        };
        let task = if console.is_json() {
            tokio::spawn(follower.emit())
        } else if Console::has_escapes() {
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
    blobs: Vec<Followed>,
    meter: Meter,
    rates: SteadyUnit,
    start: Instant,
}

impl Follower {
    async fn draw(mut self, console: Console) {
        let bar = ProgressBar::with_draw_target(Some(0), terminal::target());
        console.show(&bar);
        let mut shown = None;
        let mut ticks = tokio::time::interval(FRAME);
        loop {
            ticks.tick().await;
            let (total, rate) = self.sample();
            let room = Room::of(terminal::columns());
            let template = room.template(total.percent().is_some());
            if shown != Some(template) {
                // The templates are constants; if one were wrong, the bar would only look plain.
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style.progress_chars("━╸─"));
                }
                shown = Some(template);
            }
            bar.set_length(total.len_bytes.unwrap_or_default());
            bar.set_position(total.done_bytes);
            bar.set_prefix(truncate_str(&self.name(), room.name, "…").into_owned());
            bar.set_message(self.describe(&total, rate));
            bar.tick();
        }
    }

    async fn emit(self) {
        let mut ticks = tokio::time::interval(transfer_events::EVERY);
        // So that a task that was held up does not write several at once.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once, and there is an event of the start already.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.blobs.iter().filter_map(|blob| blob.events.as_ref()).for_each(|e| e.tick());
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
                let line = self.describe(&total, rate);
                let restarts = match total.restarts {
                    0 => String::new(),
                    restarts => format!("  {}", count(restarts, "restart")),
                };
                console.line(&format!("{}  {}{restarts}", self.name(), line.trim_start()));
            }
        }
    }

    fn sample(&mut self) -> (Total, Option<f64>) {
        let total = Total::of(&self.blobs);
        let fetched = total.done_bytes.saturating_sub(total.reused_bytes);
        (total, self.meter.sample(self.start.elapsed(), fetched))
    }

    /// The name of the only blob, or how many of several have ended.
    fn name(&self) -> String {
        match &*self.blobs {
            [only] => escaped(&only.name).into_owned(),
            several => {
                let ended = several.iter().filter(|blob| blob.outcome.get().is_some()).count();
                format!("{ended}/{} blobs", several.len())
            }
        }
    }

    /// ` 42%  16.7 MiB/s     0:42 left`, always of the same width; without the length,
    /// `12.3 MiB  16.7 MiB/s`.
    fn describe(&mut self, total: &Total, rate: Option<f64>) -> String {
        let shown = self.rates.show(rate.unwrap_or_default());
        match total.percent() {
            Some(percent) => {
                let left = left(total, rate.unwrap_or_default());
                format!("{percent:>3}%  {shown}  {left:>7} left")
            }
            None => format!("{}  {shown}", size::human(total.done_bytes)),
        }
    }
}

/// The columns of the description of [`Follower::describe`].
const DESCRIPTION: usize = 30;

/// How the columns of a terminal are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// For the name; 0 if there is no room for a name and a bar.
    name: usize,
}

impl Room {
    /// A longer name leaves too little of the bar.
    const NAME_MAX: usize = 40;
    /// With fewer columns for the name, it would tell nothing.
    const NAME_MIN: usize = 6;

    /// The name and the bar have half of the rest each.
    fn of(columns: usize) -> Self {
        let name = columns.saturating_sub(DESCRIPTION + 2) / 2;
        Self { name: if name < Self::NAME_MIN { 0 } else { name.min(Self::NAME_MAX) } }
    }

    fn template(self, has_end: bool) -> &'static str {
        match (self.name, has_end) {
            (0, _) => "{msg}",
            (_, true) => "{prefix} {wide_bar:.cyan/dim} {msg}",
            (_, false) => "{spinner} {prefix} {msg}",
        }
    }
}

/// The remaining time at this rate: `0:42`, `12:05`, `1:02:33`.
fn left(total: &Total, rate: f64) -> String {
    let rest = total.len_bytes.unwrap_or_default().saturating_sub(total.done_bytes);
    if rate < 1.0 && rest > 0 {
        return "-:--".to_owned();
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; the cast saturates"
    )]
    let seconds = (rest as f64 / rate.max(1.0)).ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        1..100 => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => "> 99 h".to_owned(),
    }
}

/// Shows rates in one unit: the largest that a rate has reached. So a rate about 1 MiB/s does not
/// change its unit with each frame.
#[derive(Debug, Default)]
struct SteadyUnit(usize);

impl SteadyUnit {
    const NAMES: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

    /// `16.7 MiB/s`, always of the same width.
    fn show(&mut self, bytes_per_s: f64) -> String {
        let value =
            |unit: usize| bytes_per_s / 1024_f64.powi(i32::try_from(unit).unwrap_or_default() + 1);
        while value(self.0) >= 999.5 && self.0 + 1 < Self::NAMES.len() {
            self.0 += 1;
        }
        let value = value(self.0);
        let decimals = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        format!("{value:>4.decimals$} {}/s", Self::NAMES.get(self.0).unwrap_or(&"TiB"))
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{ErrorKind, Operation};

    use super::*;

    fn follower(blobs: Vec<Followed>) -> Follower {
        let (meter, rates) = (Meter::default(), SteadyUnit::default());
        Follower { blobs, meter, rates, start: Instant::now() }
    }

    #[test]
    fn a_description_has_percent_rate_and_time_left() {
        const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
        let mut follower = follower(vec![Followed::new("model.bin".to_owned())]);
        let mut total = Total { done_bytes: 1 << 30, ..Total::default() };
        assert_eq!(follower.describe(&total, None), "1.00 GiB  0.00 KiB/s");
        total.len_bytes = Some(4 << 30);
        let text = follower.describe(&total, Some(GIB / 4.0));
        assert_eq!(text, " 25%   256 MiB/s     0:12 left");
        assert_eq!(text.len(), DESCRIPTION);
        assert_eq!(follower.describe(&total, Some(0.0)), " 25%  0.00 MiB/s     -:-- left");
        assert_eq!(follower.describe(&total, Some(1.0)), " 25%  0.00 MiB/s   > 99 h left");
        assert_eq!(follower.name(), "model.bin");
    }

    #[test]
    fn a_rate_keeps_its_unit() {
        let mut rates = SteadyUnit::default();
        let mib = 1024.0 * 1024.0;
        for (rate, text) in [
            (0.0, "0.00 KiB/s"),
            (0.9 * mib, " 922 KiB/s"),
            (1.1 * mib, "1.10 MiB/s"),
            (0.9 * mib, "0.90 MiB/s"),
            (99.97 * mib, " 100 MiB/s"),
            (0.0, "0.00 MiB/s"),
        ] {
            assert_eq!(rates.show(rate), text);
        }
    }

    #[test]
    fn the_time_left_is_written_as_a_clock() {
        let total = |rest| Total { len_bytes: Some(rest), ..Total::default() };
        for (seconds, text) in [(0, "0:00"), (42, "0:42"), (725, "12:05"), (3753, "1:02:33")] {
            assert_eq!(left(&total(seconds * 10), 10.0), text);
        }
    }

    #[test]
    fn a_line_fits_the_terminal() {
        for columns in 0..200 {
            let name = Room::of(columns).name;
            assert!(name == 0 || name + 1 + 5 + 1 + DESCRIPTION <= columns, "{columns}");
        }
        assert!(Room::of(60).name >= 14);
    }

    /// A blob that failed before its length was known has none.
    #[test]
    fn a_failed_blob_leaves_the_total_of_the_others() {
        let blobs = vec![Followed::new("a".to_owned()), Followed::new("b".to_owned())];
        assert_eq!(Total::of(&blobs).len_bytes, None);
        let failed = Error::new(ErrorKind::NotFound, Operation::Read, "a", "it is not there");
        blobs[0].end(Some(&failed));
        assert_eq!(Total::of(&blobs[..1]).len_bytes, Some(0));
        assert_eq!(Total::of(&blobs).len_bytes, None, "the other is not known yet");
        assert_eq!(follower(blobs).name(), "1/2 blobs");
    }
}
