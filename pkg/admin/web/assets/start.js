// Waits for the first log and shows when it has arrived.
const interval = 2000; // ms

for (const box of document.querySelectorAll("[data-waiting]")) {
  if (!box.classList.contains("came")) ask(box);
}

async function ask(box) {
  try {
    const answer = await fetch(box.dataset.waiting, { headers: { Accept: "application/json" } });
    if (answer.ok && (await answer.json()).first) return arrived(box);
  } catch {
    // The server does not answer; retry.
  }
  setTimeout(() => ask(box), interval);
}

function arrived(box) {
  box.classList.add("came");
  box.querySelector("[data-waiting-title]").textContent = "The first log has arrived";
  box.querySelector("[data-waiting-text]").textContent = "It is stored, and you can read it.";
  const step = box.querySelector("[data-waiting-step]");
  step.classList.add("good");
  const use = step.querySelector("use");
  use.setAttribute("href", use.getAttribute("href").replace(/#.*/, "#check"));
  box.querySelector("a.btn").textContent = "Open the project";
}
