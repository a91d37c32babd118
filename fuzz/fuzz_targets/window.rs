//! Any outcomes of requests, in any order and at any times: the window keeps within its bounds and
//! counts the requests in flight.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate_core::window::{Outcome, Ticket, Window, WindowOptions};

#[derive(Arbitrary, Debug)]
struct Input {
    start: u32,
    min: u32,
    max: u32,
    events: Vec<Event>,
}

#[derive(Arbitrary, Debug)]
enum Event {
    /// Starts as many requests as the window allows, and `more` beyond it.
    Fill {
        more: u8,
    },
    Done {
        which: u16,
        bytes: u64,
        how: u8,
    },
    /// Ends all requests in flight.
    AllDone {
        bytes: u32,
        how: u8,
    },
    Pass {
        ns: u64,
    },
    /// Sets the clock to any time, also backwards.
    Set {
        ns: u64,
    },
}

/// More requests would only make runs longer.
const IN_FLIGHT_MAX: usize = 4_096;

fn outcome(how: u8) -> Outcome {
    match how % 8 {
        0 => Outcome::Throttled,
        1 => Outcome::Failed,
        2 => Outcome::Cancelled,
        _ => Outcome::Ok,
    }
}

fuzz_target!(|input: Input| {
    let Input { start, min, max, events } = input;
    let mut window = Window::new(WindowOptions { start, min, max });
    let bounds = min.max(1)..=max.max(min).max(1);
    let mut tickets: Vec<Ticket> = Vec::new();
    let mut now = Duration::ZERO;
    for event in events {
        match event {
            Event::Fill { more } => {
                let mut more = more;
                while tickets.len() < IN_FLIGHT_MAX && (window.has_room() || more > 0) {
                    more -= u8::from(!window.has_room());
                    tickets.push(window.on_start(now));
                }
            }
            Event::Done { which, bytes, how } if !tickets.is_empty() => {
                let ticket = tickets.swap_remove(usize::from(which) % tickets.len());
                window.on_done(ticket, now, bytes, outcome(how));
            }
            Event::Done { .. } => {}
            Event::AllDone { bytes, how } => {
                for ticket in tickets.drain(..) {
                    window.on_done(ticket, now, bytes.into(), outcome(how));
                }
            }
            Event::Pass { ns } => now = now.saturating_add(Duration::from_nanos(ns)),
            Event::Set { ns } => now = Duration::from_nanos(ns),
        }
        assert!(bounds.contains(&window.limit()), "{} of {bounds:?}", window.limit());
        assert_eq!(window.in_flight() as usize, tickets.len());
        assert_eq!(window.has_room(), window.in_flight() < window.limit());
    }
});
