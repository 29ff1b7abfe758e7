// Tabs by arrow keys. Without script all panels are there, one below the other.
for (const box of document.querySelectorAll("[data-tabs]")) {
  const tabs = [...box.querySelectorAll("[role=tab]")];
  const show = (chosen) => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === chosen));
      tab.tabIndex = tab === chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
  };
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      if (!(event.key in steps)) return;
      const next = tabs[(at + steps[event.key] + tabs.length) % tabs.length];
      show(next);
      next.focus();
    });
  });
  show(tabs[0]);
}
