// A line as pieces that are safe to show, as the server makes them: ANSI colours
// become classes, other controls pictures. Nothing here is ever parsed as HTML.
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/u;
const colours = /^\u001b\[([0-9;:]{0,61})m/;

export function picture(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

// pieces cuts a text; marker is a global RegExp of what the query found, or null.
export function pieces(text, marker) {
  const list = [];
  let look = {};
  let begin = 0;
  const plain = (part) => {
    if (!part) return;
    const classes = classOf(look);
    let at = 0;
    for (const found of marker ? part.matchAll(marker) : []) {
      if (found.index > at) list.push({ text: part.slice(at, found.index), classes });
      list.push({ text: found[0], classes, mark: true });
      at = found.index + found[0].length;
    }
    if (at < part.length) list.push({ text: part.slice(at), classes });
  };
  for (let at = 0; at < text.length;) {
    if (!controls.test(text[at])) {
      at++;
      continue;
    }
    plain(text.slice(begin, at));
    const asked = text[at] === "\u001b" && colours.exec(text.slice(at, at + 64));
    if (asked) {
      look = obey(look, asked[1]);
      at += asked[0].length;
    } else {
      list.push({ text: picture(text[at]), code: true });
      at++;
    }
    begin = at;
  }
  plain(text.slice(begin));
  return list;
}

// obey is a look after what stands between ESC [ and m.
function obey(look, parameters) {
  const list = parameters.split(/[;:]/).filter(Boolean).map(Number);
  if (!list.length) list.push(0);
  look = { ...look };
  for (let i = 0; i < list.length; i++) {
    const n = list[i];
    if (n === 38 || n === 48) {
      const [kind, colour] = list.slice(i + 1);
      if (kind === 5 && colour >= 0 && colour < 16) look[n === 38 ? "fore" : "back"] = colour % 8;
      i += kind === 5 && list.length > i + 2 ? 2 : kind === 2 && list.length > i + 4 ? 4 : list.length;
    } else if (n === 0) look = {};
    else if (n === 1) look.bold = true;
    else if (n === 3) look.italic = true;
    else if (n === 4) look.under = true;
    else if (n === 22) look.bold = false;
    else if (n === 23) look.italic = false;
    else if (n === 24) look.under = false;
    else if (n === 39) look.fore = undefined;
    else if (n === 49) look.back = undefined;
    else if (n >= 30 && n <= 37) look.fore = n - 30;
    else if (n >= 90 && n <= 97) look.fore = n - 90;
    else if (n >= 40 && n <= 47) look.back = n - 40;
    else if (n >= 100 && n <= 107) look.back = n - 100;
  }
  return look;
}

function classOf(look) {
  const list = [];
  if (look.bold) list.push("ansi-b");
  if (look.under) list.push("ansi-u");
  if (look.italic) list.push("ansi-i");
  if (look.fore !== undefined) list.push(`fg${look.fore}`);
  if (look.back !== undefined) list.push(`bg${look.back}`);
  return list.sort().join(" ");
}

// show appends the pieces of a text to an element.
export function show(element, text, marker) {
  for (const piece of pieces(text, marker)) {
    if (!piece.code && !piece.mark && !piece.classes) {
      element.append(piece.text);
      continue;
    }
    const run = document.createElement(piece.mark ? "mark" : "span");
    run.className = piece.code ? "ctl" : piece.classes;
    run.textContent = piece.text;
    element.append(run);
  }
  return element;
}

// printable is a short text without anything that is obeyed.
export function printable(text) {
  let out = "";
  for (const character of text.length > 80 ? `${text.slice(0, 80)}…` : text) out += character === "\n" || character === "\t" || controls.test(character) ? picture(character) : character;
  return out;
}

// markerOf finds the texts, whatever their case; null finds nothing.
export function markerOf(texts) {
  if (!texts.length) return null;
  return new RegExp(texts.map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi");
}
