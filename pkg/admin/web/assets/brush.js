// The brush over the chart: dragging selects bars and narrows the list to them.
import { bind } from "./keys.js";

const plot = document.getElementById("plot");
if (plot) begin();

function begin() {
  const first = Number(plot.dataset.from);
  const step = Number(plot.dataset.step);
  const bars = Number(plot.dataset.bars);
  let drag;
  let keyed;

  const barAt = (event) => {
    const box = plot.getBoundingClientRect();
    return Math.min(bars - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * bars)));
  };
  const old = document.getElementById("brush");
  const draw = (from, to) => {
    document.getElementById("brush")?.remove();
    const group = document.createElementNS(plot.namespaceURI, "g");
    group.id = "brush";
    const width = plot.viewBox.baseVal.width / bars;
    const rect = document.createElementNS(plot.namespaceURI, "rect");
    for (const [key, value] of Object.entries({ class: "brush", x: from * width, y: 0, width: (to - from + 1) * width, height: 78 })) rect.setAttribute(key, value);
    const edge = document.createElementNS(plot.namespaceURI, "path");
    edge.setAttribute("class", "edge");
    edge.setAttribute("d", `M${from * width} 0v78M${(to + 1) * width} 0v78`);
    group.append(rect, edge);
    plot.append(group);
  };
  const cancel = () => {
    drag = keyed = undefined;
    document.getElementById("brush")?.remove();
    if (old) plot.append(old);
  };
  const narrow = (from, to) => {
    const at = new URL(location.href);
    for (const name of ["cursor", "line"]) at.searchParams.delete(name);
    if (!at.searchParams.has("from")) { // "the last hour" moves, and its bars with it
      at.searchParams.delete("last");
      at.searchParams.set("from", new Date(first).toISOString());
      at.searchParams.set("to", new Date(first + step * bars).toISOString());
    }
    at.searchParams.set("sel", `${first + from * step}-${first + (to + 1) * step}`);
    at.hash = "";
    location.href = at.href;
  };
  const span = (a, b) => [Math.min(a, b), Math.max(a, b)];

  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    plot.setPointerCapture(event.pointerId);
    drag = barAt(event);
    draw(drag, drag);
  });
  plot.addEventListener("pointermove", (event) => { if (drag !== undefined) draw(...span(drag, barAt(event))); });
  plot.addEventListener("pointerup", (event) => {
    if (drag === undefined) return;
    const chosen = span(drag, barAt(event));
    drag = undefined;
    narrow(...chosen);
  });
  plot.addEventListener("pointercancel", cancel);
  plot.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move) {
      event.preventDefault();
      keyed ??= [Math.floor(bars / 2), Math.floor(bars / 2)];
      const clamp = (n) => Math.min(bars - 1, Math.max(0, n));
      keyed = event.shiftKey ? [keyed[0], Math.max(keyed[0], clamp(keyed[1] + move))] : [clamp(keyed[0] + move), clamp(keyed[1] + move)];
      draw(...keyed);
    } else if (event.key === "Enter" && keyed) narrow(...keyed);
    else if (event.key === "Escape" && (keyed || drag !== undefined)) {
      event.stopPropagation();
      cancel();
    }
  });
  bind("b", "Select a time in the chart: arrows, Shift and Enter", () => plot.focus());
}
