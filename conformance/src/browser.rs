//! Chromium through its debugging protocol over a pair of pipes: no port, no library. Messages are JSON and end with
//! a zero byte.

#![allow(
    clippy::indexing_slicing,
    reason = "indexing a JSON value gives null where there is nothing"
)]

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::process::Child;
use std::process::ChildStdin;
use std::process::ChildStdout;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use base64::Engine;
use serde_json::Value;
use serde_json::json;

use crate::TempDir;
use crate::tools;
use crate::wait_until;

/// The protocol uses descriptors 3 and 4; the browser's log goes to a file. A hanging browser is killed together with
/// the shell.
const START: &str = r#"exec timeout -k 1 900 "$@" 3<&0 4>&1 0</dev/null 1>&2"#;

/// Flags that keep the browser off the network: no names but this machine, and its own services disabled.
const FLAGS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// Time limit for loading a page, generous because the machine may be busy.
const LOAD_MAX: Duration = Duration::from_secs(60);

/// A browser with an empty profile.
pub struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    calls: u64,
    /// Events that arrived unasked.
    events: Vec<Value>,
    profile: TempDir,
}

impl Browser {
    /// Starts Chromium without a window.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start() -> Result<Self> {
        let program = tools::require("chromium", "chromium")?;
        let profile = TempDir::new()?;
        let mut command = Command::new("sh");
        command.args(["-c", START, "sh"]).arg(program).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        if tools::is_root() {
            // Chromium's sandbox does not work for root. The browser opens only the suite's own file.
            command.arg("--no-sandbox");
        }
        command.arg("about:blank").env("HOME", profile.path());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(profile.path().join("stderr"))?)
            .spawn()?;
        let orders = child.stdin.take().context("a pipe was asked for")?;
        let answers = child.stdout.take().context("a pipe was asked for")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers),
            calls: 0,
            events: Vec::new(),
            profile,
        })
    }

    /// Opens a tab with events enabled.
    ///
    /// # Errors
    /// When Chromium has ended.
    pub fn page(&mut self) -> Result<Page<'_>> {
        // A window of its own, so that no tab is hidden by another.
        let target = json!({"url": "about:blank", "newWindow": true});
        let target = self.call(None, "Target.createTarget", &target)?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", &attach)?;
        let session = attached["sessionId"]
            .as_str()
            .context("no session")?
            .to_owned();
        let mut page = Page {
            browser: self,
            session,
        };
        for domain in ["Page", "Network", "Log", "Runtime"] {
            page.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(page)
    }

    /// Returns a tab that is open, by its session.
    pub fn tab(&mut self, session: &str) -> Page<'_> {
        Page {
            browser: self,
            session: session.to_owned(),
        }
    }

    /// Closes the browser and waits for its end.
    ///
    /// # Errors
    /// When it ends with an error.
    pub fn stop(mut self) -> Result<()> {
        self.call(None, "Browser.close", &json!({}))?;
        let status = self.child.wait()?;
        ensure!(status.success(), "chromium: {status}: {}", self.grumbling());
        Ok(())
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Result<Value> {
        self.calls += 1;
        let mut order = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = session {
            order["sessionId"] = session.into();
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        let sent = self.orders.write_all(&bytes);
        sent.with_context(|| format!("chromium ended: {}", self.grumbling()))?;
        loop {
            let mut answer = self.message(method)?;
            if answer["id"] != self.calls {
                self.events.push(answer);
                continue;
            }
            ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
            return Ok(answer["result"].take());
        }
    }

    /// Reads the next message, during this call.
    fn message(&mut self, method: &str) -> Result<Value> {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message)?;
        if message.pop() != Some(0) {
            bail!("chromium ended at {method}: {}", self.grumbling());
        }
        Ok(serde_json::from_slice(&message)?)
    }

    fn grumbling(&self) -> String {
        let text = std::fs::read_to_string(self.profile.path().join("stderr"));
        tools::tail(&text.unwrap_or_default(), 10)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // `timeout` passes the signal on to its child; after its end there is no process to signal.
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            let pid = rustix::process::Pid::from_raw(pid);
            let _ =
                pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
            let _ = self.child.wait();
        }
    }
}

/// Statistics of a screenshot.
#[derive(Debug)]
pub struct Picture {
    /// Number of colours.
    pub colours: u64,
    /// Share of the pixels that are not the page's background.
    pub drawn: f64,
    /// Mean brightness, from 0 to 1.
    pub brightness: f64,
}

/// Decodes the PNG in the browser, on a page of its own, because the report's page may not load pictures.
const MEASURE: &str = r#"(async () => {
    const image = new Image();
    image.src = "data:image/png;base64,PICTURE";
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const pixels = canvas.getImageData(0, 0, image.width, image.height).data;
    const colours = new Set(), page = "BACKGROUND".match(/\d+/g).map(Number);
    let drawn = 0, sum = 0;
    for (let at = 0; at < pixels.length; at += 4) {
        const [red, green, blue] = [pixels[at], pixels[at + 1], pixels[at + 2]];
        colours.add((red << 16) | (green << 8) | blue);
        drawn += red !== page[0] || green !== page[1] || blue !== page[2];
        sum += red + green + blue;
    }
    const count = pixels.length / 4;
    return {colours: colours.size, drawn: drawn / count, brightness: sum / count / 3 / 255};
})()"#;

/// Waits until an expression is true, looking again at every change of the document and of the focus.
const UNTIL: &str = r#"new Promise((done, fail) => {
    const end = (how, what) => {
        watch.disconnect();
        document.removeEventListener("focusin", look);
        clearTimeout(late);
        how(what);
    };
    const look = () => { const found = (CONDITION); if (found) { end(done, found); } };
    const watch = new MutationObserver(look);
    watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    document.addEventListener("focusin", look);
    const late = setTimeout(() => end(fail, new Error(`never seen: ${document.body.innerText.slice(0, 2000)}`)), 60000);
    look();
})"#;

/// A tab.
pub struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Page<'_> {
    /// Name of the tab for [`Browser::tab`].
    #[must_use]
    pub fn session(&self) -> String {
        self.session.clone()
    }

    /// Opens `url` and waits until it is loaded.
    ///
    /// # Errors
    /// When the page cannot be reached.
    pub fn go(&mut self, url: &str) -> Result<()> {
        self.loading(|page| {
            let opened = page.call("Page.navigate", &json!({"url": url}))?;
            ensure!(opened["errorText"].is_null(), "{opened}");
            Ok(())
        })
    }

    /// Does something that loads another page, and waits until that is loaded.
    ///
    /// # Errors
    /// When no other page is loaded within a generous time limit.
    pub fn loading(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.evaluate("window.isOld = true")?;
        act(self)?;
        wait_until("another page", LOAD_MAX, || {
            // Fails while one document follows the other.
            let loaded = self.evaluate(
                "new Promise((done) => setTimeout(() => done(!window.isOld && document.readyState === 'complete'), 10))",
            );
            Ok(loaded.is_ok_and(|loaded| loaded == true))
        })
    }

    /// Shows pages in light or dark mode, on a screen of this size.
    ///
    /// # Errors
    /// When the browser has ended.
    pub fn dress(&mut self, scheme: &str, width: u32, height: u32) -> Result<()> {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &media)?;
        let screen =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &screen)?;
        Ok(())
    }

    /// Waits until a JavaScript expression is true; looks again at every change of the document and of the focus. Returns its value.
    ///
    /// # Errors
    /// When it stays false for a minute.
    pub fn until(&mut self, condition: &str) -> Result<Value> {
        let found = self.evaluate(&UNTIL.replace("CONDITION", condition));
        found.with_context(|| format!("waiting for {condition}"))
    }

    /// Presses a key. Keys of one letter type it.
    ///
    /// # Errors
    /// When the browser has ended.
    pub fn press(&mut self, key: &str) -> Result<()> {
        let text = match key {
            "Enter" => "\r",
            _ if key.chars().count() == 1 => key,
            _ => "",
        };
        // Virtual key codes of Windows, which Chromium wants on every system.
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            _ => u32::from(key.to_uppercase().chars().next().unwrap_or_default()),
        };
        let mut down = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", &down)?;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", &up)?;
        Ok(())
    }

    /// Types a text into the field that has the focus.
    ///
    /// # Errors
    /// When the browser has ended.
    pub fn type_text(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", &json!({"text": text}))?;
        Ok(())
    }

    /// Sets a cookie of the host of `url`.
    ///
    /// # Errors
    /// When the browser refuses it.
    pub fn set_cookie(&mut self, url: &str, name: &str, value: &str) -> Result<()> {
        let cookie = json!({"url": url, "name": name, "value": value, "httpOnly": true, "sameSite": "Strict"});
        let set = self.call("Network.setCookie", &cookie)?;
        ensure!(set["success"] == true, "{set}");
        Ok(())
    }

    /// Stores a picture of the whole page as PNG.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save_picture(&mut self, file: &Path) -> Result<()> {
        let taken = self.call(
            "Page.captureScreenshot",
            &json!({"format": "png", "captureBeyondViewport": false}),
        )?;
        let taken = taken["data"].as_str().context("no picture")?;
        std::fs::write(
            file,
            base64::engine::general_purpose::STANDARD.decode(taken)?,
        )?;
        Ok(())
    }

    /// Opens `url` on a screen of this width, in light or dark mode, and evaluates `script` when everything is
    /// loaded.
    ///
    /// # Errors
    /// When the page cannot be opened or the script fails.
    pub fn open(&mut self, url: &str, width: u32, scheme: &str, script: &str) -> Result<Value> {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &media)?;
        // A narrow screen simulates a phone, which zooms out if a page is too wide.
        let screen =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &screen)?;
        let opened = self.call("Page.navigate", &json!({"url": url}))?;
        ensure!(opened["errorText"].is_null(), "{opened}");
        self.evaluate(
            "new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))",
        )?;
        self.evaluate(script)
    }

    /// Statistics of the visible page, with `background` as the page's colour.
    ///
    /// # Errors
    /// When no picture can be taken.
    pub fn picture(&mut self, background: &Value) -> Result<Picture> {
        let background = background.as_str().context("no background")?;
        let taken = self.call("Page.captureScreenshot", &json!({"format": "png"}))?;
        let taken = taken["data"].as_str().context("no picture")?;
        let script = MEASURE
            .replace("PICTURE", taken)
            .replace("BACKGROUND", background);
        let mut table = self.browser.page()?;
        let told = table.evaluate(&script)?;
        let number = |name: &str| told[name].as_f64().with_context(|| told.to_string());
        Ok(Picture {
            colours: told["colours"].as_u64().with_context(|| told.to_string())?,
            drawn: number("drawn")?,
            brightness: number("brightness")?,
        })
    }

    /// URLs of all requests, in order.
    pub fn requests(&self) -> impl Iterator<Item = &str> {
        self.events("Network.requestWillBeSent")
            .filter_map(|event| event["params"]["request"]["url"].as_str())
    }

    /// Console messages and failures.
    pub fn complaints(&self) -> impl Iterator<Item = String> {
        let kinds = [
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Network.loadingFailed",
        ];
        kinds
            .into_iter()
            .flat_map(|kind| self.events(kind).map(|event| event["params"].to_string()))
    }

    fn events<'s>(&'s self, method: &'s str) -> impl Iterator<Item = &'s Value> {
        let ours =
            move |event: &&Value| event["method"] == method && event["sessionId"] == *self.session;
        self.browser.events.iter().filter(ours)
    }

    /// Evaluates a script, waits if it is a promise, and returns its value.
    ///
    /// # Errors
    /// When the script fails.
    pub fn evaluate(&mut self, script: &str) -> Result<Value> {
        let order = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut told = self.call("Runtime.evaluate", &order)?;
        ensure!(
            told["exceptionDetails"].is_null(),
            "{}",
            told["exceptionDetails"]
        );
        Ok(told["result"]["value"].take())
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.browser.call(Some(&self.session), method, parameters)
    }
}
