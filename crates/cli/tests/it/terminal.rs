//! What stays on a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tidegate_testkit::{Fault, Gate, Rule};

use crate::bed::{Bed, command, within};
use crate::interrupt::signal;

const COLUMNS: usize = 80;

/// A terminal, and the text that it has received so far.
struct Terminal {
    keys: File,
    given: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl Terminal {
    /// Returns the program's end, too.
    fn new() -> (Self, File) {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let columns = u16::try_from(COLUMNS).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keys, size).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let program = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let keys = File::from(keys);
        let given = Arc::new(Mutex::new(String::new()));
        let (mut screen, theirs) = (keys.try_clone().unwrap(), Arc::clone(&given));
        let reading = std::thread::spawn(move || {
            let mut bytes = vec![0; 4096];
            let mut text = Vec::new();
            // An error means the end: the program's end is closed.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                text.extend_from_slice(&bytes[..count]);
                *theirs.lock().unwrap() = String::from_utf8_lossy(&text).into_owned();
            }
        });
        (Self { keys, given, reading }, File::from(program))
    }

    /// Waits until the terminal has received this text.
    async fn shows(&self, text: &str) {
        within(async {
            while !self.given.lock().unwrap().contains(text) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// All received text, once the program has ended.
    fn end(self) -> String {
        self.reading.join().unwrap();
        std::mem::take(&mut self.given.lock().unwrap())
    }
}

/// The lines that are visible after this text was written.
fn seen(given: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut chars = given.chars();
    while let Some(char) = chars.next() {
        match char {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' => {
                assert_eq!(chars.next(), Some('['), "{given:?}");
                let mut number = String::new();
                let kind = loop {
                    match chars.next().unwrap() {
                        digit if digit.is_ascii_digit() || digit == ';' => number.push(digit),
                        kind => break kind,
                    }
                };
                let count = number.parse().unwrap_or(1);
                match (kind, &*number) {
                    ('A', _) => row = row.saturating_sub(count),
                    ('B', _) => row += count,
                    ('K', "2") => lines[row].clear(),
                    ('m', _) => {}
                    other => panic!("unknown to this terminal: {other:?}"),
                }
            }
            char => {
                if column == COLUMNS {
                    (row, column) = (row + 1, 0);
                }
                lines.resize(lines.len().max(row + 1), Vec::new());
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = char;
                column += 1;
            }
        }
        lines.resize(lines.len().max(row + 1), Vec::new());
    }
    let text = |line: Vec<char>| line.into_iter().collect::<String>().trim_end().to_owned();
    lines.into_iter().map(text).filter(|line| !line.is_empty()).collect()
}

/// The terminal itself prints `^C` in the line of the bar.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_bar_is_left_after_ctrl_c() {
    let bed = Bed::gcs().await;
    bed.put("/bucket/blob", 8 << 20);
    let gate = Gate::new();
    let hold = Fault::HoldAfter { bytes: 1 << 20, gate: gate.clone() };
    bed.server.script().push(Rule::new(hold).always());
    let (mut terminal, program) = Terminal::new();
    let mut command = command(bed.folder.path());
    command.args(["cp", "--anonymous", "gs://bucket/blob", "out", "--endpoint"]);
    command.arg(bed.server.endpoint()).stderr(Stdio::from(program)).stdout(Stdio::null());
    let mut child = command.env("TERM", "xterm").spawn().unwrap();
    drop(command);
    within(gate.reached(1)).await;
    terminal.shows(" left").await;
    terminal.keys.write_all(b"\x03").unwrap();
    terminal.shows("^C").await;
    // It is not this process's controlling terminal, so the key alone sends no signal.
    signal(&child, "INT").await;
    let status = within(child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(8));
    let given = terminal.end();
    let lines = seen(&given);
    assert!(lines.first().is_some_and(|line| line.starts_with("Interrupted")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains(" left")), "{lines:#?}");
}
