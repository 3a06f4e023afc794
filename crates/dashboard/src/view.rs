//! HTML of the pages. Every text passes through maud's templates, which escape it; nothing is marked as safe.

use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::help::{self, Help};
use crate::model::{Charts, Drawn, Model, WINDOWS, window};
use crate::pages::{PAGES, Page, View};
use crate::shown::{Cell, Head, Query, Shown, encoded};
use crate::source::{Action, Missing, Role};
use crate::visitor::Visitor;

/// Most rows of the table behind a chart.
const CHART_ROWS: usize = 12;

/// Returns a page as a table or two, which a script then keeps fresh.
pub(crate) fn page(
    model: &Model,
    query: &Query,
    visitor: &Visitor,
    charts: Option<&Result<Charts, Missing>>,
) -> Markup {
    let page = model.page;
    let body = html! {
        (header(Some(model), page.path, visitor))
        main id="main" tabindex="-1" {
            div.top {
                h1 { (title(page, query)) }
                p.question { (page.question) }
            }
            (filter(page, query))
            @for (view, shown) in &model.tables {
                (table(page, view, shown, query))
            }
            @if model.acts && page.path == "config" {
                p { a href="/confirm?action=reload" { "Reload the configuration" } }
            }
            @if let Some(charts) = charts {
                (plots(page, charts, query))
            }
        }
        (keys(model))
    };
    let has_charts = charts.is_some_and(Result::is_ok);
    frame(page.title, &script(page, query, has_charts), &body)
}

fn title(page: &Page, query: &Query) -> String {
    match page.is_of_pool {
        true => format!("Pool {}/{}", query.database, query.user),
        false => page.title.to_owned(),
    }
}

/// Returns what the script of a page needs to know.
fn script(page: &Page, query: &Query, has_charts: bool) -> Markup {
    let asset = if has_charts {
        &assets::CHARTS
    } else {
        &assets::SCRIPT
    };
    html! {
        script src={ "/assets/" (asset.name()) } data-page=(page.path) data-stream=(address("/stream", page, query))
            data-poll=(address("/api/page", page, query)) defer {}
    }
}

/// Returns the address of a page's data, with the state of the page.
fn address(path: &str, page: &Page, query: &Query) -> String {
    let mut address = format!("{path}?page={}", encoded(page.path));
    address.push_str(&state(page, query, ""));
    address
}

/// Returns the state of a page as parameters behind others; `sort` replaces the column of sorting.
fn state(page: &Page, query: &Query, sort: &str) -> String {
    let sort = if sort.is_empty() { &query.sort } else { sort };
    let pool: &[(&str, &str)] = match page.is_of_pool {
        true => &[("database", &query.database), ("user", &query.user)],
        false => &[],
    };
    let own = [("q", &*query.q), ("sort", sort), ("window", &*query.window)];
    let all = pool
        .iter()
        .chain(&own)
        .filter(|(_, value)| !value.is_empty());
    all.map(|(name, value)| format!("&{name}={}", encoded(value)))
        .collect()
}

fn frame(title: &str, head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " - Weir" }
                link rel="icon" href=(assets::ICON);
                link rel="stylesheet" href={ "/assets/" (assets::STYLE.name()) };
                (head)
            }
            body { (body) }
        }
    }
}

fn header(model: Option<&Model>, current: &str, visitor: &Visitor) -> Markup {
    html! {
        a.skip href="#main" { "Skip to content" }
        header {
            div.bar {
                a.brand href="/" { "Weir" }
                @if let Some(model) = model {
                    p id="verdict" role="status" aria-live="polite" class={ "word " (model.verdict.level) } {
                        (model.verdict.text)
                    }
                    p id="age" { "as of " (model.clock()) }
                }
                div.user {
                    span.who { (visitor.user) @if visitor.role == Role::Stats { " (reads only)" } }
                    button.theme type="button" id="theme" hidden { "Theme" }
                    button type="button" id="keys" hidden aria-controls="help" aria-expanded="false" { "Keys" }
                    @if !visitor.form_token().is_empty() {
                        form method="post" action="/logout" {
                            input type="hidden" name="token" value=(visitor.form_token());
                            button type="submit" { "Sign out" }
                        }
                    }
                }
            }
            nav aria-label="Pages" {
                @for page in PAGES.iter().filter(|page| !page.is_of_pool) {
                    a href={ "/" (page.path) } data-key=(page.key) aria-current=[(page.path == current).then_some("page")] {
                        (page.title)
                    }
                }
            }
        }
        p id="note" hidden {}
    }
}

fn filter(page: &Page, query: &Query) -> Markup {
    html! {
        form.filter role="search" method="get" action={ "/" (page.path) } {
            @if page.is_of_pool {
                input type="hidden" name="database" value=(query.database);
                input type="hidden" name="user" value=(query.user);
            }
            @if !query.sort.is_empty() { input type="hidden" name="sort" value=(query.sort); }
            @if !query.window.is_empty() { input type="hidden" name="window" value=(query.window); }
            label for="q" { "Filter rows" }
            input id="q" name="q" type="search" value=(query.q) autocomplete="off" spellcheck="false"
                aria-describedby="filter-help";
            button type="submit" { "Filter" }
            span id="filter-help" { "Rows that contain the text; ! in front inverts." }
        }
    }
}

/// Id of a table's element.
pub(crate) fn slug(table: &str) -> String {
    format!("t-{}", table.to_lowercase().replace([' ', '_'], "-"))
}

fn table(page: &Page, view: &View, shown: &Shown, query: &Query) -> Markup {
    let id = slug(view.table);
    html! {
        section id=(id) data-table=(view.table) aria-labelledby={ (id) "-h" } {
            h2 id={ (id) "-h" } { (view.title) " " span.count { "(" (shown.total) ")" } }
            p.empty hidden[shown.note.is_empty()] { (shown.note) }
            @if !shown.heads.is_empty() {
                // A region that scrolls has to be reached by the keyboard.
                div.scroll tabindex="0" role="group" aria-labelledby={ (id) "-h" } hidden[shown.rows.is_empty()] {
                    table {
                        thead { tr { @for head in &shown.heads { (heading(page, view, head, query)) } } }
                        tbody { @for row in &shown.rows { tr { (cells(&shown.heads, row)) } } }
                    }
                }
            }
        }
    }
}

fn heading(page: &Page, view: &View, head: &Head, query: &Query) -> Markup {
    let class = head.is_number.then_some("n");
    // Numbers begin with the largest, texts with the first.
    let is_down = match head.sorted {
        Some(sorted) => sorted == "ascending",
        None => head.is_number,
    };
    let sign = if is_down { "-" } else { "" };
    let sort = format!("{}.{sign}{}", view.table, head.name);
    let parameters = state(page, query, &sort);
    let href = format!("/{}?{}", page.path, parameters.trim_start_matches('&'));
    html! {
        th scope="col" class=[class] aria-sort=[head.sorted] {
            @if head.name == "action" {
                "action"
            } @else {
                a href=(href) title=[help::find(&head.name).map(Help::text)] { (head.name) }
            }
        }
    }
}

fn cells(heads: &[Head], row: &[Cell]) -> Markup {
    html! {
        @for (at, (head, cell)) in heads.iter().zip(row).enumerate() {
            @let class = head.is_number.then_some("n");
            @if at == 0 {
                th scope="row" class=[class] { (content(cell)) }
            } @else {
                td class=[class] { (content(cell)) }
            }
        }
    }
}

fn content(cell: &Cell) -> Markup {
    html! {
        @match (&cell.link, cell.mark) {
            (Some(link), _) => a href=(link) { (cell.text) },
            (None, Some(mark)) => span class={ "word " (mark) } { (cell.text) },
            (None, None) => (cell.text),
        }
    }
}

fn plots(page: &Page, charts: &Result<Charts, Missing>, query: &Query) -> Markup {
    html! {
        section.charts id="charts" aria-labelledby="charts-h" {
            h2 id="charts-h" { "History" }
            @match charts {
                Err(missing) => p.empty { "A history " (missing) ", which this version lacks." },
                Ok(charts) => {
                    p.windows {
                        "Window: "
                        @for (name, _) in WINDOWS {
                            @let is_current = window(query).0 == name;
                            a href=(with_window(page, query, name)) aria-current=[is_current.then_some("true")] { (name) }
                            " "
                        }
                        @if charts.step > 1 { "A value is the highest of " (charts.step) " s. " }
                        "Times are UTC."
                    }
                    div.grid { @for (at, chart) in charts.charts.iter().enumerate() { (figure(charts, chart, at)) } }
                }
            }
        }
    }
}

fn with_window(page: &Page, query: &Query, name: &str) -> String {
    let query = Query {
        window: name.to_owned(),
        ..query.clone()
    };
    let parameters = state(page, &query, "");
    format!("/{}?{}", page.path, parameters.trim_start_matches('&'))
}

fn figure(charts: &Charts, chart: &Drawn, number: usize) -> Markup {
    let len = chart.values.first().map_or(0, Vec::len);
    let distance = len.div_ceil(CHART_ROWS).max(1);
    let unit = chart.unit_of();
    html! {
        figure data-chart=(number) {
            figcaption { (chart.title) }
            div.plot aria-hidden="true" {}
            p.summary { (chart.summary) }
            details {
                summary { "Values of " (chart.title) }
                div.scroll {
                    table {
                        thead { tr {
                            th scope="col" { "time" }
                            @for name in &chart.names { th.n scope="col" { (name) } }
                        } }
                        tbody {
                            @for at in (0..len).rev().step_by(distance) {
                                @let passed = i64::from(charts.step) * i64::try_from(at).unwrap_or(0);
                                tr {
                                    th scope="row" { (crate::format::clock(charts.from + passed)) }
                                    @for values in &chart.values {
                                        td.n {
                                            @match values.get(at).copied().flatten() {
                                                Some(value) => (unit.show(value)),
                                                None => "-",
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the keys, and the help about the columns of a page.
fn keys(model: &Model) -> Markup {
    let heads = model.tables.iter().flat_map(|(_, shown)| &shown.heads);
    let mut helps: Vec<&Help> = heads.filter_map(|head| help::find(&head.name)).collect();
    helps.sort_unstable_by_key(|help| help.column);
    helps.dedup_by_key(|help| help.column);
    html! {
        section id="help" hidden tabindex="-1" aria-labelledby="help-h" {
            h2 id="help-h" { "Keys" }
            dl {
                dt { kbd { "/" } } dd { "filter rows" }
                dt { kbd { "space" } } dd { "freeze the page, or let it go on" }
                dt { kbd { "y" } } dd { "copy the page as text" }
                dt { kbd { "Esc" } } dd { "leave the filter, close this list" }
                @for page in PAGES.iter().filter(|page| !page.is_of_pool) {
                    dt { kbd { "g " (page.key) } } dd { (page.title) }
                }
            }
            @if !helps.is_empty() {
                h2 { "Columns" }
                dl { @for help in helps { dt { (help.column) } dd { (help.text()) } } }
            }
        }
    }
}

/// Returns the form of a login.
pub(crate) fn login(user: &str, next: &str, refused: Option<&str>) -> Markup {
    let body = html! {
        main.narrow id="main" {
            h1 { "Weir" }
            @if let Some(refused) = refused { p.word.critical role="alert" { (refused) } }
            form method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                label for="user" { "User" }
                input id="user" name="user" value=(user) autocomplete="username" required autofocus;
                label for="password" { "Password" }
                input id="password" name="password" type="password" autocomplete="current-password";
                button type="submit" { "Sign in" }
            }
            p { "Users of admin_users and stats_users sign in with their password of auth_file." }
        }
    };
    frame("Sign in", &html! {}, &body)
}

/// Returns the form that asks an administrator if an action is meant.
pub(crate) fn confirm(action: &Action, name: &str, target: &str, visitor: &Visitor) -> Markup {
    let body = html! {
        (header(None, "-", visitor))
        main.narrow id="main" {
            h1 { code { (action.to_string()) } }
            p { (action.effect()) }
            form method="post" action="/act" autocomplete="off" {
                input type="hidden" name="action" value=(name);
                input type="hidden" name="target" value=(target);
                input type="hidden" name="token" value=(visitor.form_token());
                @if action.is_grave() {
                    label for="typed" { "Type " code { (target) } " to confirm" }
                    input id="typed" name="typed" required autofocus spellcheck="false";
                }
                button.grave type="submit" { "Run " (action.to_string()) }
                " " a href="/" { "Cancel" }
            }
        }
    };
    frame("Confirm", &html! {}, &body)
}

/// Returns a page with a message.
pub(crate) fn message(title: &str, level: &str, text: &str, back: &str) -> Markup {
    let body = html! {
        main.narrow id="main" {
            h1 { (title) }
            p class={ "word " (level) } role="status" { (text) }
            p { a href=(back) { "Back" } }
        }
    };
    frame(title, &html! {}, &body)
}
