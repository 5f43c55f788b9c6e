// What hands do with the charts: wheel, drag, press, fingers, keys.

let scrolledAt = -Infinity; // a page that is being scrolled goes on scrolling when a chart comes below the pointer
window.addEventListener("scroll", () => { scrolledAt = performance.now(); }, { passive: true });

const DRAG = 4; // pixels: a hand that moves less while it presses does not drag
let downAt = 0;

// A drag selects what to zoom to, which is the chart's own; with shift it moves what is seen.
function gestures() {
  const reset = () => { clearTimeout(pressed); resetView(); };
  return {
    mousedown: (u, _, handler) => (event) => {
      downAt = event.clientX;
      if (event.shiftKey) drag(u, event);
      else handler(event);
    },
    dblclick: () => reset,
  };
}

function selected(u) {
  const { left, width } = u.select;
  if (width < DRAG) return;
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  setView(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
}

function drag(u, event) {
  const { min, max } = view, scale = (max - min) / u.over.clientWidth;
  const move = ({ clientX }) => {
    const by = (event.clientX - clientX) * scale;
    setView(min + by, max + by);
  };
  document.addEventListener("mousemove", move);
  document.addEventListener("mouseup", () => document.removeEventListener("mousemove", move), { once: true });
}

function listen(chart) {
  const { over } = chart.plot, place = (x) => chart.plot.posToVal(x - over.getBoundingClientRect().left, "x");
  over.addEventListener("wheel", (event) => wheel(event, place(event.clientX)), { passive: false });
  over.addEventListener("click", (event) => press(chart, event));
  fingers(chart.plot, over, place);
}

function wheel(event, place) {
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY), turned = sideways ? event.deltaX : event.deltaY;
  const by = Math.min(Math.max(turned * (event.deltaMode ? 33 : 1) / 100, -1), 1); // a notch of a wheel is 1, or a few lines
  const scrolls = !event.ctrlKey && !sideways && performance.now() - scrolledAt < 400;
  if (scrolls || !by || (seesAll() && (sideways || event.shiftKey || by > 0))) return; // there is nothing to do but scroll
  event.preventDefault();
  if (sideways || event.shiftKey) pan(by * 0.1);
  else zoom(1.25 ** (event.ctrlKey ? 4 * by : by), place); // two fingers on a pad come as small steps with ctrl
}

// A press on an alert or on an incident opens it in its table, unless it becomes a double one.
let pressed = null;

function press(chart, event) {
  if (Math.abs(event.clientX - downAt) >= DRAG) return; // the end of a drag
  const u = chart.plot, left = event.clientX - u.over.getBoundingClientRect().left;
  const off = (x) => Math.abs(u.valToPos(x, "x") - left);
  const alerts = data.table.filter((a) => off(placeOfAlert(a)) < 7).sort((a, b) => off(placeOfAlert(a)) - off(placeOfAlert(b)) || b.score - a.score);
  const incident = data.incidents.kept.find((i) => { const [from, to] = placeOfIncident(i).map((x) => u.valToPos(x, "x")); return from - 3 <= left && left <= to + 3; });
  clearTimeout(pressed);
  pressed = setTimeout(() => {
    if (incident) tables.incidents.reveal(incident.number);
    else if (alerts.length) tables.alerts.reveal(alerts[0].row);
  }, 250);
}

// One finger moves the cursor, two zoom and move; up and down the page scrolls.
function fingers(u, over, place) {
  const down = new Map();
  over.addEventListener("pointerdown", (event) => { if (event.pointerType === "touch") down.set(event.pointerId, event.clientX); });
  over.addEventListener("pointermove", (event) => {
    if (!down.has(event.pointerId)) return;
    const before = [...down.values()].map(place);
    down.set(event.pointerId, event.clientX);
    const after = [...down.values()].map(place);
    if (down.size === 1) u.setCursor({ left: event.clientX - over.getBoundingClientRect().left, top: 10 }, true, true);
    if (down.size !== 2 || after[0] === after[1]) return;
    const factor = Math.min(Math.max(Math.abs((before[1] - before[0]) / (after[1] - after[0])), 0.5), 2);
    const min = before[0] - (after[0] - view.min) * factor;
    setView(min, min + (view.max - view.min) * factor);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) over.addEventListener(end, (event) => down.delete(event.pointerId));
}

const KEYS = {
  ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
  0: () => resetView(), Home: () => resetView(), Escape: () => resetView(),
};

function startGestures() {
  at("charts").addEventListener("keydown", (event) => {
    if (event.target !== at("charts") || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  at("zoom-in").addEventListener("click", () => zoom(0.5));
  at("zoom-out").addEventListener("click", () => zoom(2));
  at("zoom-reset").addEventListener("click", resetView);
  at("features-more").addEventListener("click", () => { nFeatures += MORE; drawCharts(); drawView(); });
}
