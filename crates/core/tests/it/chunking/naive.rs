//! Both chunking functions written as their definitions, one byte at a time over a complete slice:
//! the model for the property tests.

use md5::{Digest as _, Md5};
use tidegate_core::chunking::{Chunking, FastCdc2020Params, RepMaxCdcParams};

/// The lengths of all chunks.
pub(super) fn lengths(chunking: &Chunking, mut bytes: &[u8]) -> Vec<u64> {
    let mut lengths = Vec::new();
    let gear = gear();
    while !bytes.is_empty() {
        let len = match chunking {
            Chunking::FastCdc2020(params) => fast_cdc(&gear, params, bytes),
            Chunking::RepMaxCdc(params) => rep_max_cdc(&gear, params, bytes),
            _ => panic!("{chunking:?} has no model"),
        };
        lengths.push(len as u64);
        bytes = &bytes[len..];
    }
    lengths
}

fn gear() -> Vec<u64> {
    let entry = |byte: u8| Md5::digest([byte; 64])[..8].try_into().map(u64::from_be_bytes);
    (0..=255).map(|byte| entry(byte).unwrap()).collect()
}

fn fast_cdc(gear: &[u64], params: &FastCdc2020Params, bytes: &[u8]) -> usize {
    let size = |bytes: u64| usize::try_from(bytes).unwrap();
    let (min, max) = (size(params.min_bytes()), size(params.max_bytes()));
    if bytes.len() <= min {
        return bytes.len();
    }
    let end = bytes.len().min(max);
    let center = end.min(size(params.avg_bytes()));
    let bits = params.avg_bytes().ilog2();
    let (small, large) = (mask(bits + params.normalization()), mask(bits - params.normalization()));
    let mut hash = 0_u64;
    for at in (min & !1)..(end & !1) {
        let entry = gear[usize::from(bytes[at])] ^ u64::from(params.seed());
        hash = (hash << 1).wrapping_add(entry);
        if hash & (if at < (center & !1) { small } else { large }) == 0 {
            return at;
        }
    }
    end
}

/// The masks, by the positions of their bits.
fn mask(bits: u32) -> u64 {
    let text = match bits {
        7 => "18035100",
        8 => "1800035300",
        9 => "19000353000",
        10 => "590003530000",
        11 => "d90003530000",
        12 => "d90103530000",
        13 => "d90303530000",
        14 => "d90313530000",
        15 => "d90f03530000",
        16 => "d90303537000",
        17 => "d90703537000",
        18 => "d90707537000",
        19 => "d91707537000",
        20 => "d91747537000",
        21 => "d91767537000",
        22 => "d93767537000",
        23 => "d93777537000",
        _ => panic!("no mask of {bits} bits"),
    };
    u64::from_str_radix(text, 16).unwrap()
}

fn rep_max_cdc(gear: &[u64], params: &RepMaxCdcParams, bytes: &[u8]) -> usize {
    let size = |bytes: u64| usize::try_from(bytes).unwrap();
    let min = size(params.min_bytes());
    let seen = bytes.len().min(2 * min + size(params.horizon_bytes()));
    if seen < 2 * min {
        return seen;
    }
    let hash = |at: usize| {
        let window = &bytes[at - 64..at];
        window.iter().fold(0_u64, |hash, byte| (hash << 1).wrapping_add(gear[usize::from(*byte)]))
    };
    let mut limit = seen - min;
    loop {
        let (mut best, mut rolling) = ((min, hash(min)), hash(min));
        for at in min + 1..=limit {
            rolling = (rolling << 1).wrapping_add(gear[usize::from(bytes[at - 1])]);
            if rolling > best.1 {
                best = (at, rolling);
            }
        }
        if best.0 < 2 * min {
            return best.0;
        }
        limit = best.0 - min;
    }
}
