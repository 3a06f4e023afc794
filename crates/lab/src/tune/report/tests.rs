//! Tests of the report of the published figures.

use super::*;
use crate::tune::finding::tests::published;

fn written(pool_clients: Option<u32>) -> (tempfile::TempDir, Files) {
    let directory = tempfile::tempdir().unwrap();
    drop(published(directory.path(), pool_clients));
    let files = write(directory.path()).unwrap();
    (directory, files)
}

#[test]
fn the_answer_has_its_reason_price_confidence_and_a_line_to_paste() {
    let (_directory, files) = written(None);
    for part in [
        "Chatty: 16 connections",
        "Pipelined: 16 connections",
        "Why: ",
        "Price: ",
        "Confidence: ",
        "default_pool_size = 16    # for one database: pool_size = 16",
    ] {
        assert!(files.answer.contains(part), "{part}:\n{}", files.answer);
    }
    assert!(
        files
            .text
            .starts_with(files.answer.split("\nChatty: figures").next().unwrap())
    );
}

#[test]
fn the_report_has_every_criterion_and_both_averages_and_the_published_study() {
    let (_directory, files) = written(None);
    for part in [
        "bandwidth-delay knee",
        "13.6",
        "Universal Scalability Law: ",
        "the published formula",
        "1.00 ± 0.00 (1.00)",
        "each saved round trip saves 1.27 ms",
        "TPS published",
        "PostgreSQL 18 on a managed server",
        "Nothing is said beyond",
    ] {
        assert!(
            files.text.replace('\n', " ").contains(part),
            "{part}:\n{}",
            files.text
        );
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_has_the_curves() {
    let (_directory, files) = written(Some(64));
    let page = fs::read_to_string(&files.html).unwrap();
    assert!(page.contains("default-src 'none'"));
    // Throughput and p99; then sessions and CPUs of each workload.
    assert_eq!(page.matches("<figure>").count(), 6);
    assert!(page.contains("waiting for a server, 2 connections: 3"));
    let json: serde_json::Value = serde_json::from_str(&files.finding).unwrap();
    assert_eq!(json["series"][0]["spots"][0]["pool"]["queue"], 3.0);
    assert_eq!(fs::read_to_string(&files.json).unwrap(), files.finding);
}

#[test]
fn a_result_that_is_kept_without_its_samples_has_the_same_report() {
    let (directory, files) = written(None);
    let page = fs::read_to_string(&files.html).unwrap();
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(directory.path().join(format!("tune.sqlite{end}")));
    }
    let again = write(directory.path()).unwrap();
    assert_eq!(again, files);
    assert_eq!(fs::read_to_string(&again.html).unwrap(), page);
}

#[test]
fn a_directory_without_a_result_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    assert!(
        write(directory.path())
            .unwrap_err()
            .to_string()
            .contains("it is not there")
    );
}
