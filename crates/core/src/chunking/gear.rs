//! The Gear hash: 64 bits over the last 64 bytes, one shift and one addition per byte.
//!
//! `hash = (hash << 1) + GEAR[byte]`: a byte is shifted out after 64 more. So the hash at a
//! position depends only on the 64 bytes before it, and its lowest `n` bits on `n` bytes only. This
//! lets `lanes` hash several positions of a blob at once.
//!
//! The table is that of all implementations of `FastCDC` 2020: entry `i` is the first 8 bytes,
//! big-endian, of the MD5 of byte `i` *repeated 64 times*. The comment in `remote_execution.proto`
//! describes the MD5 of a single byte. That would be another table, and no implementation uses it.

/// The hash depends on this many bytes.
pub(super) const WINDOW_BYTES: usize = 64;

/// One entry for each byte value.
pub(super) type Table = [u64; 256];

/// The hash after one more byte.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one shift and one addition, in the hottest of loops")]
pub(super) const fn step(gear: &Table, hash: u64, byte: u8) -> u64 {
    (hash << 1).wrapping_add(gear[byte as usize])
}

/// The hash after several more bytes.
pub(super) fn roll(gear: &Table, hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| step(gear, hash, *byte))
}

/// The table with `seed` mixed into the lower half of every entry.
pub(super) fn seeded(seed: u32) -> Table {
    GEAR.map(|entry| entry ^ u64::from(seed))
}

#[rustfmt::skip]
pub(super) static GEAR: Table = [
    0x3b5d_3c7d_207e_37dc, 0x784d_68ba_9112_3086, 0xcd52_880f_882e_7298, 0xeacf_8e4e_19fd_cca7,
    0xc31f_385d_fbd1_632b, 0x1d5f_2700_1e25_abe6, 0x8313_0bde_3c9a_d991, 0xc4b2_2567_6e9b_7649,
    0xaa32_9b29_e08e_b499, 0xb67f_cbd2_1e57_7d58, 0x0027_baaa_da2a_cf6b, 0xe3ef_2d5a_c73c_2226,
    0x0890_f24d_6ed3_12b7, 0xa809_e036_851d_7c7e, 0xf0a6_fe5e_0013_d81b, 0x1d02_6304_452c_ec14,
    0x0386_4632_648e_248f, 0xcdaa_cf3d_cd92_b9b4, 0xf5e0_12e6_3c18_7856, 0x8862_f9d3_821c_00b6,
    0xa82f_7338_750f_6f8a, 0x1e58_3dc6_c1cb_0b6f, 0x7a31_45b6_9743_a7f1, 0xabb2_0fee_4048_07eb,
    0xb14b_3cfe_07b8_3a5d, 0xb9dc_2789_8adb_9a0f, 0x3703_f5e9_1baa_62be, 0xcf0b_b866_815f_7d98,
    0x3d98_67c4_1ea9_dcd3, 0x1be1_fa65_442b_f22c, 0x1430_0da4_c556_31d9, 0xe698_e9cb_c654_5c99,
    0x4763_107e_c64e_92a5, 0xc658_21fc_6569_6a24, 0x7619_6c06_4822_f0b7, 0x485b_e841_f352_5e01,
    0xf652_bc9c_8597_4ff5, 0xcad8_352f_ace9_e3e9, 0x2a6e_d1dc_eb35_e98e, 0xc6f4_83ba_dc11_680f,
    0x3cfd_8c17_e9cf_12f1, 0x89b8_3c5e_2ea5_6471, 0xae66_5cfd_24e3_92a9, 0xec33_c4e5_04cb_8915,
    0x3fb9_b15f_c9fe_7451, 0xd7fd_1fd1_945f_2195, 0x31ad_e085_3443_efd8, 0x255e_fc98_63e1_e2d2,
    0x10ea_b600_8d56_42cf, 0x46f0_4863_257a_c804, 0xa52d_c42a_789a_27d3, 0xdaaa_df9c_e77a_f565,
    0x6b47_9cd5_3d87_febb, 0x6309_e2d3_f93d_b72f, 0xc573_8ffb_aa1f_f9d6, 0x6bd5_7f3f_25af_7968,
    0x6760_5486_d90d_0a4a, 0xe14d_0b96_63bf_bdae, 0xb7bb_d8d8_16eb_0414, 0xdef8_a4f1_6b35_a116,
    0xe793_2d85_aaaf_fed6, 0x0816_1cba_e90c_fd48, 0x8555_07be_b294_f08b, 0x9123_4ea6_ffd3_99b2,
    0xad70_cf4b_2435_f302, 0xd289_a975_65bc_2d27, 0x8e55_8437_ffca_99de, 0x96d2_704b_7115_c040,
    0x0889_bbcd_fc66_0e41, 0x5e0d_4e67_dc92_128d, 0x72a9_f891_7063_ed97, 0x438b_69d4_09e0_16e3,
    0xdf4f_ed8a_5d8a_4397, 0x00f4_1dcf_41d4_03f7, 0x4814_eb03_8e52_603f, 0x9daf_bacc_58e2_d651,
    0xfe2f_458e_4be1_70af, 0x4457_ec41_4df6_a940, 0x06e6_2f14_5112_3314, 0xbd10_14d1_73ba_92cc,
    0xdef3_18e2_5ed5_7760, 0x9fea_0de9_dfca_8525, 0x459d_e1e7_6c20_624b, 0xaeec_1896_17e2_d666,
    0x126a_2c06_ab5a_83cb, 0xb132_1532_360f_6132, 0x6542_1503_dbb4_0123, 0x2d67_c287_ea08_9ab3,
    0x6c93_bff5_a56b_d6b6, 0x4ffb_2036_cab6_d98d, 0xce7b_785b_1be7_ad4f, 0xedb4_2ef6_189f_d163,
    0xdc90_5288_7039_88f6, 0x365f_9c1d_2c69_1884, 0xc640_5836_80d9_9bfe, 0x3cd4_624c_0759_3ec6,
    0x7f1e_a8d8_5d7c_5805, 0x0148_42d4_80b5_7149, 0x0b64_9bcb_5a82_8688, 0xbcd5_708e_d79b_18f0,
    0xe987_c862_fbd2_f2f0, 0x9827_3167_1f0c_d82c, 0xbaf1_3e8b_16d8_c063, 0x8ea3_109c_bd95_1bba,
    0xd141_045b_fb38_5cad, 0x2acb_c1a0_af1f_7d30, 0xe644_4d89_df03_bfdf, 0xa18c_c771_b818_8ff9,
    0x9834_429d_b01c_39bb, 0x214a_dd07_fe08_6a1f, 0x8f07_c19b_1f6b_3ff9, 0x56a2_97b1_bf4f_fe55,
    0x94d5_58e4_93c5_4fc7, 0x40bf_c24c_7645_52cb, 0x931a_706f_8a85_20cb, 0x3222_9d32_2935_bd52,
    0x2560_d0f5_dc4f_efaf, 0x9dbc_c483_5596_9bb6, 0x0fd8_1c39_85c0_b56a, 0xe038_17e1_560f_2bda,
    0xc1bb_4f81_d892_b2d5, 0xb0c4_864f_4e28_d2d7, 0x3ecc_49f9_d9d6_c263, 0x5130_7e99_b52b_a65e,
    0x8af2_b688_da84_a752, 0xf5d7_2523_b91b_20b6, 0x6d95_ff1f_f463_4806, 0x562f_2155_5458_339a,
    0xc0ce_47f8_8933_6346, 0x4878_23e5_089b_40d8, 0xe472_7c7e_bc6d_9592, 0x5a8f_7277_e949_70ba,
    0xfca2_f406_b1c8_bb50, 0x5b1f_8a95_f179_1070, 0xd304_af9f_c902_8605, 0x5440_ab7f_c930_e748,
    0x312d_25fb_ca2a_b5a1, 0x10f4_a4b2_34a4_d575, 0x9030_1d55_047e_7473, 0x3b63_7288_6c61_591e,
    0x2934_02b7_7c44_4e06, 0x451f_34a4_d3e9_7dd7, 0x3158_d814_d81b_c57b, 0x0349_4242_5b9b_da69,
    0xe203_2ff9_e532_d9bb, 0x62ae_066b_8b21_79e5, 0x9545_e10c_2f8d_71d8, 0x7ff7_483e_b2d2_3fc0,
    0x0094_5fce_bdc9_8d86, 0x8764_bbbe_99b2_6ca2, 0x1b1e_c622_84c0_bfc3, 0x58e0_fcc4_f0aa_362b,
    0x5f4a_befa_878d_458d, 0xfd74_ac2f_9607_c519, 0xa4e3_fb37_df8c_bfa9, 0xbf69_7e43_cac5_74e5,
    0x86f1_4a3f_68f4_cd53, 0x24a2_3d07_6f1c_e522, 0xe725_cd80_4886_8cc8, 0xbf3c_729e_b246_4362,
    0xd8f6_cd57_b3cc_1ed8, 0x6329_e524_2554_1577, 0x62aa_688a_d5ae_1ac0, 0x0a24_2566_269b_f845,
    0x168b_1a47_53ac_a74b, 0xf789_afef_ff2e_7e3c, 0x6c33_6209_3b6f_ccdb, 0x4ce8_f50b_d28c_09b2,
    0x006a_2db9_5ae8_aa93, 0x975b_0d62_3c3d_1a8c, 0x1860_5d39_3533_8c5b, 0x5bb6_f613_6cad_3c71,
    0x0f53_a207_01f8_d8a6, 0xab8c_5ad2_e7e9_3c67, 0x40b5_ac51_27ac_aa29, 0x8c7b_f63c_2075_895f,
    0x78bd_9f7e_014a_805c, 0xb2c9_e9f4_f9c8_c032, 0xefd6_0498_27eb_91f3, 0x2be4_59f4_82c1_6fbd,
    0xd92c_e0c5_745a_aa8c, 0x0aaa_8fb2_98d9_65b9, 0x2b37_f92c_6c80_3b15, 0x8c54_a5e9_4e0f_0e78,
    0x95f9_b6e9_0c0a_3032, 0xe793_9faa_436c_7874, 0xd16b_fe8f_6a8a_40c9, 0x4498_2b86_263f_d2fa,
    0xe285_fb39_f984_e583, 0x779a_8df7_2d76_19d3, 0xf2d7_9a8d_e8d5_dd1e, 0xd103_7354_d666_84e2,
    0x004c_82a4_e668_a8e5, 0x31d4_0a76_68b0_44e6, 0xd705_7853_8bd0_2c11, 0xdb45_4310_78c5_f482,
    0x9771_21bb_7f6a_51ad, 0x73d5_ccbd_34ef_f8dd, 0xe437_a07d_356e_17cd, 0x47b2_7820_43c9_5627,
    0x9fb2_5141_3e41_d49a, 0xccd7_0b60_6525_13d3, 0x1c95_b31e_8a1b_49b2, 0xcae7_3dfd_1bcb_4c1b,
    0x34d9_8331_b1f5_b70f, 0x784e_39f2_2338_d92f, 0x1861_3d4a_064d_f420, 0xf1d8_dae2_5f0b_cebe,
    0x33f7_7c15_ae85_5efc, 0x3c88_b3b9_12eb_109c, 0x956a_2ec9_6baf_eea5, 0x1aa0_05b5_e0ad_0e87,
    0x5500_d705_27c4_bb8e, 0xe36c_5719_6421_cc44, 0x13c4_d286_cc36_ee39, 0x5654_a23d_818b_2a81,
    0x77b1_dc13_d161_abdc, 0x734f_44de_5f8d_5eb5, 0x6071_7e17_4a6c_89a2, 0xd47d_9649_266a_211e,
    0x5b13_a432_2bb6_9e90, 0xf766_9609_f8b5_fc3c, 0x21e6_ac55_bedc_dac9, 0x9b56_b62b_6116_6dea,
    0xf48f_66b9_3979_7e9c, 0x35f3_32f9_c0e6_ae9a, 0xcc73_3f6a_9a87_8db0, 0x3da1_61e4_1cc1_08c2,
    0xb7d7_4ae5_3591_4d51, 0x4d49_3b0b_11d3_6469, 0xce26_4d1d_fba9_741a, 0xa9d1_f2dc_7436_dc06,
    0x7073_8016_604c_2a27, 0x231d_36e9_6e93_f3d5, 0x7666_8811_9783_8d19, 0x4a2a_8309_0aaa_d40c,
    0xf1e7_6159_1668_b35d, 0x7363_2364_97f7_30a7, 0x3010_80e3_7379_dd4d, 0x502d_ea29_7182_7042,
    0xc2c5_eb85_8f32_625f, 0x786a_fb9e_dfaf_bdff, 0xdaee_0d86_8490_b2a4, 0x6173_66b3_2686_09f6,
    0xae0e_35a0_fe46_173e, 0xd1a0_7de9_3e82_4f11, 0x079b_8b11_5ea4_cca8, 0x93a9_9274_558f_aebb,
    0xfb1e_6e22_e08a_03b3, 0xea63_5fdb_a369_8dd0, 0xcf53_6593_2850_3a5c, 0xcde3_b31e_6fd5_d780,
    0x8e3e_4221_d361_4413, 0xef14_d0d8_6bf1_a22c, 0xe1d8_30d3_f16c_5ddb, 0xaabd_2b2a_4515_04e1,
];

#[cfg(test)]
mod tests {
    use md5::{Digest as _, Md5};

    use super::*;

    #[test]
    fn the_table_is_made_by_its_rule() {
        for byte in 0..=255_u8 {
            let md5 = Md5::digest([byte; 64]);
            let entry = u64::from_be_bytes(md5[..8].try_into().unwrap());
            assert_eq!(GEAR[usize::from(byte)], entry, "entry {byte}");
        }
    }

    #[test]
    fn only_the_window_decides() {
        let bytes: Vec<u8> = (0..=255).collect();
        let window = &bytes[256 - WINDOW_BYTES..];
        assert_eq!(roll(&GEAR, 0, &bytes), roll(&GEAR, u64::MAX, window));
        assert_ne!(roll(&GEAR, 0, &window[1..]), roll(&GEAR, u64::MAX, &window[1..]));
    }
}
