// The explorer: keys and clicks on rows, older rows, filters and links.
import "./query.js";
import "./brush.js";
import { copy } from "./copy.js";
import { iconButton, make } from "./dom.js";
import { bind, isTyping } from "./keys.js";
import { contextAddress, copyJSON, copyLine, copyLink, editAddress, fetchPart, fill, list, rows } from "./rows.js";

const maxRows = 2000; // more would make the page slow; a link leads to the next page
const all = () => [...rows.querySelectorAll(".l")];
const isFull = () => all().length >= maxRows;
let current; // the row that keys act on
let anchor; // the row where a selection of rows began

// The actions of the row under the pointer. They lie over the row, because a
// summary must not contain buttons.
let hoveredLine;
const hover = make("span", { className: "hov", hidden: true });
const hovered = () => hoveredLine.closest(".l");
hover.append(
  iconButton("list", "Show context (c)", () => { location.href = contextAddress(hovered()); }),
  iconButton("copy", "Copy line (y)", () => copyLine(hovered())),
  iconButton("link", "Copy link (s)", () => copyLink(hovered())),
);

function hoverOver(line) {
  hoveredLine?.classList.remove("hovered");
  hoveredLine = line;
  line?.classList.add("hovered");
  hover.hidden = !line;
}

function select(row) {
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
  select(list[at < 0 ? 0 : Math.min(list.length - 1, Math.max(0, at + by))]);
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
      selectTo(row);
      return;
    }
    if (String(getSelection()) && getSelection().containsNode(summary, true)) event.preventDefault(); // text was selected, not the row
    anchor = row;
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

// selectTo selects the rows from the one clicked before to this one and copies
// them.
async function selectTo(row) {
  const list = all();
  const from = list.indexOf(anchor ?? row);
  const to = list.indexOf(row);
  for (const old of rows.querySelectorAll(".picked")) old.classList.remove("picked");
  const chosen = list.slice(Math.min(from, to), Math.max(from, to) + 1);
  for (const one of chosen) one.classList.add("picked");
  const text = chosen.map((one) => [...one.querySelectorAll("summary > *")].map((part) => part.textContent.trim()).filter(Boolean).join("  ")).join("\n");
  await copy(text, `${chosen.length} lines copied`);
}

// The button, and scrolling near the end, load the rows of the next page.
let loading = false;
async function loadOlder() {
  const older = document.getElementById("older");
  if (loading || !older) return;
  loading = true;
  older.classList.add("busy");
  try {
    older.parentElement.replaceWith(await fetchPart(older.dataset.rows));
    if (isFull()) document.getElementById("older")?.replaceChildren("Older lines, on a separate page");
  } catch {
    older.textContent = "Older lines could not be loaded. Try again";
    older.classList.remove("busy");
  }
  loading = false;
}
rows?.addEventListener("click", (event) => {
  if (event.target.id !== "older" || isFull()) return; // the link leads to the next page
  event.preventDefault();
  loadOlder();
});
rows?.addEventListener("scroll", () => {
  if (rows.scrollTop > 0 && rows.scrollHeight - rows.scrollTop - rows.clientHeight < 400 && !isFull()) loadOlder();
});

// Text selected in a line can become a filter.
let filterButton;
document.addEventListener("selectionchange", () => {
  filterButton?.remove();
  filterButton = undefined;
  const chosen = getSelection();
  const text = String(chosen).trim();
  const row = chosen.anchorNode?.parentElement?.closest(".ms, .msg");
  if (!text || text.length > 200 || text.includes("\n") || !row || !chosen.rangeCount) return;
  filterButton = make("button", { type: "button", className: "btn tiny seek" }, "Filter for this text");
  filterButton.addEventListener("mousedown", (event) => event.preventDefault());
  filterButton.addEventListener("click", () => { location.href = editAddress("text", "", text); });
  (row.closest(".l")?.querySelector("summary") ?? row).after(filterButton);
});

// Alt-click excludes a value.
document.getElementById("facets")?.addEventListener("click", (event) => {
  const value = event.target.closest("[data-exclude]");
  if (value && event.altKey) {
    event.preventDefault();
    location.href = value.dataset.exclude;
  }
});

// Share copies a link with absolute times, to the selected line if there is one.
const share = document.getElementById("share");
share?.addEventListener("click", (event) => {
  event.preventDefault();
  if (current) copyLink(current);
  else copy(share.href, "Link copied");
});

// Rows are 20 pixels high, comfortable rows 24. The browser stores the choice.
const density = document.getElementById("density");
const storedAs = "logboom-roomy-rows";
function setDensity(roomy) {
  rows?.classList.toggle("roomy", roomy);
  density?.setAttribute("aria-pressed", String(roomy));
  try {
    localStorage.setItem(storedAs, roomy ? "yes" : "no");
  } catch {
    // This browser stores nothing.
  }
}
function wasRoomy() {
  try {
    return localStorage.getItem(storedAs) === "yes";
  } catch {
    return false;
  }
}
if (wasRoomy()) setDensity(true);
if (density) density.hidden = false;
density?.addEventListener("click", () => setDensity(!rows.classList.contains("roomy")));

const focused = () => document.activeElement?.closest?.(".ft > div[data-field]");
bind("j", "Next line", () => step(1));
bind("k", "Previous line", () => step(-1));
bind("o", "Open or close the line", withRow((row) => { row.open = !row.open; }));
bind("c", "Context of the line", withRow((row) => { location.href = contextAddress(row); }));
bind("y", "Copy the line", withRow(copyLine));
bind("Y", "Copy the line as JSON", withRow(copyJSON));
bind("s", "Copy a link, to the selected line if there is one", () => share?.click());
bind("f", "Filter for the focused field", () => focused()?.querySelector(".include")?.click());
bind("F", "Exclude the value of the focused field", () => focused()?.querySelector(".exclude")?.click());
bind(".", "Filters", () => document.querySelector("#facets .pick, #facets summary")?.focus());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || isTyping(event.target) || event.defaultPrevented || document.querySelector("dialog[open], details.drop[open]")) return;
  (document.getElementById("clear-sel") ?? document.getElementById("back"))?.click();
});
