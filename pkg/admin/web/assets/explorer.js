// The explorer: opening and walking rows, what hangs on them, older lines.
import "./query.js";
import "./brush.js";
import { copy } from "./copy.js";
import { iconButton, make } from "./dom.js";
import { bind, isTyping } from "./keys.js";
import { contextOf, copyJSON, copyLine, copyLink, edit, fill, list, rowOf, rows } from "./rows.js";

const mostRows = 2000; // beyond, the page would be slow; a link leads on
const all = () => [...rows.querySelectorAll(".l")];
let current;
let picked; // where a selection of rows began

// The actions of the row under the pointer. They stand over the row, not in it:
// a summary may hold no buttons.
let hoveredLine;
const hover = make("span", { className: "hov", hidden: true });
const hovered = () => hoveredLine.closest(".l");
hover.append(
  iconButton("list", "Show context (c)", () => { location.href = contextOf(hovered()); }),
  iconButton("copy", "Copy line (y)", () => copyLine(hovered())),
  iconButton("link", "Copy link (s)", () => copyLink(hovered())),
);

function hoverOver(line) {
  hoveredLine?.classList.remove("hovered");
  hoveredLine = line;
  line?.classList.add("hovered");
  hover.hidden = !line;
}

function mark(row) {
  if (!row) return;
  current?.classList.remove("cur");
  current = row;
  row.classList.add("cur");
  row.querySelector("summary").focus({ preventScroll: true });
  row.querySelector("summary").scrollIntoView({ block: "nearest" });
}

function step(by) {
  const list = all();
  const at = list.indexOf(current);
  mark(list[at < 0 ? 0 : Math.min(list.length - 1, Math.max(0, at + by))]);
}

const withRow = (act) => () => { if (current) act(current); };

if (rows) {
  rows.addEventListener("toggle", (event) => {
    if (event.target.matches?.(".l") && event.target.open) fill(event.target);
  }, true);
  rows.addEventListener("click", (event) => {
    const row = event.target.closest(".l");
    const summary = event.target.closest("summary");
    if (!row || !summary) return;
    if (event.shiftKey) {
      event.preventDefault();
      pick(row);
      return;
    }
    if (String(getSelection()) && getSelection().containsNode(summary, true)) event.preventDefault(); // a text was chosen, not the row
    picked = row;
    current?.classList.remove("cur");
    current = row;
    row.classList.add("cur");
  });
  list.append(hover);
  rows.addEventListener("mouseover", (event) => {
    const summary = event.target.closest?.(".ln");
    if (summary) hoverOver(summary);
  });
  list.addEventListener("mouseleave", () => hoverOver(null));
  rows.addEventListener("focusin", (event) => { if (event.target.matches?.(".ln:focus-visible")) hoverOver(event.target); });
  for (const row of all()) if (row.open) fill(row);
  rows.querySelector(".linked")?.scrollIntoView({ block: "center" });
  current = rows.querySelector(".linked");
}

// pick chooses the rows from the one clicked before to this one and copies them.
async function pick(row) {
  const list = all();
  const from = list.indexOf(picked ?? row);
  const to = list.indexOf(row);
  for (const old of rows.querySelectorAll(".picked")) old.classList.remove("picked");
  const chosen = list.slice(Math.min(from, to), Math.max(from, to) + 1);
  for (const one of chosen) one.classList.add("picked");
  const text = chosen.map((one) => [...one.querySelectorAll("summary > *")].map((part) => part.textContent.trim()).filter(Boolean).join("  ")).join("\n");
  await copy(text, `${chosen.length} lines copied`);
}

// Older lines come by the cursor, by the button and near the end.
const older = document.getElementById("older");
if (older && list.dataset.cursor) {
  const load = async () => {
    if (older.classList.contains("busy")) return;
    older.classList.add("busy");
    try {
      await append();
    } catch {
      older.textContent = "Older lines could not be loaded. Try again";
    }
    older.classList.remove("busy");
  };
  older.addEventListener("click", (event) => {
    if (all().length >= mostRows) return; // the link leads on
    event.preventDefault();
    load();
  });
  rows.addEventListener("scroll", () => {
    if (rows.scrollTop > 0 && rows.scrollHeight - rows.scrollTop - rows.clientHeight < 400 && all().length < mostRows) load();
  });
}

async function append() {
  const { api, cursor, from, to } = list.dataset;
  const answer = await fetch(`${api}/logs?${new URLSearchParams({ q: document.getElementById("query").defaultValue, limit: 200, cursor, from, to })}`);
  if (!answer.ok) throw new Error(`answer ${answer.status}`);
  const page = await answer.json();
  const place = older.parentElement;
  for (const log of page.logs) if (!document.getElementById(`l-${log.id}`)) place.before(rowOf(log));
  list.dataset.cursor = page.next;
  if (!page.next) {
    place.textContent = "No older lines in this time.";
    place.className = "more small faint";
    return;
  }
  const on = new URL(older.href);
  on.searchParams.set("cursor", page.next);
  older.href = on.href;
  older.textContent = all().length >= mostRows ? "Older lines, on a page of their own" : "Load older";
}

// Text chosen in a line may become a filter.
let seek;
document.addEventListener("selectionchange", () => {
  seek?.remove();
  seek = undefined;
  const chosen = getSelection();
  const text = String(chosen).trim();
  const row = chosen.anchorNode?.parentElement?.closest(".ms, .msg");
  if (!text || text.length > 200 || text.includes("\n") || !row || !chosen.rangeCount) return;
  seek = make("button", { type: "button", className: "btn tiny seek" }, "Filter for this text");
  seek.addEventListener("mousedown", (event) => event.preventDefault());
  seek.addEventListener("click", () => { location.href = edit("text", "", text); });
  (row.closest(".l")?.querySelector("summary") ?? row).after(seek);
});

// Alt-click keeps a value out.
document.getElementById("facets")?.addEventListener("click", (event) => {
  const value = event.target.closest("[data-shun]");
  if (value && event.altKey) {
    event.preventDefault();
    location.href = value.dataset.shun;
  }
});

// Share copies a link with absolute times, to the line where one is chosen.
const share = document.getElementById("share");
share?.addEventListener("click", (event) => {
  event.preventDefault();
  if (current) copyLink(current);
  else copy(share.href, "Link copied");
});

// Rows are 20 pixels high, or 24 for whoever prefers that; this browser keeps it.
const density = document.getElementById("density");
const kept = "logboom-roomy-rows";
function setDensity(roomy) {
  rows?.classList.toggle("roomy", roomy);
  density?.setAttribute("aria-pressed", String(roomy));
  try {
    localStorage.setItem(kept, roomy ? "yes" : "no");
  } catch {
    // It keeps nothing.
  }
}
function wasRoomy() {
  try {
    return localStorage.getItem(kept) === "yes";
  } catch {
    return false;
  }
}
if (wasRoomy()) setDensity(true);
if (density) density.hidden = false;
density?.addEventListener("click", () => setDensity(!rows.classList.contains("roomy")));

const focused = () => document.activeElement?.closest?.(".ft > div[data-field]");
bind("j", "Next line", () => step(1));
bind("k", "Line before", () => step(-1));
bind("o", "Open or close the line", withRow((row) => { row.open = !row.open; }));
bind("c", "Context of the line", withRow((row) => { location.href = contextOf(row); }));
bind("y", "Copy the line", withRow(copyLine));
bind("Y", "Copy the line as JSON", withRow(copyJSON));
bind("s", "Copy a link, to the line if one is chosen", () => share?.click());
bind("f", "Filter for the field in focus", () => { if (focused()) location.href = edit("in", focused().dataset.field, focused().dataset.value); });
bind("F", "Filter the field in focus out", () => { if (focused()) location.href = edit("out", focused().dataset.field, focused().dataset.value); });
bind(".", "Filters", () => document.querySelector("#facets .pick, #facets summary")?.focus());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || isTyping(event.target) || event.defaultPrevented || document.querySelector("dialog[open], details.drop[open]")) return;
  (document.getElementById("clear-sel") ?? document.getElementById("back"))?.click();
});
