// Asks for confirmation before something is deleted for good. A link with
// data-dialog leads to a page that asks; with script, this dialog asks instead.
// The link's data attributes fill the dialog. The form is sent to the link's
// address, or to data-post. The text that must be typed is in data-name.
for (const link of document.querySelectorAll("[data-dialog]")) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(document.querySelector(link.dataset.dialog), link);
  });
}

function open(dialog, link) {
  const form = dialog.querySelector("form");
  form.action = link.dataset.post || link.href;
  for (const part of dialog.querySelectorAll("[data-fill]")) part.textContent = link.dataset[part.dataset.fill];
  for (const old of form.querySelectorAll("[data-hidden]")) old.remove();
  for (const [key, value] of Object.entries(link.dataset)) {
    if (key.startsWith("hidden")) form.append(hidden(key.slice("hidden".length).toLowerCase(), value));
  }
  const typed = form.elements.confirm;
  const button = form.querySelector("[data-confirm]");
  typed.value = "";
  button.disabled = true;
  typed.oninput = () => { button.disabled = typed.value.trim() !== link.dataset.name.trim(); };
  form.querySelector("[data-close]").onclick = () => dialog.close();
  dialog.onclose = () => link.focus();
  dialog.showModal();
  typed.focus();
}

function hidden(name, value) {
  const input = document.createElement("input");
  input.type = "hidden";
  input.name = name;
  input.value = value;
  input.dataset.hidden = "";
  return input;
}
