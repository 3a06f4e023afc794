// Keeps the tables of a page fresh from its stream. The page is whole without this script. Texts reach the document as text
// nodes only.
"use strict";
(() => {
  const script = document.currentScript;
  const byId = (id) => document.getElementById(id);
  const main = byId("main");
  const age = byId("age");
  const verdict = byId("verdict");
  const note = byId("note");
  const OLD_MS = 3500;
  const POLL_MS = 5000;
  const STREAM_AGAIN_MS = 30000;

  // --- state ---
  let source = null;
  let timer = 0;
  let heard = performance.now(); // moment of the last good figures
  let clock = "";
  let why = "";
  let frozen = false;
  let waiting = null; // messages that arrived while the page is frozen
  const tables = new Map(); // id -> heads
  const address = { stream: script.dataset.stream, poll: script.dataset.poll };

  // --- the document ---
  const element = (name, className) => {
    const made = document.createElement(name);
    if (className) { made.className = className; }
    return made;
  };

  const copy = (text) => {
    const done = () => tell("copied", 2000);
    if (navigator.clipboard) {
      navigator.clipboard.writeText(text).then(done, () => copyOld(text, done));
    } else {
      copyOld(text, done);
    }
  };
  // Without TLS beyond loopback there is no clipboard object.
  const copyOld = (text, done) => {
    const area = element("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    done();
  };

  let told = 0;
  const tell = (text, ms) => {
    clearTimeout(told);
    note.textContent = text;
    note.hidden = !text;
    if (text && ms) { told = setTimeout(() => tell(mode(), 0), ms); }
  };
  const mode = () => (timer && !source ? "16 tabs are open: this one asks every 5 s." : "");

  const copyButton = (text) => {
    const button = element("button", "copy");
    button.type = "button";
    button.textContent = "copy";
    button.setAttribute("aria-label", "copy " + text);
    button.addEventListener("click", () => copy(text));
    return button;
  };

  const fill = (place, cell) => {
    const parts = [];
    if (cell.h) {
      const link = element("a");
      link.href = cell.h;
      link.textContent = cell.t;
      parts.push(link);
    } else if (cell.w) {
      const word = element("span", "word " + cell.w);
      word.textContent = cell.t;
      parts.push(word);
    } else {
      parts.push(document.createTextNode(cell.t));
    }
    if (cell.y) { parts.push(copyButton(cell.t)); }
    place.replaceChildren(...parts);
  };

  const newRow = (heads, length) => {
    const row = element("tr");
    for (let at = 0; at < length; at += 1) {
      const cell = element(at === 0 ? "th" : "td", heads[at] && heads[at].is_number ? "n" : "");
      if (at === 0) { cell.scope = "row"; }
      row.append(cell);
    }
    return row;
  };

  const update = (id, changes) => {
    const section = byId(id);
    if (!section) { return; }
    const heads = changes.heads || tables.get(id) || [];
    if (changes.heads) { tables.set(id, changes.heads); }
    const body = section.querySelector("tbody");
    if (!body) {
      // The table was missing when the page was made.
      if (heads.length && changes.len) { location.reload(); }
      return;
    }
    section.querySelector(".count").textContent = "(" + changes.total + ")";
    const empty = section.querySelector(".empty");
    empty.textContent = changes.note;
    empty.hidden = !changes.note;
    section.querySelector(".scroll").hidden = changes.len === 0;
    for (const [place, cells] of Object.entries(changes.rows)) {
      const at = Number(place);
      let row = body.rows[at];
      if (!row || row.cells.length !== cells.length) {
        const made = newRow(heads, cells.length);
        if (row) { row.replaceWith(made); } else { body.append(made); }
        row = made;
      }
      cells.forEach((cell, index) => {
        const told = JSON.stringify(cell);
        const target = row.cells[index];
        // A cell that stays the same keeps its focus and selection.
        if (target.told !== told) {
          target.told = told;
          fill(target, cell);
        }
      });
    }
    while (body.rows.length > changes.len) { body.rows[body.rows.length - 1].remove(); }
  };

  const show = (message) => {
    why = message.failed || "";
    if (!why) { heard = performance.now(); clock = message.clock; }
    // A live region speaks when its text changes, so it is set only then.
    if (verdict.textContent !== message.verdict.text) { verdict.textContent = message.verdict.text; }
    verdict.className = "word " + message.verdict.level;
    for (const [id, changes] of Object.entries(message.tables)) { update(id, changes); }
    if (message.charts && window.weirCharts) { window.weirCharts.take(message.charts, message.full); }
    tick();
    document.documentElement.dataset.live = String(message.at);
  };

  const take = (message) => {
    if (!frozen) { return show(message); }
    // Later changes build on earlier ones, so all are kept, up to a limit at which the page asks anew.
    if (message.full || !waiting) { waiting = []; }
    waiting.push(message);
    if (waiting.length > 600) { waiting = null; connect(); }
    tick();
  };

  const tick = () => {
    const ms = performance.now() - heard;
    const seconds = Math.round(ms / 1000);
    const old = ms > OLD_MS;
    main.classList.toggle("stale", old);
    age.classList.toggle("old", old && !frozen);
    age.classList.toggle("paused", frozen);
    let text = clock ? "as of " + clock : age.textContent;
    if (frozen) {
      text = "PAUSED, " + seconds + " s old (space goes on)";
    } else if (old) {
      text = "no data for " + seconds + " s" + (why ? ": " + why : "");
    }
    if (age.textContent !== text) { age.textContent = text; }
  };

  // --- the stream ---
  const close = () => {
    if (source) { source.close(); source = null; }
    clearTimeout(timer);
    timer = 0;
  };

  const connect = () => {
    close();
    if (document.hidden) { return; }
    const own = new EventSource(address.stream);
    source = own;
    own.onmessage = (event) => { if (source === own) { take(JSON.parse(event.data)); } };
    own.onerror = () => {
      if (source !== own) { return; }
      // A lost stream is asked for again by the browser itself; a refused one is closed.
      if (own.readyState === EventSource.CLOSED) { source = null; poll(performance.now() + STREAM_AGAIN_MS); }
    };
  };

  const poll = async (until) => {
    clearTimeout(timer);
    if (document.hidden) { return; }
    let next = POLL_MS;
    try {
      const answer = await fetch(address.poll, { cache: "no-store", credentials: "same-origin" });
      if (answer.status === 401) {
        tell("The session is over: reload the page to sign in.", 0);
        why = "signed out";
        tick();
        return;
      }
      if (answer.ok) { take(await answer.json()); }
    } catch (error) {
      next = 2000;
      until = 0;
    }
    if (performance.now() > until) {
      timer = setTimeout(() => { tell("", 0); connect(); }, next);
    } else {
      timer = setTimeout(() => poll(until), next);
      tell(mode(), 0);
    }
  };

  document.addEventListener("visibilitychange", () => { if (document.hidden) { close(); } else { connect(); } });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) { connect(); } });
  setInterval(tick, 1000);

  // --- the filter ---
  const field = byId("q");
  let typing = 0;
  const refilter = () => {
    const url = new URL(location.href);
    const set = (of) => {
      const params = of.searchParams;
      if (field.value) { params.set("q", field.value); } else { params.delete("q"); }
    };
    set(url);
    history.replaceState(null, "", url);
    for (const key of ["stream", "poll"]) {
      const of = new URL(address[key], location.href);
      set(of);
      address[key] = of.pathname + of.search;
    }
    for (const link of document.querySelectorAll("thead a, .windows a")) {
      const of = new URL(link.href);
      set(of);
      link.href = of.pathname + of.search;
    }
    connect();
  };
  if (field) {
    field.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(refilter, 200); });
    field.form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); refilter(); });
  }

  // --- keys ---
  const help = byId("help");
  const keys = byId("keys");
  const setHelp = (open) => {
    help.hidden = !open;
    keys.setAttribute("aria-expanded", String(open));
    if (open) { help.focus(); } else if (document.activeElement === document.body) { keys.focus(); }
  };
  const freeze = () => {
    frozen = !frozen;
    if (!frozen && waiting) { waiting.forEach(show); waiting = null; }
    tick();
  };
  const asText = () => {
    const parts = ["Weir, " + document.title + ", " + age.textContent, verdict.textContent];
    for (const section of document.querySelectorAll("section[data-table]")) {
      parts.push("", section.querySelector("h2").textContent);
      const empty = section.querySelector(".empty");
      if (!empty.hidden) { parts.push(empty.textContent); }
      for (const row of section.querySelectorAll("tr")) {
        const texts = [...row.cells].map((cell) => (cell.querySelector("a, .word") || cell.firstChild || cell).textContent);
        parts.push(texts.join("\t"));
      }
    }
    return parts.join("\n");
  };
  let went = -Infinity; // moment of the key g
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    const target = event.target;
    const isField = target.matches("input, textarea, select");
    if (event.key === "Escape") {
      if (isField) { target.blur(); }
      if (!help.hidden) { setHelp(false); }
      return;
    }
    if (isField) { return; }
    const now = performance.now();
    if (now - went < 1500) {
      went = -Infinity;
      const link = document.querySelector("nav a[data-key='" + CSS.escape(event.key) + "']");
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    switch (event.key) {
      case "/": event.preventDefault(); if (field) { field.focus(); field.select(); } break;
      case "g": went = now; break;
      case "?": setHelp(help.hidden); break;
      case "y": copy(asText()); break;
      case " ":
        // A button and a link keep their own meaning of the key.
        if (!target.matches("a, button, summary")) { event.preventDefault(); freeze(); }
        break;
    }
  });
  keys.hidden = false;
  keys.addEventListener("click", () => setHelp(help.hidden));

  // --- the theme ---
  const theme = byId("theme");
  const THEMES = ["auto", "light", "dark"];
  const stored = () => { try { return localStorage.getItem("weir-theme") || "auto"; } catch (error) { return "auto"; } };
  const dress = (name) => {
    document.documentElement.classList.remove("light", "dark");
    if (name !== "auto") { document.documentElement.classList.add(name); }
    theme.textContent = "Theme: " + name;
    if (window.weirCharts) { window.weirCharts.dress(); }
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
    try { localStorage.setItem("weir-theme", next); } catch (error) { /* the choice lasts as long as the page */ }
    dress(next);
  });
  dress(stored());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dress(stored()));

  connect();
})();
