//! Further failures that the simulator has found.

#![expect(clippy::too_many_lines, reason = "flat plans")]

use weir_testkit::program::Topic;

use super::super::plan::{Person, Plan, What};
use super::{exposed, plan, replay};

/// A client was not read from any more whose server had died behind a finished transaction, before the driver had said that
/// all was sent.
#[test]
fn a_client_is_read_from_after_its_server_has_died_before_all_was_sent() {
    let ops = [
        (What::Act, 1, 0xcf7e_0889_3563_e3e5),
        (What::Act, 3, 0xe516_d96a_494a_27d9),
        (What::Act, 2, 0xa8d7_240f_1980_85b1),
        (What::Settle, 0, 0),
        (What::Act, 2, 0x7a55_d5f1_9594_3f9c),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Turn, 3, 0xe4f4_e01b_3d32_dc08),
        (What::Server, 1, 0x1ac7_03fa_81b7_a1a6),
        (What::Server, 0, 0x73f1_12ba_4b38_18fc),
        (What::Fault, 2, 0x9e58_5bae_422b_50e2),
        (What::Turn, 0, 0x590d_aa20_b16a_d0ee),
    ];
    let struck = || Person {
        is_struck: true,
        ..exposed(&[])
    };
    replay(&Plan {
        seed: 1_795_707_500_004_593,
        workers: 3,
        places: 1,
        room: 1_048_576,
        options: vec!["; sends complete later, watermark 1"],
        ..plan(vec![struck(), struck(), struck(), struck()], &ops)
    });
    let ops = [
        (What::Act, 3, 0xa00f_61fc_58da_6e0e),
        (What::Act, 0, 0xd0ec_c699_58ad_bc1f),
        (What::Act, 2, 0x4531_f32d_8c25_da85),
        (What::Act, 1, 0x7f18_a3ad_52ad_e508),
        (What::Settle, 0, 0),
        (What::Act, 3, 0x67c0_2083_add8_f23e),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Server, 1, 0x9f8f_22a8_de1a_e033),
        (What::Hit, 3, 0xf395_cc7e_00c8_018d),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Turn, 3, 0x710b_c88c_3941_3928),
        (What::Servers, 0, 0),
        (What::Fault, 0, 0x49f4_9f76_d3ab_152f),
        (What::Turn, 2, 0x08d9_3a2c_5893_c885),
    ];
    let checked = || Person {
        is_checked: true,
        ..struck()
    };
    replay(&Plan {
        seed: 1_795_707_500_072_395,
        workers: 2,
        places: 4,
        room: 1_048_576,
        options: vec![
            "server_check_delay = 0",
            "; sends complete later, watermark 1",
        ],
        ..plan(vec![checked(), checked(), checked(), checked()], &ops)
    });
}

#[test]
fn a_client_whose_read_ran_again_moves_to_another_process() {
    let ops = [
        (What::Act, 1, 0x3483_2dad_9a13_0113),
        (What::Settle, 0, 0),
        (What::Upgrade, 3, 0xe2b7_ba91_044d_54a1),
        (What::Act, 1, 0x4fc1_3f3b_2fee_fe46),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x829e_d628_12e3_73b8),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Fault, 5, 0xbbc5_8bb5_bfe9_8101),
    ];
    let struck = || Person {
        is_struck: true,
        ..exposed(&[])
    };
    replay(&Plan {
        seed: 1_795_707_500_028_804,
        workers: 1,
        places: 1,
        room: 1_048_576,
        options: vec!["; workers know the catalogue"],
        ..plan(vec![struck(), struck()], &ops)
    });
}

/// The server had answered all, and the driver had not yet said that all was sent.
#[test]
fn an_idle_client_outlives_a_server_that_is_lost_before_all_was_sent() {
    let ops = [
        (What::Act, 1, 0xe856_1b48_1851_31a7),
        (What::Act, 2, 0xcffb_1168_a329_f2f8),
        (What::Act, 0, 0x11e7_d01d_c794_0023),
        (What::Order, 2, 0x7ff1_a373_ed94_800a),
        (What::Reload, 4, 0xc7f1_c410_cae1_d896),
        (What::Settle, 0, 0),
        (What::Order, 4, 0x5d5f_987d_b007_e532),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Fault, 4, 0xccd0_cc10_8883_c030),
        (What::Turns, 0, 0),
        (What::Order, 0, 0xa53b_787c_12ca_6aa9),
        (What::Vanish, 1, 0xf14e_75a3_93eb_4029),
        (What::Act, 1, 0xa0b7_0c6a_827a_9c05),
        (What::Act, 4, 0x4371_73bc_1c81_d462),
        (What::Order, 2, 0x2767_2502_e0a4_473f),
        (What::Order, 0, 0x2d6b_879c_4f9d_78eb),
        (What::Settle, 0, 0),
        (What::Act, 4, 0x06c1_b50c_aae0_572a),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Turn, 4, 0xdd36_de5a_22d2_d917),
        (What::Servers, 0, 0),
        (What::Turn, 1, 0xcdde_2417_cea0_0d46),
        (What::Fault, 4, 0x7a55_575f_88a9_10ce),
    ];
    let struck = |topics: &[Topic]| Person {
        is_struck: true,
        ..exposed(topics)
    };
    let topics = [
        Topic::Ledger,
        Topic::Notifications,
        Topic::Roles,
        Topic::SqlPrepared,
        Topic::SearchPath,
        Topic::Temporary,
    ];
    let mut people = vec![struck(&[]); 4];
    people.push(struck(&topics));
    let options = [
        "; sends complete later, watermark 300",
        "; workers know the catalogue",
    ];
    replay(&Plan {
        seed: 1_795_711_900_010_461,
        workers: 3,
        places: 1,
        room: 1_048_576,
        options: options.to_vec(),
        ..plan(people, &ops)
    });
}

/// A server that its client only kept was taken from it, while the client's next request waited there for the end of a
/// repeated cancel: nobody thought of the request again.
#[test]
fn a_kept_server_stays_while_a_request_waits_there_for_a_repeated_cancel() {
    let ops = [
        (What::Act, 0, 0x3213_91ce_bb4f_b125),
        (What::Act, 1, 0xa825_3268_00a0_fde4),
        (What::Settle, 0, 0),
        (What::AskCancel, 0, 0xab89_4505_d07f_7c9d),
        (What::Act, 0, 0x9e40_b0b6_94ac_2687),
        (What::Act, 1, 0x1eec_2987_ae52_e025),
        (What::Deafen, 0, 0xe3c2_0ee9_26f2_f518),
        (What::AskCancel, 1, 0x35b3_9d15_1f5f_51c2),
        (What::AskCancel, 0, 0xfc09_3c15_af02_c9a1),
        (What::Client, 1, 0xb069_a032_7362_c436),
        (What::Client, 1, 0x070f_8d11_c921_6091),
        (What::Turns, 0, 0),
        (What::AskCancel, 0, 0x0de7_75ae_21ad_a337),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Client, 0, 0x6f25_4f6d_6f42_db81),
        (What::Client, 1, 0x7ad5_0c63_060b_b9fc),
        (What::Clients, 0, 0),
        (What::Clients, 0, 0),
        (What::Shortage, 0, 0xd2ef_24a7_fc70_983a),
        (What::Turns, 0, 0),
        (What::Clients, 0, 0),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Clients, 0, 0),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::AskCancel, 0, 0x829c_bdfb_9e37_3a56),
        (What::Shortage, 0, 0xb124_84ac_731a_0b47),
        (What::Leap, 1, 0x1198_eeb8_16fb_c5f5),
        (What::Clients, 0, 0),
        (What::Clients, 0, 0),
        (What::Deafen, 0, 0x5615_02a8_65d6_36a4),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Clients, 0, 0),
        (What::Servers, 0, 0),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Server, 0, 0xbf68_de40_8343_92f3),
        (What::Cancel, 0, 0x4059_ade4_8afa_5fa2),
        (What::Cancel, 0, 0x9a55_f9c8_eb7d_638f),
        (What::Turns, 0, 0),
        (What::Leap, 0, 0xc6b2_9383_e811_76d3),
        (What::Turns, 0, 0),
        (What::Settle, 0, 0),
        (What::Leap, 1, 0xcc47_6ceb_4b61_8693),
        (What::Act, 0, 0xc8b1_db48_b88a_fa25),
    ];
    let struck = |topics: &[Topic]| Person {
        is_struck: true,
        ..exposed(topics)
    };
    let one = struck(&[
        Topic::AdvisoryLocks,
        Topic::Copy,
        Topic::Cursors,
        Topic::Ledger,
        Topic::Roles,
        Topic::SqlPrepared,
        Topic::SearchPath,
    ]);
    let other = struck(&[
        Topic::AdvisoryLocks,
        Topic::Discard,
        Topic::Notifications,
        Topic::Settings,
        Topic::SearchPath,
        Topic::Temporary,
    ]);
    replay(&Plan {
        seed: 1_795_716_223_399_328,
        workers: 1,
        places: 3,
        room: 1_048_576,
        options: vec![
            "; stand-in of TLS\nclient_tls_sslmode = allow\nclient_tls_key_file = no\nclient_tls_cert_file = no",
        ],
        ..plan(vec![one, other], &ops)
    });
}

/// A client's statement got its own name again in a block that had failed. That Parse failed, and the Bind behind it did not
/// find the name.
#[test]
fn a_statement_that_runs_another_is_bound_in_a_block_that_has_failed() {
    let ops = [
        (What::Act, 1, 0xf454_e685_d8ad_783f),
        (What::Settle, 0, 0),
        (What::Act, 1, 0xfecc_75f7_c48b_ba3f),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x5856_68d6_7ea9_7808),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x2ad6_b168_b6fb_fd68),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x8e59_fcad_4adf_52f9),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x2d05_7886_bdc8_2e42),
    ];
    let topics = [
        Topic::Copy,
        Topic::Cursors,
        Topic::Ledger,
        Topic::Notifications,
        Topic::SqlPrepared,
        Topic::Temporary,
    ];
    let checked = |topics: &[Topic]| Person {
        is_checked: true,
        ..exposed(topics)
    };
    replay(&Plan {
        seed: 1_795_720_000_016_671,
        ..plan(vec![checked(&[]), checked(&topics)], &ops)
    });
}
