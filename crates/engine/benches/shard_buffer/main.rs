//! The cost of filling a [`tidegate::buffer::ShardBuffer`], compared with a plain copy into the
//! same kind of memory.
//!
//! One operation makes a buffer, writes all shards of a blob with one thread a shard, waits for
//! them and drops the buffer, as the Go harness in `crates/bench/peers/kraken-buffer` does. Go runs
//! goroutines on as many threads as there are processors. Here the calling thread and threads that
//! were started before take shards from a queue; see [`crew`]. The source is one buffer of the
//! length of a call, hot in the cache, so that only the target is measured.
//!
//!     cargo bench -p tidegate --bench shard_buffer
//!     cargo bench -p tidegate --bench shard_buffer -- --json --case fresh/whole/4x4MiB/32KiB/2t
//!
//! Without `--bench` (as `cargo test` runs it) every case is run twice and nothing is printed: its
//! checks are then a test. Figures next to Go's, and ratios: `tidegate-bench buffer`.

mod case;
mod ceiling;
mod crew;
mod measure;
mod report;
mod resident;

use std::process::ExitCode;
use std::time::Duration;

use case::Case;
use measure::Effort;

/// Long enough for a hundred operations of the largest case.
const EFFORT_MS: u64 = 400;

struct Arguments {
    cases: Vec<Case>,
    effort: Effort,
    json: bool,
    quiet: bool,
}

fn main() -> ExitCode {
    let outcome = Arguments::read(std::env::args().skip(1)).and_then(|arguments| run(&arguments));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            report::complain(&message);
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let mut results = Vec::with_capacity(arguments.cases.len());
    for case in &arguments.cases {
        let figures = measure::measure(*case, arguments.effort)
            .map_err(|error| format!("{case}: {error}"))?;
        if arguments.json {
            report::print_json(*case, &figures)?;
        }
        results.push((*case, figures));
    }
    if arguments.json || arguments.quiet { Ok(()) } else { report::print_tables(&results) }
}

impl Arguments {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments =
            Self { cases: Vec::new(), effort: Effort::Operations(2), json: false, quiet: true };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = |name: &str| words.next().ok_or(format!("{name} needs a value"));
            match word.as_str() {
                // `cargo bench` passes it; only then figures are measured.
                "--bench" => {
                    arguments.effort = Effort::Time(Duration::from_millis(EFFORT_MS));
                    arguments.quiet = false;
                }
                "--json" => arguments.json = true,
                "--case" => arguments.cases.push(value("--case")?.parse()?),
                "--ms" => {
                    let ms = value("--ms")?;
                    let ms = ms.parse().map_err(|error| format!("{ms:?}: {error}"))?;
                    arguments.effort = Effort::Time(Duration::from_millis(ms));
                }
                // Filters and options of the standard test harness, which this program ignores.
                _ => {}
            }
        }
        if arguments.cases.is_empty() {
            arguments.cases = Case::all();
        }
        Ok(arguments)
    }
}
