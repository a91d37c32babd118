//! Hostile responses, made from the grammar of a response, and an oracle that says which deliveries
//! are right all the same.
//!
//! A [`Scenario`] is made from a seed: a blob with two contents, `A` and `B`, a server with manners,
//! and up to three deviations. Manners are what a server may do (no version, a weak tag, a fresh
//! date, no ranges, chunks, an unknown length, mirrors with tags of their own, a change from `A` to
//! `B` between two responses). A deviation bends one element of the grammar, present, absent or
//! contradictory, in the first response, in later ones, in all, in responses to `HEAD` or in those
//! of a later run:
//!
//! | element | bent by |
//! |---|---|
//! | status, interim responses, what comes in place of a head | `Status`, `Later`, `Opening` |
//! | range asked and given, total | `WholeFor200`, `PartFor200`, `Moved`, `ContentRange`, `Unsatisfied`, ... |
//! | length and framing | `Length`, `Framing` |
//! | content coding | `Encoding` |
//! | version: entity tag, date, generation, version id | `Tag`, `Date`, `Cloud` |
//! | checksums | `Sums` |
//! | body: shorter, longer, flipped, of the other content, moved; its end | `Body`, `End` |
//! | redirects | `Redirect`, and the manners' mirrors |
//!
//! A [`HostileServer`] plays a scenario over streams in memory. [`judge`] then looks at what went on
//! the wire, and at nothing that the generator meant.
//!
//! # The oracle
//!
//! It reads each response as the most careful client would, with code of its own, and asks whether
//! the delivered bytes are one story that the server told.
//!
//! A response is *sound* if its framing is right by RFC 9112 (chunks decide over `Content-Length`;
//! no other transfer coding; one number in `Content-Length`), its status is 200, 206 or 416, a part
//! is the part that was asked for, its body is no longer than its head says, and its store does not
//! say that it was decompressed. Only sound responses count. A body that ends too early counts as
//! far as it came.
//!
//! A response *names* the versions in its `x-goog-generation`, its strong `ETag`, its version id,
//! and its `Last-Modified` where that is at least one second before `Date` and no `ETag` says less.
//! A header that says two things names nothing.
//!
//! A *story* begins with a sound response. The version that this names first, or the version that
//! the client was told to bring, ties later responses to it: they must name the same, tell the same
//! length or none, and have the same content coding. A response that names nothing is a story of
//! its own.
//!
//! A success is right if there is a story in which each delivered byte was brought for its offset,
//! and in which the length of the whole was told (a refused range and a response to `HEAD` may tell
//! it, too) or the end of an unmeasured 200 was seen. The checksums of the story's first response,
//! for S3 also those of the `HEAD` beside it, must be those of the bytes. A later response that
//! tells another value of a checksum than the first belongs to no story. Neither matters where the
//! client verified the bytes by a checksum that was sent: then they are proven.
//!
//! The version that the client names must stand in the story, or in a response to `HEAD`. A checksum
//! that it says it verified must have come with a sound response that does not contradict it, or
//! with the call; and the bytes must have it.
//!
//! Where no deviation of the scenario may deceive, the bytes must be `A` or `B` besides, or the
//! range of one that was asked for. That check owes nothing to the rules above.
//!
//! # What no client can see
//!
//! The oracle accepts what these bring, as no response contradicts it:
//!
//! - bytes that are false under a true version, where no checksum came with them;
//! - a length that is false in every response that tells it, and a 200 whose body is a part;
//! - a cut where only the end of the connection delimits the body;
//! - one strong name for two contents, and a checksum that fits the wrong bytes.
//!
//! # What is left out
//!
//! - Two mirrors that give one strong tag to two contents: a tag counts for the blob that the URL
//!   names, as signed URLs of one object differ in their queries, and no header tells them apart.
//! - Checksums that only later responses tell: what is computed is decided before the first byte.
//! - Bodies that are compressed in fact: bytes are delivered as they come, so that a coding is a
//!   label like others; decoded reads have tests of their own.
//! - Credentials: a server that wants other credentials refuses, which is a status like others.
//! - HTTP/2, which the engine does not speak for blobs.
//! - Timing: a response comes at once, or never.

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
