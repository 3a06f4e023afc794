//! Tests of the queue under errors, COPY and replies of our own.

use super::*;

fn queue(kinds: &[Kind]) -> Queue {
    let mut queue = Queue::default();
    for kind in kinds {
        assert!(queue.expect(Expected::new(*kind, Duty::Forward)).is_none());
    }
    queue
}

fn kinds(queue: &Queue) -> Vec<Kind> {
    queue.entries.iter().map(|entry| entry.kind).collect()
}

#[test]
fn an_error_skips_to_the_next_sync_and_even_queries_in_between() {
    let mut queue = queue(&[
        Kind::Parse,
        Kind::Bind,
        Kind::Query,
        Kind::Sync,
        Kind::Query,
    ]);
    let skipped: Vec<_> = queue
        .skip_to_sync()
        .iter()
        .map(|entry| entry.kind)
        .collect();
    assert_eq!(skipped, [Kind::Query, Kind::Bind, Kind::Parse]);
    assert_eq!(kinds(&queue), [Kind::Sync, Kind::Query]);
    assert!(!queue.is_skipping());
}

#[test]
fn cor_12_a_query_after_an_error_owes_nothing_until_the_sync() {
    let mut queue = queue(&[Kind::Parse]);
    queue.skip_to_sync();
    assert!(queue.is_skipping());
    assert!(
        queue
            .expect(Expected::new(Kind::Query, Duty::Forward))
            .is_some()
    );
    assert!(
        queue
            .expect(Expected::new(Kind::Sync, Duty::Forward))
            .is_none()
    );
    assert_eq!(kinds(&queue), [Kind::Sync]);
}

#[test]
fn cor_05_a_sync_sent_ahead_of_copy_data_is_eaten() {
    let mut queue = queue(&[Kind::Execute, Kind::Sync]);
    queue.start_copy_in();
    assert_eq!(kinds(&queue), [Kind::Execute]);
    assert!(
        queue
            .expect(Expected::new(Kind::Sync, Duty::Forward))
            .is_some()
    );
    assert!(
        queue
            .expect(Expected::new(Kind::CopyEnd, Duty::Forward))
            .is_none()
    );
    assert!(
        queue
            .expect(Expected::new(Kind::Sync, Duty::Forward))
            .is_none()
    );
    queue.end_copy();
    queue.pop();
    assert!(queue.next_answer().is_none());
    assert_eq!(kinds(&queue), [Kind::Sync]);
}

#[test]
fn copy_data_sent_ahead_of_the_servers_word_keeps_the_sync_behind_it() {
    let mut queue = queue(&[Kind::Execute, Kind::CopyEnd, Kind::Sync]);
    queue.start_copy_in();
    queue.end_copy();
    assert_eq!(kinds(&queue), [Kind::Execute, Kind::Sync]);
}

#[test]
fn cor_06_a_late_end_of_copy_owes_nothing() {
    let mut queue = queue(&[Kind::Query]);
    queue.start_copy_in();
    queue.end_copy();
    queue.pop();
    assert!(
        queue
            .expect(Expected::new(Kind::CopyEnd, Duty::Forward))
            .is_none()
    );
    assert!(queue.next_answer().is_none());
    assert!(queue.is_quiet());
}

#[test]
fn our_own_answers_wait_for_their_turn() {
    let mut queue = queue(&[Kind::Bind]);
    assert!(
        queue
            .expect(Expected::new(Kind::Close, Duty::Answer))
            .is_none()
    );
    assert!(queue.next_answer().is_none());
    queue.pop();
    assert_eq!(
        queue.next_answer().map(|entry| entry.kind),
        Some(Kind::Close)
    );
    assert!(queue.is_quiet());
}

#[test]
fn a_queue_that_owes_a_reply_copies_or_skips_is_not_quiet() {
    let mut owing = queue(&[Kind::Parse]);
    assert!(!owing.is_quiet());
    owing.skip_to_sync();
    assert!(owing.is_empty() && !owing.is_quiet(), "it skips");
    for state in [CopyState::Both, CopyState::Out] {
        let mut copying = queue(&[Kind::Query]);
        copying.start_copy(state);
        copying.pop();
        assert!(copying.is_empty() && !copying.is_quiet(), "{state:?}");
        copying.end_copy();
        assert!(copying.is_quiet());
    }
}

#[test]
fn the_end_of_copied_out_data_is_not_taken_for_that_of_data_sent_ahead() {
    // COPY t TO STDOUT; COPY t FROM STDIN, with the data of the second sent at once.
    let mut queue = queue(&[Kind::Query, Kind::CopyEnd]);
    queue.start_copy(CopyState::Out);
    queue.complete_copy();
    assert_eq!(kinds(&queue), [Kind::Query, Kind::CopyEnd]);
    queue.start_copy_in();
    assert_eq!(queue.copy(), CopyState::In { open: false });
    queue.complete_copy();
    assert_eq!(kinds(&queue), [Kind::Query]);
    queue.pop();
    assert!(queue.is_quiet());
}

#[test]
fn a_queue_whose_sync_a_failed_copy_may_have_eaten_is_not_quiet_before_it_is_settled() {
    let mut queue = queue(&[Kind::Query]);
    queue.start_copy_in();
    let sync = Expected::new(Kind::Sync, Duty::Forward);
    assert!(queue.expect(sync).is_some());
    queue.end_copy();
    queue.pop();
    assert!(queue.is_empty() && !queue.is_quiet());
    assert!(queue.take_stray());
    assert!(queue.is_quiet());
}
