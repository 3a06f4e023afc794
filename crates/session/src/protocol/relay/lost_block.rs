//! Transaction block whose server is lost, for a client that keeps its session (`keep_client`).
//!
//! PostgreSQL has rolled the transaction back, and everything else of the session is known here. So the request in
//! progress fails, as in PostgreSQL, with an error by which applications repeat the transaction. Until its ROLLBACK the
//! client needs no server: each request is answered as in any failed block. The next transaction gets a server as usual.
//!
//! ```text
//!                 ┌──a request was lost──► Failed ──ROLLBACK, COMMIT──► None
//! None ──loss──►──┼──a COMMIT was lost, and PostgreSQL has said that it is undone──► None
//!                 │                          ▲
//!                 └──nothing──► Untold ──────┘ error of any request but
//!                                 └──ROLLBACK, or COMMIT and its error──► None
//! ```

use std::sync::Arc;

use weir_sql::{BlockEnd, block_end};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{HEADER_LEN, Header, Side, header};
use weir_wire::frontend::{self, tag};

use super::alone::Lobby;
use super::reply::answer;
use super::request::tell;
use super::{Batch, End, first_text, replies};
use crate::client::Client;
use crate::expected::{CopyState, Duty, Kind};
use crate::fault::Fault;
use crate::server::{Incoming, Sent, Server};
use crate::settings::{Reported, Settings};
use crate::splice::Splice;
use crate::unnamed;

/// Length in bytes above which a batch is not one that ends a block.
const END_MAX: usize = 1024;

/// Block of a client whose server is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LostBlock {
    /// The client knows that its block has failed.
    Failed,
    /// There is no such block.
    #[default]
    None,
    /// The client is in the block, and does not know that it has failed.
    Untold,
}

/// Settings of a client before its transaction, to which a lost transaction returns.
#[derive(Debug, Default)]
pub(crate) enum Before {
    /// The settings that the client has set, and the values that it was told.
    Known(Arc<Settings>, Arc<Reported>),
    /// Clients end with their servers.
    #[default]
    Unneeded,
    /// The server has not been asked for all changes of the transaction before.
    Unsettled,
}

/// Outcome for the beginning of a client's input.
pub(super) enum Step {
    /// This number of bytes is answered; with 0, the same bytes are dropped next, since their batch has failed.
    Answered(usize),
    /// The message means the same as outside of a block.
    Usual,
    /// More bytes have to come.
    Waits,
}

impl Before {
    #[inline]
    fn of(client: &Client) -> Self {
        Self::Known(Arc::clone(&client.settings), Arc::clone(&client.reported))
    }
}

impl Server {
    /// Lets this client outlive the server in the transactions of the lease that begins now, or nobody.
    #[inline]
    pub fn be_outlived_by(&mut self, client: Option<&Client>) {
        self.before = match client {
            Some(client) => Before::of(client),
            None => Before::Unneeded,
        };
    }

    /// Notes the client's settings behind a ReadyForQuery, if no transaction is open.
    #[inline]
    pub(super) fn note_before(&mut self, client: &Client) {
        if !matches!(self.before, Before::Unneeded) && self.status == TransactionStatus::Idle {
            self.before = match self.question.is_nothing() {
                true => Before::of(client),
                false => Before::Unsettled,
            };
        }
    }

    /// True if a client can go on without this server, which ends in the client's transaction, if that is rolled back:
    /// nothing else of the session is lost.
    pub(super) fn is_outlived(&self, client: &Client) -> bool {
        matches!(self.before, Before::Known(..))
            && self.status != TransactionStatus::Idle
            && client.may_lose_server()
            && client.own_names.is_none()
            && client.deallocating.is_none()
            && !client.is_sending_to_server()
            && self.owes_one_batch()
            && self.is_without_exceptions()
    }

    /// True if there is nothing on the server that a rollback would leave, and nothing rare is in progress.
    fn is_without_exceptions(&self) -> bool {
        self.rarities.is_empty()
            && self.question.ends_with_rollback()
            && self.queue.copy() == CopyState::None
            && !self.queue.is_skipping()
            && (self.sent != Sent::OpenBatch || self.owes_client())
            && self.interrupted.is_empty()
            && self.fence.is_none()
            && self.comparison.is_none()
            && !self.has_own_names
            && !self.has_to_repeat()
    }

    /// True if all owed replies belong to one batch of the client's, with requests of ours on its behalf.
    fn owes_one_batch(&self) -> bool {
        let last = self.queue.len().saturating_sub(1);
        self.queue.iter().enumerate().all(|(place, entry)| {
            let is_end = place == last && entry.duty == Duty::Forward;
            !entry.duty.is_fence() && (is_end || !ends_batch(entry.kind))
        })
    }
}

/// Lets a client go on without its server, which is lost in the client's transaction, if nothing else of the session is
/// lost. Writes the error of the request in progress, if there is one. False if the client cannot go on.
pub fn leave_block(client: &mut Client, server: &mut Server, to_client: &mut Vec<u8>) -> bool {
    let is_undone = server.hidden_words.is_some() || !server.is_outcome_unknown();
    if !is_undone || server.incoming != Incoming::Nothing || !server.is_outlived(client) {
        return false;
    }
    let Before::Known(settings, reported) = std::mem::take(&mut server.before) else {
        return false;
    };
    client.lost_block = LostBlock::Untold;
    if server.owes_client() {
        // An error of COMMIT ends the block.
        client.lost_block = match server.may_commit {
            true => LostBlock::None,
            false => LostBlock::Failed,
        };
        let is_complete = server
            .queue
            .iter()
            .last()
            .is_some_and(|last| ends_batch(last.kind));
        server.disarm_net();
        server.repeat.forget();
        // As if PostgreSQL had said it: what the error undoes is undone.
        let mut said = Vec::new();
        Fault::TransactionLost.encode(&mut said);
        if !say(client, server, &said, to_client) {
            return false;
        }
        tell(client, &reported, to_client);
        if is_complete {
            said.clear();
            // Six bytes always fit.
            let _ = encode::ready_for_query(&mut said, client.status_alone());
            if !say(client, server, &said, to_client) {
                return false;
            }
        } else {
            client.refuse_batch(tag::SYNC);
        }
    }
    tell(client, &reported, to_client);
    client.settings = settings;
    client.settings_changed();
    true
}

/// Gives a session a reply that its server has not sent. False if the reply does not fit there.
fn say(client: &mut Client, server: &mut Server, said: &[u8], to_client: &mut Vec<u8>) -> bool {
    let mut buffer = Vec::new();
    let mut out = Splice::new(said, &mut buffer);
    let is_fine = replies(client, server, said, &mut out).is_ok();
    to_client.extend_from_slice(out.finish());
    is_fine
}

/// True if a reply to this request ends with ReadyForQuery.
fn ends_batch(kind: Kind) -> bool {
    matches!(kind, Kind::Query | Kind::FunctionCall | Kind::Sync)
}

impl Client {
    /// Transaction status of a client without a server.
    pub(super) fn status_alone(&self) -> TransactionStatus {
        match self.lost_block {
            LostBlock::None => TransactionStatus::Idle,
            LostBlock::Failed | LostBlock::Untold => TransactionStatus::Failed,
        }
    }
}

/// Handles the first message of a client's input in a lost block, or a batch that ends the block.
#[cold]
pub(super) fn step(
    lobby: &mut Lobby<'_>,
    input: &[u8],
    first: Header,
    to_client: &mut Vec<u8>,
) -> Step {
    match first.tag {
        tag::QUERY => query(lobby.client, input, first.total_len(), to_client),
        tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE => {
            batch(lobby, input, to_client)
        }
        tag::FUNCTION_CALL => refuse(lobby.client, first.tag, to_client),
        _ => Step::Usual,
    }
}

fn query(client: &mut Client, input: &[u8], total: usize, to_client: &mut Vec<u8>) -> Step {
    let Some(body) = input.get(HEADER_LEN..total) else {
        return match total <= END_MAX {
            true => Step::Waits,
            false => refuse(client, tag::QUERY, to_client),
        };
    };
    let text = frontend::Query::parse(body).map(|query| query.sql);
    let Some(end) = text.ok().and_then(block_end) else {
        return refuse(client, tag::QUERY, to_client);
    };
    match client.is_ended_by(end) {
        true => complete(to_client),
        false => Fault::TransactionLost.encode(to_client),
    }
    leave(client, to_client);
    Step::Answered(total)
}

fn batch(lobby: &mut Lobby<'_>, input: &[u8], to_client: &mut Vec<u8>) -> Step {
    let batch = Batch::scan(input);
    let extent = batch.extent();
    if extent.end != End::Sync || extent.len > input.len() {
        let may_come = extent.end != End::Call && input.len() <= END_MAX && !has_flush(input);
        return match may_come {
            true => Step::Waits,
            false => refuse(lobby.client, tag::SYNC, to_client),
        };
    }
    let whole = input.get(..extent.len).unwrap_or(input);
    let text = first_text(&batch, lobby.client).filter(|_| runs_once(whole));
    let Some(end) = text.and_then(block_end) else {
        return refuse(lobby.client, tag::SYNC, to_client);
    };
    if !lobby.client.is_ended_by(end) {
        Fault::TransactionLost.encode(to_client);
    } else if !answer_each(lobby, whole, to_client) {
        return refuse(lobby.client, tag::SYNC, to_client);
    }
    leave(lobby.client, to_client);
    Step::Answered(extent.len)
}

impl Client {
    /// True if this statement ends the lost block without an error. A COMMIT may be how the client learns of the loss.
    fn is_ended_by(&self, end: BlockEnd) -> bool {
        self.lost_block == LostBlock::Failed || end == BlockEnd::Rollback
    }
}

/// Refuses a request, or the batch that begins with it: the first one tells that the server was lost.
fn refuse(client: &mut Client, first_tag: u8, to_client: &mut Vec<u8>) -> Step {
    let fault = match client.lost_block {
        LostBlock::Untold => Fault::TransactionLost,
        LostBlock::Failed | LostBlock::None => Fault::BlockFailed,
    };
    fault.encode(to_client);
    client.lost_block = LostBlock::Failed;
    client.refuse_batch(first_tag);
    Step::Answered(0)
}

/// True if a batch executes one statement without parameters.
fn runs_once(batch: &[u8]) -> bool {
    let mut executed = 0;
    let mut rest = batch;
    while let Ok(Some(header)) = header(rest, Side::Frontend) {
        let body = rest.get(HEADER_LEN..header.total_len()).unwrap_or_default();
        let is_fine = match header.tag {
            tag::CLOSE => {
                frontend::Close::parse(body).is_ok_and(|close| close.kind == frontend::Kind::Portal)
            }
            tag::EXECUTE => {
                executed += 1;
                true
            }
            // A Parse may come first, and nowhere else.
            tag::PARSE => rest.len() == batch.len(),
            tag::BIND | tag::DESCRIBE | tag::SYNC => true,
            _ => false,
        };
        if !is_fine {
            return false;
        }
        rest = rest.get(header.total_len()..).unwrap_or_default();
    }
    executed == 1
}

/// Answers the messages of a batch that ends the block, up to its Sync. False if it begins with a Parse that PostgreSQL has
/// to refuse; then nothing is answered.
fn answer_each(lobby: &mut Lobby<'_>, batch: &[u8], to_client: &mut Vec<u8>) -> bool {
    let mut rest = batch;
    while let Ok(Some(header)) = header(rest, Side::Frontend) {
        let body = rest.get(HEADER_LEN..header.total_len()).unwrap_or_default();
        // Messages without a body always fit.
        match header.tag {
            tag::PARSE if body.first() == Some(&0) => {
                // The unnamed statement of before is gone, and this one is not on any server.
                lobby.client.unnamed().define(unnamed::NONE, &[], None);
                lobby.client.unnamed().confirm();
                answer(to_client, Kind::Parse);
            }
            tag::PARSE => {
                // PostgreSQL knows these statements.
                if lobby.rules.max_prepared == 0 || !lobby.define(body, |_| true) {
                    return false;
                }
                answer(to_client, Kind::Parse);
            }
            tag::BIND => drop(encode::bind_complete(to_client)),
            tag::DESCRIBE => {
                let describe = frontend::Describe::parse(body).map(|describe| describe.kind);
                if describe == Ok(frontend::Kind::Statement) {
                    to_client.extend_from_slice(NO_PARAMETERS);
                }
                let _ = encode::no_data(to_client);
            }
            tag::EXECUTE => complete(to_client),
            tag::CLOSE => answer(to_client, Kind::Close),
            _ => {}
        }
        rest = rest.get(header.total_len()..).unwrap_or_default();
    }
    true
}

/// ParameterDescription of a statement without parameters.
const NO_PARAMETERS: &[u8] = b"t\0\0\0\x06\0\0";

fn complete(to_client: &mut Vec<u8>) {
    // A constant tag fits. PostgreSQL says the same of a COMMIT in a failed block.
    let _ = encode::command_complete(to_client, b"ROLLBACK");
}

/// Ends the block.
fn leave(client: &mut Client, to_client: &mut Vec<u8>) {
    client.lost_block = LostBlock::None;
    // Six bytes always fit.
    let _ = encode::ready_for_query(to_client, TransactionStatus::Idle);
}

/// True if a client waits for the answers to an unfinished batch.
fn has_flush(input: &[u8]) -> bool {
    let mut rest = input;
    while let Ok(Some(header)) = header(rest, Side::Frontend) {
        if header.tag == tag::FLUSH {
            return true;
        }
        rest = rest.get(header.total_len()..).unwrap_or_default();
    }
    false
}
