//! A scenario: one blob, the server's manners and its deviations, all from one seed.
//!
//! It is pure: a response depends on the seed, on the request and on the request's numbers. The
//! seed alone therefore repeats a scenario.

use std::fmt::Write as _;

use super::bend::bend;
use super::choose::deviations;
use super::content::{Content, http_date};
use super::deviation::{Deviation, Scope};
use super::draft::{Draft, Wired};
use super::honest::{Stand, mirror};
use super::manners::{Framing, Manners, ORIGIN, SECURE, within};
use super::oracle::Name;
use crate::request::Request;
use crate::{Flavour, SplitMix64};

/// See the module docs.
#[derive(Debug, Clone)]
pub struct Scenario {
    seed: u64,
    contents: [Content; 2],
    manners: Manners,
    deviations: Vec<(Scope, Deviation)>,
    /// The number of the response that is held in the first run, and the bytes of its body before
    /// that.
    hold: (usize, u64),
}

/// A request and the numbers that help decide its response.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) port: u16,
    /// The client's run, counted from 0.
    pub(crate) run: usize,
    /// Responses before it, without redirects of the route.
    pub(crate) number: usize,
    /// Redirects before it.
    pub(crate) redirects: usize,
}

impl Asked {
    /// The address of the same blob at another port.
    pub(crate) fn address(&self, port: u16) -> String {
        let scheme = if port >= SECURE { "https" } else { "http" };
        format!("{scheme}://localhost:{port}{}?of={}", self.request.path, self.redirects)
    }
}

/// A response and its origin.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) draft: Draft,
    pub(crate) wired: Wired,
    /// It is a redirect of the route: it has no number and no deviation.
    pub(crate) is_route: bool,
    pub(crate) deviations: Vec<Deviation>,
}

impl Scenario {
    /// The scenario of `seed`.
    pub fn new(seed: u64) -> Self {
        let dice = &mut SplitMix64::new(seed);
        let len = |dice: &mut SplitMix64| match dice.below(16) {
            0 => 0,
            1 => 1,
            2..=4 => within(dice, 2, 300),
            _ => within(dice, 1000, 12_000),
        };
        let first = len(dice);
        let second = if dice.below(3) > 0 { first } else { len(dice) };
        let contents = [Content::new('A', first, seed), Content::new('B', second, !seed)];
        let manners = Manners::new(dice);
        let deviations = deviations(dice, contents[0].len());
        let hold = (within(dice, 0, 5), dice.below(3000));
        Self { seed, contents, manners, deviations, hold }
    }

    /// Its seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The remote that the server imitates.
    pub fn flavour(&self) -> Flavour {
        self.manners.flavour
    }

    /// The two contents that the blob may have: `A` first, and `B`.
    pub fn contents(&self) -> &[Content; 2] {
        &self.contents
    }

    /// The start of the URL: scheme, host and port.
    pub fn endpoint(&self) -> String {
        if self.manners.secure {
            format!("https://localhost:{}", ORIGIN + SECURE)
        } else {
            format!("http://localhost:{ORIGIN}")
        }
    }

    /// Versions that a caller may request: those of the two contents, and one that does not exist.
    pub fn pins(&self) -> Vec<Name> {
        let mut pins = vec![Name::Tag("\"zzz\"".to_owned())];
        for content in &self.contents {
            pins.push(Name::Tag(format!("\"{}\"", content.tag(ORIGIN))));
            match self.manners.flavour {
                Flavour::Gcs => pins.push(Name::Generation(content.generation())),
                Flavour::S3 | Flavour::Azure => pins.push(Name::VersionId(content.version_id())),
                Flavour::Http => pins.push(Name::Date(http_date(content.modified()))),
            }
        }
        pins
    }

    /// Whether there is no deviation and the blob stays the same. A client must then succeed.
    pub fn is_sound(&self) -> bool {
        self.deviations.is_empty() && self.manners.change.is_none()
    }

    /// Whether every whole response contains the blob's length.
    pub fn tells_length(&self) -> bool {
        self.manners.framing == Framing::Length
    }

    /// Whether some deviation may deceive every client: see [`Deviation::may_deceive`].
    pub(crate) fn may_deceive(&self) -> bool {
        self.deviations.iter().any(|(_, deviation)| deviation.may_deceive())
    }

    /// After how many bytes of its body this response is held in the first run, if it is.
    pub(crate) fn held(&self, asked: &Asked) -> Option<u64> {
        let (number, bytes) = self.hold;
        let is_due = asked.run == 0 && asked.number >= number && !asked.request.is_head();
        is_due.then_some(bytes)
    }

    pub(crate) fn reply(&self, asked: &Asked) -> Reply {
        let plain = Asked { port: asked.port % SECURE, ..asked.clone() };
        if let Some(port) = mirror(&self.manners, &plain) {
            let mut draft = Draft::new(302);
            let secure = if asked.port >= SECURE { SECURE } else { 0 };
            draft.add("Location", asked.address(port + secure));
            let wired = draft.wired();
            return Reply { draft, wired, is_route: true, deviations: Vec::new() };
        }
        let (manners, contents) = (&self.manners, &self.contents);
        let current = self.current(asked.number);
        let (mut draft, current) = Stand { manners, contents, current, asked }.answer();
        let stand = Stand { manners, contents, current, asked };
        let mut due: Vec<Deviation> = self
            .deviations
            .iter()
            .filter(|(scope, _)| covers(*scope, asked, &draft))
            .map(|(_, deviation)| *deviation)
            .collect();
        due.sort_by_key(|deviation| deviation.stage());
        for deviation in &due {
            bend(&mut draft, *deviation, &stand);
        }
        let wired = draft.wired();
        Reply { draft, wired, is_route: false, deviations: due }
    }

    /// The content of the blob at the time of this response.
    fn current(&self, number: usize) -> usize {
        match self.manners.change {
            Some((at, back)) => usize::from(number >= at && back.is_none_or(|back| number < back)),
            None => 0,
        }
    }

    /// In plain words, a few lines.
    pub fn words(&self) -> String {
        let [a, b] = &self.contents;
        let mut words = format!(
            "seed {}: A has {} bytes, B has {}\n{}\n",
            self.seed,
            a.len(),
            b.len(),
            self.manners.words()
        );
        for (scope, deviation) in &self.deviations {
            // Writing to a String cannot fail.
            let _ = writeln!(words, "deviation in {scope:?}: {deviation:?}");
        }
        words
    }
}

fn covers(scope: Scope, asked: &Asked, draft: &Draft) -> bool {
    match scope {
        Scope::First => asked.number == 0,
        Scope::Nth(number) => asked.number == number,
        Scope::From(number) => asked.number >= number,
        Scope::All => true,
        Scope::Heads => asked.request.is_head(),
        Scope::LaterRuns => asked.run > 0,
        Scope::LaterParts => draft.range.start > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_scenario() {
        for seed in 0..200 {
            assert_eq!(Scenario::new(seed).words(), Scenario::new(seed).words());
        }
        assert_ne!(Scenario::new(1).words(), Scenario::new(2).words());
    }
}
