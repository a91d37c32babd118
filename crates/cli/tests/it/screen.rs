//! A terminal for tests: a pseudo-terminal, and what a person would see on it.

use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::bed::within;

/// A terminal, and the text that it has received so far.
pub(crate) struct Terminal {
    pub(crate) keys: File,
    given: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl Terminal {
    /// Returns the program's end, too.
    pub(crate) fn new(columns: u16) -> (Self, File) {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
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
    pub(crate) async fn shows(&self, text: &str) {
        within(async {
            while !self.given.lock().unwrap().contains(text) {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// The text that it has received so far.
    pub(crate) fn given(&self) -> String {
        self.given.lock().unwrap().clone()
    }

    /// All received text, once the program has ended.
    pub(crate) fn end(self) -> String {
        self.reading.join().unwrap();
        std::mem::take(&mut self.given.lock().unwrap())
    }
}

/// The lines that are visible after this text was written to a terminal of this width.
pub(crate) fn seen(given: &str, columns: usize) -> Vec<String> {
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
                if column == columns {
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
