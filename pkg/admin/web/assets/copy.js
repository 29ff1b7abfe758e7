// Copying, and what belongs to secrets that are shown once.
import { toast } from "./toast.js";

export async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    toast(said);
  } catch {
    toast("This browser does not let pages copy: select the text and copy it");
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

// A page that answers a form is not asked for again by reloading: that would
// make another token.
if (document.querySelector("[data-once]")) history.replaceState(null, "", location.pathname);

// Done is off until the secret is stored.
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
