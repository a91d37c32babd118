//! Hostile responses, built from the grammar of a response.
//!
//! A response is a head, messages, and an end. A message has members that name, count and contain
//! bytes. A [`Lie`] makes one of these absent, contradictory, late or repeated. A [`HostileCall`]
//! says which kind of call gets which lies: on its first turn, on later turns, or on all. Both are
//! plain data that depends only on a seed. A failure therefore repeats and prints, and can be
//! reduced by removing lies.
//!
//! The server behind the lies is honest: it verifies and stores received bytes and computes the
//! honest response. Only then do lies change the response. The exceptions are [`Lie::Early`],
//! [`Lie::Forget`] and [`Lie::Evict`], which lose bytes.
//!
//! | file | idea |
//! |---|---|
//! | `lie` | every lie |
//! | `draw` | lies from a seed |
//! | `digests`, `entries`, `content`, `packed`, `capabilities` | lies about a message |
//! | `reply` | a response as data, and the lies about it |
//! | `deliver` | sends a response |
//! | `acknowledged` | acknowledgements of a response by the protocol's rules |

mod acknowledged;
mod capabilities;
mod content;
mod deliver;
mod digests;
mod draw;
mod entries;
mod lie;
mod packed;
mod reply;

pub use acknowledged::{Acknowledged, Spliced};
pub(crate) use acknowledged::{Asked, named};
pub(crate) use capabilities::tell as tell_capabilities;
pub(crate) use content::{Content, tell as tell_content};
pub(crate) use digests::{Named, tell as tell_digests, tell_one as tell_digest};
pub(crate) use entries::tell as tell_entries;
pub use lie::{
    CapabilitiesLie, CommittedForm, ContentLie, DigestForm, DigestsLie, EndLie, EntriesLie,
    HashForm, HeadLie, Lie, MessageLie, PackedLie, Part, SizeForm, StatusForm,
};
pub(crate) use reply::{Reply, pieces_bytes};

use super::{fault::ReapiFault, rpc::Rpc, script::ReapiRule};

/// The calls of one kind that get the lies, in the order of their arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    /// The first.
    First,
    /// All but the first.
    Later,
    /// The one with this number, counted from 1.
    Nth(u64),
    /// All.
    All,
}

/// The lies in the responses to calls of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostileCall {
    /// The kind of call.
    pub rpc: Rpc,
    /// The calls of that kind that get the lies.
    pub turns: Turns,
    /// The lies, in the order of their application.
    pub lies: Vec<Lie>,
}

impl HostileCall {
    /// The rules of a script that apply the lies.
    pub(crate) fn rules(&self) -> impl Iterator<Item = ReapiRule> {
        self.lies.iter().map(|lie| {
            let rule = ReapiRule::new(ReapiFault::Hostile(lie.clone())).rpc(self.rpc);
            match self.turns {
                Turns::First => rule.nth(1),
                Turns::Later => rule.nth(2).always(),
                Turns::Nth(n) => rule.nth(n),
                Turns::All => rule.always(),
            }
        })
    }
}
