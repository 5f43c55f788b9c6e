// The part of the axis that is seen: one for all charts, in the address of the page, and told to those who do not see it.

let view = { min: 0, max: 1 };

const seesAll = () => view.min <= axis.min && view.max >= axis.max;
const leastSpan = () => Math.min(axis.max - axis.min, 5 * (axis.max - axis.min) / Math.max(data.rows, 1));

function setView(min, max, remember = true) {
  const span = Math.min(Math.max(max - min, leastSpan()), axis.max - axis.min);
  const from = Math.min(Math.max((min + max - span) / 2, axis.min), axis.max - span);
  view = { min: from, max: from + span };
  drawView();
  announce();
  if (remember) rememberView();
}

const resetView = () => setView(axis.min, axis.max);

// Zoom by a factor about a place, or move by a part of what is seen.
function zoom(factor, place = (view.min + view.max) / 2) {
  const span = Math.max(factor * (view.max - view.min), leastSpan()), part = (place - view.min) / (view.max - view.min);
  setView(place - part * span, place + (1 - part) * span);
}

function pan(part) {
  const move = part * (view.max - view.min);
  setView(view.min + move, view.max + move);
}

function showIncident(incident) {
  const bin = Math.max(data.timeline.width, data.features.width); // rows: what is shorter than one has no shape
  const [from, to] = placeOfIncident(incident), margin = Math.max(1.5 * (to - from), 6 * bin * leastSpan());
  setView(from - margin, to + margin, false);
}

function drawView() {
  if (rowsAPoint(view) !== pointRows) fillCharts();
  for (const { plot } of charts) plot.setScale("x", view);
  drawBrush();
  at("zoom-reset").disabled = at("zoom-out").disabled = seesAll();
  at("view").textContent = stretch(view.min, view.max);
  courseNote();
}

const announce = later(300, () => {
  const seen = data.incidents.kept.filter((i) => placeOfIncident(i)[1] >= view.min && placeOfIncident(i)[0] <= view.max).length;
  say("view-said", `${seesAll() ? "The whole run" : "Shown"}: ${stretch(view.min, view.max)}, ${count(seen, "incident")}.`);
});

// In the address, so that a link leads to the same view.

const rememberView = later(200, () => {
  const places = axis.timed ? [view.min, view.max].map((t) => Number(t.toFixed(3))) : [view.min, view.max].map(Math.round);
  setAddress(seesAll() ? "" : `#from=${places[0]}&to=${places[1]}`);
});

function setAddress(fragment) {
  try { history.replaceState(null, "", fragment || location.href.replace(/#.*/s, "")); } catch { /* it is only for links */ }
}

function followAddress() {
  const [, incident] = location.hash.match(/^#incident-(\d+)$/) ?? [], [, row] = location.hash.match(/^#alert-(\d+)$/) ?? [];
  const [, from, to] = location.hash.match(/^#from=(-?[\d.]+)&to=(-?[\d.]+)$/) ?? [];
  if (Number(to) > Number(from)) setView(Number(from), Number(to), false);
  if (incident) tables.incidents.reveal(Number(incident));
  if (row) tables.alerts.reveal(Number(row));
}
