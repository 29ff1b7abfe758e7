// Sends a test message and shows the answer of the chat service as text.
const headlines = { delivered: "The message was delivered", failed: "The service refused the message", refused: "The message was not sent" };

for (const box of document.querySelectorAll("[data-test]")) {
  const button = box.querySelector("[data-test-send]");
  const place = box.querySelector("[data-test-answer]");
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.classList.add("busy");
    const began = performance.now();
    const answer = await send(box.dataset.test);
    show(place, answer, Math.round(performance.now() - began));
    button.disabled = false;
    button.classList.remove("busy");
  });
}

async function send(address) {
  try {
    const answer = await fetch(address, { method: "POST" });
    const body = await answer.json();
    return answer.ok ? body : { state: "refused", detail: body.detail || `The server answered ${answer.status}.` };
  } catch {
    return { state: "refused", detail: "The server did not answer. Try again." };
  }
}

function part(name, className, text) {
  const element = document.createElement(name);
  element.className = className;
  element.textContent = text;
  return element;
}

function show(place, answer, elapsed) {
  const box = part("div", "answer", "");
  const head = part("div", "answer-head", "");
  if (answer.status) head.append(part("span", `chip ${answer.state === "delivered" ? "ok" : "error"}`, String(answer.status)));
  head.append(part("b", "grow", headlines[answer.state] || answer.state), part("span", "small muted", `${elapsed} ms`));
  box.append(head);
  if (answer.answer) box.append(part("pre", "", answer.answer));
  place.replaceChildren(box);
  if (answer.detail) place.append(part("p", "muted", answer.detail));
}
