// The project switcher: opens a list in place of the page with the projects.
const limit = 1000;

for (const link of document.querySelectorAll("[data-switcher]")) {
  link.setAttribute("aria-haspopup", "listbox");
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    toggle(link);
  });
}

async function toggle(link) {
  const old = document.getElementById("switcher");
  if (old) return close(old, link);
  let names;
  try {
    const answer = await fetch(`/api/v1/projects?limit=${limit}`);
    if (!answer.ok) throw new Error(`answer ${answer.status}`);
    names = (await answer.json()).projects.map((one) => one.name);
  } catch {
    location.href = link.href;
    return;
  }
  open(link, names);
}

function open(link, names) {
  const box = document.createElement("div");
  box.className = "pop";
  box.id = "switcher";
  const filter = document.createElement("input");
  filter.className = "input";
  filter.type = "search";
  filter.placeholder = "Project";
  filter.setAttribute("aria-label", "Filter projects");
  const list = document.createElement("ul");
  for (const name of names) {
    const item = document.createElement("li");
    const to = document.createElement("a");
    to.href = `/projects/${encodeURIComponent(name)}`;
    to.textContent = name;
    if (name === link.dataset.switcher) to.setAttribute("aria-current", "true");
    item.append(to);
    list.append(item);
  }
  const items = [...list.children];
  const shown = () => items.filter((item) => !item.hidden).map((item) => item.firstChild);
  filter.addEventListener("input", () => {
    for (const item of items) item.hidden = !item.textContent.includes(filter.value.trim().toLowerCase());
  });
  box.addEventListener("keydown", (event) => {
    const links = shown();
    const at = links.indexOf(document.activeElement);
    if (event.key === "Escape") close(box, link);
    if (event.key === "Enter" && document.activeElement === filter) links[0]?.click();
    if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
    if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : filter).focus();
    if (event.key.startsWith("Arrow")) event.preventDefault();
  });
  box.append(filter, list);
  link.after(box);
  document.addEventListener("click", (event) => {
    if (!box.contains(event.target) && !link.contains(event.target)) close(box, null);
  });
  filter.focus();
}

function close(box, link) {
  box.remove();
  link?.focus();
}
