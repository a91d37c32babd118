//! What the channel is known to do otherwise than it says, and scripts therefore pass over.
//!
//! Each of these is a debt: whoever mends one removes it here, and the scripts watch over the
//! mending from then on.

use std::io::SeekFrom;

use tidegate::core::range::ByteRange;
use tidegate::read::ReadChannel;
use tidegate::{Error, ErrorKind, Operation};
use tidegate_testkit::{ContentRangeLie as Lie, Fault};

use super::script::{Place, Planned, passes};
use super::stage::Play;

/// A server that ignores ranges answers one that begins beyond the end with 200 and all bytes: the
/// error is `Integrity` in place of `OutOfRange`, and after a seek there is one in place of the end.
pub(crate) fn takes_a_position_beyond_for_damage(play: &Play<'_>, error: &Error) -> bool {
    let ignored = play.script.place == Place::HttpNoRanges
        || play.has_gone_wrong(|fault| matches!(fault, Fault::NoRangeSupport));
    ignored && error.kind() == ErrorKind::Integrity && error.operation() == Operation::Read
}

/// Facts that are asked for by themselves, as at the end of a restored read, are not compared with
/// the pinned version or the length that is known.
pub(crate) fn tells_facts_of_another(play: &Play<'_>) -> bool {
    play.has_gone_wrong(|fault| !passes(fault))
}

/// A request for a position beyond an unknown end is under way when a seek from the end asks for
/// that end: its 416 is the seek's error.
pub(crate) fn finds_no_end_from_beyond(to: SeekFrom, error: &Error) -> bool {
    matches!(to, SeekFrom::End(_)) && error.kind() == ErrorKind::OutOfRange
}

/// The last n bytes are asked for by the length that a first answer tells; where the next one tells
/// another, its bytes are taken for those that its own length means.
pub(crate) fn shifts_the_last_bytes(play: &Play<'_>) -> bool {
    let lies = |planned: &Planned| matches!(planned.fault, Fault::LieAboutLength(_));
    play.script.place == Place::Azure
        && matches!(play.script.range, ByteRange::Last(_))
        && play.script.faults.iter().any(lies)
}

/// A limit cuts the frame that it lies in, and where it is raised again before the end was
/// delivered, the rest of that frame is missing: what comes after it is delivered in its place.
/// A request of its own for what comes after the limit is right.
pub(crate) fn loses_what_a_limit_cut(channel: &mut ReadChannel) {
    channel.suspend();
}

/// Where the length of the pinned version is not known, it is taken from whatever version there is
/// when it is asked for: the read ends there.
pub(crate) fn ends_at_the_length_of_another(play: &Play<'_>) -> bool {
    let script = play.script;
    let untold = |fault: &Fault| matches!(fault, Fault::WrongContentRange(Lie::UnknownTotal));
    let any = |of: &dyn Fn(&Fault) -> bool| script.faults.iter().any(|planned| of(&planned.fault));
    (script.place == Place::HttpChunked || any(&untold)) && any(&|fault| !passes(fault))
}
