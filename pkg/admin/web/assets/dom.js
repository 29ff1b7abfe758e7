// Creates elements without parsing HTML.
const sprite = document.querySelector("use")?.getAttribute("href").replace(/#.*/, "") ?? "";

export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element && key !== "list" && key !== "form") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${sprite}#${name}`);
  svg.append(use);
  return svg;
}

// iconButton creates a button that shows an icon or a character, with a name for
// screen readers.
export function iconButton(sign, name, act) {
  const button = make("button", { type: "button", className: "ib", title: name });
  button.setAttribute("aria-label", name);
  button.append(sign.length > 1 ? icon(sign) : sign);
  button.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    act(event);
  });
  return button;
}
