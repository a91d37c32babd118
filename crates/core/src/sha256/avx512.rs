//! Sixteen messages hashed in parallel, with one word of each message in one AVX-512 register.
//!
//! The rounds are those of FIPS 180-4, 6.2.2, on vectors. Word `t` of sixteen blocks is one vector,
//! so a block of each of sixteen messages takes the instructions of one. Transposing the messages
//! into this layout costs a twentieth of the time. Functions of three bits (`Ch`, `Maj`, three-way
//! exclusive or) and rotations are one instruction each.
//!
//! `chunking::avx512` also uses the functions for loading, storing and transposing.
//!
//! Invariants of its `unsafe`: [`Wide`] exists only if the processor has the instructions. Memory
//! is read and written through references to arrays of exactly the size that an instruction takes,
//! so there is no pointer arithmetic.

#![expect(unsafe_code, reason = "vector instructions; see the invariants above")]

use std::arch::x86_64::{
    __m512i, _mm_set_epi8, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_ror_epi32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_shuffle_i32x4, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_ternarylogic_epi32,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use super::{Block, LANES, State};

/// Words of a block.
const WORDS: usize = 16;

/// FIPS 180-4, 4.2.2: the constants, one row for each sixteen rounds.
#[rustfmt::skip]
const K: [[u32; WORDS]; 4] = [
    [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5,
        0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3,
        0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    ],
    [
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc,
        0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7,
        0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    ],
    [
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13,
        0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3,
        0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    ],
    [
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5,
        0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208,
        0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ],
];

/// A value of this type is evidence that the processor has the instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide(());

impl Wide {
    /// `None` if the processor or the system lacks them.
    pub(super) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        has.then_some(Self(()))
    }

    /// Hashes the next blocks: each lane as many as the shortest lane has.
    pub(super) fn compress(self, states: &mut [State; LANES], lanes: &[&[Block]; LANES]) {
        let Self(()) = self;
        // SAFETY: `self` is evidence that the processor has both features.
        unsafe { compress(states, lanes) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(crate) fn load(block: &Block) -> __m512i {
    // SAFETY: the array is 64 bytes of plain data, and the instruction takes any alignment.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(block).cast()) }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(crate) fn load_words(words: &[u32; LANES]) -> __m512i {
    // SAFETY: as above.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(words).cast()) }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(crate) fn store(words: &mut [u32; LANES], vector: __m512i) {
    // SAFETY: the array is 64 bytes of plain data, and the instruction takes any alignment.
    unsafe { _mm512_storeu_si512(std::ptr::from_mut(words).cast(), vector) }
}

/// The first and third quarters of both vectors.
const ODD: i32 = 0b10_00_10_00;

/// The second and fourth quarters of both vectors.
const EVEN: i32 = 0b11_01_11_01;

/// Transposes a matrix of 16 by 16 words. Pairs of rows are interleaved by words, then by pairs of
/// words, then by quarters, twice.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(crate) fn transpose(rows: &mut [__m512i; WORDS]) {
    let mut between = [_mm512_setzero_si512(); WORDS];
    for i in 0..8 {
        between[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
        between[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
    }
    for i in (0..WORDS).step_by(4) {
        rows[i] = _mm512_unpacklo_epi64(between[i], between[i + 2]);
        rows[i + 1] = _mm512_unpackhi_epi64(between[i], between[i + 2]);
        rows[i + 2] = _mm512_unpacklo_epi64(between[i + 1], between[i + 3]);
        rows[i + 3] = _mm512_unpackhi_epi64(between[i + 1], between[i + 3]);
    }
    for i in [0, 1, 2, 3, 8, 9, 10, 11] {
        between[i] = _mm512_shuffle_i32x4::<ODD>(rows[i], rows[i + 4]);
        between[i + 4] = _mm512_shuffle_i32x4::<EVEN>(rows[i], rows[i + 4]);
    }
    for i in 0..8 {
        rows[i] = _mm512_shuffle_i32x4::<ODD>(between[i], between[i + 8]);
        rows[i + 8] = _mm512_shuffle_i32x4::<EVEN>(between[i], between[i + 8]);
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn add(one: __m512i, other: __m512i) -> __m512i {
    _mm512_add_epi32(one, other)
}

/// Exclusive or.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn xor(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

/// The message schedule's next word. It replaces the word of 16 rounds before.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn extend(words: &mut [__m512i; WORDS], t: usize) {
    let (early, late) = (words[(t + 1) % WORDS], words[(t + 14) % WORDS]);
    let sigma_0 = xor(
        _mm512_ror_epi32::<7>(early),
        _mm512_ror_epi32::<18>(early),
        _mm512_srli_epi32::<3>(early),
    );
    let sigma_1 = xor(
        _mm512_ror_epi32::<17>(late),
        _mm512_ror_epi32::<19>(late),
        _mm512_srli_epi32::<10>(late),
    );
    words[t] = add(add(words[t], sigma_0), add(words[(t + 9) % WORDS], sigma_1));
}

/// One round.
#[expect(clippy::many_single_char_names, reason = "the standard's names")]
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn round(state: &mut [__m512i; 8], word: __m512i, constant: u32) {
    let [a, b, c, d, e, f, g, h] = *state;
    let sum_1 = xor(_mm512_ror_epi32::<6>(e), _mm512_ror_epi32::<11>(e), _mm512_ror_epi32::<25>(e));
    let choice = _mm512_ternarylogic_epi32::<0xca>(e, f, g);
    let word = add(word, _mm512_set1_epi32(constant.cast_signed()));
    let first = add(add(h, word), add(sum_1, choice));
    let sum_0 = xor(_mm512_ror_epi32::<2>(a), _mm512_ror_epi32::<13>(a), _mm512_ror_epi32::<22>(a));
    let majority = _mm512_ternarylogic_epi32::<0xe8>(a, b, c);
    *state = [add(first, add(sum_0, majority)), a, b, c, add(d, first), e, f, g];
}

/// Repeats the code sixteen times with a constant, so that every vector has its own register.
macro_rules! each_word {
    (|$t:ident| $($body:tt)*) => {
        each_word!(@ $t { $($body)* } 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $t:ident $body:block $($number:literal)*) => {
        $({
            const $t: usize = $number;
            $body
        })*
    };
}

#[expect(clippy::needless_range_loop, reason = "one index for all lanes")]
#[target_feature(enable = "avx512f,avx512bw")]
fn compress(states: &mut [State; LANES], lanes: &[&[Block]; LANES]) {
    let blocks = lanes.iter().map(|lane| lane.len()).min().unwrap_or(0);
    let big_endian =
        _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    let mut state = [_mm512_setzero_si512(); 8];
    for (word, vector) in state.iter_mut().enumerate() {
        let mut of_lanes = [0; LANES];
        for (of_lane, state) in of_lanes.iter_mut().zip(&*states) {
            *of_lane = state[word];
        }
        *vector = load_words(&of_lanes);
    }
    for block in 0..blocks {
        let mut words = [_mm512_setzero_si512(); WORDS];
        each_word!(|LANE| words[LANE] = load(&lanes[LANE][block]));
        transpose(&mut words);
        each_word!(|T| words[T] = _mm512_shuffle_epi8(words[T], big_endian));
        let before = state;
        each_word!(|T| round(&mut state, words[T], K[0][T]));
        for constants in &K[1..] {
            each_word!(|T| {
                extend(&mut words, T);
                round(&mut state, words[T], constants[T]);
            });
        }
        for (word, before) in state.iter_mut().zip(before) {
            *word = add(*word, before);
        }
    }
    for (word, vector) in state.into_iter().enumerate() {
        let mut of_lanes = [0; LANES];
        store(&mut of_lanes, vector);
        for (state, of_lane) in states.iter_mut().zip(of_lanes) {
            state[word] = of_lane;
        }
    }
}
