//! What the clients of the simulator say: a request that fits what their session has come to.

use weir_testkit::backend::Backend;
use weir_testkit::cuts::Dice;
use weir_testkit::say::{Say, say};
use weir_wire::backend::TransactionStatus;

/// The next thing that a client says. `twin` has processed all that it said before; `ahead`: the client has not got all
/// of that, and does not count on names that a failure in between may have spoilt.
pub(super) fn next(
    twin: &Backend,
    number: usize,
    serial: usize,
    ahead: bool,
    dice: &mut Dice,
) -> Say {
    // The last letter says whose time zone it is: its own, or the default.
    let zone = twin.setting("TimeZone").unwrap_or_default();
    let zone = if zone == "UTC" { 'u' } else { 'z' };
    let tag = format!("c{number}-{serial}{zone}");
    if twin.is_copying() {
        return match dice.below(5) {
            0 | 1 => say().copy_data(&tag),
            2 => say().copy_data("bad"),
            3 => say().copy_fail(&tag),
            _ => say().copy_data(&tag).copy_done().sync(),
        };
    }
    if twin.status() != TransactionStatus::Idle && dice.below(3) == 0 {
        let end = ["commit", "rollback"][dice.below(2)];
        return say().query(end);
    }
    if ahead || dice.below(2) == 0 {
        simple(&tag, number, ahead, dice)
    } else {
        extended(twin, &tag, number, dice)
    }
}

fn simple(tag: &str, number: usize, ahead: bool, dice: &mut Dice) -> Say {
    let sql = match dice.below(16) {
        0..4 => format!("row {tag}"),
        4 => format!("rows 4 {tag}"),
        5 | 6 => "begin".to_owned(),
        7 => format!("begin;row {tag};commit"),
        8 => format!("error {tag}"),
        9 => "copy in".to_owned(),
        10 => "copy out 3".to_owned(),
        11 => format!("set TimeZone Z{number}"),
        12 => format!("notice {tag}"),
        13 if !ahead => {
            ["discard all", "deallocate all", "reset TimeZone"][dice.below(3)].to_owned()
        }
        14 => String::new(),
        _ if dice.below(4) == 0 => format!("row {tag}{}", "x".repeat(40_000)),
        _ if dice.below(4) == 0 => "die".to_owned(),
        _ => format!("row {tag}"),
    };
    say().query(&sql)
}

fn extended(twin: &Backend, tag: &str, number: usize, dice: &mut Dice) -> Say {
    let name = format!("s{}", dice.below(3));
    let knows = twin.prepared().any(|known| known == name.as_bytes());
    let row = format!("row {tag}");
    match dice.below(10) {
        0..4 if knows => say().run(&name).sync(),
        4 if knows => say().close_statement(&name).sync(),
        0..5 => say()
            .parse(&name, &format!("row c{number}-{name}"))
            .run(&name)
            .sync(),
        5 => say().parse("", &row).run("").sync(),
        6 => say().run("").sync(),
        7 => {
            let rows = format!("rows 5 {tag}");
            let begun = say().parse("", &rows).bind("p", "").describe_portal("p");
            begun.execute("p", 2).flush().execute("p", 0).sync()
        }
        8 => {
            let failing = say()
                .parse("", &row)
                .run("")
                .parse("", "error here")
                .run("");
            failing.parse("", &row).run("").sync()
        }
        _ => match dice.below(3) {
            0 => say().function_call(7),
            1 => say().parse("", "copy in").run("").sync(),
            _ => say().parse("", &row).sync().run("").sync().sync(),
        },
    }
}
