// A form is sent once: its button is busy until the next page is loaded. On a
// page that the browser restores from memory, forms can be sent again.
for (const form of document.querySelectorAll("form[data-busy]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    event.submitter?.classList.add("busy");
  });
}
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    form.querySelector(".busy")?.classList.remove("busy");
  }
});
