//! Every case of the vectors: inputs, parameters and chunks on which two to five independent
//! implementations agree. `about` in each file says how the inputs are generated.

use std::collections::HashMap;

use serde_json::Value;
use tidegate_core::chunking::{Chunking, Cutter, FastCdc2020Params, RepMaxCdcParams, cuts};
use tidegate_core::digest::{Digest, DigestFunction};

use super::input;

const FAST_CDC: &str = include_str!("../../vectors/fastcdc.json");
const REP_MAX_CDC: &str = include_str!("../../vectors/repmax.json");

#[test]
fn fast_cdc_2020_cuts_where_the_vectors_say() {
    let checked = check(FAST_CDC, |params| {
        let number = |name: &str| params[name].as_u64().unwrap();
        let of_api = FastCdc2020Params::new(number("avg"), number("seed").try_into().unwrap());
        let params = of_api
            .and_then(|of_api| of_api.with_chunk_bytes(number("min")..=number("max")))
            .and_then(|params| {
                params.with_normalization(number("normalization").try_into().unwrap())
            });
        Chunking::FastCdc2020(params.unwrap())
    });
    assert_eq!(checked, 79);
}

#[test]
fn rep_max_cdc_cuts_where_the_vectors_say() {
    let checked = check(REP_MAX_CDC, |params| {
        let number = |name: &str| params[name].as_u64().unwrap();
        Chunking::RepMaxCdc(RepMaxCdcParams::new(number("min"), number("horizon")).unwrap())
    });
    assert_eq!(checked, 80);
}

fn check(text: &str, chunking: impl Fn(&Value) -> Chunking) -> usize {
    let file: Value = serde_json::from_str(text).unwrap();
    let mut inputs: HashMap<String, Vec<u8>> = HashMap::new();
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let input = &case["input"];
        let bytes = inputs.entry(input.to_string()).or_insert_with(|| make(input));
        check_case(case, &chunking(&case["params"]), bytes);
    }
    cases.len()
}

fn make(input: &Value) -> Vec<u8> {
    let len = usize::try_from(input["len"].as_u64().unwrap()).unwrap();
    let bytes = match input["kind"].as_str().unwrap() {
        "splitmix64" => input::splitmix64(input["seed"].as_u64().unwrap(), len),
        "alpha" => input::alphabet(len),
        "zeros" => vec![0; len],
        kind => panic!("no input is made by {kind}"),
    };
    assert_eq!(sha256(&bytes), input["sha256"], "the input {input} is made as it should be");
    bytes
}

fn check_case(case: &Value, chunking: &Chunking, bytes: &[u8]) {
    let id = case["id"].as_str().unwrap();
    let lengths: Vec<usize> = cuts(chunking, bytes).collect();
    assert_eq!(lengths.len() as u64, case["count"].as_u64().unwrap(), "{id}: chunks");
    let mut rest = bytes;
    let mut hashes = Vec::new();
    for len in &lengths {
        let (chunk, after) = rest.split_at(*len);
        hashes.push(sha256(chunk));
        rest = after;
    }
    assert!(rest.is_empty(), "{id}: the chunks make up the blob");
    if let Some(chunks) = case["chunks"].as_array() {
        let expected: Vec<_> = chunks.iter().map(|chunk| (&chunk[0], &chunk[1])).collect();
        for ((len, hash), expected) in lengths.iter().zip(&hashes).zip(expected) {
            assert_eq!(
                (len, hash.as_str()),
                (&size(expected.0), expected.1.as_str().unwrap()),
                "{id}"
            );
        }
    } else {
        let text = lengths.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(sha256(text.as_bytes()), case["lengths_sha256"], "{id}: lengths");
        let raw: Vec<u8> = hashes.iter().flat_map(|hash| unhex(hash)).collect();
        assert_eq!(sha256(&raw), case["chunk_hashes_sha256"], "{id}: content");
    }
    streamed(id, chunking, bytes, &lengths);
}

/// The blob has the same chunks when it is fed in pieces.
fn streamed(id: &str, chunking: &Chunking, bytes: &[u8], expected: &[usize]) {
    let mut cutter = Cutter::new(chunking);
    let mut lengths = Vec::new();
    for piece in bytes.chunks(65_521) {
        lengths.extend(cutter.feed(piece));
    }
    lengths.extend(cutter.finish());
    assert!(
        lengths.iter().eq(expected.iter().map(|len| *len as u64).collect::<Vec<_>>().iter()),
        "{id}"
    );
}

fn size(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Digest::of(DigestFunction::Sha256, bytes).checksum().hex()
}

fn unhex(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}
