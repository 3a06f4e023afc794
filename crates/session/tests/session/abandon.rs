//! Clients that leave at every byte of a conversation: the server is closed, or it is free and keeps nothing of the
//! client.

use weir_testkit::backend::Output;
use weir_testkit::reading::outline;
use weir_testkit::say::{Say, say};

use crate::pooler::{Pooler, rules};

fn conversations() -> Vec<Say> {
    vec![
        say().query("begin").query("row x").query("commit"),
        say().query("begin;row x").query("error now").query("row x"),
        say()
            .parse("a", "rows 3 x")
            .bind("p", "a")
            .execute("p", 1)
            .flush()
            .execute("p", 1)
            .sync(),
        say()
            .query("begin")
            .parse("a", "rows 3 x")
            .bind("p", "a")
            .execute("p", 1)
            .sync()
            .query("commit"),
        say()
            .parse("a", "error now")
            .run("a")
            .run("a")
            .query("row x")
            .sync(),
        say()
            .query("copy in")
            .copy_data("a")
            .copy_data("b")
            .copy_done(),
        say()
            .query("begin;copy in;copy in")
            .copy_data("a")
            .copy_done()
            .copy_data("b")
            .copy_done(),
        say()
            .parse("", "copy in")
            .run("")
            .copy_data("a")
            .copy_done()
            .sync(),
        say()
            .parse("", "copy in")
            .run("")
            .sync()
            .copy_data("a")
            .copy_done()
            .sync(),
        say()
            .query("copy out 3")
            .function_call(1)
            .query("begin")
            .function_call(0),
        say()
            .parse("a", "begin")
            .run("a")
            .parse("b", "error parse")
            .parse("c", "row c")
            .sync(),
    ]
}

/// Lets the client leave after `len` bytes, with all replies delivered (`read`) or none.
fn leave(conversation: &Say, len: usize, read: bool, output: Output) {
    let mut pooler = Pooler::new(2, 1, rules(1), output);
    pooler.client_sends(0, &conversation[..len]);
    if read {
        pooler.deliver_all();
    }
    if !pooler.client_leaves(0) {
        // The server was released, so the pooler has checked that the model is at rest and agrees with the session.
        assert!(
            pooler.servers[0].session.is_free(),
            "left after {len} of {conversation:?}"
        );
    }
    pooler.client_sends(1, &say().query("row mine"));
    pooler.deliver_all();
    assert_eq!(
        outline(&pooler.clients[1].got),
        "T D(mine) C(SELECT 1) Z(I)"
    );
}

#[test]
fn a_client_that_leaves_at_any_byte_leaves_nothing_behind() {
    for conversation in conversations() {
        for len in 0..=conversation.len() {
            for output in [Output::Buffered, Output::Immediate] {
                leave(&conversation, len, true, output);
                leave(&conversation, len, false, output);
            }
        }
    }
}
