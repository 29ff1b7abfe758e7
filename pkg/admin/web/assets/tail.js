// The live tail: lines as they are stored, the newest at the bottom. Nothing
// moves under the reader: whoever scrolls up, opens a line or chooses text
// pauses it, and what comes meanwhile waits.
import { bind } from "./keys.js";
import { icon, make } from "./dom.js";
import { rowOf } from "./rows.js";

const every = 250; // ms between two paintings
const mostKept = 2000; // lines in the page
const mostWaiting = 5000;
const mostPerSecond = 250; // beyond, this tab shows a sample
const seconds = 90;
const backOff = [1, 2, 5, 10, 30];

const box = document.getElementById("tail");
const rows = document.getElementById("rows");
const part = (name) => box.querySelector(`[data-${name}]`);
const state = document.getElementById("tail-state");
const paused = document.getElementById("paused");
const broken = document.getElementById("broken");
const said = document.getElementById("tail-said");

let source;
let last = ""; // the id of the last event, to take the tail up again
let incoming = [];
let waiting = [];
let reason = "";
let unsent = 0;
let skipped = 0; // since the last gap row
let shownThisSecond = 0;
let cameThisSecond = 0;
let droppedThisSecond = 0;
let failures = 0;
let retry;
let since = Date.now();
let told = 0;
const rates = [];

function connect() {
  source?.close();
  clearTimeout(retry);
  broken.hidden = true;
  const ask = new URLSearchParams({ q: box.dataset.q });
  read(`${box.dataset.url}?${ask}`);
}

// read follows the stream by fetch: EventSource could not be told where to go
// on after a pause of the connection that this page itself made.
async function read(url) {
  const stop = new AbortController();
  source = { close: () => stop.abort() };
  const headers = { Accept: "text/event-stream" };
  if (last) headers["Last-Event-ID"] = last;
  try {
    const answer = await fetch(url, { headers, signal: stop.signal });
    if (!answer.ok) throw new Error(answer.status === 401 ? "You are signed out: reload the page." : answer.status === 503 ? "Too many tails are open, or the database does not answer." : `The server answered ${answer.status}.`);
    failures = 0;
    say("ok", "Live");
    await events(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    if (!stop.signal.aborted) retry = setTimeout(connect, every); // the server ends each connection after a while
  } catch (problem) {
    if (stop.signal.aborted) return;
    lost(problem instanceof TypeError ? "The server does not answer." : problem.message);
  }
}

async function events(reader) {
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) take(block);
  }
}

// take is one server-sent event.
function take(block) {
  const event = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) event[line.slice(0, at)] = line.slice(at + 1).trimStart();
  }
  if (event.id) last = event.id;
  if (event.event === "log") arrived(JSON.parse(event.data));
  if (event.event === "dropped") drop(JSON.parse(event.data).count);
  if (event.event === "problem") throw new Error(JSON.parse(event.data).detail);
}

function drop(count) {
  unsent += count;
  skipped += count;
  droppedThisSecond += count;
  cameThisSecond += count;
}

function arrived(log) {
  cameThisSecond++;
  if (reason) {
    waiting.push(log);
    if (waiting.length > mostWaiting) {
      waiting.shift();
      unsent++;
      skipped++;
    }
    return;
  }
  if (shownThisSecond >= mostPerSecond) {
    drop(1);
    cameThisSecond--;
    return;
  }
  shownThisSecond++;
  incoming.push(log);
}

function lost(text) {
  const wait = backOff[Math.min(failures++, backOff.length - 1)];
  let left = wait;
  say("error", "Disconnected");
  broken.hidden = false;
  const count = () => {
    part("broken").textContent = `${text} Next try in ${left} s.`;
    if (left-- <= 0) connect();
    else retry = setTimeout(count, 1000);
  };
  count();
}

function say(kind, text) {
  if (reason && kind === "ok") [kind, text] = ["warn", "Paused"];
  state.replaceChildren(make("span", { className: `dot ${kind}` }), make("b", {}, text));
}

const atEnd = () => rows.scrollHeight - rows.scrollTop - rows.clientHeight < 24;

// paint puts what came into the page.
function paint() {
  if (scrolledUp()) pause("because you scrolled up"); // the event of it may still come
  if (incoming.length) {
    const stay = rows.scrollTop;
    const made = document.createDocumentFragment();
    if (skipped) made.append(gapRow());
    for (const log of incoming) if (!document.getElementById(`l-${log.id}`)) made.append(rowOf(log));
    incoming = [];
    rows.append(made);
    let gone = 0;
    while (rows.children.length > mostKept) {
      gone += rows.firstElementChild.offsetHeight;
      rows.firstElementChild.remove();
    }
    if (reason) rows.scrollTop = stay - gone;
  }
  if (!reason && !atEnd()) follow();
  part("waiting").textContent = waiting.length.toLocaleString("en");
  part("unsent").textContent = unsent.toLocaleString("en");
  part("unsent").classList.toggle("some", unsent > 0);
  part("resume").textContent = waiting.length ? `Resume, show ${waiting.length.toLocaleString("en")} new` : "Resume";
}

function gapRow() {
  const gap = make("p", { className: "gap" }, icon("warn"), make("b", {}, `${skipped.toLocaleString("en")} lines not sent to this tab`), make("span", {}, "all of them are stored; narrow the query to see each"));
  skipped = 0;
  return gap;
}

// second keeps the rate of the last 90 seconds.
function second() {
  rates.push([cameThisSecond, droppedThisSecond]);
  if (rates.length > seconds) rates.shift();
  part("rate").textContent = `${cameThisSecond.toLocaleString("en")} /s`;
  const highest = Math.max(1, ...rates.map(([came]) => came));
  let all = "";
  let unseen = "";
  rates.forEach(([came, dropped], at) => {
    const x = (seconds - rates.length + at) * 8;
    const height = (came / highest) * 40;
    const top = (dropped / highest) * 40;
    if (came) all += `M${x} 40h6v-${height}h-6z`;
    if (dropped) unseen += `M${x} ${40 - height}h6v${top}h-6z`;
  });
  const [info, warn] = box.querySelectorAll(".spark path");
  info.setAttribute("d", all);
  warn.setAttribute("d", unseen);
  if (Date.now() - told > 10000) {
    told = Date.now();
    said.textContent = `${cameThisSecond} lines per second${reason ? ", paused" : ""}`;
  }
  const minutes = Math.floor((Date.now() - since) / 60000);
  document.getElementById("tail-kept").textContent = `${rows.querySelectorAll(".l").length.toLocaleString("en")} lines in this tab, open for ${minutes ? `${minutes} min` : "less than a minute"}`;
  cameThisSecond = droppedThisSecond = shownThisSecond = 0;
}

function pause(why) {
  if (reason) return;
  reason = why;
  paused.hidden = false;
  part("reason").textContent = `${why} at ${new Date().toISOString().slice(11, 19)} UTC.`;
  say("ok", "Paused");
  paint();
}

function resume() {
  reason = "";
  paused.hidden = true;
  const over = waiting.length - mostKept;
  if (over > 0) {
    skipped += over;
    unsent += over;
    waiting = waiting.slice(over);
  }
  incoming.push(...waiting);
  waiting = [];
  getSelection().removeAllRanges();
  say("ok", "Live");
  follow();
  paint();
  follow();
}

let height = 0; // where the page or the reader scrolled to last
const scrolledUp = () => !reason && rows.scrollTop < height - 4 && !atEnd();

// follow goes to the newest line.
function follow() {
  rows.scrollTop = rows.scrollHeight;
  height = rows.scrollTop;
}

rows.addEventListener("scroll", () => {
  if (scrolledUp()) pause("because you scrolled up");
  height = rows.scrollTop;
});
rows.addEventListener("toggle", (event) => { if (event.target.open) pause("because a line is open"); }, true);
document.addEventListener("selectionchange", () => {
  const chosen = getSelection();
  if (String(chosen) && rows.contains(chosen.anchorNode)) pause("because text is selected");
});
document.getElementById("resume").addEventListener("click", resume);
document.getElementById("reconnect").addEventListener("click", connect);
bind("l", "Pause or resume the tail", () => { if (reason) resume(); else pause("by key"); });
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
setInterval(paint, every);
setInterval(second, 1000);
connect();
