//! Failures that the simulator has found in databases with several hosts.

use super::plan::{Consistency, Op, Plan, What};
use super::shrink;

/// Runs a plan printed by the shrinker.
#[track_caller]
fn replay(plan: &Plan, ops: &[(What, usize, u64)]) {
    let ops = ops.iter().map(|(what, who, seed)| Op {
        what: *what,
        who: *who,
        seed: *seed,
    });
    let plan = Plan {
        ops: ops.collect(),
        ..plan.clone()
    };
    if let Err(failure) = shrink::attempt(&plan) {
        panic!("{failure}");
    }
}

fn plan(seed: u64, hosts: usize, people: usize, consistency: Consistency) -> Plan {
    Plan {
        seed,
        workers: 1,
        hosts,
        people,
        consistency,
        options: Vec::new(),
        ops: Vec::new(),
    }
}

/// A client kept its server after an INSERT. The next one ran there, though a second primary had made writes wait.
#[test]
fn a_kept_server_gets_no_write_when_its_host_takes_none() {
    let ops = [
        (What::Act, 2, 0x9f2b_5cc7_6afc_be7c),
        (What::Pass, 0, 0x836e_1ed7_e046_8d7c),
        (What::Settle, 0, 0),
        (What::Act, 2, 0x65b0_aa57_e5d6_51c0),
        (What::Pass, 2, 0xe66a_2276_c622_8f6d),
        (What::Promote, 1, 0x50d7_42fd_0575_8e42),
        (What::Start, 2, 0xd13a_2d87_ab69_f456),
        (What::Settle, 0, 0),
        (What::Pass, 0, 0x0c94_b16f_0079_b118),
        (What::Act, 2, 0x229e_4348_637f_5fd3),
        (What::Settle, 0, 0),
    ];
    replay(&plan(28, 2, 3, Consistency::Eventual), &ops);
}

/// A replica was lost before it took the batch that was kept for it. The batch was given back, beside the same bytes in
/// the client's input.
#[test]
fn a_batch_that_a_lost_replica_did_not_take_runs_once() {
    let ops = [
        (What::Turns, 0, 0xf903_c98f_a381_a994),
        (What::Pass, 0, 0xc779_196a_e2df_71f0),
        (What::Pass, 0, 0x8fe9_7cd4_f43c_4858),
        (What::Act, 0, 0x3476_3b33_c52d_93a9),
        (What::Settle, 0, 0),
        (What::Act, 0, 0x7bb7_6977_237f_f8ec),
        (What::Settle, 0, 0),
        (What::Act, 0, 0xe9a5_8298_2389_fde1),
        (What::Clients, 0, 0x134f_fcdf_ac2b_584b),
        (What::Turns, 0, 0x585d_8a04_60ee_41ea),
        (What::Turn, 0, 0xcb24_4423_769d_a97d),
        (What::Servers, 0, 0x7228_a551_f791_16cb),
        (What::Turns, 0, 0xc521_eb56_6b80_8f45),
    ];
    replay(&plan(39, 3, 1, Consistency::Session), &ops);
}

/// The beginning of a batch came, and Weir's own Parse went to the replica in front of it. The rest then waited for ever.
#[test]
fn a_batch_in_pieces_goes_on_behind_a_parse_of_ours() {
    let ops = [
        (What::Act, 0, 0x6b65_35ba_fe62_cd1e),
        (What::Pass, 0, 0xd2ca_5683_50f4_50fe),
        (What::Settle, 0, 0),
        (What::Act, 0, 0x878b_8fac_79e9_2fab),
        (What::Act, 1, 0x592f_8df8_d9d2_3620),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x08bf_6515_aa13_f3ef),
        (What::Act, 0, 0x959f_ffc2_9daf_b04d),
        (What::Settle, 0, 0),
        (What::Act, 0, 0xc096_f981_7077_9626),
        (What::Client, 0, 0xe385_30cb_ab4f_dd76),
        (What::Promote, 1, 0x3bd4_f59a_be9e_db48),
    ];
    replay(&plan(12_943, 2, 2, Consistency::Eventual), &ops);
}

/// A Bind waited for the comparison of its statement, behind a guard that failed. The comparison counted for the next batch.
#[test]
fn a_comparison_behind_a_failed_guard_counts_for_nothing() {
    let ops = [
        (What::Act, 1, 0x8158_c23a_bbe2_0967),
        (What::Pass, 1, 0x0661_0970_334d_16fd),
        (What::Settle, 1, 0x682b_afd5_5c43_9f36),
        (What::Act, 1, 0x0a20_63be_3194_c763),
        (What::Settle, 0, 0),
        (What::Act, 1, 0xed24_ed74_4b82_f193),
        (What::Settle, 0, 0),
        (What::Pass, 0, 0xf928_0367_2a9c_1ac8),
        (What::Act, 1, 0xc4d0_ab80_6005_0ee7),
        (What::Pass, 0, 0x8714_5fb7_0c6c_745a),
        (What::Settle, 0, 0),
        (What::Replicate, 0, 0xa601_6057_8608_a9f4),
        (What::Pass, 0, 0x5f9e_ddce_076a_d032),
        (What::Act, 1, 0x0eac_a629_b598_b4d2),
        (What::Clients, 0, 0x8b83_18a7_55a9_42ca),
        (What::Pass, 1, 0x8605_8aa9_00ae_7f92),
        (What::Turns, 0, 0x2a78_21f1_cbf8_ec58),
        (What::Promote, 0, 0x9c0c_3329_f90c_214b),
    ];
    let plan = Plan {
        options: vec!["read_guard=1"],
        ..plan(1_001_981, 2, 2, Consistency::Session)
    };
    replay(&plan, &ops);
}

/// A batch had begun with a read on a replica, which was promoted before the rest came. The INSERT behind it was no write for
/// the reads of others.
#[test]
fn what_runs_on_a_replica_that_was_promoted_counts_as_a_write() {
    let ops = [
        (What::Act, 0, 0xe0ed_7789_fb4f_9931),
        (What::Pass, 0, 0x84ba_251e_e742_5caa),
        (What::Settle, 0, 0),
        (What::Promote, 0, 0x8e6b_002d_77a8_f1a0),
        (What::Act, 0, 0xbd51_a709_0b1e_b742),
        (What::Client, 0, 0x3ea0_0a6e_7ef9_79a8),
        (What::Settle, 0, 0),
        (What::Act, 0, 0x4daf_f700_b680_98c6),
        (What::Settle, 0, 0),
    ];
    let plan = Plan {
        options: vec!["read_functions=note"],
        ..plan(1_795_724_000_010_745, 3, 1, Consistency::Global)
    };
    replay(&plan, &ops);
}

/// A batch that began with a read lost its replica before the rest came, and ran on the primary. Its INSERT was no write for
/// the session's reads.
#[test]
fn a_batch_in_pieces_that_begins_again_counts_as_a_write() {
    let ops = [
        (What::Act, 1, 0xde4b_1bc7_8c4b_44d1),
        (What::Pass, 1, 0x6bce_ae4e_7a96_e298),
        (What::Act, 0, 0x3100_efa5_9f27_e4bf),
        (What::Settle, 0, 0),
        (What::Act, 0, 0x054a_81a0_c382_27aa),
        (What::Settle, 0, 0),
        (What::Pass, 1, 0xb948_9f4d_69a3_731a),
        (What::Act, 0, 0x4b3c_e8fe_b8d6_a5f5),
        (What::Lose, 0, 0x550d_895f_bdb8_fe92),
        (What::Replicate, 0, 0x50c6_86a5_d37b_f6a1),
        (What::Client, 0, 0x3082_231d_b639_d2f9),
        (What::Turn, 0, 0xd7cb_26af_91e5_07ef),
        (What::Pass, 0, 0xad4b_4868_ef93_13ec),
        (What::Settle, 0, 0),
        (What::Act, 0, 0xf2c3_18ca_cd8a_b416),
        (What::Settle, 0, 0),
    ];
    let plan = Plan {
        people: 2,
        options: vec!["read_functions=note", "pool_size=1"],
        ..plan(1_795_746_000_009_052, 2, 1, Consistency::Session)
    };
    replay(&plan, &ops);
}
