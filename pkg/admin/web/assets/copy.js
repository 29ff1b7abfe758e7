// Copies text, and handles secrets that are shown once.
import { toast } from "./toast.js";

export async function copy(text, message) {
  try {
    await navigator.clipboard.writeText(text);
    toast(message);
  } catch {
    toast("This browser does not allow copying: select the text and copy it");
  }
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", () => {
    const from = document.querySelector(button.dataset.copy);
    from.select?.();
    copy(from.value ?? from.textContent, button.dataset.copied);
  });
}
for (const button of document.querySelectorAll("[data-copy-link]")) {
  button.addEventListener("click", () => copy(location.origin + button.dataset.copyLink, button.dataset.copied));
}

// Reloading a page that answers a form would send the form again and create
// another token.
if (document.querySelector("[data-once]")) history.replaceState(null, "", location.pathname);

// The link Done is disabled until the person has stored the secret.
for (const box of document.querySelectorAll("[data-stored]")) {
  const done = box.closest("section").querySelector("[data-done]");
  const update = () => {
    done.setAttribute("aria-disabled", String(!box.checked));
    done.tabIndex = box.checked ? 0 : -1;
  };
  done.addEventListener("click", (event) => { if (!box.checked) event.preventDefault(); });
  box.addEventListener("change", update);
  update();
}
