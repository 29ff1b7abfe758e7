// The live tail: lines as they are stored, newest at the bottom. Nothing moves
// while a person reads: scrolling up, opening a line or selecting text pauses
// the tail, and new lines wait.
import { bind } from "./keys.js";
import { icon, make } from "./dom.js";
import { parse } from "./rows.js";

const paintInterval = 250; // ms
const maxRows = 2000; // in the page
const maxWaiting = 5000;
const maxPerSecond = 250; // of more lines, this tab shows a sample
const chartSeconds = 90;
const retryDelays = [1, 2, 5, 10, 30]; // seconds

const box = document.getElementById("tail");
const rows = document.getElementById("rows");
const part = (name) => box.querySelector(`[data-${name}]`);
const state = document.getElementById("tail-state");
const pausedBanner = document.getElementById("paused");
const brokenBanner = document.getElementById("broken");
const announcement = document.getElementById("tail-said");

let connection; // an AbortController
let lastID = ""; // of the last event, to resume the tail
let incoming = []; // rows to paint, as HTML
let waiting = []; // rows that wait while paused
let pauseReason = "";
let unsent = 0; // lines that this tab never shows
let gap = 0; // of those, since the last gap row
let shownThisSecond = 0;
let countThisSecond = 0;
let unsentThisSecond = 0;
let failures = 0;
let retry;
const openedAt = Date.now();
let announcedAt = 0;
const rates = []; // lines of each second, and those not shown

// connect reads the stream by fetch: an EventSource could not be told where to
// resume.
async function connect() {
  connection?.abort();
  clearTimeout(retry);
  brokenBanner.hidden = true;
  const mine = new AbortController();
  connection = mine;
  const headers = { Accept: "text/event-stream" };
  if (lastID) headers["Last-Event-ID"] = lastID;
  try {
    const answer = await fetch(box.dataset.url, { headers, signal: mine.signal });
    if (!answer.ok || answer.redirected) throw new Error(answer.redirected ? "You are signed out; reload the page." : answer.status === 503 ? "Too many tails are open, or the database does not answer." : `The server answered ${answer.status}.`);
    failures = 0;
    show("ok", "Live");
    await readEvents(answer.body.pipeThrough(new TextDecoderStream()).getReader());
    if (!mine.signal.aborted) retry = setTimeout(connect, paintInterval); // the server ends each connection after a minute
  } catch (problem) {
    if (!mine.signal.aborted) disconnected(problem instanceof TypeError ? "The server does not answer." : problem.message);
  }
}

async function readEvents(reader) {
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) handleEvent(block);
  }
}

// handleEvent handles one server-sent event.
function handleEvent(block) {
  const event = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) event[line.slice(0, at)] = line.slice(at + 1).trimStart();
  }
  if (event.id) lastID = event.id;
  if (event.event === "log") addRow(JSON.parse(event.data));
  if (event.event === "dropped") {
    const { count } = JSON.parse(event.data);
    countThisSecond += count;
    skip(count);
  }
  if (event.event === "problem") throw new Error(JSON.parse(event.data).detail);
}

// skip counts lines that this tab does not show.
function skip(count) {
  unsent += count;
  gap += count;
  unsentThisSecond += count;
}

// addRow queues one row, which is HTML.
function addRow(html) {
  countThisSecond++;
  if (pauseReason) {
    waiting.push(html);
    if (waiting.length > maxWaiting) {
      waiting.shift();
      unsent++;
      gap++;
    }
  } else if (shownThisSecond >= maxPerSecond) {
    skip(1);
  } else {
    shownThisSecond++;
    incoming.push(html);
  }
}

function disconnected(text) {
  let left = retryDelays[Math.min(failures++, retryDelays.length - 1)];
  show("error", "Disconnected");
  brokenBanner.hidden = false;
  const countDown = () => {
    part("broken").textContent = `${text} Next attempt in ${left} s.`;
    if (left-- <= 0) connect();
    else retry = setTimeout(countDown, 1000);
  };
  countDown();
}

// show shows the state of the tail in the status bar.
function show(kind, text) {
  if (pauseReason && kind === "ok") [kind, text] = ["warn", "Paused"];
  state.replaceChildren(make("span", { className: `dot ${kind}` }), make("b", {}, text));
}

const atEnd = () => rows.scrollHeight - rows.scrollTop - rows.clientHeight < 24;

// paint adds the incoming rows to the page.
function paint() {
  if (scrolledUp()) pause("because you scrolled up"); // the scroll event may still follow
  if (incoming.length) {
    const scrollTop = rows.scrollTop;
    const added = document.createDocumentFragment();
    if (gap) added.append(gapRow());
    for (const row of parse(incoming.join("")).querySelectorAll(".l")) if (!document.getElementById(row.id)) added.append(row);
    incoming = [];
    rows.append(added);
    let removedHeight = 0;
    while (rows.children.length > maxRows) {
      removedHeight += rows.firstElementChild.offsetHeight;
      rows.firstElementChild.remove();
    }
    if (pauseReason) rows.scrollTop = scrollTop - removedHeight;
  }
  if (!pauseReason && !atEnd()) scrollToEnd();
  part("waiting").textContent = waiting.length.toLocaleString("en");
  part("unsent").textContent = unsent.toLocaleString("en");
  part("unsent").classList.toggle("some", unsent > 0);
  part("resume").textContent = waiting.length ? `Resume, show ${waiting.length.toLocaleString("en")} new` : "Resume";
}

function gapRow() {
  const row = make("p", { className: "gap" }, icon("warn"), make("b", {}, `${gap.toLocaleString("en")} lines not sent to this tab`), make("span", {}, "all of them are stored; narrow the query to see each one"));
  gap = 0;
  return row;
}

// tick draws the rate of the last 90 seconds, once a second.
function tick() {
  rates.push([countThisSecond, unsentThisSecond]);
  if (rates.length > chartSeconds) rates.shift();
  part("rate").textContent = `${countThisSecond.toLocaleString("en")} /s`;
  const highest = Math.max(1, ...rates.map(([count]) => count));
  let all = "";
  let notShown = "";
  rates.forEach(([count, dropped], at) => {
    const x = (chartSeconds - rates.length + at) * 8;
    const height = (count / highest) * 40;
    const top = (dropped / highest) * 40;
    if (count) all += `M${x} 40h6v-${height}h-6z`;
    if (dropped) notShown += `M${x} ${40 - height}h6v${top}h-6z`;
  });
  const [info, warn] = box.querySelectorAll(".spark path");
  info.setAttribute("d", all);
  warn.setAttribute("d", notShown);
  if (Date.now() - announcedAt > 10000) {
    announcedAt = Date.now();
    announcement.textContent = `${countThisSecond} lines per second${pauseReason ? ", paused" : ""}`;
  }
  const minutes = Math.floor((Date.now() - openedAt) / 60000);
  document.getElementById("tail-kept").textContent = `${rows.querySelectorAll(".l").length.toLocaleString("en")} lines in this tab, open for ${minutes ? `${minutes} min` : "less than a minute"}`;
  countThisSecond = unsentThisSecond = shownThisSecond = 0;
}

function pause(reason) {
  if (pauseReason) return;
  pauseReason = reason;
  pausedBanner.hidden = false;
  part("reason").textContent = `${reason} at ${new Date().toISOString().slice(11, 19)} UTC.`;
  show("ok", "Paused");
  paint();
}

function resume() {
  pauseReason = "";
  pausedBanner.hidden = true;
  const over = waiting.length - maxRows;
  if (over > 0) {
    gap += over;
    unsent += over;
    waiting = waiting.slice(over);
  }
  incoming.push(...waiting);
  waiting = [];
  getSelection().removeAllRanges();
  show("ok", "Live");
  scrollToEnd();
  paint();
  scrollToEnd();
}

let lastScrollTop = 0;
const scrolledUp = () => !pauseReason && rows.scrollTop < lastScrollTop - 4 && !atEnd();

function scrollToEnd() {
  rows.scrollTop = rows.scrollHeight;
  lastScrollTop = rows.scrollTop;
}

rows.addEventListener("scroll", () => {
  if (scrolledUp()) pause("because you scrolled up");
  lastScrollTop = rows.scrollTop;
});
rows.addEventListener("toggle", (event) => { if (event.target.open) pause("because a line is open"); }, true);
document.addEventListener("selectionchange", () => {
  const selection = getSelection();
  if (String(selection) && rows.contains(selection.anchorNode)) pause("because text is selected");
});
document.getElementById("resume").addEventListener("click", resume);
document.getElementById("reconnect").addEventListener("click", connect);
bind("l", "Pause or resume the tail", () => { if (pauseReason) resume(); else pause("by key"); });
addEventListener("pagehide", () => connection?.abort());
addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
setInterval(paint, paintInterval);
setInterval(tick, 1000);
connect();
