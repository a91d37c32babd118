//! Draws progress bars on standard error, and leaves the cursor at the beginning of the bar.
//!
//! Why: a bar is as wide as the terminal, and the bar library leaves the cursor behind it. Typed
//! text then appears on the next line, such as the `^C` of an interrupt. From then on the bar is
//! drawn on that line, and the old bar is never removed. With the cursor at its beginning, the bar
//! overwrites typed text.

use std::io;

use ::console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

/// Frames a second at most.
const FRAMES_PER_S: u8 = 20;

/// A terminal on standard error. Nothing is written before [`TermLike::flush`].
#[derive(Debug)]
struct Line(Term);

/// The draw target of the bars.
pub(crate) fn target() -> ProgressDrawTarget {
    // Otherwise standard output would decide, which may be a file.
    ::console::set_colors_enabled(::console::colors_enabled_stderr());
    ProgressDrawTarget::term_like_with_hz(Box::new(Line(Term::buffered_stderr())), FRAMES_PER_S)
}

/// The columns of standard error.
pub(crate) fn columns() -> usize {
    Term::stderr().size().1.into()
}

impl TermLike for Line {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.0.move_cursor_up(count)
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.0.move_cursor_down(count)
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.0.move_cursor_right(count)
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.0.move_cursor_left(count)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.write_str("\r")?;
        self.0.flush()
    }
}
