// Tabs, also by arrow keys. Without script, all panels are shown.
for (const box of document.querySelectorAll("[data-tabs]")) {
  const tabs = [...box.querySelectorAll("[role=tab]")];
  const show = (selected) => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab === selected));
      tab.tabIndex = tab === selected ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== selected;
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
