//! Choice of a client's next requests.

use weir_testkit::cuts::Dice;

use super::{Form, Item, Keeper, Request, Status, simple};

/// Settings that a client changes, with their values.
const SETTINGS: [(&str, &[&str]); 4] = [
    ("synchronous_commit", &["on", "off"]),
    (
        "weir.read_consistency",
        &["session", "global", "eventual", "global"],
    ),
    ("weir.role", &["auto", "auto", "replica", "primary"]),
    ("weir.read_write_split", &["auto", "auto", "off", "hint"]),
];

impl Keeper {
    /// Returns a text that no other statement has.
    pub(super) fn tag(&mut self) -> String {
        self.serial += 1;
        format!("{}{}", self.prefix(), self.serial)
    }

    /// Returns the requests that the client sends next, at once.
    pub(super) fn next_step(&mut self, dice: &mut Dice) -> Vec<Request> {
        match self.status {
            Status::Failed => vec![simple(Item::Rollback)],
            Status::Open => self.in_block(dice),
            Status::Idle => self.outside(dice),
        }
    }

    fn outside(&mut self, dice: &mut Dice) -> Vec<Request> {
        match dice.below(100) {
            0..30 => vec![self.read(dice)],
            30..52 => {
                let row = self.tag();
                vec![request(vec![Item::Insert(row)], dice)]
            }
            52..60 => {
                let row = self.tag();
                vec![request(vec![Item::Note(row)], dice)]
            }
            60..72 => vec![simple(Item::Begin(dice.below(2) == 0))],
            72..80 => {
                let items = (0..2 + dice.below(2)).map(|_| self.any(dice)).collect();
                vec![request(items, dice)]
            }
            80..88 => (0..2 + dice.below(2))
                .map(|_| {
                    let item = self.any(dice);
                    request(vec![item], dice)
                })
                .collect(),
            88..93 => self.whole_block(dice),
            93..99 => {
                let (name, values) = *dice.pick(&SETTINGS);
                let value: &&'static str = dice.pick(values);
                vec![simple(Item::Set(name, value))]
            }
            _ => vec![request(vec![Item::Nextval], dice)],
        }
    }

    fn in_block(&mut self, dice: &mut Dice) -> Vec<Request> {
        let is_read_only = self.transaction.is_read_only;
        let item = match dice.below(20) {
            0..5 => Item::Commit,
            5 => Item::Rollback,
            6 if !is_read_only => {
                self.serial += 1;
                Item::Temporary(self.serial)
            }
            7..12 if !is_read_only => Item::Insert(self.tag()),
            12 => Item::Note(self.tag()),
            13..15 => Item::Mark(self.tag()),
            _ => return vec![self.read(dice)],
        };
        vec![request(vec![item], dice)]
    }

    /// Returns a block, in one request or in several.
    fn whole_block(&mut self, dice: &mut Dice) -> Vec<Request> {
        let is_read_only = dice.below(3) == 0;
        let mut items = vec![Item::Begin(is_read_only)];
        for _ in 0..1 + dice.below(3) {
            items.push(match is_read_only {
                true => Item::Read(self.tag()),
                false => self.any(dice),
            });
        }
        items.push(Item::Commit);
        if dice.below(2) == 0 {
            return vec![request(items, dice)];
        }
        let each = items.into_iter();
        each.map(|item| request(vec![item], dice)).collect()
    }

    fn any(&mut self, dice: &mut Dice) -> Item {
        let tag = self.tag();
        match dice.below(8) {
            0..3 => Item::Insert(tag),
            3 => Item::Note(tag),
            4 => Item::Mark(tag),
            _ => Item::Read(tag),
        }
    }

    fn read(&mut self, dice: &mut Dice) -> Request {
        if dice.below(3) > 0 {
            let tag = self.tag();
            return request(vec![Item::Read(tag)], dice);
        }
        Request {
            items: vec![Item::Read(format!("{}r", self.prefix()))],
            form: Form::Named {
                parses: !self.is_prepared,
            },
        }
    }
}

fn request(items: Vec<Item>, dice: &mut Dice) -> Request {
    let form = *dice.pick(&[Form::Simple, Form::Unnamed]);
    Request { items, form }
}
