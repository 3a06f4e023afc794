//! Failures that the simulator has found, each as the shortest conversation that shows it.

use weir_testkit::backend::Database;
use weir_testkit::program::Topic;
use weir_testkit::say::say;

use super::super::postgres::{Postgres, TIMED_OUT};
use super::super::world::World;
use super::plan::{Op, Person, Plan, What};
use super::shrink;
use crate::driver::memory::End;

mod later;

const STYLE: (&str, &str) = ("DateStyle", "SQL, DMY");

/// Returns a world whose servers behave as PostgreSQL.
fn world() -> World {
    let mut world = World::new(1, "session_state = track\n");
    world.database = Some(Database::default());
    world
}

#[test]
fn a_greeting_shows_nobody_elses_application_name() {
    let mut world = world();
    world.dial("ann", &[("application_name", "one"), STYLE]);
    world.settle();
    let other = world.dial("ann", &[STYLE]);
    world.settle();
    let greeting = world.callers[other].heard();
    assert!(greeting.contains(" S(application_name=) "), "{greeting}");
}

#[test]
fn what_returns_to_a_value_given_at_startup_is_not_reported_on_the_way() {
    let mut world = world();
    let client = world.dial("ann", &[STYLE]);
    world.settle();
    world.callers[client].heard();
    for (sql, tag) in [("DISCARD ALL", "DISCARD ALL"), ("RESET DateStyle", "RESET")] {
        let heard = world.ask(client, &say().query(sql));
        assert_eq!(heard, format!("C({tag}) Z(I)"));
    }
}

/// Runs a plan printed by the shrinker.
fn replay(plan: &Plan) {
    if let Err(failure) = shrink::attempt(plan) {
        panic!("{failure}");
    }
}

/// Returns a client with ordinary statements.
fn exposed(topics: &[Topic]) -> Person {
    Person {
        is_exposed: true,
        topics: topics.to_vec(),
        is_checked: false,
        is_struck: true,
        large: 0,
    }
}

fn plan(people: Vec<Person>, ops: &[(What, usize, u64)]) -> Plan {
    let ops = ops.iter().map(|(what, who, seed)| Op {
        what: *what,
        who: *who,
        seed: *seed,
    });
    Plan {
        seed: 0,
        workers: 1,
        places: 1,
        room: 1 << 20,
        people,
        typists: 0,
        options: Vec::new(),
        ops: ops.collect(),
    }
}

/// A timeout hit Weir's own statements for the next client's settings. The request was sent again, but the client's
/// messages behind it were forgotten.
#[test]
fn a_client_is_served_after_its_settings_were_interrupted() {
    let ops = [
        (What::Act, 2, 0xe7d1_0420_94d6_7264),
        (What::Act, 5, 0x9369_03f5_1569_4c1d),
        (What::Turn, 1, 0x4d22_7c1b_70ab_935e),
        (What::Settle, 0, 0),
        (What::Act, 5, 0x938c_456c_ccb4_d7f3),
        (What::Client, 2, 0xa753_d793_1ec3_1097),
        (What::Turn, 3, 0x8eb1_0ce3_3acf_e1b0),
        (What::Server, 2, 0x061f_e1c6_20f0_11a6),
        (What::Hit, 2, 0xa5e7_5049_3d49_b63e),
    ];
    replay(&plan(vec![exposed(&[]); 6], &ops));
}

/// A timeout hit the UNLISTEN of a connection that listens for clients, which then went back to the pool.
#[test]
fn a_server_that_refused_an_unlisten_serves_nobody_else() {
    let mut world = world();
    let client = world.dial("ann", &[]);
    world.settle();
    world.ask(client, &say().query("LISTEN a"));
    world.callers[client].leave(End::Orderly);
    for _ in 0..8 {
        world.turn(0);
        for server in &mut world.servers {
            server.hear();
            while server.begin() {
                let is_hit = server
                    .asked
                    .last()
                    .is_some_and(|sql| sql == "UNLISTEN \"a\"");
                assert!(!is_hit || server.strike(TIMED_OUT));
                server.finish();
            }
            server.speak(usize::MAX);
        }
    }
    world.settle();
    let silent = |server: &Postgres| !server.is_alive() || server.backend.holds_nothing();
    assert!(world.servers.iter().all(silent));
}

#[test]
fn a_client_is_served_after_a_timeout_of_its_copy() {
    let person = |topics: &[Topic], large| Person {
        is_checked: true,
        large,
        ..exposed(topics)
    };
    let none = || person(&[], 0);
    let plan = Plan {
        seed: 1795389123011435,
        workers: 1,
        places: 1,
        room: 1048576,
        people: vec![
            none(),
            none(),
            none(),
            person(&[Topic::Copy], 40000),
            none(),
        ],
        typists: 0,
        options: vec!["session_state_check = always"],
        ops: vec![
            Op {
                what: What::Act,
                who: 4,
                seed: 0x667e5dcd32e5f56,
            },
            Op {
                what: What::Act,
                who: 3,
                seed: 0xa566f7acaf3cb5b,
            },
            Op {
                what: What::Settle,
                who: 0,
                seed: 0x0,
            },
            Op {
                what: What::Act,
                who: 3,
                seed: 0x964704ddc31a85c4,
            },
            Op {
                what: What::Client,
                who: 4,
                seed: 0xb5d8e4fdce30e307,
            },
            Op {
                what: What::Turns,
                who: 0,
                seed: 0x0,
            },
            Op {
                what: What::Servers,
                who: 0,
                seed: 0x0,
            },
            Op {
                what: What::Hit,
                who: 0,
                seed: 0xff587d5f7ce64216,
            },
            Op {
                what: What::Servers,
                who: 0,
                seed: 0x0,
            },
        ],
    };
    replay(&plan);
}

#[test]
fn a_client_whose_batch_was_skipped_in_part_does_not_go_on_with_the_rest_on_another_server() {
    let person = Person {
        is_checked: true,
        ..exposed(&[])
    };
    let op = |what, who, seed| Op { what, who, seed };
    let plan = Plan {
        seed: 1795482000035249,
        workers: 1,
        places: 1,
        room: 1048576,
        people: vec![person.clone(), person.clone(), person],
        typists: 0,
        options: vec![],
        ops: vec![
            op(What::Act, 2, 0x8b7ec0aee83bbc31),
            op(What::Act, 1, 0x736ef04021146b32),
            op(What::Settle, 0, 0x0),
            op(What::AskCancel, 2, 0x352a9bf12ee0ab08),
            op(What::Act, 2, 0x9ebe4e2ee8597131),
            op(What::Client, 3, 0x5d4390f08e58ed50),
            op(What::Turns, 0, 0x0),
            op(What::AskCancel, 2, 0xfa7b00d488fb4e51),
            op(What::Server, 0, 0x9008e08d9b878dde),
            op(What::Hit, 5, 0x1d50efb93dd133bb),
            op(What::Client, 2, 0xcbe1322d725b436a),
            op(What::AskCancel, 1, 0x47a9b8b1ce89662f),
            op(What::AskCancel, 2, 0x5c7b4415b41842d7),
            op(What::Servers, 0, 0x0),
            op(What::AskCancel, 2, 0xeb16d112ee87283),
            op(What::Client, 2, 0x4cee155cb86d5bbb),
            op(What::Turn, 0, 0xb44d00d18ee1260d),
            op(What::Fault, 0, 0x5a023e843bc5a6be),
        ],
    };
    replay(&plan);
}

/// A fault of the simulated server: it lived on with its lock.
#[test]
fn a_server_ends_behind_a_part_of_a_message() {
    use Topic::*;
    let none = Person {
        is_exposed: false,
        is_checked: false,
        is_struck: false,
        ..exposed(&[])
    };
    let person = Person {
        topics: vec![
            AdvisoryLocks,
            Copy,
            Cursors,
            Discard,
            Notifications,
            SearchPath,
        ],
        large: 40000,
        ..none
    };
    let op = |what, who, seed| Op { what, who, seed };
    let plan = Plan {
        seed: 1795489000003389,
        workers: 1,
        places: 1,
        room: 1048576,
        people: vec![none.clone(), none, person],
        typists: 0,
        options: vec![],
        ops: vec![
            op(What::Act, 2, 0xc83c02802c8a6c7f),
            op(What::Settle, 0, 0x0),
            op(What::Act, 2, 0x62226ebe1a55b689),
            op(What::Act, 2, 0xd99eec21dad58368),
            op(What::Client, 0, 0xe40ff5f7715d641f),
            op(What::Vanish, 2, 0xa05b65758711a304),
        ],
    };
    replay(&plan);
}

#[test]
fn who_has_asked_for_a_server_is_told_that_it_was_killed_on_its_way() {
    let person = Person {
        is_exposed: false,
        is_checked: false,
        is_struck: false,
        ..exposed(&[])
    };
    let op = |what, who, seed| Op { what, who, seed };
    let plan = Plan {
        seed: 1795498117044960,
        workers: 3,
        places: 1,
        room: 1048576,
        people: vec![person],
        typists: 3,
        options: vec![],
        ops: vec![
            op(What::Type, 0, 0xbe243856c171212c),
            op(What::Type, 1, 0xc94bad9958bfc3c1),
            op(What::Settle, 0, 0x0),
            op(What::Type, 0, 0xa7fb4b3046ce0df5),
            op(What::Clients, 0, 0x0),
            op(What::Turn, 0, 0x85909996a072bdc8),
            op(What::Order, 2, 0x592fa727568a6c9a),
            op(What::Turn, 6, 0x22b5e628ef286df2),
            op(What::Settle, 0, 0x0),
            op(What::Type, 2, 0x81d4fa7935611267),
            op(What::Settle, 0, 0x0),
            op(What::Type, 2, 0xe094ffb72087ca06),
        ],
    };
    replay(&plan);
}

/// A worker of the old process asks for a server, its client leaves, and the server comes when the worker has ended all its
/// connections. The server stayed in the mailbox.
#[test]
fn a_server_that_comes_after_the_end_of_its_worker_is_closed() {
    let ops = [
        (What::Act, 2, 0x56ffd0fde1d58f81),
        (What::Act, 1, 0x2c33b3b8772fc9a7),
        (What::Settle, 0, 0x0),
        (What::Vanish, 2, 0x35efbcb9f90f367f),
        (What::Settle, 0, 0x0),
        (What::Upgrade, 2, 0xb4c7d0c896c0f7f3),
        (What::Act, 2, 0xb979e47d6a8098a9),
        (What::Clients, 0, 0x0),
        (What::Turns, 0, 0x0),
        (What::Vanish, 2, 0xe1cfdcc3de048abb),
    ];
    replay(&Plan {
        seed: 1795600000114560,
        workers: 3,
        room: 1 << 20,
        options: vec!["; sends complete later, watermark 20000"],
        ..plan(vec![exposed(&[]), exposed(&[]), exposed(&[])], &ops)
    });
}

/// A timeout hit a SET ROLE, so Weir asked for the role once more behind the next request. The server was lost before it
/// answered, and the client with it, as on a direct connection.
#[test]
fn a_client_is_lost_with_a_server_that_has_not_answered_about_an_interrupted_statement() {
    let person = Person {
        large: 20000,
        ..exposed(&[Topic::Settings, Topic::Ledger, Topic::Roles])
    };
    let ops = [
        (What::Act, 2, 0xa5bb_b2ad_1aab_3f33),
        (What::Act, 1, 0xe517_f1ce_c53a_8294),
        (What::Turn, 0, 0x2b6_3ff7_ee05_5e0e),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Server, 1, 0x991c_44c4_4b11_433a),
        (What::Server, 2, 0x306a_2b08_a09b_ed97),
        (What::Server, 1, 0x16e2_2b57_8cb4_d6e0),
        (What::Settle, 0, 0),
        (What::Act, 2, 0xb3b5_3cb3_798c_decc),
        (What::Fault, 0, 0x4e28_0060_8c6f_0a4b),
        (What::Servers, 0, 0),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Server, 0, 0x3d99_ccf8_cc9e_0b14),
        (What::Hit, 0, 0x98fe_ee51_52ae_a29b),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Clients, 0, 0),
        (What::Act, 2, 0x2389_eeed_355b_5026),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Fault, 0, 0x667_ae8c_c442_62d8),
    ];
    replay(&Plan {
        places: 2,
        ..plan(vec![exposed(&[]), exposed(&[]), person], &ops)
    });
}

/// A client listened for a second channel within its transaction, so each of two connections had one of its notifications.
#[test]
fn notifications_of_two_connections_have_no_order_among_channels() {
    let act = |seed| Op {
        what: What::Act,
        who: 2,
        seed,
    };
    let speaker = Person {
        is_exposed: false,
        topics: vec![Topic::Notifications],
        is_checked: false,
        is_struck: false,
        large: 20_000,
    };
    let other = Person {
        is_struck: false,
        ..exposed(&[])
    };
    replay(&Plan {
        seed: 1_795_540_000_157_249,
        workers: 1,
        places: 1,
        room: 1_048_576,
        people: vec![other.clone(), other, speaker],
        typists: 0,
        options: vec![],
        ops: vec![
            act(0x407b_e560_4d44_b819),
            Op {
                what: What::Settle,
                who: 0,
                seed: 0,
            },
            act(0x3bee_d269_a0d8_dd66),
            act(0x3310_01f2_232e_8e8c),
            act(0x08ef_4291_205c_3c73),
            act(0xe78a_772c_8226_7466),
            act(0xe14a_4d92_2022_808d),
            act(0x4811_1528_1740_c978),
        ],
    });
}

/// The workers of a process ended when one had just handed a server to another, which had not read the message.
#[test]
fn a_process_that_ends_closes_servers_that_are_on_their_way_between_workers() {
    let ops = [
        (What::Act, 0, 0x3486_e361_a67c_5a02),
        (What::Act, 1, 0x795e_8ac2_ea77_dade),
        (What::Settle, 0, 0),
        (What::Vanish, 0, 0xa8ec_9749_4f19_ff5a),
        (What::Upgrade, 1, 0x2549_beb6_d2ea_187c),
        (What::Act, 0, 0xe8b0_29e3_ae36_1bd7),
        (What::Settle, 0, 0),
        (What::Act, 0, 0x1502_3b12_eedd_f11c),
        (What::Clients, 0, 0),
        (What::Vanish, 0, 0xef12_69f4_a126_0b9a),
        (What::Settle, 0, 0),
        (What::Act, 0, 0xc96e_7923_fea6_8652),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Vanish, 1, 0xa6f7_5315_094d_d817),
        (What::Vanish, 0, 0x49bf_970b_81c3_4522),
        (What::Act, 0, 0x02d2_501c_9d69_ac90),
        (What::Act, 1, 0x4e09_0467_5304_0d61),
    ];
    let options = [
        "; stand-in of TLS\nserver_tls_sslmode = require\nserver_tls_sslnegotiation = direct",
        "; sends complete later, watermark 20000",
    ];
    replay(&Plan {
        seed: 1_795_661_007_008_735,
        workers: 3,
        places: 2,
        options: options.to_vec(),
        ..plan(vec![exposed(&[]), exposed(&[])], &ops)
    });
}

/// A server ended with a last word right behind the answer, before it was asked for the role. The client, which was not
/// told, went on with another role.
#[test]
fn a_server_that_ends_before_it_was_asked_for_the_role_ends_its_client() {
    let person = Person {
        is_exposed: false,
        topics: vec![
            Topic::Settings,
            Topic::SearchPath,
            Topic::Roles,
            Topic::Copy,
        ],
        is_checked: true,
        is_struck: false,
        large: 0,
    };
    let other = || Person {
        topics: vec![],
        ..person.clone()
    };
    let ops = [
        (What::Act, 3, 0xcb9b_5a21_773f_eecb),
        (What::Settle, 0, 0),
        (What::Act, 3, 0x52d2_a5fe_3ecd_c3c3),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Server, 4, 0x501e_69e3_b8ef_eaf2),
        (What::Server, 4, 0xee82_a833_9914_03a1),
        (What::Fault, 4, 0xd439_ca60_9b76_89c3),
    ];
    replay(&Plan {
        seed: 1_795_680_000_018_165,
        ..plan(vec![other(), other(), other(), person.clone()], &ops)
    });
    let person = Person {
        topics: vec![Topic::Settings, Topic::Ledger, Topic::Roles],
        ..person
    };
    let ops = [
        (What::Act, 1, 0xf291_db3b_f00f_b06e),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x9726_30d6_0b4c_c45c),
        (What::Clients, 0, 0),
        (What::Act, 1, 0xe73e_8b45_053b_7727),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Act, 1, 0xd7a3_8a24_44f8_1a0e),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Server, 2, 0x973f_c3a8_2d77_f642),
        (What::Server, 2, 0x886d_7831_ba91_1cc9),
        (What::Fault, 2, 0xbe10_ce3d_1ae1_3cc2),
        (What::Turns, 0, 0),
    ];
    let other = Person {
        topics: vec![],
        ..person
    };
    replay(&Plan {
        seed: 1_795_680_000_009_486,
        options: vec!["; sends complete later, watermark 1"],
        ..plan(vec![other, person], &ops)
    });
}

/// A client's cancel, which came before any request, hit the client's second request.
#[test]
fn a_cancel_is_over_before_the_next_request_of_its_client() {
    let ops = [
        (What::Act, 0, 0x181a_cccd_39af_16c7),
        (What::Act, 3, 0xf897_b3ae_16d2_da2c),
        (What::Act, 1, 0x23c3_5035_8973_b7ef),
        (What::Act, 2, 0x8222_30b1_ac63_bae4),
        (What::Turn, 0, 0x5b9b_fd07_0b96_8c71),
        (What::Clients, 0, 0),
        (What::Turn, 0, 0x765f_5aa1_8a4f_7684),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Turn, 0, 0xabb1_85ec_455f_2d51),
        (What::Pass, 3, 0x0b23_21d6_c7a2_28f7),
        (What::Settle, 0, 0),
        (What::AskCancel, 3, 0xa7f9_e717_f4f1_aa4a),
        (What::Act, 3, 0x4386_92e2_8e9c_359e),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::AskCancel, 2, 0xdf7b_bcb9_da2d_9f4c),
        (What::Act, 2, 0x7d36_6293_c5e2_8897),
        (What::Turns, 0, 0),
        (What::Server, 3, 0xa260_2314_0fd9_72ff),
        (What::Clients, 0, 0),
        (What::Cancel, 2, 0x9c55_1a8b_23b3_c705),
        (What::Turns, 0, 0),
        (What::Cancel, 0, 0xf317_100e_7359_77ec),
        (What::Turns, 0, 0),
        (What::Leap, 2, 0x3efb_e673_e0b3_f732),
        (What::Settle, 0, 0),
        (What::Cancel, 3, 0xcebe_301d_6303_0638),
        (What::Act, 3, 0xcf43_6b49_6f60_74f3),
        (What::Clients, 0, 0),
        (What::Cancel, 2, 0xbc70_28e9_2e9f_54b2),
        (What::Turns, 0, 0),
        (What::Turns, 0, 0),
        (What::Server, 2, 0x71b0_958e_abaa_c53f),
        (What::Cancel, 2, 0x9a9f_a52b_5025_452e),
    ];
    let struck = |topics: &[Topic]| Person {
        is_struck: true,
        ..exposed(topics)
    };
    let options = [
        "server_reset_query_always = 1",
        "; sends complete later, watermark 20000",
    ];
    replay(&Plan {
        seed: 1_795_691_000_003_322,
        workers: 3,
        places: 3,
        room: 600,
        options: options.to_vec(),
        ..plan(
            vec![
                struck(&[]),
                struck(&[]),
                struck(&[]),
                struck(&[Topic::Ledger]),
            ],
            &ops,
        )
    });
}

/// A read ran again after the loss of its server, as it may.
#[test]
fn a_read_may_run_again_when_its_server_is_lost() {
    let ops = [
        (What::Act, 1, 0x8e46_5d1e_b785_dbd4),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x4b8c_984e_44a1_5ea4),
        (What::Clients, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Turns, 0, 0),
        (What::Servers, 0, 0),
        (What::Fault, 1, 0x5104_a149_9dbb_7068),
    ];
    let struck = Person {
        is_struck: true,
        ..exposed(&[])
    };
    let options = ["server_check_delay = 0", "; workers know the catalogue"];
    replay(&Plan {
        seed: 1_795_693_000_003_895,
        room: 1_048_576,
        places: 1,
        workers: 1,
        options: options.to_vec(),
        ..plan(vec![struck.clone(), struck], &ops)
    });
}

/// A statement that prepares another one by SQL got its own name back behind the DEALLOCATE ALL of its batch, and ran.
#[test]
fn a_name_does_not_come_back_behind_a_deallocate_all_of_its_batch() {
    let ops = [
        (What::Act, 1, 0x06e9_9581_dfde_2d86),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x5325_44e0_bef1_c077),
        (What::Settle, 0, 0),
        (What::Act, 1, 0x166f_8738_193d_b0ca),
    ];
    let topics = [
        Topic::Cursors,
        Topic::Discard,
        Topic::Roles,
        Topic::Settings,
        Topic::SqlPrepared,
        Topic::SearchPath,
    ];
    let second = Person {
        is_exposed: false,
        ..exposed(&topics)
    };
    replay(&Plan {
        seed: 1_795_747_000_004_386,
        room: 1_048_576,
        places: 1,
        workers: 1,
        ..plan(vec![exposed(&[]), second], &ops)
    });
}

#[test]
fn a_batch_of_which_an_error_was_told_does_not_begin_again() {
    let ops = [
        (What::Type, 1, 0x039b_217c_97aa_3532),
        (What::Settle, 0, 0),
        (What::Type, 1, 0xa3c2_e98e_fa43_2ac5),
        (What::Settle, 0, 0),
        (What::Fault, 4, 0x52e9_2941_df4c_9e1f),
        (What::Type, 1, 0xec4d_c0d0_2f73_98b4),
        (What::Settle, 0, 0),
        (What::Fault, 0, 0x0d1c_3e0b_4a6f_d8c6),
        (What::Order, 3, 0xbff7_5be0_51df_ff8c),
        (What::Server, 4, 0xdc49_d464_7f80_80ea),
        (What::Hit, 0, 0x66ce_ee89_b6dd_f5df),
        (What::Settle, 0, 0),
        (What::Fault, 3, 0xd911_babb_0798_dffa),
    ];
    let struck = Person {
        is_struck: true,
        ..exposed(&[])
    };
    replay(&Plan {
        seed: 1_795_761_000_005_040,
        workers: 1,
        places: 1,
        room: 1_048_576,
        typists: 3,
        options: vec![
            "server_reset_query_always = 1",
            "; workers know the catalogue",
        ],
        ..plan(vec![struck], &ops)
    });
}
