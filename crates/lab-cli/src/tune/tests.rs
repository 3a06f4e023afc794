//! Flags and the options they produce.

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use weir_lab::tune::{Goal, Path as Way, Workload};
use weir_lab::wallet::{Mode, Profile, Wallet};

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    tune: Tune,
}

fn parse(line: &str) -> Result<Options, String> {
    let words = ["tune"].into_iter().chain(line.split_whitespace());
    match Line::try_parse_from(words)
        .map_err(|error| error.to_string())?
        .tune
    {
        Tune::Run(args) => args.options(|| Ok("/opt/weir".into())),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn the_published_study_is_a_preset() {
    let options = parse("run p3 --seed 7").unwrap();
    assert_eq!(options.name, "p3 quick");
    assert_eq!(options.connections, [2, 4, 8, 16, 32]);
    assert_eq!(options.measure, Duration::from_secs(12));
    assert_eq!((options.repetitions, options.seed), (3, 7));
    assert_eq!(options.settings, ["shared_buffers=90MB"]);
    let both = vec![Mode::Chatty, Mode::Pipelined];
    assert_eq!(options.workload, Workload::Wallet(Wallet::default(), both));
    let full = parse("run p3 --profile full").unwrap();
    assert_eq!(full.measure, Duration::from_secs(180));
}

#[test]
fn flags_reach_the_options() {
    let options = parse(
        "run realistic -c 8,4,8 --mode pipelined --scale 3 --zipf 1.5 --repetitions 2 --measure 1.5 --weir --clients 40 \
         --goal latency --round-trip 0.5 --cores 6 --setting work_mem=1MB",
    )
    .unwrap();
    assert_eq!(options.connections, [4, 8]);
    let wallet = Wallet {
        profile: Profile::Realistic { scale: 3 },
        zipf: Some(1.5),
        ..Wallet::default()
    };
    assert_eq!(
        options.workload,
        Workload::Wallet(wallet, vec![Mode::Pipelined])
    );
    assert!(
        matches!(&options.path, Way::Weir { clients: 40, program } if program.ends_with("weir"))
    );
    assert_eq!(options.round_trip, Duration::from_micros(500));
    assert_eq!((options.goal, options.cores), (Goal::Latency, Some(6)));
    assert_eq!(options.settings.last().unwrap(), "work_mem=1MB");
}

#[test]
fn own_scripts_have_weights() {
    let options =
        parse("run --server postgresql://a@b/shop -f buy.sql@80 -f a@b.sql -f c.sql").unwrap();
    let expected = [("buy.sql", 80), ("a@b.sql", 1), ("c.sql", 1)];
    let expected = expected.map(|(path, weight)| (Path::new(path).to_owned(), weight));
    assert_eq!(options.workload, Workload::Scripts(expected.to_vec()));
    assert_eq!(options.server.unwrap().database, "shop");
}

#[test]
fn what_contradicts_itself_is_refused_and_told() {
    for (line, words) in [
        ("run -f a.sql", "--server"),
        ("run --protocol simple", "--mode chatty"),
        ("run p3 --scale 2", "realistic"),
        ("run --clients 5", "--weir"),
        (
            "run --weir --server postgresql://a@b/c --pooler postgresql://a@b/c",
            "--pooler",
        ),
        ("run -c 0", "0"),
        ("run --measure 0.5", "a second"),
        ("run --zipf 1", "1.001"),
        ("run --server db:5432", "postgresql://"),
        ("run --round-trip=-1", "0 to 10000"),
        ("run p7", "p3"),
    ] {
        let told = parse(line).unwrap_err();
        assert!(told.contains(words), "{line}: {told}");
    }
}

#[test]
fn a_password_is_not_in_the_record() {
    let hidden = flags::without_password("--server=postgresql://ann:se@cret@db/x");
    assert_eq!(hidden, "--server=postgresql://ann:***@db/x");
    assert_eq!(flags::without_password("a@b.sql"), "a@b.sql");
    assert_eq!(
        flags::without_password("postgresql://ann@db/x"),
        "postgresql://ann@db/x"
    );
}
