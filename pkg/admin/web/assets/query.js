// The query bar: colours while typing, and completion.
import { make } from "./dom.js";
import { tokens } from "./tokens.js";

const typingPause = 120; // ms without a key before the server is asked
const form = document.getElementById("query-form");
const input = document.getElementById("query");
const colouredCopy = document.getElementById("query-copy");
const encoder = new TextEncoder();
const decoder = new TextDecoder();

let timer;
let request; // the newest one, an AbortController
let shown; // the suggestions in the list

function paint() {
  colouredCopy.replaceChildren(...tokens(input.value).map(({ text, kind }) => make("span", { className: kind ? `q-${kind}` : "" }, text)));
  syncScroll();
}

// syncScroll scrolls the coloured copy like the input.
function syncScroll() { colouredCopy.scrollLeft = input.scrollLeft; }

const toBytes = (text, at) => encoder.encode(text.slice(0, at)).length;
const toUnits = (text, bytes) => decoder.decode(encoder.encode(text).slice(0, bytes)).length;

// fetchSuggestions asks the server what can be inserted at the cursor. Only the answer
// to the newest request counts.
async function fetchSuggestions() {
  request?.abort();
  const mine = new AbortController();
  request = mine;
  const state = new URLSearchParams(new FormData(form));
  state.set("q", input.value);
  state.set("at", toBytes(input.value, input.selectionStart));
  const text = input.value;
  try {
    const answer = await fetch(`${form.dataset.complete}?${state}`, { signal: mine.signal });
    if (!answer.ok) return;
    const found = await answer.json();
    if (mine.signal.aborted || input.value !== text || document.activeElement !== input) return;
    open(found, text);
  } catch {
    // The next key asks the server again.
  }
}

function open(found, text) {
  close();
  const items = found.items.filter((item) => item.insert !== text.slice(toUnits(text, found.from), toUnits(text, found.to)));
  if (!items.length) return;
  const list = make("ul", { id: "complete-list", role: "listbox" });
  list.setAttribute("aria-label", "Suggestions");
  items.forEach((item, at) => {
    const option = make("li", { id: `complete-${at}`, role: "option" }, item.label);
    option.setAttribute("aria-selected", "false");
    const note = item.count !== undefined ? `${item.count.toLocaleString("en")} lines` : item.note;
    if (note) option.append(make("span", { className: "n" }, note));
    option.addEventListener("mousedown", (event) => {
      event.preventDefault();
      insert(item);
    });
    list.append(option);
  });
  const foot = make("p", { className: "foot" });
  for (const [key, meaning] of [["↑ ↓", "choose"], ["Tab", "insert"], ["Enter", "run"], ["Esc", "close"]]) foot.append(make("span", {}, make("kbd", {}, key), ` ${meaning}`));
  const box = make("div", { id: "complete", className: "pop complete" }, make("p", { className: "head" }, found.head), list, foot);
  form.append(box);
  shown = { text, items, at: -1, from: toUnits(text, found.from), to: toUnits(text, found.to), options: [...list.children] };
  input.setAttribute("aria-expanded", "true");
  input.setAttribute("aria-controls", "complete-list");
}

function close() {
  document.getElementById("complete")?.remove();
  shown = undefined;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
  input.removeAttribute("aria-controls");
}

function choose(step) {
  shown.options[shown.at]?.setAttribute("aria-selected", "false");
  shown.at = (shown.at + step + shown.items.length + (shown.at < 0 && step < 0 ? 1 : 0)) % shown.items.length;
  const option = shown.options[shown.at];
  option.setAttribute("aria-selected", "true");
  option.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", option.id);
}

// insert inserts a suggestion. Suggestions for an older text are fetched again,
// because their positions are wrong.
function insert(item) {
  if (input.value !== shown.text) return void fetchSuggestions();
  const { from, to } = shown;
  close();
  const tail = item.more ? "" : " ";
  input.setRangeText(item.insert + tail, from, to, "end");
  paint();
  if (item.more) fetchSuggestions();
}

input.setAttribute("role", "combobox");
input.setAttribute("aria-autocomplete", "list");
input.setAttribute("aria-expanded", "false");
input.addEventListener("input", () => {
  paint();
  clearTimeout(timer);
  timer = setTimeout(fetchSuggestions, typingPause);
});
input.addEventListener("scroll", syncScroll);
input.addEventListener("keyup", syncScroll);
input.addEventListener("blur", close);
input.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (shown) close();
    else input.blur();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (shown) choose(event.key === "ArrowDown" ? 1 : -1);
    else fetchSuggestions();
  } else if (event.key === "Tab" && shown && !event.shiftKey) {
    event.preventDefault();
    insert(shown.items[Math.max(shown.at, 0)]);
  } else if (event.key === "Enter" && shown?.at >= 0) {
    event.preventDefault();
    insert(shown.items[shown.at]);
  }
});
if (!input.dataset.bad || input.dataset.bad === "-1") paint();
form.addEventListener("submit", () => {
  const run = document.getElementById("run");
  run.classList.add("busy");
  run.firstChild.textContent = "Running";
});
addEventListener("pageshow", () => {
  const run = document.getElementById("run");
  run.classList.remove("busy");
  run.firstChild.textContent = "Run";
});
