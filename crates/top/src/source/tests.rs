//! The thread that asks, against consoles that are played.

use weir_proxy::blocking::Table;

use super::*;

/// Limit of a wait for something that has to happen.
const SOON: Duration = Duration::from_secs(20);

/// Console that loses its connection after some answers, and tells the test what it was asked.
struct Played {
    asked: Sender<String>,
    answers: usize,
}

impl Connect for Played {
    fn connect(&self) -> Result<Box<dyn Ask>, Lost> {
        Ok(Box::new(Self {
            asked: self.asked.clone(),
            answers: self.answers,
        }))
    }
}

impl Ask for Played {
    fn ask(&mut self, sql: &str) -> Result<Result<Table, String>, Lost> {
        let _ = self.asked.send(sql.to_owned());
        match self.answers.checked_sub(1) {
            Some(left) => self.answers = left,
            None => return Err(Lost::new("lost")),
        }
        if sql == "SHOW PINS" {
            return Ok(Err("invalid command".to_owned()));
        }
        Ok(Ok(Table::default()))
    }
}

fn start(answers: usize, questions: &[Question], interval: Duration) -> (Source, Receiver<String>) {
    let (asked, heard) = bounded(100);
    let plan = Plan {
        questions: questions.to_vec(),
        interval,
    };
    let source = Source::start(Played { asked, answers }, plan, Clock::start()).unwrap();
    (source, heard)
}

#[test]
fn refused_questions_are_asked_once_per_connection() {
    let questions = [Question::Pins, Question::Pools];
    let (source, heard) = start(3, &questions, Duration::ZERO);
    for _ in 0..2 {
        let report = source.reports.recv_timeout(SOON).unwrap();
        let Event::Answers(_, replies) = report else {
            panic!("{report:?}");
        };
        let is_refused: Vec<_> = replies.iter().map(|(_, reply)| reply.is_err()).collect();
        assert_eq!(is_refused, [true, false]);
    }
    let report = source.reports.recv_timeout(SOON).unwrap();
    assert!(matches!(report, Event::Lost(lost) if lost == Lost::new("lost")));
    let report = source.reports.recv_timeout(SOON).unwrap();
    assert!(matches!(report, Event::Answers(..)), "connected again");
    let asked: Vec<_> = heard.try_iter().take(6).collect();
    let expected = [
        "SHOW PINS",
        "SHOW POOLS",
        "SHOW POOLS",
        "SHOW POOLS",
        "SHOW PINS",
        "SHOW POOLS",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn a_new_plan_is_asked_at_once() {
    let (source, heard) = start(100, &[Question::Pools], Duration::from_secs(3600));
    source.reports.recv_timeout(SOON).unwrap();
    assert_eq!(heard.recv_timeout(SOON).unwrap(), "SHOW POOLS");
    source.follow(Plan {
        questions: vec![Question::Hosts],
        interval: Duration::from_secs(3600),
    });
    assert_eq!(heard.recv_timeout(SOON).unwrap(), "SHOW HOSTS");
}

#[test]
fn clients_are_disconnected_between_two_refreshes() {
    let (source, heard) = start(100, &[Question::Pools], Duration::from_secs(3600));
    source.reports.recv_timeout(SOON).unwrap();
    heard.recv_timeout(SOON).unwrap();
    source.kill("42".to_owned()).unwrap();
    let report = source.reports.recv_timeout(SOON).unwrap();
    assert!(matches!(report, Event::Killed(id, Ok(())) if id == "42"));
    assert_eq!(heard.recv_timeout(SOON).unwrap(), "KILL_CLIENT 42");
    assert_eq!(heard.recv_timeout(SOON).unwrap(), "SHOW POOLS");
}
