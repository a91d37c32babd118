//! Hostile responses, generated from the grammar of a response, and an oracle that decides which
//! deliveries are right.
//!
//! A seed determines a [`Scenario`]: a blob with two contents, `A` and `B`, a server with manners,
//! and up to three deviations. Manners are permitted behaviour: no version, a weak tag, a fresh
//! date, no ranges, chunks, an unknown length, mirrors with their own tags, a change from `A` to
//! `B` between two responses. A deviation changes one element of the grammar: present, absent or
//! contradictory. It applies to the first response, to later ones, to all, to responses to `HEAD`
//! or to responses of a later run:
//!
//! | element | bent by |
//! |---|---|
//! | status, interim responses, bytes in place of a head | `Status`, `Later`, `Opening` |
//! | requested and sent range, total | `WholeFor200`, `PartFor200`, `Moved`, `ContentRange`, `Unsatisfied`, ... |
//! | length and framing | `Length`, `Framing` |
//! | content coding | `Encoding` |
//! | version: entity tag, date, generation, version id | `Tag`, `Date`, `Cloud` |
//! | checksums | `Sums` |
//! | body: shorter, longer, flipped, of the other content, moved; its end | `Body`, `End` |
//! | redirects | `Redirect`, and the manners' mirrors |
//!
//! A [`HostileServer`] plays a scenario over streams in memory. [`judge`] then reads only the bytes
//! on the wire. It does not use the generator's intentions.
//!
//! # The oracle
//!
//! It reads each response as the most careful client would, with its own code. It checks whether
//! the delivered bytes belong to one consistent sequence of responses, a *story*.
//!
//! A response is *sound* if all of these hold. Only sound responses count.
//!
//! - Its framing is right by RFC 9112: chunks take precedence over `Content-Length`; there is no
//!   other transfer coding; `Content-Length` has one number.
//! - Its status is 200, 206 or 416.
//! - A part is the requested part.
//! - Its body is not longer than its head says. If a body ends too early, the received bytes count.
//! - Its store does not say that it decompressed the body.
//!
//! A response *names* the versions in its `x-goog-generation`, its strong `ETag` and its version
//! id. It also names its `Last-Modified` if that is at least one second before `Date` and the
//! response has no weak `ETag`. A header with two different values names nothing.
//!
//! A *story* begins with a sound response. Later responses belong to the story if they name the
//! same version, have the same length or none, and have the same content coding. The version is the
//! one that the first response names first, or the one that the caller asked for. A response that
//! names nothing is a story of its own.
//!
//! A success is right if there is a story in which a response sent each delivered byte for its
//! offset. The story must also contain the length of the whole (a refused range and a response to
//! `HEAD` may state it, too) or the end of a 200 without a length. The bytes must have the
//! checksums of the story's first response, for S3 also those of the corresponding `HEAD`. A later
//! response with another value of a checksum than the first belongs to no story. These two rules do
//! not apply if the client verified the bytes by a checksum that was sent, or if the caller
//! requested only a part.
//!
//! The version that the client reports must be in the story or in a response to `HEAD`. A checksum
//! that the client reports as verified must come from the call or from a sound response that does
//! not contradict it. The bytes must have that checksum.
//!
//! If no deviation of the scenario may deceive, the bytes must also be `A` or `B`, or the requested
//! range of one of them. That check is independent of the rules above.
//!
//! # Faults that no client can detect
//!
//! No response contradicts these faults, so the oracle accepts their bytes:
//!
//! - wrong bytes under the right version, without a checksum;
//! - a length that is wrong in every response that states it, and a 200 whose body is a part;
//! - a cut of a body that only the end of the connection delimits;
//! - one strong name for two contents, and a checksum that fits the wrong bytes.
//!
//! # Not covered
//!
//! - Two mirrors that give one strong tag to two contents. A tag is valid for the blob that the URL
//!   names, because signed URLs of one object differ in their queries and no header distinguishes
//!   them.
//! - Checksums that only later responses contain: the client decides before the first byte which
//!   checksums it computes.
//! - Bodies that are really compressed. Bytes are delivered as received, so a coding is only a
//!   label; decoded reads have their own tests.
//! - Credentials: a server that requires other credentials refuses with a status like others.
//! - HTTP/2, which the engine does not speak for blobs.
//! - Timing: a response is sent at once or never.

mod bend;
mod choose;
mod content;
mod deviation;
mod draft;
mod exchange;
mod honest;
mod manners;
mod oracle;
mod scenario;
mod server;
mod sum;

pub use content::Content;
pub use exchange::Exchange;
pub use oracle::{Delivered, Name, Wanted, judge};
pub use scenario::Scenario;
pub use server::{HostileServer, HostileStream, HostileTls};
pub use sum::Sum;
