// The query's colours: a pure function of the text, asked for at each key. The
// server's parser decides what a query is; this one only paints.
const name = /^(?:(?:metadata\.)?[\p{L}_\u0080-\uffff][\p{L}\p{N}_\u0080-\uffff]*(?:[.\-@/$]+[\p{L}\p{N}_]+)*|metadata\."(?:[^"\\]|\\.)+")(?=!=|>=|<=|:(?!\/\/)|>|<)/iu;
const operator = /^(?:!=|>=|<=|:|>|<)/;
const quoted = /^"(?:[^"\\]|\\.)*"?/;
const expression = /^\/(?:[^/\\]|\\.)*\/?/;
const run = /^[^\s()"]+/;

// tokens cuts a text into pieces {text, kind}; white space has the kind "".
export function tokens(text) {
  const list = [];
  let rest = text;
  let value = 0; // how deep in a field's values; 1 behind an operator
  let depth = 0;
  const take = (length, kind) => {
    if (!length) return;
    list.push({ text: rest.slice(0, length), kind });
    rest = rest.slice(length);
  };
  while (rest) {
    const space = /^\s+/.exec(rest);
    if (space) {
      take(space[0].length, "");
      if (!depth) value = 0;
      continue;
    }
    const found = !value && name.exec(rest);
    if (rest[0] === "(") {
      if (value) depth++;
      take(1, "operator");
    } else if (rest[0] === ")") {
      if (depth && !--depth) value = 0;
      take(1, "operator");
    } else if (/^(?:AND|OR|NOT)(?=[\s()]|$)/.test(rest)) {
      take(/^[A-Z]+/.exec(rest)[0].length, "operator");
    } else if (rest[0] === '"') {
      take(quoted.exec(rest)[0].length, "text");
    } else if (!value && rest[0] === "/" && expression.test(rest)) {
      take(expression.exec(rest)[0].length, "expression");
    } else if (!value && /^-[^\s\-)]/.test(rest)) {
      take(1, "not");
    } else if (found) {
      take(found[0].length, "field");
      take(operator.exec(rest)[0].length, "operator");
      value = 1;
    } else {
      const word = run.exec(rest)[0];
      take(word.length, word === "*" ? "operator" : value ? "value" : "word");
    }
  }
  return list;
}
