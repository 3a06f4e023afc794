//! Takes the pictures of the README: the dashboard and `weir top` while a deploy has left transactions open. `make pictures`
//! calls it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use weir_conformance::browser::Browser;
use weir_conformance::target::weir_bin;
use weir_conformance::tmux::Tmux;
use weir_conformance::{
    Config, Postgres, Raw, TempDir, Weir, frontend, postgres, tools, wait_until,
};

/// Time limit, generous because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Size of the dashboard's picture in pixels.
const PAGE: (u32, u32) = (1280, 900);
/// Size of the terminal in characters.
const TERMINAL: (u16, u16) = (124, 22);
/// Size of its picture in pixels.
const TERMINAL_PIXELS: (u32, u32) = (1010, 420);
/// Page around the terminal's text, whose spans have their colours.
const AROUND: &str = "<!doctype html><meta charset=utf-8><style>body{margin:0;background:#10151b;color:#d8dee6;\
    font:13.3px/18px 'DejaVu Sans Mono',monospace}pre{margin:10px;font:inherit}</style><pre>TEXT</pre>";

fn main() -> Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    fs::create_dir_all(&directory)?;
    let postgres = Postgres::start(&postgres::Options::default())?;
    postgres.create_database("shop")?;
    let port = tools::free_port()?;
    let config = Config::to(postgres.port())
        .database(&format!(
            "shop = host=127.0.0.1 port={} pool_size=4",
            postgres.port()
        ))
        .set("digests", "1")
        .set("dashboard_listen", &format!("127.0.0.1:{port}"));
    let weir = Weir::start(&config)?;
    let scene = Scene::play(&weir)?;
    let mut browser = Browser::start()?;
    let terminal = take_terminal(&weir)?;
    let mut page = browser.page()?;
    page.dress("light", PAGE.0, PAGE.1)?;
    page.go(&format!("http://127.0.0.1:{port}/"))?;
    page.until("document.querySelector('input[name=user]')")?;
    page.loading(|page| {
        let sign_in = "document.querySelector('input[name=user]').value = 'postgres'; \
                       document.querySelector('input[name=user]').form.submit()";
        page.evaluate(sign_in).map(drop)
    })?;
    page.until("document.documentElement.dataset.live")?;
    page.until("document.querySelector('canvas')")?;
    page.save_picture(&directory.join("dashboard.png"))?;
    drop(scene);
    let file = TempDir::new()?;
    let html = file.write("top.html", &AROUND.replace("TEXT", &terminal))?;
    page.dress("dark", TERMINAL_PIXELS.0, TERMINAL_PIXELS.1)?;
    page.go(&format!("file://{}", html.display()))?;
    page.save_picture(&directory.join("top.png"))?;
    drop(page);
    browser.stop()
}

/// Clients of a shop: some work, four have left a transaction open, and others wait for them.
struct Scene {
    _clients: Vec<Raw>,
}

impl Scene {
    /// Connects the clients, and waits until Weir has told what is wrong.
    fn play(weir: &Weir) -> Result<Self> {
        let mut clients = Vec::new();
        for _ in 0..40 {
            client(weir, "webshop")?.query("select count(*) from pg_class")?;
        }
        for application in ["billing-7f3c", "billing-7f3c", "billing-7f3c", "report"] {
            let mut holder = client(weir, application)?;
            holder.query("begin")?;
            holder.query("select count(*) from pg_attribute")?;
            clients.push(holder);
        }
        for _ in 0..6 {
            let mut waiter = client(weir, "webshop")?;
            waiter.send(&frontend::query("select 1"))?;
            clients.push(waiter);
        }
        let mut admin = weir.connect("pgbouncer")?;
        wait_until("a diagnosis", PATIENCE, || {
            Ok(!admin.query_named("SHOW DIAGNOSIS")?.is_empty())
        })?;
        Ok(Self { _clients: clients })
    }
}

fn client(weir: &Weir, application: &str) -> Result<Raw> {
    let parameters = [
        ("user", "postgres"),
        ("database", "shop"),
        ("application_name", application),
    ];
    Raw::connect_with(weir.port(), &parameters)
}

/// Returns the screen of `weir top` as HTML.
fn take_terminal(weir: &Weir) -> Result<String> {
    let (columns, lines) = TERMINAL;
    let tmux = Tmux::start(columns, lines, &[("PGUSER", "postgres")])?;
    let program = weir_bin()?;
    tmux.run(&format!(
        "clear; {} top 127.0.0.1:{}",
        program.display(),
        weir.port()
    ))?;
    wait_until("the diagnosis in the terminal", PATIENCE, || {
        let screen = tmux.screen()?;
        Ok(screen.contains("KILL_CLIENT") || screen.contains("idle_transactions"))
    })?;
    let screen = tmux.ask(&["capture-pane", "-p", "-e"])?;
    ansi_to_html::convert(&screen).context("colours of the terminal")
}
