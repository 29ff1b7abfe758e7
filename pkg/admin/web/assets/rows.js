// Rows of lines, made by the server's template: opened, linked and copied.
import { copy } from "./copy.js";
import { icon, iconButton, make } from "./dom.js";
import { toast } from "./toast.js";

export const list = document.querySelector(".list");
export const rows = document.getElementById("rows");
export const form = document.getElementById("query-form");
const logs = new WeakMap(); // by row

// parse returns the elements of a part of a page.
export function parse(html) {
  const part = document.createElement("template");
  part.innerHTML = html;
  return part.content;
}

// fetchPart returns the elements of a part of a page from the server.
export async function fetchPart(address) {
  const answer = await fetch(address);
  if (answer.redirected) throw new Error("You are signed out; reload the page.");
  if (!answer.ok) throw new Error(answer.status === 404 ? "The line is no longer stored." : "The server could not answer; try again.");
  return parse(await answer.text());
}

// logOf returns a row's log. It is fetched once.
async function logOf(row) {
  if (!logs.has(row)) {
    const answer = await fetch(`${list.dataset.api}/logs/${row.dataset.id}/context?before=0&after=0`);
    if (!answer.ok) throw new Error(`answer ${answer.status}`);
    logs.set(row, (await answer.json()).log);
  }
  return logs.get(row);
}

// editAddress returns the address that edits the query.
export function editAddress(act, field, value) {
  const state = new URLSearchParams(new FormData(form));
  state.set("q", form.querySelector("#query").defaultValue);
  const at = new URLSearchParams(location.search);
  if (at.has("sel")) state.set("sel", at.get("sel"));
  state.set("do", act);
  state.set("field", field);
  state.set("value", value);
  return `${form.dataset.edit}?${state}`;
}

export const contextAddress = (row) => `${form.action.replace(/\?.*/, "")}/${row.dataset.id}/context${location.search && !location.pathname.endsWith("/context") ? location.search : ""}`;

function linkAddress(row) {
  const at = new URL(document.getElementById("share").href);
  at.searchParams.delete("cursor");
  at.searchParams.set("line", row.dataset.id);
  at.hash = row.id;
  return at.href;
}

// copyPart copies what part returns of a row's log.
async function copyPart(row, done, part) {
  try {
    await copy(part(await logOf(row)), done);
  } catch {
    toast("The line could not be read; try again");
  }
}

export const copyLine = (row) => copyPart(row, "Line copied", (log) => log.data);
export const copyJSON = (row) => copyPart(row, "JSON copied", (log) => JSON.stringify(log, null, 2));
export function copyLink(row) { copy(linkAddress(row), "Link copied"); }

function copyField(row, field) {
  copyPart(row, "Value copied", (log) => {
    if (field === "time") return log.timestamp;
    return field.startsWith("metadata.") ? log.metadata[field.slice("metadata.".length)] : log[field];
  });
}

// fill shows all fields of a log under its row, with buttons that copy.
export async function fill(row) {
  if (row.dataset.filled) return;
  row.dataset.filled = "yes";
  const box = row.querySelector(".exp");
  if (!row.querySelector(".ft")) {
    try {
      box.replaceWith(await fetchPart(box.querySelector("a").dataset.fields));
    } catch (problem) {
      box.append(make("span", { className: "muted" }, ` ${problem instanceof TypeError ? "The server does not answer." : problem.message}`));
      delete row.dataset.filled;
      return;
    }
  }
  const button = (sign, text, act) => {
    const made = make("button", { type: "button", className: "btn tiny" }, icon(sign), text);
    made.addEventListener("click", () => act(row));
    return made;
  };
  row.querySelector(".acts-row a").after(button("link", "Copy link", copyLink), button("copy", "Copy line", copyLine), button("copy", "JSON", copyJSON));
  for (const field of row.querySelectorAll(".ft > div")) {
    const name = JSON.parse(field.dataset.field);
    field.querySelector(".acts").append(iconButton("copy", `Copy ${field.querySelector("dt").textContent}`, () => copyField(row, name)));
  }
}
