// The colours of a query while a person types it. The server's parser decides
// what a query is; this function only colours, and a test compares the two.
const name = /^(?:(?:metadata\.)?[\p{L}_\u0080-\uffff][\p{L}\p{N}_\u0080-\uffff]*(?:[.\-@/$]+[\p{L}\p{N}_]+)*|metadata\."(?:[^"\\]|\\.)+")(?=!=|>=|<=|:(?!\/\/)|>|<)/iu;
const operator = /^(?:!=|>=|<=|:|>|<)/;
const quoted = /^"(?:[^"\\]|\\.)*"?/;
const expression = /^\/(?:[^/\\]|\\.)*\/?/;
const run = /^[^\s()"]+/;

// tokens splits a text into pieces {text, kind}. White space has the kind "".
export function tokens(text) {
  const list = [];
  let rest = text;
  let value = 0; // 1 while the values of a field are read
  let depth = 0;
  const accept = (length, kind) => {
    if (!length) return;
    list.push({ text: rest.slice(0, length), kind });
    rest = rest.slice(length);
  };
  while (rest) {
    const space = /^\s+/.exec(rest);
    if (space) {
      accept(space[0].length, "");
      if (!depth) value = 0;
      continue;
    }
    const found = !value && name.exec(rest);
    if (rest[0] === "(") {
      if (value) depth++;
      accept(1, "operator");
    } else if (rest[0] === ")") {
      if (depth && !--depth) value = 0;
      accept(1, "operator");
    } else if (/^(?:AND|OR|NOT)(?=[\s()]|$)/.test(rest)) {
      accept(/^[A-Z]+/.exec(rest)[0].length, "operator");
    } else if (rest[0] === '"') {
      accept(quoted.exec(rest)[0].length, "text");
    } else if (!value && rest[0] === "/" && expression.test(rest)) {
      accept(expression.exec(rest)[0].length, "expression");
    } else if (!value && /^-[^\s\-)]/.test(rest)) {
      accept(1, "not");
    } else if (found) {
      accept(found[0].length, "field");
      accept(operator.exec(rest)[0].length, "operator");
      value = 1;
    } else {
      const word = run.exec(rest)[0];
      accept(word.length, word === "*" ? "operator" : value ? "value" : "word");
    }
  }
  return list;
}
