// The plots: the course of the run with its incidents, the distribution of the scores, the shares of the features.

let marks = []; // circles of the timeline, with the alerts they stand for
let spans = []; // bands of the timeline, with the incidents they stand for

function leaveOut(plot) {
  at(plot).hidden = at(plot + "-legend").hidden = true;
}

function timeline() {
  const t = data.timeline, n = t.high.length;
  const narrow = window.innerWidth < 720;
  const W = narrow ? 520 : 1000, H = narrow ? 290 : 292, L = 42, R = 8, T = 12, size = narrow ? 15 : 11, B = 6 + size * (clock ? 3 : 2);
  timelineNote();
  if (!n) return leaveOut("timeline");
  const svg = add(at("timeline"), "svg", { class: narrow ? "narrow" : "", viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "Scores over time" });
  const top = 1.05 * Math.max(...t.high.filter((v) => v !== null), ...t.threshold.filter((v) => v !== null), 1e-9);
  const x = (row) => L + (W - L - R) * Math.min(Math.max(row, 0), data.rows) / data.rows;
  const y = (v) => T + (H - T - B) * (1 - v / top);
  const centre = (i) => Math.min((i + 0.5) * t.width, data.rows);

  addSpans(svg, x, T, H - B);
  for (const v of ticks(0, top, 4)) {
    add(svg, "line", { class: "axis", x1: L, x2: W - R, y1: y(v), y2: y(v) });
    add(svg, "text", { x: L - 6, y: y(v) + 4, "text-anchor": "end" }, short(v));
  }
  addTimes(svg, x, H - B, size, narrow ? 5 : 10);

  const points = (values) => values.map((v, i) => v === null ? null : `${x(centre(i)).toFixed(1)} ${y(v).toFixed(1)}`);
  const high = points(t.high).filter(Boolean), low = points(t.low).filter(Boolean).reverse();
  add(svg, "path", { class: "band", d: "M" + high.concat(low).join("L") + "Z" });
  add(svg, "path", { class: "mean", d: "M" + points(t.mean).filter(Boolean).join("L") });
  const limit = points(t.threshold).filter(Boolean);
  if (limit.length) add(svg, "path", { class: "threshold", d: "M" + limit.join("L") });
  addMarks(svg, (i) => x(centre(i)), (i) => y(t.high[i]), W);

  const rowAt = (part) => (part * W - L) / (W - L - R) * data.rows;
  tooltip(svg, (part) => describeBin(Math.floor(rowAt(part) / t.width)));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), part = (event.clientX - box.left) / box.width;
    const near = marks.filter((m) => m.alert).sort((a, b) => Math.abs(a.x - part) - Math.abs(b.x - part))[0];
    if (near && Math.abs(near.x - part) < 0.01) return tables.alerts.reveal(near.alert);
    const row = rowAt(part), span = spans.find(({ incident }) => incident.row - 1 <= row && row <= incident.last);
    if (span) tables.incidents.reveal(span.incident);
  });
}

function timelineNote() {
  const { width } = data.timeline, { burn_in: learned, incidents } = data, notes = [];
  if (data.rows) notes.push(width === 1 ? "One point a row."
    : `Each point stands for ${whole(width)} rows: lowest, mean and highest score. All rows are counted.`);
  if (learned) notes.push(learned < data.rows ? `Learning: the first ${count(learned, "row")}, no alerts.` : nothingJudged() + ".");
  if (incidents.kept.length < incidents.total) notes.push(`Of the incidents, the ${whole(incidents.kept.length)} strongest are marked.`);
  at("timeline-note").textContent = notes.join(" ") || "There were no rows.";
  at("key-incidents").hidden = !incidents.kept.length;
  at("key-learning").hidden = !learned;
}

// What stands behind the scores: the rows that were only learned, and the incidents.
function addSpans(svg, x, top, bottom) {
  const span = (name, from, to, title) => {
    const group = add(svg, "g", { class: name, role: "img" });
    add(group, "title", {}, title);
    const width = Math.max(x(to) - x(from), 2);
    add(group, "rect", { x: x(from), width, y: top, height: bottom - top });
    return { group, left: x(from), width };
  };
  if (data.burn_in) {
    const { group, left, width } = span("learning", 0, data.burn_in, `learning: the first ${count(data.burn_in, "row")}, no alerts`);
    if (width > 60) add(group, "text", { x: left + width / 2, y: top + 14, "text-anchor": "middle" }, "learning");
  }
  for (const incident of data.incidents.kept) {
    if (incident.last < 1) continue; // over before the run began
    const { group, left, width } = span("incident", incident.row - 1, incident.last, describeIncident(incident));
    add(group, "rect", { class: "cap", x: left, width, y: top - 5, height: 5 });
    spans.push({ group, incident });
  }
}

// At most n ticks below the plot: times, or the numbers of rows where there are none.
function addTimes(svg, x, bottom, size, n) {
  const left = x(0), right = x(data.rows), line = bottom + 5 + size;
  const tick = (row, label, day) => {
    const place = x(row), half = 0.3 * size * Math.max(label.length, day ? DAYS : 0);
    const anchor = place - half < left - 10 ? "start" : place + half > right + 8 ? "end" : "middle";
    add(svg, "line", { class: "axis", x1: place, x2: place, y1: bottom, y2: bottom + 4 });
    add(svg, "text", { class: "tick", x: place, y: line, "text-anchor": anchor }, label);
    if (day) add(svg, "text", { class: "day", x: place, y: line + 1.2 * size, "text-anchor": anchor }, day);
  };
  if (!clock) return ticks(0, data.rows, n).forEach((row) => tick(row, whole(row)));
  const room = 0.65 * size * data.rows / (right - left); // rows that a character takes
  for (const { row, label, day } of timeTicks(data.timeline, data.rows, n, room)) tick(row, label, day);
  add(svg, "text", { class: "unit", x: 0, y: line }, clock === "dates" ? "UTC" : "s");
}

// One mark a bin with alerts; those of the table can be clicked.
function addMarks(svg, x, y, W) {
  const t = data.timeline, byBin = new Map();
  for (const alert of data.table) {
    const bin = Math.floor((alert.row - 1) / t.width);
    if (!byBin.has(bin) || byBin.get(bin).score < alert.score) byBin.set(bin, alert);
  }
  t.alerts.forEach((alerts, i) => {
    if (!alerts) return;
    const mark = add(svg, "circle", { class: "mark", cx: x(i), cy: y(i), r: t.alerts.length > 400 ? 2.6 : 3.6 });
    marks.push({ mark, alert: byBin.get(i), x: x(i) / W });
  });
}

function describeBin(i) {
  const t = data.timeline;
  if (i < 0 || i >= t.high.length || t.high[i] === null) return null;
  const first = i * t.width + 1, last = Math.min(first + t.width - 1, data.rows);
  const parts = [first === last ? "row " + whole(first) : "rows " + whole(first) + " – " + whole(last)];
  if (clock && t.start[i] !== null) parts.push(t.start[i] === t.end[i] ? moment(t.start[i]) : `${moment(t.start[i])} – ${moment(t.end[i])}`);
  parts.push(`score up to ${short(t.high[i])}`, `threshold ${short(t.threshold[i])}`, count(t.alerts[i], "alert"));
  const here = spans.filter(({ incident }) => incident.row <= last && first <= incident.last);
  if (here.length) parts.push(here.length > 1 ? count(here.length, "incident") : `incident ${here[0].incident.number}`);
  if (first <= data.burn_in) parts.push("learning");
  return parts.join(", ");
}

function distribution() {
  const d = data.distribution, n = d.rows.length;
  const W = 480, H = 230, L = 44, R = 8, T = 8, B = 24;
  at("distribution-note").textContent = n ? "Rows by score, both axes logarithmic." : "No row had a score above zero.";
  if (!n) return leaveOut("distribution");
  const svg = add(at("distribution"), "svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Distribution of scores" });
  const top = Math.log10(Math.max(...d.rows)) + 0.15;
  const y = (many) => many < 1 ? H - B : H - B - (H - T - B) * (Math.log10(many) + 0.15) / (top + 0.15);
  const x = (i) => L + (W - L - R) * i / n;
  for (let p = 0; p <= top; p += Math.ceil(top / 5)) {
    add(svg, "line", { class: "axis", x1: L, x2: W - R, y1: y(10 ** p), y2: y(10 ** p) });
    add(svg, "text", { x: L - 6, y: y(10 ** p) + 4, "text-anchor": "end" }, whole(10 ** p));
  }
  for (let i = 0; i < n; i++) {
    for (const [name, many] of [["bar-rows", d.rows[i]], ["bar-alerts", d.alerts[i]]]) {
      if (many) add(svg, "rect", { class: name, x: x(i) + 0.5, width: x(1) - x(0) - 1, y: y(many), height: H - B - y(many) });
    }
  }
  for (let i = 0; i <= n; i += n / 4) {
    add(svg, "text", { x: x(i), y: H - 6, "text-anchor": i === 0 ? "start" : i >= n ? "end" : "middle" }, short(d.edges[i]));
  }
  tooltip(svg, (part) => {
    const i = Math.floor((part * W - L) / (W - L - R) * n);
    return i < 0 || i >= n ? null
      : `score ${short(d.edges[i])} – ${short(d.edges[i + 1])}: ${count(d.rows[i], "row")}, ${count(d.alerts[i], "alert")}`;
  });
}

function shares() {
  const largest = Math.max(...data.shares.map((s) => s.share), 1e-9);
  at("shares-note").textContent = data.shares.length
    ? `Mean share of each feature in the ${count(data.alerts, "alert")}.` : "There were no alerts.";
  for (const { name, share, first } of data.shares.slice(0, 12)) {
    addShare(at("shares"), name, share, largest).title = `${name}: the largest share in ${count(first, "alert")}`;
  }
}
