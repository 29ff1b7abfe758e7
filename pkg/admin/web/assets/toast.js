// A short message that disappears after two seconds. Only for what does not
// matter if it is missed, such as "copied".
let timer;

export function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { box.hidden = true; }, 2000);
}
