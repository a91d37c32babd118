//! The store beside bare programs that do only the kernel's part and the hash, in turns in one run.
//!
//!     cargo bench -p tidegate-server --bench store
//!     cargo bench -p tidegate-server --bench store -- inserts reads --turns 9 --dir FOLDER
//!
//! | file | rows |
//! |---|---|
//! | `inserts` | 4 KiB blobs, group-committed, at both levels |
//! | `lookups` | batches of 1,000 digests |
//! | `reads` | 4 KiB blobs and a blob of 64 MiB |
//! | `startup` | 1 and 8 million entries: warm, cold, after a kill; resident memory |
//! | `eviction` | a trace on a store that is too small: hit rate against exact LRU, bytes written |
//!
//! `bare` has the bare programs. Without `--bench` every row is measured once with little, and nothing
//! is printed.

mod bare;
mod child;
mod eviction;
mod inserts;
mod lookups;
mod population;
mod reads;
mod report;
mod startup;
mod timing;

use std::error::Error;
use std::path::PathBuf;

use report::Report;

/// What a part of this program returns.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Enough turns for a median that one busy second of the machine does not move.
const TURNS: usize = 7;

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    pub(crate) turns: usize,
    /// All of it, or only enough to see that it works.
    pub(crate) is_full: bool,
    /// The folder for temporary stores. It must be on a disk.
    pub(crate) folder: PathBuf,
    /// A recorded trace, beside the synthetic ones.
    pub(crate) traces: Vec<PathBuf>,
}

type Group = (&'static str, fn(&Effort, &mut Report) -> Outcome);

const GROUPS: [Group; 5] = [
    ("inserts", inserts::run),
    ("lookups", lookups::run),
    ("reads", reads::run),
    ("startup", startup::run),
    ("eviction", eviction::run),
];

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = words.as_slice()
        && first == "--child"
    {
        return child::run(rest);
    }
    let mut effort =
        Effort { turns: 1, is_full: false, folder: std::env::temp_dir(), traces: Vec::new() };
    let mut chosen = Vec::new();
    let mut turns = TURNS;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            // `cargo bench` passes it; only then figures are measured.
            "--bench" => effort.is_full = true,
            "--turns" => turns = value()?.parse()?,
            "--dir" => effort.folder = value()?.into(),
            "--trace" => effort.traces.push(value()?.into()),
            // Filters and options of the standard test harness, which this program ignores.
            name => chosen.extend(GROUPS.iter().filter(|(group, _)| *group == name)),
        }
    }
    if effort.is_full {
        effort.turns = turns.max(1);
    }
    if chosen.is_empty() {
        chosen.extend(GROUPS.iter());
    }
    for (name, run) in chosen {
        run(&effort, &mut Report::new(name, effort.is_full))?;
    }
    Ok(())
}
