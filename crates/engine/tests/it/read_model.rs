//! Random scripts of reads, seeks, limits, captures and faults, against a model of a channel.
//!
//! The fuzz target `read_channel` plays the same scripts, but from coverage instead of seeds. A
//! script that fails is shrunk and printed. The printed script is enough to repeat the failure.

mod drive;
mod model;
mod script;
mod stage;

use std::sync::mpsc;
use std::time::Duration;

use tidegate_testkit::SplitMix64;

use self::script::Script;
use self::stage::Stage;

/// They take some seconds.
const SCRIPTS: u64 = 1000;

/// No script takes a second. A script that takes this long never ends.
const HANG: Duration = Duration::from_mins(1);

fn script(seed: u64) -> Script {
    let mut random = SplitMix64::new(seed);
    let count = 12 + random.below(120);
    let bytes: Vec<u8> = (0..count).map(|_| random.draw().to_le_bytes()[0]).collect();
    Script::of(&bytes)
}

/// The scripts to play. `TIDEGATE_READ_MODEL_SEEDS=1000..9000` selects other seeds, and
/// `TIDEGATE_READ_MODEL_INPUT=path` plays the script of one fuzzer input.
fn scripts() -> Box<dyn Iterator<Item = (String, Script)> + Send> {
    if let Ok(path) = std::env::var("TIDEGATE_READ_MODEL_INPUT") {
        let script = Script::of(&std::fs::read(&path).unwrap());
        return Box::new(std::iter::once((path, script)));
    }
    let seeds = match std::env::var("TIDEGATE_READ_MODEL_SEEDS") {
        Ok(seeds) => {
            let (from, to) = seeds.split_once("..").unwrap();
            from.parse().unwrap()..to.parse().unwrap()
        }
        Err(_) => 0..SCRIPTS,
    };
    Box::new(seeds.map(|seed| (format!("seed {seed}"), script(seed))))
}

#[test]
fn any_script_agrees_with_the_model() {
    let (progress, seen) = mpsc::channel();
    let playing = std::thread::spawn(move || {
        let mut stage = Stage::new();
        for (name, script) in scripts() {
            progress.send((name.clone(), script.clone())).unwrap();
            if let Err(wrong) = stage.run(&script) {
                let (small, wrong_then) = stage.shrink(&script, wrong.clone());
                panic!("{name}: {wrong}\nsmaller: {wrong_then}\n{small:#?}");
            }
        }
    });
    let mut last = None;
    loop {
        match seen.recv_timeout(HANG) {
            Ok(script) => last = Some(script),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it goes round in circles: {last:#?}"),
        }
    }
    if let Err(panic) = playing.join() {
        std::panic::resume_unwind(panic);
    }
}
