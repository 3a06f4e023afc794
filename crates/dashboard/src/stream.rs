//! The stream of a tab: a message each second with the changes of what its page shows.
//!
//! A stream has no queue of its own: its task makes the next message when the last one has been taken, so a slow reader gets
//! fewer, newer messages. It ends with its session, and with the right of its user.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_core::Stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval};

use crate::desk::Desk;
use crate::model::{self, Charts, Model, Verdict};
use crate::pages::Page;
use crate::shown::{Cell, Head, Query, Shown};
use crate::view::slug;
use crate::visitor::Visitor;

/// Interval of messages.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval of comments on a silent stream, which keep middleboxes from closing it.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);
/// Time after which a browser asks again for a stream that was lost.
const RETRY: Duration = Duration::from_secs(2);

/// Changes of a page.
#[derive(Debug, Serialize)]
pub(crate) struct Message {
    /// Time of the figures in Unix seconds.
    at: i64,
    clock: String,
    /// True if the message does not depend on earlier ones.
    full: bool,
    verdict: Verdict,
    /// Reason why figures are old, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    tables: BTreeMap<String, Changes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    charts: Option<Charts>,
}

/// Changes of a table.
#[derive(Debug, Serialize)]
struct Changes {
    /// Number of rows now.
    len: usize,
    total: usize,
    note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    heads: Option<Vec<Head>>,
    /// Changed rows by their place.
    rows: BTreeMap<usize, Vec<Cell>>,
}

/// Memory of what a tab has been told.
#[derive(Default)]
pub(crate) struct Told {
    tables: BTreeMap<String, Shown>,
    /// Time of the last value of its charts.
    charts: Option<i64>,
    is_begun: bool,
}

impl Told {
    /// Makes the message after which the tab shows this model.
    pub(crate) fn tell(&mut self, model: Model, charts: Option<Charts>) -> Message {
        let is_full = !self.is_begun;
        self.is_begun = true;
        let (at, clock) = (model.at, model.clock());
        let mut tables = BTreeMap::new();
        for (view, shown) in model.tables {
            let id = slug(view.table);
            let known = self.tables.get(&id);
            // Rows stay on the screen, marked as old, while the workers do not answer.
            let is_lost = model.failed.is_some() && shown.heads.is_empty() && known.is_some();
            if is_lost || known == Some(&shown) {
                continue;
            }
            tables.insert(id.clone(), changes(known, &shown));
            self.tables.insert(id, shown);
        }
        let charts = charts.map(|charts| {
            let last = self.charts.replace(charts.last());
            match last {
                Some(last) => charts.since(last),
                None => charts,
            }
        });
        Message {
            at,
            clock,
            full: is_full,
            verdict: model.verdict,
            failed: model.failed,
            tables,
            charts,
        }
    }
}

fn changes(known: Option<&Shown>, shown: &Shown) -> Changes {
    let same_heads = known.is_some_and(|known| known.heads == shown.heads);
    let known = known.filter(|_| same_heads);
    let rows = shown.rows.iter().enumerate();
    let changed = rows.filter(|(at, row)| known.and_then(|known| known.rows.get(*at)) != Some(row));
    Changes {
        len: shown.rows.len(),
        total: shown.total,
        note: shown.note.clone(),
        heads: (!same_heads).then(|| shown.heads.clone()),
        rows: changed.map(|(at, row)| (at, row.clone())).collect(),
    }
}

/// Fetches the content of a page and returns the message about it.
pub(crate) async fn message(
    desk: &Arc<Desk>,
    page: &'static Page,
    query: &Query,
    visitor: &Visitor,
    told: &mut Told,
) -> Message {
    let model = Model::of(desk, page, query, visitor).await;
    let charts = match page.charts {
        [] => None,
        _ => model::charts(desk, page, query).await.ok(),
    };
    told.tell(model, charts)
}

/// Messages of a stream.
pub(crate) struct Messages(mpsc::Receiver<Event>);

impl Stream for Messages {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// Opens a stream. It lasts until the browser leaves or the user may no longer see the page.
pub(crate) fn open(
    desk: Arc<Desk>,
    page: &'static Page,
    query: Query,
    visitor: Visitor,
    permit: OwnedSemaphorePermit,
) -> Sse<axum::response::sse::KeepAliveStream<Messages>> {
    let (sender, receiver) = mpsc::channel(1);
    drop(tokio::spawn(async move {
        let _permit = permit;
        let mut told = Told::default();
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for id in 0_u64.. {
            tokio::select! {
                _ = ticks.tick() => {}
                () = sender.closed() => return,
            }
            if !visitor.may_go_on(&desk) {
                return;
            }
            let Ok(place) = sender.reserve().await else {
                return;
            };
            let message = message(&desk, page, &query, &visitor, &mut told).await;
            let event = Event::default().id(id.to_string()).retry(RETRY);
            match event.json_data(&message) {
                Ok(event) => place.send(event),
                Err(error) => return tracing::error!("dashboard: {error}"),
            }
        }
    }));
    let comments = KeepAlive::new().interval(COMMENT_INTERVAL);
    Sse::new(Messages(receiver)).keep_alive(comments)
}

#[cfg(test)]
mod tests;
