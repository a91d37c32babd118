//! Start-up: from the start of a process to its first answer, and its resident memory.
//!
//! The store has tiny records. `after close` means that a checkpoint covers all of them; `after
//! kill` means that a process was killed when it had written nearly as many records behind the last
//! checkpoint as the store allows. For `cold`, the pages of all files are dropped from the cache
//! (names stay cached).

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::bare::drop_cached;
use crate::report::{Better, Goal, Report, Row};
use crate::{Effort, Outcome};

/// The store makes a checkpoint after 250,000 records.
const BEHIND: u64 = 245_000;
const FIRST_ANSWER_MS_MAX: f64 = 1000.0;
const RESIDENT_MIB_MAX: f64 = 128.0;

struct Case {
    entries: u64,
    limit_bytes: u64,
    /// Whether the memory has a limit.
    is_limited: bool,
}

const CASES: [Case; 2] = [
    Case { entries: 1_000_000, limit_bytes: 16 << 30, is_limited: true },
    Case { entries: 8_000_000, limit_bytes: 200 << 30, is_limited: false },
];

pub(crate) fn run(effort: &Effort, report: &mut Report) -> Outcome {
    for case in &CASES {
        let folder = tempfile::tempdir_in(&effort.folder)?;
        let (entries, behind, limit) = if effort.is_full {
            (case.entries - BEHIND, BEHIND, case.limit_bytes)
        } else {
            (1000, 500, 64 << 20)
        };
        let store = Store { folder: folder.path(), limit };
        store.finish("build", &[entries])?;
        let mut memory = Vec::new();
        for is_killed in [false, true] {
            let count = if is_killed { entries + behind } else { entries };
            if is_killed {
                store.append_and_kill(entries, behind)?;
            }
            for is_cold in [false, true] {
                let answers = (0..effort.turns)
                    .map(|_| {
                        drop_cached_if(is_cold, folder.path())?;
                        store.finish("open", &[count])
                    })
                    .collect::<Outcome<Vec<_>>>()?;
                memory.extend(answers.iter().map(|answer| mib(answer, "loaded_rss_kib")));
                let after = if is_killed { "kill" } else { "close" };
                let caches = if is_cold { "cold" } else { "warm" };
                let millions = case.entries / 1_000_000;
                let name = format!("{millions} M entries, after {after}, {caches}");
                add_times(&name, &answers, report);
            }
        }
        report.add(&Row {
            name: format!("{} M entries, resident", case.entries / 1_000_000),
            unit: "MiB",
            better: Better::Low,
            store: memory,
            bare: Vec::new(),
            goal: case.is_limited.then_some(Goal::AtMost(RESIDENT_MIB_MAX)),
        });
    }
    Ok(())
}

fn drop_cached_if(is_cold: bool, folder: &Path) -> Outcome {
    if is_cold {
        drop_cached(folder)?;
    }
    Ok(())
}

type Answer = BTreeMap<String, f64>;

fn mib(answer: &Answer, name: &str) -> f64 {
    answer.get(name).copied().unwrap_or(f64::NAN) / 1024.0
}

fn add_times(name: &str, answers: &[Answer], report: &mut Report) {
    for (key, part, goal) in [
        ("wall_ms", "first answer", Some(Goal::AtMost(FIRST_ANSWER_MS_MAX))),
        ("open_ms", "opening", None),
        ("first_ms", "first 1,000 look-ups", None),
        ("load_ms", "loading the rest", None),
    ] {
        let values = answers.iter().map(|answer| answer.get(key).copied().unwrap_or(f64::NAN));
        report.add(&Row {
            name: format!("{name}: {part}"),
            unit: "ms",
            better: Better::Low,
            store: values.collect(),
            bare: Vec::new(),
            goal,
        });
    }
}

struct Store<'a> {
    folder: &'a Path,
    limit: u64,
}

impl Store<'_> {
    fn start(&self, role: &str, numbers: &[u64]) -> Outcome<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--child", role]).arg(self.folder).arg(self.limit.to_string());
        command.args(numbers.iter().map(u64::to_string));
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
    }

    /// Runs a role to its end. Returns what it wrote, and as `wall_ms` when it answered.
    fn finish(&self, role: &str, numbers: &[u64]) -> Outcome<Answer> {
        let start = Instant::now();
        let mut child = self.start(role, numbers)?;
        let mut answer = Answer::new();
        let output = child.stdout.take().ok_or("the child has no output")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            let (name, value) = line.split_once(' ').ok_or("expected a word and a number")?;
            if name == "answered" {
                answer.insert("wall_ms".into(), start.elapsed().as_secs_f64() * 1e3);
            }
            answer.insert(name.into(), value.parse()?);
        }
        if !child.wait()?.success() || answer.get("answered") == Some(&0.0) {
            return Err(format!("the child {role} failed").into());
        }
        Ok(answer)
    }

    fn append_and_kill(&self, first: u64, count: u64) -> Outcome {
        let mut child = self.start("append", &[first, count])?;
        let output = child.stdout.take().ok_or("the child has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        // SIGKILL: the process gets no chance to save anything.
        child.kill()?;
        child.wait()?;
        if line.trim() == "ready" { Ok(()) } else { Err("the child wrote nothing".into()) }
    }
}
