// The page of leader dash. What groups and leaders are called, and all they say of themselves, comes from records that
// anybody with a candidate's rights may write: it becomes text nodes and attributes only, never markup.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const beat = 250; // ms between two looks at the bars

const groups = new Map(); // name → row
const visible = new Set(); // rows within sight
let about = { bucket: "", server: "", control: false };
let past = { since: 0 }; // how far back the terms go
let show = "all";
let span = 0; // what the timelines show, in ms; 0 for what is known, up to ten minutes
let order = "trouble"; // or "name"
let ahead = 0; // the server's clock minus ours
let wanted = new URLSearchParams(location.search).get("group"); // to be opened as soon as it is there
let heard = performance.now(); // when the command spoke last
let brokenAt = 0; // when the stream ended, if it was not opened again
let away = false; // the command has lost its server
let staleAt = 0; // since when what is shown is not followed, by the server's clock; 0 while it is
let complaint = ""; // what the command says is wrong
let drained; // which instances campaign for nothing, in words
let touched = -Infinity; // when a finger or a key was last within the table

// The command speaks every five seconds at least. One that has not for so long is gone, or cut off.
const patience = 12000;
// A stream that ends is opened again at once. Only if that fails is it worth a word.
const blink = 2000;
// A group is moved when it has been in trouble, or out of it, for so long: not for each handover.
const settled = 2000;
// Rows stand still for so long after the table was touched.
const still = 5000;

// el makes an element. Strings become text.
function el(tag, attributes, ...content) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null) e.setAttribute(name, value);
  }
  e.append(...content.filter((c) => c !== undefined && c !== null));
  return e;
}

const serverNow = () => Date.now() + ahead;

// shownNow is the time of what is shown: it stands still while nothing is heard.
const shownNow = () => staleAt || serverNow();

function lasting(ms, fine) {
  if (fine && ms < 1000) return Math.max(0, Math.round(ms)) + " ms";
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 100) return Math.round(s) + " s";
  if (s < 5400) return Math.round(s / 60) + " min";
  return (s / 3600).toFixed(1) + " h";
}

function clock(ms) {
  const at = new Date(ms - ahead), time = at.toLocaleTimeString([], { hour12: false });
  const today = at.toDateString() === new Date().toDateString();
  return today ? time : at.toLocaleDateString([], { month: "short", day: "numeric" }) + " " + time;
}

// hue gives a candidate the same of eight colours everywhere.
function hue(id) {
  let h = 2166136261;
  for (let i = 0; i < id.length; i++) h = Math.imul(h ^ id.charCodeAt(i), 16777619);
  return "k" + ((h >>> 0) % 8);
}

// whyOf says in words why nobody leads, or why a term ended.
function whyOf(x) {
  let text = x.reason || "";
  if (x.by) text += " by " + x.by;
  if (x.why) text += ": " + x.why;
  return text;
}

class Row {
  constructor(name) {
    this.name = name;
    this.deadline = 0; // by performance.now()
    this.window = 1;
    const id = "more-" + Row.count++;
    this.button = el("button", { class: "open", type: "button", "aria-expanded": "false", "aria-controls": id },
      el("span", { class: "cut", title: name }, name));
    this.leader = el("td", { role: "cell", class: "who" });
    this.since = el("td", { role: "cell", class: "since" });
    this.term = el("td", { role: "cell", class: "term cut" });
    this.fill = el("div", { class: "fill" });
    this.bar = el("div", { class: "bar", role: "meter", "aria-label": "lease left", "aria-valuemin": "0" }, this.fill);
    this.left = el("span", { class: "left" });
    this.line = document.createElementNS(SVG, "svg");
    this.line.setAttribute("class", "line");
    this.line.setAttribute("viewBox", "0 0 1000 10");
    this.line.setAttribute("preserveAspectRatio", "none");
    this.line.setAttribute("role", "img");
    this.row = el("tr", { role: "row", class: "row" },
      el("th", { role: "rowheader", scope: "row" }, this.button), this.leader, this.since, this.term,
      el("td", { role: "cell", class: "lease" }, this.bar, this.left),
      el("td", { role: "cell" }, this.line));
    this.cell = el("td", { role: "cell", colspan: "6" });
    this.more = el("tr", { role: "row", class: "more", id, hidden: "" }, this.cell);
    this.body = el("tbody", { role: "rowgroup" }, this.row, this.more);
    this.body.row = this;
    this.button.addEventListener("click", () => this.toggle());
    this.row.addEventListener("click", (e) => {
      if (!e.target.closest("button") && !String(getSelection())) this.toggle();
    });
    sight.observe(this.body);
  }

  toggle() {
    this.more.hidden = !this.more.hidden;
    this.button.setAttribute("aria-expanded", String(!this.more.hidden));
    this.detail();
    if (!this.more.hidden) {
      remember(this.name);
      this.call();
    } else if (new URLSearchParams(location.search).get("group") === this.name) remember(null);
  }

  // trouble ranks what the group needs of whoever looks, the most urgent first.
  trouble() {
    const g = this.g;
    if (order === "name") return 0;
    if (g.hidden) return 3;
    if (!g.leader && !g.paused) return 0;
    return g.paused ? 1 : 2;
  }

  // settle moves the row when its trouble has lasted, or has been over for as long.
  settle(now) {
    const rank = this.trouble();
    if (rank === this.rank) this.unsettled = 0;
    else this.unsettled ||= now;
    if (this.unsettled && now - this.unsettled >= settled && this.more.hidden) place(this);
  }

  // update takes in what the server says of the group. It returns what is worth telling, if anything is.
  update(g) {
    const was = this.g;
    this.g = g;
    this.renew(g.left, g.window);
    this.body.classList.toggle("paused", Boolean(g.paused));
    this.body.classList.toggle("vacant", !g.leader);
    this.body.classList.toggle("unconfirmed", Boolean(g.unconfirmed));
    // A group that is paused has no leader soon, for a reason that somebody chose.
    const tag = this.tag();
    const vacancy = g.paused ? whyOf({ reason: "paused", by: g.paused.by, why: g.paused.why }) : "no leader: " + whyOf(g);
    if (g.leader) {
      this.leader.replaceChildren(el("span", { class: "dot " + hue(g.leader) }), el("span", { class: "cut", title: g.leader }, g.leader, ...(tag ? [" ", tag] : [])));
    } else {
      this.leader.replaceChildren(el("span", { class: "none who cut", title: vacancy },
        el("span", { class: "dot" }), el("span", { class: "cut" }, vacancy)));
    }
    const known = g.term !== "0"; // of a record that cannot be read, and of a group that has not been led yet
    this.term.textContent = known ? g.term : "–";
    this.term.title = known ? "term " + g.term : "no term";
    this.age();
    this.draw();
    this.detail();
    if (!was || (was.leader === g.leader && was.term === g.term)) return null;
    this.row.classList.add("fresh");
    requestAnimationFrame(() => requestAnimationFrame(() => this.row.classList.remove("fresh")));
    return g.leader ? `${g.group}: ${g.leader} leads` : `${g.group}: no leader, ${whyOf(g)}`;
  }

  // tag says what is to be known of a leader beside its name.
  tag() {
    const g = this.g;
    if (!g.leader) return null;
    if (g.paused) return el("span", { class: "tag" }, "paused");
    if (!g.unconfirmed) return null;
    const found = `Its record was found by this page's command, which has seen no renewal since. `;
    return el("span", { class: "tag", title: found + "Whether it lives is not known before the next one, or before its lease has run out." }, "unconfirmed");
  }

  // age says since when it is as it is.
  age() {
    const { since } = this.g;
    const text = since ? `${clock(since)} · ${lasting(shownNow() - since)}` : "before " + clock(past.began);
    if (this.since.textContent === text) return;
    this.since.textContent = text;
    this.since.title = since ? "" : "It was found so, and nothing says since when.";
  }

  renew(left, window) {
    this.deadline = performance.now() + left;
    this.window = Math.max(1, window);
    if (this.g) this.g.left = left;
    this.tick();
  }

  // tick draws the bar.
  tick() {
    const led = Boolean(this.g && this.g.leader) && !staleAt;
    const left = led ? Math.max(0, this.deadline - performance.now()) : 0;
    const share = Math.min(1, left / this.window);
    this.fill.style.transform = `scaleX(${share.toFixed(3)})`;
    this.fill.className = "fill" + (share < 0.182 ? " out" : share < 0.45 ? " low" : "");
    const text = led ? (this.g.unconfirmed ? "≤ " : "") + lasting(left) : staleAt ? "?" : "–";
    if (this.left.textContent !== text) this.left.textContent = text;
    this.bar.setAttribute("aria-valuemax", String(this.window / 1000));
    this.bar.setAttribute("aria-valuenow", (left / 1000).toFixed(1));
    this.bar.setAttribute("aria-valuetext", led ? text : staleAt ? "not known" : "no leader");
    if (!this.g) return;
    this.age();
    const lasts = this.lasts && lengthOf(this.lasts.term);
    if (lasts && this.lasts.cell.textContent !== lasts) this.lasts.cell.textContent = lasts;
  }

  // draw draws the timeline.
  draw() {
    const { from, now, length, ticks } = frame(), shapes = [];
    const shape = (kind, begin, end, title) => {
      const a = Math.max(begin, from), b = Math.min(end, now);
      if (b <= a) return;
      const r = document.createElementNS(SVG, "rect");
      // A gap of milliseconds is worth a pixel.
      const x = 1000 * (a - from) / length, w = Math.max(1000 * (b - a) / length, 1.2);
      r.setAttribute("class", kind);
      r.setAttribute("x", x.toFixed(2));
      // Who leads is a block, that nobody does a thin line: not by colour alone.
      const thin = kind === "vacant" || kind === "idle";
      r.setAttribute("y", thin ? "3.5" : "0");
      r.setAttribute("width", w.toFixed(2));
      r.setAttribute("height", thin ? "3" : "10");
      const t = document.createElementNS(SVG, "title");
      t.textContent = title;
      r.append(t);
      shapes.push(r);
    };
    const terms = this.g.terms, words = [], idle = this.g.paused ? "idle" : "vacant";
    terms.forEach((t, i) => {
      const end = t.ended || now;
      words.push(`${t.leader} ${lasting(end - t.began, true)}`);
      shape(hue(t.leader), t.began, end, `${t.leader}, term ${t.number}, ${t.older ? "before " : ""}${clock(t.began)} to ${t.ended ? clock(t.ended) + ", " + whyOf(t) : "now"}`);
      const next = terms[i + 1];
      if (t.ended && (!next || next.began > t.ended)) {
        const until = next ? next.began : now;
        shape(next ? "vacant" : idle, t.ended, until, `no leader for ${lasting(until - t.ended, true)}: ${whyOf(t)}`);
      }
    });
    if (!terms.length) shape(idle, this.g.since || past.since, now, "no leader: " + whyOf(this.g));
    for (const at of ticks) {
      const mark = document.createElementNS(SVG, "rect");
      for (const [k, v] of Object.entries({ class: "tick", x: (1000 * (at - from) / length).toFixed(2), y: 0, width: 1, height: 10 })) mark.setAttribute(k, v);
      shapes.push(mark);
    }
    this.line.replaceChildren(...shapes);
    this.line.setAttribute("aria-label", words.length ? "Terms: " + words.slice(-5).join(", then ") : "no term");
  }

  // detail fills what is shown when the row is open.
  detail() {
    if (this.more.hidden) return;
    const g = this.g, list = el("dl");
    const say = (term, text) => { if (text) list.append(el("dt", null, term), el("dd", null, String(text))); };
    say(g.leader ? "Leader" : "Last left", g.leader || whyOf(g));
    say("Successor", g.successor);
    say("Address", g.address);
    say("Version", g.version);
    say("Priority", g.priority);
    for (const [k, v] of Object.entries(g.meta || {})) say(k, v);
    say("Term", g.term === "0" ? "" : g.term);
    if (g.leader) say("Lease", lasting(g.window) + " from each renewal, as seen from here");
    if (g.unconfirmed) say("Renewed", g.renewed ? `${clock(g.renewed)}, by ${g.own ? "its own" : "the server's"} clock; nothing was seen since` : "nothing was seen of it yet but its record");
    if (g.paused) say("Paused", whyOf({ reason: "yes,", by: g.paused.by, why: g.paused.why }).replace(",", ""));
    this.parts ||= this.furnish();
    this.parts.facts.replaceChildren(...list.children);
    this.parts.acts.hidden = !about.control;
    if (about.control && !this.parts.acts.firstChild) this.parts.acts.append(...["step-down", "transfer", "pause", "drain"].map((op) => this.request(op)));
    if (!about.control) this.parts.acts.replaceChildren();
    for (const b of this.parts.acts.children) {
      // Pause and resume are one button, so that it keeps the focus. The dialog says which of them it is.
      if (!asks[b.dataset.op].leader) b.dataset.op = g.paused ? "resume" : "pause";
      b.textContent = asks[b.dataset.op].go + " …";
      b.disabled = Boolean(staleAt || asks[b.dataset.op].leader && !g.leader);
      if (b.dataset.op === "drain") b.title = g.leader ? `Drain the instance ${g.leader} for the maintenance of its host` : "";
    }
    this.lasts = null;
    this.parts.terms.replaceChildren(...g.terms.slice().reverse().map((t) => {
      const cells = [
        (t.older ? "before " : "") + clock(t.began), lengthOf(t), t.leader, t.number, t.ended ? whyOf(t) : "leads",
      ].map((text) => el("td", { role: "cell" }, text));
      if (!t.ended) this.lasts = { term: t, cell: cells[1] };
      return el("tr", { role: "row" }, ...cells);
    }));
  }

  // call asks who stands for the group, and shows who answered.
  async call() {
    if (this.calling || this.more.hidden || staleAt) return;
    this.calling = true;
    // One that is never answered must not be the last.
    const bound = { signal: AbortSignal.timeout(5 * patience) };
    const r = await fetch("api/candidates?group=" + encodeURIComponent(this.name), bound).catch(() => null);
    const roll = r && await r.json().catch(() => null);
    this.calling = false;
    if (!roll || !this.parts) return;
    const { table, note } = this.parts.roll;
    table.hidden = !roll.candidates.length;
    fill(table, roll.candidates.map((c) => [
      c.id, c.state.toLowerCase() + (c.barred ? `, ${c.barred}` : ""), c.since ? clock(c.since) : "–",
      c.leader ? lasting(c.lag, true) + (c.term !== this.g.term ? `, of term ${c.term}` : "") : "–",
      [c.version, c.priority ? "priority " + c.priority : "", c.connection === "CONNECTED" ? "" : c.connection, c.error].filter(Boolean).join(", "),
    ]));
    this.parts.members.hidden = !roll.members;
    fill(this.parts.members.lastChild, (roll.members || []).map((m) => [
      m.name, m.memory ? String(m.version) : "–", m.memory ? String(m.lag) : "–", m.state + (m.error ? ": " + m.error : ""),
    ]));
    note.textContent = roll.error || (roll.more ? `${roll.more} more answered.` :
      roll.candidates.length ? "" : "No candidate answered. Those do that have the hooks of package rollcall.");
  }

  // furnish makes what stays while the facts change: a button must neither be replaced nor move under a finger.
  furnish() {
    const parts = { facts: el("dl"), acts: el("div", { class: "actions acts" }) };
    const name = "Terms of " + this.name, terms = table("terms", name, ["From", "For", "Leader", "Term", "Ended"]);
    [parts.terms] = terms.tBodies;
    parts.members = el("div", { hidden: "" }, el("h2", null, "Members of the quorum"),
      table("members", "Members of the quorum for " + this.name, ["Name", "Version", "Lag", "State"]));
    parts.roll = roll("Candidates of " + this.name);
    this.cell.append(el("div", { class: "side" }, parts.acts, parts.facts),
      el("div", { class: "lists" },
        el("h2", null, "Terms"), el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": name }, terms),
        parts.members, el("h2", null, "Candidates"), parts.roll.table, parts.roll.note));
    return parts;
  }

  request(op) {
    const b = el("button", { type: "button", "data-op": op });
    b.addEventListener("click", () => ask(b.dataset.op, this.g));
    return b;
  }

  fits(words) {
    const g = this.g;
    // What is gone for good is shown to who asks for it, or has it open.
    if (show === "forgotten" ? !g.hidden : g.hidden && this.more.hidden) return false;
    if (show === "vacant" && (g.leader || g.paused || g.hidden) || show === "paused" && !g.paused) return false;
    const text = (g.group + " " + (g.leader || "") + " " + (g.version || "") + " " + (g.address || "")).toLowerCase();
    return words.every((w) => text.includes(w));
  }
}
Row.count = 0;

// lengthOf says how long a term has lasted.
function lengthOf(t) {
  const length = lasting((t.ended || shownNow()) - t.began, Boolean(t.ended));
  return t.older ? "≥ " + length : length;
}

// table makes a table without rows. The roles are named, since a row that is laid out as a grid has lost its own.
function table(kind, name, head) {
  const cells = head.map((h) => el("th", { role: "columnheader", scope: "col" }, h));
  return el("table", { role: "table", class: kind, "aria-label": name },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...cells)), el("tbody", { role: "rowgroup" }));
}

// fill replaces the rows of a table. Each is a list of texts.
function fill(of, rows) {
  of.tBodies[0].replaceChildren(...rows.map((texts) => el("tr", { role: "row" }, ...texts.map((text) => el("td", { role: "cell" }, text)))));
}

// roll makes the table of a group's candidates.
function roll(name) {
  const made = table("roll", name, ["Name", "State", "Since", "Heard of the leader", el("span", { class: "sr" }, "More")]);
  made.hidden = true;
  return { table: made, note: el("p", { class: "hint" }, "Asking …") };
}

// remember puts the group that was opened last into the page's address, to be sent to others.
function remember(group) {
  history.replaceState(null, "", group === null ? location.pathname : "?group=" + encodeURIComponent(group));
}

// What one tick of the axis may stand for, in ms.
const steps = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200].map((s) => 1000 * s);

// frame is what the timelines show: from when to when, and where the ticks are, which are full minutes and hours
// of whoever looks.
function frame() {
  const now = shownNow(), length = span || Math.min(600000, Math.max(30000, now - past.since)), from = now - length;
  const step = steps.find((s) => length / s <= 5) || steps[steps.length - 1];
  const zone = ahead + 60000 * new Date(now - ahead).getTimezoneOffset();
  const ticks = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at < now; at += step) ticks.push(at);
  return { from, now, length, step, ticks };
}

// axis writes the times over the timelines.
function axis() {
  const { from, now, length, step, ticks } = frame();
  const text = (at) => new Date(at - ahead).toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit", ...(step < 60000 ? { second: "2-digit" } : {}) });
  for (const a of document.querySelectorAll(".axis")) {
    const marks = ticks.filter((at) => at - from > 0.07 * length && now - at > 0.16 * length).map((at) => {
      const mark = el("span", null, text(at));
      mark.style.left = (100 * (at - from) / length).toFixed(2) + "%";
      return mark;
    });
    a.replaceChildren(...marks, el("span", { class: "now" }, staleAt ? clock(staleAt) : "now"));
  }
}

const sight = new IntersectionObserver((entries) => {
  for (const e of entries) {
    const row = e.target.row;
    if (e.isIntersecting) {
      visible.add(row);
      row.tick();
      row.draw();
    } else visible.delete(row);
  }
}, { rootMargin: "200px" });

// place puts a row where its trouble and its name belong.
function place(row) {
  const table = $("groups"), bodies = table.tBodies;
  row.body.remove();
  row.rank = row.trouble();
  row.unsettled = 0;
  let low = 0, high = bodies.length;
  while (low < high) {
    const mid = (low + high) >> 1, other = bodies[mid].row;
    if (other.rank < row.rank || other.rank === row.rank && other.name < row.name) low = mid + 1; else high = mid;
  }
  table.insertBefore(row.body, bodies[low] || null);
}

// settle moves the rows that have changed for good, unless somebody is about to press one.
function settle() {
  const now = performance.now();
  if (staleAt || document.hidden || now - touched < still) return;
  for (const row of groups.values()) row.settle(now);
}

function drop(name) {
  const row = groups.get(name);
  if (!row) return;
  sight.unobserve(row.body);
  visible.delete(row);
  row.body.remove();
  groups.delete(name);
}

function sift() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let vacant = 0, paused = 0, forgotten = 0, shown = 0;
  for (const row of groups.values()) {
    if (row.g.hidden) forgotten++;
    else if (!row.g.leader && !row.g.paused) vacant++; // nobody is to lead what is paused
    if (row.g.paused) paused++;
    const fits = row.fits(words);
    if (fits) shown++;
    row.body.classList.toggle("gone", !fits);
  }
  $("n-all").textContent = groups.size - forgotten;
  $("n-vacant").textContent = vacant;
  $("n-vacant").classList.toggle("alarm", vacant > 0);
  $("n-paused").textContent = paused;
  $("n-forgotten").textContent = forgotten;
  $("empty").hidden = shown > 0;
  $("groups").hidden = shown === 0;
  if (!shown) $("empty").textContent = groups.size ? "No group fits." : "The bucket has no groups yet.";
  document.title = (staleAt ? "(?) " : vacant ? `(${vacant}) ` : "") + about.bucket + " – leader";
}

function link(state, text) {
  if ($("link").dataset.state !== state) $("link").dataset.state = state;
  if ($("link").textContent !== text) $("link").textContent = text;
}

// reckon finds out whether what is shown is followed still, and says so all over the page if it is not.
function reckon() {
  const now = performance.now(), quiet = now - heard;
  const gone = quiet > patience || brokenAt && now - brokenAt > blink;
  const stale = gone || away;
  if (stale !== Boolean(staleAt)) {
    staleAt = stale ? serverNow() - (gone ? quiet : 0) : 0;
    document.body.classList.toggle("stale", stale);
    for (const row of groups.values()) {
      row.tick();
      row.draw();
      row.detail();
    }
    axis();
    sift();
  }
  const notice = gone
    ? `This page is out of date: its command, leader dash, has not answered since ${clock(staleAt)} (${lasting(serverNow() - staleAt)}). Who leads now is not known. It is tried again all the time.`
    : away ? `The command of this page has lost its NATS server, at ${clock(staleAt)} (${lasting(serverNow() - staleAt)} ago). Who leads now is not known.` : "";
  const text = notice || complaint;
  $("notice").hidden = !text;
  if ($("notice").textContent !== text) $("notice").textContent = text;
}

function judge(s) {
  const notices = [];
  away = !s.connected;
  if (s.failure) notices.push("The bucket cannot be read in full: " + s.failure);
  if (s.ignored) notices.push(s.ignored + " more groups are not shown.");
  if (s.drained) notices.push(`Campaigning for nothing: ${s.drained}.`);
  if (wanted !== null && s.complete) notices.push(`The group ${wanted} of this page's address is not in the bucket.`);
  complaint = notices.join(" ");
  reckon();
  const since = "Terms since " + clock(s.past.since);
  let foot = since + ".";
  if (s.past.stream) foot = `${since}; those of before this page's command started are from stream ${s.past.stream}, by the candidates' own clocks.`;
  if (s.past.why) foot = `${since}, when this page's command started. Earlier ones are not known: ${s.past.why}.`;
  $("past").hidden = false;
  if ($("past").textContent !== foot) $("past").textContent = foot;
  link(s.connected ? "live" : "lost", s.connected ? "live" : "NATS is away");
}

function take(m) {
  ahead = m.now - Date.now();
  past = m.status.past;
  if (m.about) {
    about = m.about;
    $("bucket").textContent = about.bucket;
    $("server").textContent = about.server;
  }
  const told = [];
  if (m.whole) {
    const names = new Set((m.groups || []).map((g) => g.group));
    for (const name of [...groups.keys()]) if (!names.has(name)) drop(name);
  }
  for (const g of m.groups || []) {
    let row = groups.get(g.group);
    if (!row) {
      row = new Row(g.group);
      groups.set(g.group, row);
      row.update(g);
      place(row);
      continue;
    }
    const news = row.update(g);
    if (news) told.push(news);
  }
  for (const r of m.renewed || []) groups.get(r.group)?.renew(r.left, r.window);
  for (const name of m.gone || []) drop(name);
  if (wanted !== null && groups.has(wanted)) {
    const row = groups.get(wanted);
    wanted = null;
    if (row.more.hidden) row.toggle();
    sift(); // what cannot be seen cannot be scrolled to
    row.body.scrollIntoView({ block: "center" });
  } else if (m.whole || m.groups || m.gone) sift();
  if (m.whole || m.status.drained !== drained) {
    drained = m.status.drained;
    free(m.drains || []);
  }
  if (told.length) $("news").textContent = told.length > 3 ? `${told.length} groups have changed` : told.join(". ");
  judge(m.status);
}

// free shows a button for each drained instance that ends its drain.
function free(drains) {
  $("drains").hidden = !about.control || !drains.length;
  $("drains").replaceChildren(...drains.map((d) => {
    const b = el("button", { type: "button", "data-op": "undrain" }, `Undrain ${d.instance} …`);
    b.addEventListener("click", () => ask("undrain", { leader: d.instance, words: d.words }));
    return b;
  }));
}

function listen() {
  const source = new EventSource("api/events"), begun = performance.now();
  const alive = () => { heard = performance.now(); brokenAt = 0; };
  // A path that swallows everything ends no stream, and refuses no request for one. Then another one is opened.
  const watch = setInterval(() => {
    if (performance.now() - Math.max(heard, begun) <= patience || source.readyState === EventSource.CLOSED) return;
    clearInterval(watch);
    source.close();
    link("lost", "reconnecting");
    listen();
  }, 1000);
  source.addEventListener("news", (e) => { alive(); take(JSON.parse(e.data)); });
  source.addEventListener("pulse", () => { alive(); reckon(); });
  source.addEventListener("error", () => {
    brokenAt ||= performance.now();
    link("lost", "reconnecting");
    if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
    // An answer that is no stream: the token is not good any more, or there are too many visitors.
    clearInterval(watch);
    setTimeout(async () => {
      const r = await fetch("./", { method: "HEAD", redirect: "manual", signal: AbortSignal.timeout(patience) }).catch(() => null);
      if (r && r.type === "opaqueredirect") location.assign("login" + location.search); else listen();
    }, 2000);
  });
}

// What may be asked: go is what the button says, leader whether it takes one, instance whether it is of the leader's
// instance and not of the group.
const asks = {
  "step-down": {
    go: "Step down", leader: true, title: (g) => `Step down from ${g.group}`,
    text: (g) => `${g.leader} stops its work and releases term ${g.term}. Another candidate takes over; if there is none, it leads again after a while.`,
  },
  transfer: {
    go: "Hand over", leader: true, title: (g) => `Hand over ${g.group}`,
    text: (g) => `${g.leader} stops its work and releases term ${g.term}. The successor goes first, and the others follow if it does not come.`,
  },
  pause: {
    go: "Pause", title: (g) => `Pause ${g.group}`,
    text: (g) => (g.leader ? `${g.leader} stops its work and releases term ${g.term}. ` : "") + "Nobody leads the group until it is resumed, also after a restart of everything.",
  },
  resume: {
    go: "Resume", title: (g) => `Resume ${g.group}`,
    text: (g) => (g.paused ? `It is ${whyOf({ reason: "paused", by: g.paused.by, why: g.paused.why })}. ` : "") + "Its candidates may lead again.",
  },
  drain: {
    go: "Drain", leader: true, instance: true, title: (g) => `Drain ${g.leader}`,
    text: (g) => {
      const led = [...groups.values()].filter((row) => row.g.leader === g.leader).length;
      return `${g.leader} hands over ${led === 1 ? "the group" : `the ${led} groups`} that it leads, and campaigns for none until it is undrained or its process is replaced.`;
    },
  },
  undrain: {
    go: "Undrain", instance: true, title: (g) => `Undrain ${g.leader}`,
    text: (g) => `It is ${g.words}. It campaigns again, and leads a group when the present leader leaves.`,
  },
};

// ask opens the dialog for a request.
function ask(op, g) {
  const dialog = $("ask"), go = $("ask-go"), transfer = op === "transfer";
  $("ask-title").textContent = asks[op].title(g);
  $("ask-text").textContent = asks[op].text(g);
  $("ask-to").hidden = !transfer;
  $("ask-successor").value = "";
  $("ask-successor").required = transfer;
  $("ask-reason").hidden = op === "resume" || op === "undrain"; // it is recorded nowhere
  $("ask-why").value = "";
  $("ask-outcome").textContent = "";
  go.textContent = asks[op].go;
  go.disabled = false;
  go.hidden = false;
  $("ask-cancel").textContent = "Cancel";
  // A request to leave is meant for the term that is shown; a pause is for whoever leads. What is answered later is
  // for the dialog only while its order is this one: it may have been closed, and be about another group by then.
  dialog.order = asks[op].instance ? { op, instance: g.leader } : { op, group: g.group, ...(asks[op].leader ? { term: g.term } : {}) };
  $("ask-candidates").replaceChildren();
  if (transfer) propose(g, dialog.order);
  dialog.showModal();
}

async function propose(g, asked) {
  const r = await fetch("api/candidates?group=" + encodeURIComponent(g.group)).catch(() => null);
  if (!r || !r.ok) return;
  const all = (await r.json()).candidates.filter((c) => c.id !== g.leader);
  if ($("ask").order !== asked) return;
  $("ask-candidates").replaceChildren(...all.map((c) => el("option", { value: c.id }, c.barred ? `${c.state}, ${c.barred}` : c.state)));
}

async function send(e) {
  e.preventDefault();
  const out = $("ask-outcome"), asked = $("ask").order;
  $("ask-go").disabled = true;
  out.className = "outcome";
  out.textContent = "Asked. Waiting for the effect …";
  const order = { ...asked, successor: $("ask-successor").value, why: $("ask-why").value };
  try {
    const r = await fetch("api/control", {
      method: "POST", headers: { "Content-Type": "application/json", "Leader-Dash": "1" }, body: JSON.stringify(order),
    });
    const body = await r.json().catch(() => ({ error: r.statusText }));
    if ($("ask").order !== asked) return;
    if (body.error) throw new Error(body.error);
    out.textContent = effect(order.op, body);
    $("ask-go").hidden = true;
    $("ask-cancel").textContent = "Close";
    $("ask-cancel").focus();
  } catch (err) {
    if ($("ask").order !== asked) return;
    out.classList.add("bad");
    out.textContent = err.message;
    $("ask-go").disabled = false;
  }
}

// effect says what came of a request.
function effect(op, body) {
  if (op === "pause") return "It is paused. Nobody leads.";
  if (op === "drain") return "The order is stored. The groups show who takes over.";
  if (op === "undrain") return "It is not drained any more.";
  return `${body.leader} leads` + (op === "resume" ? ` after ${lasting(body.gap_ms, true)}.` : `. Nobody led for ${body.gap_ms.toFixed(1)} ms.`);
}

$("ask").querySelector("form").addEventListener("submit", send);
$("ask-cancel").addEventListener("click", () => $("ask").close());
$("filter").addEventListener("input", sift);
$("span").addEventListener("change", () => { span = Number($("span").value); redraw(); });
$("order").addEventListener("change", () => {
  order = $("order").value;
  for (const row of groups.values()) place(row);
});
for (const kind of ["pointermove", "pointerdown", "keydown", "focusin"]) {
  $("groups").addEventListener(kind, () => { touched = performance.now(); }, { passive: true });
}
for (const b of document.querySelectorAll("[data-show]")) {
  b.addEventListener("click", () => {
    show = b.dataset.show;
    for (const other of document.querySelectorAll("[data-show]")) other.setAttribute("aria-pressed", String(other === b));
    sift();
  });
}
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !e.target.closest("input, dialog, select")) {
    e.preventDefault();
    $("filter").focus();
  } else if (e.key === "Escape" && e.target === $("filter")) {
    $("filter").value = "";
    sift();
  }
});
setInterval(() => { if (!document.hidden) for (const row of visible) row.tick(); }, beat);
setInterval(() => { if (!document.hidden) redraw(); }, 2000);
setInterval(reckon, 1000);
setInterval(settle, 1000);
setInterval(() => { if (!document.hidden) for (const row of visible) row.call(); }, 5000);

function redraw() {
  for (const row of visible) row.draw();
  axis();
}

listen();
