// Rows of lines: made from the JSON API's logs, opened, and acted on.
import { copy } from "./copy.js";
import { icon, iconButton, make } from "./dom.js";
import { markerOf, printable, show } from "./text.js";

export const list = document.querySelector(".list");
export const rows = document.getElementById("rows");
export const form = document.getElementById("query-form");
const marker = markerOf(JSON.parse(list?.dataset.marks || "[]"));
const columns = form ? new FormData(form).getAll("col") : [];
const levels = ["trace", "debug", "info", "warn", "error", "fatal"];
const known = new WeakMap();
const shownBytes = 1000;
const pairsShown = 160;

export const levelOf = (number) => (number > 0 && number <= 24 ? levels[Math.floor((number - 1) / 4)] : "unknown");

// rowOf is a log as a row.
export function rowOf(log) {
  const summary = make("summary", { className: "ln" },
    make("time", { dateTime: log.timestamp }, clock(log.timestamp)),
    make("span", { className: "lv" }, printable(log.severity).toUpperCase()),
    make("span", { className: "ap" }, printable(log.application)),
    make("span", { className: "ho" }, printable(log.host)));
  for (const column of columns) summary.append(make("span", { className: "own" }, printable(log.metadata[column] ?? "")));
  const message = show(make("span", { className: "ms" }), firstLine(log.data), marker);
  const pairs = pairsOf(log.metadata);
  if (pairs) message.append(" ", make("span", { className: "kv" }, pairs));
  summary.append(message);
  const row = make("details", { className: `l ${levelOf(log.severity_number)}`, id: `l-${log.id}` }, summary);
  row.dataset.id = log.id;
  known.set(row, log);
  return row;
}

// clock is the time of day of an RFC 3339 time in UTC, to the millisecond.
export const clock = (timestamp) => timestamp.slice(11, 19) + (timestamp.slice(19).match(/^\.\d{1,3}/)?.[0] ?? ".").padEnd(4, "0");

function firstLine(text) {
  text = text.replace(/\n+$/, "");
  if (text.length > shownBytes) text = `${text.slice(0, shownBytes)}…`;
  return text.replaceAll("\n", " ⏎ ");
}

function pairsOf(metadata) {
  let text = "";
  for (const key of Object.keys(metadata).sort()) {
    if (columns.includes(key)) continue;
    if (text.length > pairsShown) return `${text} …`;
    text += `${text ? " " : ""}${printable(key)}=${printable(metadata[key])}`;
  }
  return text;
}

// logOf is a row's log, asked for once.
export async function logOf(row) {
  if (!known.has(row)) {
    const answer = await fetch(`${list.dataset.api}/logs/${row.dataset.id}/context?before=0&after=0`);
    if (!answer.ok) throw new Error(answer.status === 404 ? "It is not stored any more." : "It could not be read: try again.");
    known.set(row, (await answer.json()).log);
  }
  return known.get(row);
}

// edit is the address that edits the query.
export function edit(act, field, value) {
  const state = new URLSearchParams(new FormData(form));
  state.set("q", form.querySelector("#query").defaultValue);
  const at = new URLSearchParams(location.search);
  if (at.has("sel")) state.set("sel", at.get("sel"));
  state.set("do", act);
  state.set("field", field);
  state.set("value", value);
  return `${form.dataset.edit}?${state}`;
}

export const contextOf = (row) => `${form.action.replace(/\?.*/, "")}/${row.dataset.id}/context${location.search && !location.pathname.endsWith("/context") ? location.search : ""}`;

export function linkOf(row) {
  const at = new URL(document.getElementById("share").href);
  at.searchParams.delete("cursor");
  at.searchParams.set("line", row.dataset.id);
  at.hash = row.id;
  return at.href;
}

export async function copyLine(row) { copy((await logOf(row)).data, "Line copied"); }
export async function copyJSON(row) { copy(JSON.stringify(await logOf(row), null, 2), "JSON copied"); }
export function copyLink(row) { copy(linkOf(row), "Link copied"); }

// fill shows all of a log under its row.
export async function fill(row) {
  if (row.dataset.filled) return;
  row.dataset.filled = "yes";
  const box = make("div", { className: "exp" });
  row.querySelector(".exp")?.remove();
  row.append(box);
  try {
    const log = await logOf(row);
    box.append(actions(row, log), show(make("div", { className: "msg" }), log.data, marker), fields(log));
  } catch (problem) {
    box.append(make("p", { className: "muted" }, problem.message));
    delete row.dataset.filled;
  }
}

function actions(row, log) {
  const button = (sign, text, act) => {
    const made = make("button", { type: "button", className: "btn tiny" }, icon(sign), text);
    made.addEventListener("click", act);
    return made;
  };
  const around = make("a", { className: "btn tiny", href: contextOf(row) }, icon("list"), "Show context");
  return make("div", { className: "row wrap acts-row" }, around,
    button("link", "Copy link", () => copyLink(row)), button("copy", "Copy line", () => copyLine(row)), button("copy", "JSON", () => copyJSON(row)),
    make("span", { className: "grow" }), make("span", { className: "faint small" }, `${new TextEncoder().encode(log.data).length.toLocaleString("en")} bytes`));
}

function fields(log) {
  const box = make("dl", { className: "ft" });
  const add = (name, field, value) => {
    if (!value) return;
    const acts = make("dd", { className: "acts" });
    if (field) {
      acts.append(iconButton("+", `Filter for this ${name}`, () => { location.href = edit("in", field, value); }));
      acts.append(iconButton("−", `Filter this ${name} out`, () => { location.href = edit("out", field, value); }));
    }
    if (field.startsWith("metadata.")) acts.append(iconButton("sliders", `Show ${name} as a column`, () => { location.href = withColumn(field.slice(9)); }));
    acts.append(iconButton("copy", `Copy ${name}`, () => copy(value, "Value copied")));
    const line = make("div", {}, make("dt", { title: name }, name), show(make("dd"), value, null), acts);
    line.dataset.field = field;
    line.dataset.value = value;
    box.append(line);
  };
  add("time", "", log.timestamp);
  add("severity", "severity", log.severity);
  add("app", "application", log.application);
  add("host", "host", log.host);
  add("source", "source", log.source);
  add("id", "id", log.id);
  for (const key of Object.keys(log.metadata).sort()) add(printable(key), `metadata.${key}`, log.metadata[key]);
  return box;
}

function withColumn(key) {
  const at = new URL(location.href);
  at.hash = "";
  at.searchParams.delete("cursor");
  if (!at.searchParams.getAll("col").includes(key)) at.searchParams.append("col", key);
  return at.href;
}
