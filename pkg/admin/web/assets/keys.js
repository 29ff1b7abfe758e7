// Keyboard shortcuts: single keys and sequences, outside of input fields.
// Elements name their own keys: data-key="g p" clicks the element, and
// data-key-focus="/" focuses it. Pages add others with bind.
const bound = new Map();
const sequenceTime = 1200; // ms
let first = ""; // key of a sequence
let firstAt = 0;

// bind calls the function on the keys, such as "j" or "g l". The text is for the
// list of shortcuts.
export function bind(keys, text, act) { bound.set(keys, { text, act }); }

export function isTyping(target) {
  return target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") !== null;
}

function nameOf(element) {
  return (element.getAttribute("aria-label") || element.textContent || element.title).trim();
}

for (const element of document.querySelectorAll("[data-key]")) {
  if (!bound.has(element.dataset.key)) bind(element.dataset.key, element.dataset.keyText || nameOf(element), () => element.click());
}
for (const element of document.querySelectorAll("[data-key-focus]")) {
  bind(element.dataset.keyFocus, nameOf(element), () => { element.focus(); element.select?.(); });
}
bind("?", "Show all shortcuts", showAll);

function showAll() {
  document.getElementById("all-keys")?.remove();
  const dialog = document.createElement("dialog");
  dialog.id = "all-keys";
  dialog.className = "modal";
  dialog.setAttribute("aria-labelledby", "all-keys-title");
  const body = document.createElement("div");
  body.className = "modal-body";
  const title = document.createElement("h2");
  title.id = "all-keys-title";
  title.textContent = "Shortcuts on this page";
  const list = document.createElement("dl");
  list.className = "keys-list";
  for (const [keys, { text }] of bound) {
    const term = document.createElement("dt");
    for (const key of keys.split(" ")) {
      const cap = document.createElement("kbd");
      cap.textContent = key;
      term.append(cap, " ");
    }
    const meaning = document.createElement("dd");
    meaning.textContent = text;
    list.append(term, meaning);
  }
  body.append(title, list);
  const foot = document.createElement("form");
  foot.method = "dialog";
  foot.className = "modal-foot";
  const close = document.createElement("button");
  close.className = "btn";
  close.textContent = "Close";
  foot.append(close);
  dialog.append(body, foot);
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.documentElement.dataset.keys === "off" || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const inTime = event.timeStamp - firstAt < sequenceTime;
  const keys = first && inTime ? `${first} ${event.key}` : event.key;
  first = "";
  const found = bound.get(keys) || bound.get(event.key);
  if (found) {
    event.preventDefault();
    found.act(event);
    return;
  }
  if ([...bound.keys()].some((known) => known.startsWith(`${event.key} `))) {
    first = event.key;
    firstAt = event.timeStamp;
  }
});

// Menus close on Escape and on a click outside.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll("details.drop[open]")) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.drop[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});
