// Questions before something is gone for good. A link with data-dialog leads to
// a page that asks; with script the same is asked here. Its data fill the
// dialog's parts, and the form is sent to where the link leads, or to
// data-post. What must be typed is in data-name.
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
