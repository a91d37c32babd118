//! The behaviour of a server without deviations. It stays the same for all responses of a scenario.
//!
//! RFC 9110 permits all of it, although not all is helpful: a server may name no version, ignore
//! ranges or omit the length.

use crate::{Flavour, SplitMix64, hostile::sum::Sum};

/// The port of the server that the URL names.
pub(crate) const ORIGIN: u16 = 7000;

/// The difference between a server's TLS port and its plain port.
pub(crate) const SECURE: u16 = 10_000;

/// Mirrors have the ports after the origin's.
pub(crate) const MIRRORS: u16 = 3;

/// Which entity tag is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tags {
    Strong,
    Weak,
    None,
}

/// Which modification date is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dates {
    /// Days before the response: two contents have two dates.
    Old,
    /// The date of the response, for both contents: it pins nothing.
    Fresh,
    None,
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked,
    Close,
}

/// The location of the blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// At the URL's server.
    Direct,
    /// Always at the same mirror.
    Mirror,
    /// At another mirror for each request.
    Mirrors,
}

/// How the server responds to `HEAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heads {
    AsGet,
    WithoutLength,
    Refused(u16),
}

/// See the module docs.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "a server has each of these or not")]
pub(crate) struct Manners {
    pub(crate) flavour: Flavour,
    /// Whether the URL begins with `https`.
    pub(crate) secure: bool,
    pub(crate) tags: Tags,
    pub(crate) dates: Dates,
    /// Whether responses have a `Date`.
    pub(crate) clock: bool,
    /// Checksums of the whole, which are sent when the flavour sends them.
    pub(crate) sums: Vec<Sum>,
    pub(crate) framing: Framing,
    /// Whether ranges are honoured.
    pub(crate) ranges: bool,
    /// Whether `Content-Range` contains the total.
    pub(crate) total: bool,
    /// Whether preconditions are evaluated.
    pub(crate) conditions: bool,
    pub(crate) heads: Heads,
    /// Whether responses name a version id and requests can name old versions.
    pub(crate) versioned: bool,
    pub(crate) route: Route,
    /// The number of the first response of content `B`, and of the first response of `A` after
    /// that.
    pub(crate) change: Option<(usize, Option<usize>)>,
}

impl Manners {
    pub(crate) fn new(dice: &mut SplitMix64) -> Self {
        let flavours = [Flavour::Http, Flavour::Http, Flavour::Gcs, Flavour::S3, Flavour::Azure];
        let flavour = pick(dice, &flavours);
        let plain = flavour == Flavour::Http;
        let tags = match dice.below(if plain { 10 } else { 20 }) {
            0 | 1 => Tags::Weak,
            2 | 3 => Tags::None,
            _ => Tags::Strong,
        };
        let dates = match dice.below(if plain { 8 } else { 16 }) {
            0 => Dates::Fresh,
            1 | 2 => Dates::None,
            _ => Dates::Old,
        };
        let framing = match dice.below(8) {
            0 => Framing::Close,
            1 | 2 => Framing::Chunked,
            _ => Framing::Length,
        };
        let heads = match dice.below(8) {
            0 if plain => Heads::Refused(405),
            1 if plain => Heads::Refused(403),
            2 => Heads::WithoutLength,
            _ => Heads::AsGet,
        };
        let route = match dice.below(6) {
            0 if plain => Route::Mirror,
            1 if plain => Route::Mirrors,
            _ => Route::Direct,
        };
        let change = (dice.below(4) == 0).then(|| {
            let at = within(dice, 1, 5);
            (at, (dice.below(4) == 0).then(|| at + within(dice, 1, 3)))
        });
        Self {
            flavour,
            secure: plain && dice.below(50) == 0,
            tags,
            dates,
            clock: dice.below(8) > 0,
            sums: sums(dice, flavour),
            framing,
            ranges: dice.below(10) > 0,
            total: dice.below(10) > 0,
            conditions: dice.below(4) > 0,
            heads,
            versioned: dice.below(3) == 0,
            route,
            change,
        }
    }

    /// In plain words, one to a line.
    pub(crate) fn words(&self) -> String {
        let Self { flavour, tags, dates, framing, heads, route, .. } = self;
        let sums: Vec<&str> = self.sums.iter().map(|sum| sum.name()).collect();
        let change = match self.change {
            None => "the blob stays A".to_owned(),
            Some((at, None)) => format!("the blob is B from response {at} on"),
            Some((at, Some(back))) => {
                format!("the blob is B from response {at} on, and A again from {back} on")
            }
        };
        format!(
            "server: {flavour:?}, TLS {}, tags {tags:?}, dates {dates:?}, Date {}, checksums {sums:?}, \
             framing {framing:?}, ranges {}, total {}, preconditions {}, HEAD {heads:?}, \
             versioned {}, route {route:?}; {change}",
            self.secure, self.clock, self.ranges, self.total, self.conditions, self.versioned
        )
    }
}

/// A third of servers send none, as plain ones do.
fn sums(dice: &mut SplitMix64, flavour: Flavour) -> Vec<Sum> {
    let all: &[Sum] = match flavour {
        Flavour::Http => &[Sum::Sha256, Sum::Crc32c, Sum::Md5],
        Flavour::Gcs => &[Sum::Crc32c, Sum::Md5],
        Flavour::S3 => &[Sum::Crc64Nvme, Sum::Sha256],
        Flavour::Azure => &[Sum::Md5],
    };
    match dice.below(3) {
        0 => Vec::new(),
        1 => vec![pick(dice, all)],
        _ => all.to_vec(),
    }
}

/// One of `choices`, which are never empty.
pub(crate) fn pick<T: Copy>(dice: &mut SplitMix64, choices: &[T]) -> T {
    let index = usize::try_from(dice.below(choices.len() as u64)).unwrap_or(0);
    choices[index]
}

/// A number of `from..=to`.
pub(crate) fn within(dice: &mut SplitMix64, from: usize, to: usize) -> usize {
    from + usize::try_from(dice.below((to - from) as u64 + 1)).unwrap_or(0)
}
