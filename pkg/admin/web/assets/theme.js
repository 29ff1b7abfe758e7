// Switches between light and dark without loading a page.
const root = document.documentElement;
const year = 365 * 24 * 60 * 60;

export function remember(name, value) {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `${name}=${value}; Path=/; Max-Age=${year}; SameSite=Lax${secure}`;
}

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

for (const form of document.querySelectorAll("[data-theme-switch]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    root.dataset.theme = isDark() ? "light" : "dark";
    remember("logboom-theme", root.dataset.theme);
  });
}
