//! How much to evict, and which pack to clean. Pure: usage in, decision out.
//!
//! The log must always find a pack, and files must find room. So the store keeps `slack` bytes
//! available: free packs, and room for new packs and files. The live bytes stay below the limit by
//! twice that, so that the packs have enough dead bytes to make cleaning cheap.

/// A pack in use that is not the log's current one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackUse {
    pub(crate) slot: u32,
    pub(crate) live_bytes: u64,
}

/// What takes space now.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) bytes_max: u64,
    /// Bytes that are left for packs and files.
    pub(crate) room: u64,
    pub(crate) pack_bytes: u64,
    pub(crate) free_packs: u64,
    /// Bytes of files that entries name, and of live records.
    pub(crate) live: u64,
    /// Packs that can be cleaned.
    pub(crate) packs: Vec<PackUse>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing.
    Rest,
    /// Evict the oldest entries of this many bytes.
    Evict(u64),
    /// Move the live records of this pack and free it.
    Clean(u32),
    /// Remove the file of a free pack, because files and checkpoints need the room.
    RemoveFreePack,
}

/// Free packs that stay for the log and the cleaning of another pack.
const FREE_PACKS_MIN: u64 = 2;

/// Decides what to do next. After the caller did it, it asks again.
pub(crate) fn plan(usage: &Usage) -> Plan {
    let slack = (usage.bytes_max / 25).max(3 * usage.pack_bytes);
    let room = usage.room;
    let available = room + usage.free_packs * usage.pack_bytes;
    let live_max = usage.bytes_max.saturating_sub(2 * slack);
    if usage.live > live_max {
        return Plan::Evict(usage.live - live_max + usage.bytes_max / 100);
    }
    if room < slack / 4 && usage.free_packs >= FREE_PACKS_MIN {
        return Plan::RemoveFreePack;
    }
    if available < slack || room < slack / 4 {
        let victim = usage.packs.iter().min_by_key(|pack| pack.live_bytes);
        return match victim {
            // A pack that is nearly all live gives back too little for its cost.
            Some(pack) if pack.live_bytes < usage.pack_bytes / 20 * 19 => Plan::Clean(pack.slot),
            Some(_) => Plan::Evict(usage.pack_bytes),
            None => Plan::Rest,
        };
    }
    Plan::Rest
}

#[cfg(test)]
mod tests {
    use super::{PackUse, Plan, Usage, plan};

    const MIB: u64 = 1 << 20;

    fn usage() -> Usage {
        Usage {
            bytes_max: 100 * MIB,
            room: 50 * MIB,
            pack_bytes: MIB,
            free_packs: 0,
            live: 40 * MIB,
            packs: vec![
                PackUse { slot: 1, live_bytes: 900_000 },
                PackUse { slot: 2, live_bytes: 7 },
            ],
        }
    }

    #[test]
    fn rests_while_there_is_room() {
        assert_eq!(plan(&usage()), Plan::Rest);
    }

    #[test]
    fn evicts_when_too_much_is_live() {
        assert_eq!(plan(&Usage { live: 93 * MIB, ..usage() }), Plan::Evict(2 * MIB));
    }

    #[test]
    fn cleans_the_pack_with_least_live_bytes() {
        assert_eq!(plan(&Usage { room: 2 * MIB, ..usage() }), Plan::Clean(2));
        let full = vec![PackUse { slot: 1, live_bytes: MIB }];
        assert_eq!(plan(&Usage { room: 2 * MIB, packs: full, ..usage() }), Plan::Evict(MIB));
    }

    #[test]
    fn gives_free_packs_to_files() {
        let usage = Usage { room: MIB / 2, free_packs: 8, ..usage() };
        assert_eq!(plan(&usage), Plan::RemoveFreePack);
    }
}
