//! Decides whether the bytes that a client delivered are a version of the blob. The rules are in
//! the docs of [`hostile`](super).

mod framing;
mod head;
mod reading;

use std::fmt::Write as _;
use std::ops::Range;

pub use head::Name;

use self::reading::Reading;
use super::exchange::Exchange;
use super::scenario::Scenario;
use super::sum::Sum;

/// The bytes of the blob that the caller asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All of them.
    All,
    /// From this offset to the end.
    From(u64),
    /// A half-open range, cut to the blob.
    Bounded(Range<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl Wanted {
    /// The offsets of these bytes in a blob of `total` bytes; `None` if they begin beyond the end.
    fn of(&self, total: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::All => 0..total,
            Self::From(start) => *start..total,
            Self::Bounded(range) => range.start..range.end.min(total),
            Self::Last(count) => total.saturating_sub(*count)..total,
        };
        (range.start <= total).then(|| range.start..range.end.max(range.start))
    }
}

/// A client's request and its claimed result.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// The requested bytes.
    pub wanted: Wanted,
    /// The requested version, if any.
    pub pinned: Option<Name>,
    /// Checksums that the caller passed for the whole blob.
    pub given: Vec<(Sum, Vec<u8>)>,
    /// The delivered bytes.
    pub bytes: Vec<u8>,
    /// The version that the client reports.
    pub named: Option<Name>,
    /// The algorithms of the checksums that the client reports as verified.
    pub verified: Vec<(String, Vec<u8>)>,
}

/// Judges a success: the error in it, if there is one.
pub fn judge(
    scenario: &Scenario,
    exchanges: &[Exchange],
    delivered: &Delivered,
) -> Result<(), String> {
    for (sum, value) in &delivered.given {
        if sum.of(&delivered.bytes) != *value {
            return Err(format!("it is not what the given {} says", sum.name()));
        }
    }
    for (name, value) in &delivered.verified {
        let sum = Sum::named(name).ok_or_else(|| format!("verified by the unknown {name}"))?;
        if sum.of(&delivered.bytes) != *value {
            return Err(format!("verified by a {name} that the bytes do not have"));
        }
    }
    if !scenario.may_deceive() && !is_a_version(scenario, delivered) {
        return Err("nothing could deceive the client, and it is neither A nor B".to_owned());
    }
    let readings: Vec<_> = exchanges
        .iter()
        .enumerate()
        .map(|(index, exchange)| Reading::of(index, exchange, scenario.flavour()))
        .collect();
    let sound: Vec<&Reading> = readings.iter().flatten().collect();
    let mut why = String::new();
    for first in sound.iter().filter(|reading| !reading.is_head) {
        match explain(first, &sound, delivered) {
            Ok(()) => return Ok(()),
            // Writing to a String cannot fail.
            Err(reason) => drop(writeln!(why, "  not by exchange {}: {reason}", first.index)),
        }
    }
    for (index, reading) in readings.iter().enumerate() {
        if let Err(reason) = reading {
            let _ = writeln!(why, "  exchange {index} is of no use: {reason}");
        }
    }
    Err(format!("no version that the server sent explains it:\n{why}"))
}

fn is_a_version(scenario: &Scenario, delivered: &Delivered) -> bool {
    scenario.contents().iter().any(|content| {
        let range = delivered.wanted.of(content.bytes().len() as u64);
        range.is_some_and(|range| content.slice(range.start, range.end) == delivered.bytes)
    })
}

/// Whether the bytes are of the version that `first` names, or of `first` alone if it names none.
fn explain(first: &Reading, sound: &[&Reading], delivered: &Delivered) -> Result<(), String> {
    let pin = delivered.pinned.as_ref().or_else(|| first.names.first());
    let is_of_pin = |reading: &&&Reading| pin.is_some_and(|pin| reading.head.is_of(pin));
    // The server may have responded to a `HEAD` before it sent the first part.
    let facts: Vec<&&Reading> = sound.iter().filter(|r| r.is_head).filter(is_of_pin).collect();
    if delivered.pinned.is_some() && !is_of_pin(&&first) {
        // A refused range names no version, but a length that a `HEAD` may confirm.
        let is_confirmed =
            facts.iter().any(|facts| facts.total.is_none() || facts.total == first.total);
        if !first.is_refusal(pin) || !is_confirmed {
            return Err("it is not of the version that was asked for".to_owned());
        }
    }
    let same = |reading: &&&Reading| {
        reading.index == first.index || reading.index > first.index && is_of_pin(reading)
    };
    let like = |reading: &&&Reading| {
        reading.head.encoding() == first.head.encoding()
            && reading.total.zip(first.total).is_none_or(|(one, other)| one == other)
    };
    let parts: Vec<&&Reading> =
        sound.iter().filter(|r| !r.is_head).filter(same).filter(like).collect();
    is_honest(&parts, sound, delivered)?;
    let is_proven = !delivered.verified.is_empty() || delivered.wanted != Wanted::All;
    if !is_proven && first.refutes(&delivered.bytes) {
        return Err("its checksum is another".to_owned());
    }
    if !is_proven && facts.iter().any(|r| r.is_beside_first && r.refutes(&delivered.bytes)) {
        return Err("a checksum that was looked up is another".to_owned());
    }
    let usable: Vec<&&Reading> =
        parts.into_iter().filter(|r| is_proven || !r.contradicts(first)).collect();
    // A refused range contains the length and no version; so may a response to `HEAD`.
    let refused = sound.iter().filter(|r| r.index >= first.index && r.is_refusal(pin));
    let stated = usable.iter().map(|reading| reading.total);
    let looked_up = facts.iter().map(|reading| reading.total);
    let mut totals: Vec<Option<u64>> =
        stated.chain(looked_up).chain(refused.map(|reading| reading.total)).collect();
    totals.push(None);
    totals.sort_unstable();
    totals.dedup();
    let mut why = String::new();
    for total in totals.into_iter().rev() {
        match covered(&usable, total, delivered) {
            Ok(()) => return Ok(()),
            Err(reason) => why = format!("{why}with length {total:?}, {reason}; "),
        }
    }
    Err(why)
}

/// Whether the server sent the version and the checksums that the client reports, with these bytes
/// or in a response to `HEAD`.
fn is_honest(parts: &[&&Reading], sound: &[&Reading], delivered: &Delivered) -> Result<(), String> {
    if let Some(named) = &delivered.named {
        let mut facts = sound.iter().filter(|reading| reading.is_head);
        let by_facts = facts.any(|reading| reading.head.says(named));
        if !by_facts && !parts.iter().any(|reading| reading.head.says(named)) {
            return Err(format!("it names {named:?}, which was not sent"));
        }
    }
    for (name, value) in &delivered.verified {
        let is_this = |(sum, other): &(Sum, Vec<u8>)| sum.name() == name && other == value;
        let is_other = |(sum, other): &(Sum, Vec<u8>)| sum.name() == name && other != value;
        let is_given = delivered.given.iter().any(is_this);
        let is_sent = sound
            .iter()
            .any(|reading| reading.sums.iter().any(is_this) && !reading.sums.iter().any(is_other));
        if !is_given && !is_sent {
            return Err(format!("it says verified by {name}, which was not sent, or contradicted"));
        }
    }
    Ok(())
}

/// Whether these responses contain exactly the requested bytes of a blob of this length, or of a
/// blob whose length is known only from its end.
fn covered(usable: &[&&Reading], total: Option<u64>, delivered: &Delivered) -> Result<(), String> {
    let bytes = &delivered.bytes;
    let of_total = |reading: &&&&Reading| {
        reading.total.is_none_or(|stated| Some(stated) == total)
            && total.is_none_or(|total| reading.end() <= total)
    };
    let usable: Vec<_> = usable.iter().filter(of_total).collect();
    let range = match total {
        Some(total) => delivered.wanted.of(total),
        None => without_length(&usable, delivered),
    };
    let Some(range) = range else { return Err("the end is not proven".to_owned()) };
    if range.end - range.start != bytes.len() as u64 {
        return Err(format!("{range:?} was wanted, and {} bytes came", bytes.len()));
    }
    for (offset, byte) in range.zip(bytes) {
        let was_sent = usable.iter().any(|reading| reading.byte(offset) == Some(*byte));
        if !was_sent {
            return Err(format!("the byte at {offset} was not sent"));
        }
    }
    Ok(())
}

/// The requested offsets of a blob whose length no response states.
fn without_length(usable: &[&&&Reading], delivered: &Delivered) -> Option<Range<u64>> {
    let ends = usable.iter().filter(|reading| reading.is_whole);
    let end = ends.map(|reading| reading.data.len() as u64).next();
    match (&delivered.wanted, end) {
        (Wanted::Bounded(range), None) => Some(range.clone()),
        (wanted, Some(end)) => wanted.of(end),
        (_, None) => None,
    }
}
