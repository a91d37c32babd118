//! The server's own chunking against vectors on which independent implementations agree.

use tidegate_testkit::{
    SplitMix64,
    reapi::{ChunkFunction, HashFunction},
};

fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        data.extend(random.draw().to_le_bytes());
    }
    data.truncate(len);
    data
}

fn alphabet(len: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len).collect()
}

/// The hash of the lengths, as the vectors have it.
fn fingerprint(lengths: &[usize]) -> String {
    let text: Vec<String> = lengths.iter().map(ToString::to_string).collect();
    HashFunction::Sha256.hash(text.join(",").as_bytes())
}

fn check(data: &[u8], function: ChunkFunction, count: usize, expected: &str) {
    let lengths = function.cut(data);
    assert_eq!(lengths.iter().sum::<usize>(), data.len());
    assert_eq!(
        (lengths.len(), fingerprint(&lengths)),
        (count, expected.to_owned()),
        "{function:?}"
    );
}

#[test]
fn fastcdc_agrees_with_other_implementations() {
    check(
        &random(10_485_760, 1),
        ChunkFunction::FastCdc2020 { avg_bytes: 65_536, seed: 0 },
        144,
        "1394a6a645097ec0b24174b215646cbf235837c14758bc86c9fa015216cea6ae",
    );
    check(
        &random(10_485_760, 1),
        ChunkFunction::FastCdc2020 { avg_bytes: 65_536, seed: 4_294_967_295 },
        142,
        "4901a57d7b3ef50a724aa78df782a9f8c73916fc421307ec9fc4f7fe5671b4a8",
    );
    check(
        &random(10_485_760, 1),
        ChunkFunction::FastCdc2020 { avg_bytes: 524_288, seed: 0 },
        19,
        "2befa2e98baaac9ca0cfe0ee6d3fc174bfe8ac861e155a9c1f0c02261f9136c7",
    );
    check(
        &vec![0; 4_194_304],
        ChunkFunction::FastCdc2020 { avg_bytes: 1024, seed: 666 },
        1024,
        "403f8da158d93997f9698dcc6115cd5184e058a0ff59454f2c72d7ac63a85f42",
    );
    check(
        &alphabet(4_194_304),
        ChunkFunction::FastCdc2020 { avg_bytes: 65_536, seed: 666 },
        16,
        "2662a10ba929775f481dd1e252a7fa49f63483b52b3c9035251d8cb70100f343",
    );
    check(
        &random(0, 2),
        ChunkFunction::FastCdc2020 { avg_bytes: 1024, seed: 0 },
        0,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    check(
        &random(8193, 2),
        ChunkFunction::FastCdc2020 { avg_bytes: 1024, seed: 0 },
        7,
        "1368f05d0db86d1aa3426a102029dfb6d2fc169e23f2d5dd806167d5fd2e5adb",
    );
}

#[test]
fn repmax_agrees_with_other_implementations() {
    check(
        &random(10_485_760, 1),
        ChunkFunction::RepMaxCdc { min_bytes: 65_536, horizon_bytes: 524_288 },
        117,
        "99d1f8413e330df28b7f705f65b59c81235037c391c3524d38597d54856465c1",
    );
    check(
        &alphabet(4_194_304),
        ChunkFunction::RepMaxCdc { min_bytes: 65_536, horizon_bytes: 524_288 },
        63,
        "965fcab48c65c913c40e6114dcacf97bac07a98c2e0a1e6e3aab91638c5a5748",
    );
    check(
        &vec![0; 4_194_304],
        ChunkFunction::RepMaxCdc { min_bytes: 262_144, horizon_bytes: 2_097_152 },
        16,
        "2662a10ba929775f481dd1e252a7fa49f63483b52b3c9035251d8cb70100f343",
    );
    check(
        &random(10_485_760, 1),
        ChunkFunction::RepMaxCdc { min_bytes: 262_144, horizon_bytes: 0 },
        40,
        "e0161eb5b83e77271306d578a3c65d8ff8d3c38830e4acd5cd0142fb351e10b2",
    );
    check(
        &random(385, 2),
        ChunkFunction::RepMaxCdc { min_bytes: 64, horizon_bytes: 256 },
        5,
        "4ef0e93d3f6452e747a84ecab420cad884fb05073273e650148946360c693605",
    );
    check(
        &random(10_485_760, 1),
        ChunkFunction::RepMaxCdc { min_bytes: 262_144, horizon_bytes: 8_388_608 },
        31,
        "0af1723d45ff6433e6e991c447922a4fdf00b62d1e1030aeab474c1ad49f1cd8",
    );
    check(
        &random(3071, 2),
        ChunkFunction::RepMaxCdc { min_bytes: 1024, horizon_bytes: 8192 },
        2,
        "bb2ca057fb3362475aac177d3f693ef3e06dd560680440eec43e77564c090c94",
    );
}
