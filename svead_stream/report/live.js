// Keeps the page up to date while a run goes on: asks for newer data every second, and draws them.

const SECOND = 1000, LONGEST_PAUSE = 30 * SECOND; // between two questions, where nobody looks or nobody answers
const STATES = {
  live: "Live",
  paused: "Paused",
  lost: "Connection lost, trying again",
  refused: "Refused: open the address with its token again",
};
const OK = 200, NOT_MODIFIED = 304, FORBIDDEN = 403;

const live = { version: null, failures: 0, turn: 0, timer: null, isHeld: false };
const liveLine = add(document.querySelector("header"), "p", { class: "live", "data-state": "live" });
add(liveLine, "span", { class: "lamp", "aria-hidden": "true" });
const liveState = add(liveLine, "span", { id: "live-state", role: "status" }, STATES.live);
const livePause = add(liveLine, "button", { type: "button", id: "live-pause", class: "more" }, "Pause");

function tellState(state) {
  if (liveLine.dataset.state === state) return; // a screen reader hears of changes only
  liveLine.dataset.state = state;
  liveState.textContent = STATES[state];
  livePause.textContent = state === "paused" ? "Go on" : "Pause";
}

// Charts stay where they are, except that a feature moves up when it is first to blame.
function keepPlaces({ features: { kept }, shares: blamed }) {
  const isBlamed = new Set(blamed.map(({ name }) => name)), places = new Map(data.features.kept.map(({ name }, k) => [name, k]));
  const place = ({ name }) => places.get(name) ?? places.size; // new ones come last
  kept.sort((a, b) => isBlamed.has(b.name) - isBlamed.has(a.name) || place(a) - place(b));
}

async function ask() {
  clearTimeout(live.timer);
  const turn = ++live.turn; // an answer that comes after the next question is dropped
  let status = null, newer = null, version = null;
  try {
    const headers = live.version ? { "If-None-Match": live.version } : {};
    const answer = await fetch("data", { headers, cache: "no-store", signal: AbortSignal.timeout(LONGEST_PAUSE) });
    status = answer.status;
    version = answer.headers.get("ETag");
    if (status === OK) newer = await answer.json();
  } catch { status = null; }
  if (turn !== live.turn) return;
  live.failures = status === OK || status === NOT_MODIFIED ? 0 : live.failures + 1;
  tellState(!live.failures ? "live" : status === FORBIDDEN ? "refused" : "lost");
  live.timer = setTimeout(ask, document.hidden ? LONGEST_PAUSE : Math.min(SECOND * 2 ** live.failures, LONGEST_PAUSE));
  if (newer && !live.isHeld) { // a click or a drag begins and ends on the same element; the data will come again
    live.version = version;
    keepPlaces(newer);
    show(newer);
    if (newer.incidents.open) document.title = `(${whole(newer.incidents.open)}) ${document.title}`; // for those who look elsewhere
  }
}

livePause.addEventListener("click", () => {
  if (liveLine.dataset.state === "paused") return ask();
  clearTimeout(live.timer);
  live.turn++;
  tellState("paused");
});
document.addEventListener("pointerdown", () => { live.isHeld = true; }, true);
for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => { live.isHeld = false; }, true);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && liveLine.dataset.state !== "paused") ask();
});
ask();
