// Operations: the page reloads while it is visible and no dead letter is
// selected. The button counts the selected letters.
const form = document.getElementById("letters");
const boxes = () => [...form.querySelectorAll("[name=id]")];
const selected = () => (form ? boxes().filter((box) => box.checked).length : 0);

function update() {
  const button = form?.querySelector("[data-replay]");
  if (!button) return;
  const n = selected();
  button.disabled = n === 0;
  form.querySelector("[data-replay-text]").textContent = n === 0 ? "Replay" : n === 1 ? "Replay 1 letter" : `Replay ${n} letters`;
}

form?.addEventListener("change", (event) => {
  if (event.target.matches("[data-all]")) for (const box of boxes()) box.checked = event.target.checked;
  update();
});
update();

const chip = document.getElementById("updated");
const interval = Number(chip.dataset.every); // s
let age = 0;
setInterval(() => {
  age++;
  chip.querySelector("[data-updated]").textContent = `updated ${age} s ago`;
  const busy = selected() > 0 || document.querySelector("details[open], dialog[open]") || (form && form.contains(document.activeElement)) || String(getSelection());
  if (age >= interval && !busy && document.visibilityState === "visible") location.reload();
}, 1000);
