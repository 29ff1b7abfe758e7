// Events: counts new ones, in the page and by channel, without moving the list.
const checkInterval = 5000; // ms
const feed = document.querySelector(".stream");
const fresh = document.getElementById("fresh");
const project = location.pathname.split("/")[2];
const keyOf = (channel) => `logboom-seen ${project} ${channel}`;

// remember stores the newest event that was shown of a channel.
function remember(channel, at) {
  try {
    localStorage.setItem(keyOf(channel), String(at));
  } catch {
    // This browser stores nothing, and shows no marks.
  }
}

function seen(channel) {
  try {
    return Number(localStorage.getItem(keyOf(channel)) ?? 0);
  } catch {
    return Infinity;
  }
}

for (const link of document.querySelectorAll("[data-channel][data-latest]")) {
  const { channel, latest } = link.dataset;
  if (link.hasAttribute("aria-current")) remember(channel, latest);
  else if (Number(latest) > seen(channel)) {
    const count = link.querySelector(".n");
    count.className = "unread";
    count.title = "There are events that you have not seen";
  }
}

async function check() {
  if (document.visibilityState === "visible") {
    try {
      await countNew();
    } catch {
      // The server does not answer; the next check asks again.
    }
  }
  setTimeout(check, checkInterval);
}

async function countNew() {
  const answer = await fetch(`${feed.dataset.api}?${new URLSearchParams({ q: feed.dataset.q, limit: 50 })}`);
  if (!answer.ok) return;
  const { events } = await answer.json();
  const at = events.findIndex((event) => event.id === feed.dataset.newest);
  const n = at < 0 ? events.length : at;
  if (!n) return;
  fresh.hidden = false;
  fresh.firstElementChild.textContent = n === 1 ? "1 new event, show it" : `${n}${n === 50 ? " or more" : ""} new events, show them`;
  document.title = `(${n}) ${document.title.replace(/^\(\d+\) /, "")}`;
}

const first = !new URLSearchParams(location.search).has("cursor");
if (feed && first) setTimeout(check, checkInterval);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.target.closest("input, details[open]")) document.getElementById("close")?.click();
});
