//! The roles of this program when it runs itself: processes that can be killed, and whose memory
//! holds nothing else.
//!
//! | words | role |
//! |---|---|
//! | `build FOLDER LIMIT COUNT` | makes a store of tiny records with a checkpoint |
//! | `append FOLDER LIMIT FIRST COUNT` | adds records without a checkpoint, and waits to be killed |
//! | `open FOLDER LIMIT COUNT` | opens a store, answers, loads all of it |
//!
//! A role writes lines of words and numbers to its standard output.

#![expect(clippy::print_stdout, reason = "the parent reads the results of a child")]

use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_core::digest::Digest;
use tidegate_server::store::Level;

use crate::Outcome;
use crate::population::{digest, open, put_tiny};

/// A child that nothing kills ends by itself.
const WAIT_MAX: Duration = Duration::from_mins(1);

pub(crate) fn run(words: &[String]) -> Outcome {
    let [role, folder, limit, numbers @ ..] = words else { return Err("too few words".into()) };
    let folder = Path::new(folder);
    let limit: u64 = limit.parse()?;
    let numbers: Vec<u64> =
        numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    match (role.as_str(), numbers.as_slice()) {
        ("build", [count]) => {
            let core = open(folder, limit, Level::Process)?;
            put_tiny(&core, 0..*count)?;
            core.checkpoint()?;
            Ok(())
        }
        ("append", [first, count]) => {
            let core = open(folder, limit, Level::Process)?;
            put_tiny(&core, *first..first + count)?;
            println!("ready");
            std::thread::sleep(WAIT_MAX);
            Err("the parent did not kill this process".into())
        }
        ("open", [count]) => answer(folder, limit, *count),
        _ => Err("no such role".into()),
    }
}

fn answer(folder: &Path, limit: u64, count: u64) -> Outcome {
    let start = Instant::now();
    let core = open(folder, limit, Level::Process)?;
    println!("open_ms {}", ms(start));
    // The last records are those that a checkpoint may lack.
    let asked: Vec<Digest> = (count - 1000.min(count)..count).map(digest).collect();
    let looked = Instant::now();
    let are_there = core.contains_blobs(&asked).into_iter().all(|is_there| is_there);
    println!("first_ms {}", ms(looked));
    println!("answered {}", u8::from(are_there));
    println!("opened_rss_kib {}", rss_kib()?);
    let loading = Instant::now();
    while !core.is_loaded() {
        core.maintain()?;
    }
    println!("load_ms {}", ms(loading));
    println!("loaded_rss_kib {}", rss_kib()?);
    // What was asked first came from the rest of the log. These come from everywhere.
    let step = usize::try_from(count / 1000 + 1)?;
    let asked: Vec<Digest> = (0..count).step_by(step).map(digest).collect();
    if core.contains_blobs(&asked).contains(&false) {
        return Err("the store lost a record".into());
    }
    Ok(())
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn rss_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(number.ok_or("the kernel does not tell the resident memory")?.parse()?)
}
