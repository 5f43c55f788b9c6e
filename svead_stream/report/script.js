// Draws the report. Everything that comes from the data reaches the page through textContent or as a number.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const PAGE = 100; // alerts shown at once
const at = (id) => document.getElementById(id);

function add(parent, tag, attributes = {}, text) {
  const element = parent instanceof SVGElement || tag === "svg"
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}
const whole = (n) => n.toLocaleString("en-US");
const short = (v) => v === null || v === undefined ? "–"
  : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2)
  : v.toLocaleString("en-US", { maximumSignificantDigits: 4 });
const percent = (v) => (100 * v).toFixed(v < 0.0995 ? 1 : 0) + " %";
const times = (v) => v === null ? "–" : "× " + v.toLocaleString("en-US", { maximumSignificantDigits: 3 });

// the figures on top

function figures() {
  const figure = (value, name, hot) => {
    const box = add(at("figures"), "div", { class: hot ? "figure hot" : "figure" });
    add(box, "b", {}, value);
    add(box, "span", {}, name);
  };
  figure(whole(data.rows), "rows");
  figure(whole(data.alerts), "alerts (" + percent(data.alerts / Math.max(data.rows, 1)) + ")", data.alerts > 0);
  if (data.measured) {
    figure(data.measured.roc_auc.toFixed(3), "ROC AUC");
    figure(data.measured.average_precision.toFixed(3), "average precision");
  }
  if (data.truth) figure(whole(data.truth.found) + " of " + whole(data.truth.anomalies), "anomalies found");
  if (data.rejected) figure(whole(data.rejected), "rows rejected", true);
  figure(whole(Math.round(data.rows / data.seconds)), "rows a second");
}

// plots

function tooltip(svg, describe) {
  let tip = null;
  const hide = () => { if (tip) tip.remove(); tip = null; };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const text = describe((event.clientX - box.left) / box.width);
    if (!text) return hide();
    if (!tip) tip = add(document.body, "div", { class: "tip" });
    tip.textContent = text;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = event.clientY + 18 + "px";
  });
  svg.addEventListener("pointerleave", hide);
}

function ticks(low, high, n) {
  const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
  const list = [];
  for (let t = Math.ceil(low / step) * step; t <= high * (1 + 1e-9); t += step) list.push(t);
  return list;
}

let marks = []; // circles of the timeline, with the alerts they stand for

function timeline() {
  const t = data.timeline, n = t.high.length;
  const narrow = window.innerWidth < 720;
  const W = narrow ? 520 : 1000, H = narrow ? 260 : 280, L = 42, R = 8, T = 8, B = 24;
  const svg = add(at("timeline"), "svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Scores over time" });
  if (!n) return;
  const top = 1.05 * Math.max(...t.high.filter((v) => v !== null), ...t.threshold.filter((v) => v !== null), 1e-9);
  const x = (row) => L + (W - L - R) * row / Math.max(data.rows, 1);
  const y = (v) => T + (H - T - B) * (1 - v / top);
  const centre = (i) => Math.min((i + 0.5) * t.width, data.rows);
  for (const v of ticks(0, top, 4)) {
    add(svg, "line", { class: "axis", x1: L, x2: W - R, y1: y(v), y2: y(v) });
    add(svg, "text", { x: L - 6, y: y(v) + 4, "text-anchor": "end" }, short(v));
  }
  for (const v of ticks(0, data.rows, narrow ? 4 : 8)) {
    add(svg, "text", { x: x(v), y: H - 6, "text-anchor": v === 0 ? "start" : v > 0.97 * data.rows ? "end" : "middle" }, whole(v));
  }
  const points = (values) => values.map((v, i) => v === null ? null : `${x(centre(i)).toFixed(1)} ${y(v).toFixed(1)}`);
  const high = points(t.high).filter(Boolean), low = points(t.low).filter(Boolean).reverse();
  add(svg, "path", { class: "band", d: "M" + high.concat(low).join("L") + "Z" });
  add(svg, "path", { class: "mean", d: "M" + points(t.mean).filter(Boolean).join("L") });
  const limit = points(t.threshold).filter(Boolean);
  if (limit.length) add(svg, "path", { class: "threshold", d: "M" + limit.join("L") });
  // One mark a bin with alerts; those of the table can be clicked.
  const byBin = new Map();
  for (const alert of data.table) {
    const bin = Math.floor((alert.row - 1) / t.width);
    if (!byBin.has(bin) || byBin.get(bin).score < alert.score) byBin.set(bin, alert);
  }
  for (let i = 0; i < n; i++) {
    if (!t.alerts[i]) continue;
    const alert = byBin.get(i);
    const mark = add(svg, "circle", { class: "mark", cx: x(centre(i)), cy: y(t.high[i]), r: n > 400 ? 2.6 : 3.6 });
    marks.push({ mark, alert, x: x(centre(i)) / W });
  }
  tooltip(svg, (part) => {
    const i = Math.floor((part * W - L) / (W - L - R) * data.rows / t.width);
    if (i < 0 || i >= n || t.high[i] === null) return null;
    const first = i * t.width + 1, last = Math.min(first + t.width - 1, data.rows);
    return `${first === last ? "row " + whole(first) : "rows " + whole(first) + " – " + whole(last)}: `
      + `score up to ${short(t.high[i])}, threshold ${short(t.threshold[i])}, ${whole(t.alerts[i])} alert${t.alerts[i] === 1 ? "" : "s"}`;
  });
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), part = (event.clientX - box.left) / box.width;
    const near = marks.filter((m) => m.alert).sort((a, b) => Math.abs(a.x - part) - Math.abs(b.x - part))[0];
    if (near && Math.abs(near.x - part) < 0.02) reveal(near.alert);
  });
  at("timeline-note").textContent = t.width === 1 ? "One point a row."
    : `Each point stands for ${whole(t.width)} rows: lowest, mean and highest score. All rows are counted.`;
}

function distribution() {
  const d = data.distribution, n = d.rows.length;
  const W = 480, H = 230, L = 44, R = 8, T = 8, B = 24;
  const svg = add(at("distribution"), "svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Distribution of scores" });
  if (!n) return;
  const top = Math.log10(Math.max(...d.rows)) + 0.15;
  const y = (count) => count < 1 ? H - B : H - B - (H - T - B) * (Math.log10(count) + 0.15) / (top + 0.15);
  const x = (i) => L + (W - L - R) * i / n;
  for (let p = 0; p <= top; p += Math.ceil(top / 5)) {
    add(svg, "line", { class: "axis", x1: L, x2: W - R, y1: y(10 ** p), y2: y(10 ** p) });
    add(svg, "text", { x: L - 6, y: y(10 ** p) + 4, "text-anchor": "end" }, whole(10 ** p));
  }
  for (let i = 0; i < n; i++) {
    for (const [name, count] of [["bar-rows", d.rows[i]], ["bar-alerts", d.alerts[i]]]) {
      if (count) add(svg, "rect", { class: name, x: x(i) + 0.5, width: x(1) - x(0) - 1, y: y(count), height: H - B - y(count) });
    }
  }
  for (let i = 0; i <= n; i += n / 4) {
    add(svg, "text", { x: x(i), y: H - 6, "text-anchor": i === 0 ? "start" : i >= n ? "end" : "middle" }, short(d.edges[i]));
  }
  tooltip(svg, (part) => {
    const i = Math.floor((part * W - L) / (W - L - R) * n);
    return i < 0 || i >= n ? null
      : `score ${short(d.edges[i])} – ${short(d.edges[i + 1])}: ${whole(d.rows[i])} rows, ${whole(d.alerts[i])} alerts`;
  });
}

function shares() {
  const box = at("shares"), largest = Math.max(...data.shares.map((s) => s.share), 1e-9);
  at("shares-note").textContent = data.shares.length
    ? `Mean share of each feature in the ${whole(data.alerts)} alerts.` : "There were no alerts.";
  for (const { name, share, first } of data.shares.slice(0, 12)) {
    const line = add(box, "div", { class: "share", title: `${name}: the largest share in ${first} alerts` });
    add(line, "span", { class: "name" }, name);
    add(add(line, "div", { class: "track" }), "div", { class: "fill" }).style.width = 100 * share / largest + "%";
    add(line, "span", { class: "number" }, percent(share));
  }
}

// the table

const columns = [
  { name: "Row", value: (a) => a.row, show: (a) => whole(a.row) },
  { name: "Score", value: (a) => a.score, show: (a) => short(a.score) },
  { name: "× threshold", value: (a) => a.strength ?? Infinity, show: (a) => times(a.strength), optional: true },
  { name: "p-value", value: (a) => a.p_value, show: (a) => short(a.p_value), optional: true },
];
let order = { column: columns[2], down: true }, shown = PAGE, opened = null;

function prepareTable() {
  const context = data.table.length ? Object.keys(data.table[0].context)[0] : undefined;
  if (context !== undefined) {
    columns.splice(1, 0, { name: context, value: (a) => a.context[context] ?? "", show: (a) => a.context[context] ?? "", text: true });
  }
  if (data.truth) {
    columns.push({ name: "Truth", value: (a) => a.label ?? -1, show: (a) => ["normal", "anomaly"][a.label] ?? "–", class: "truth" });
  }
  columns.push({ name: "Due to", value: (a) => a.features[0]?.name ?? "", chips: true });
  const head = document.querySelector("#table thead tr");
  for (const column of columns) {
    column.head = add(head, "th", { scope: "col", class: column.optional ? "optional" : "" });
    const button = add(column.head, "button", { type: "button" }, column.name);
    column.arrow = add(button, "span", { class: "arrow" });
    button.addEventListener("click", () => {
      order = { column, down: order.column === column ? !order.down : !column.text && !column.chips };
      fillTable();
    });
  }
  at("table-note").textContent = !data.alerts ? "There were none."
    : (data.table.length < data.alerts ? `The ${whole(data.table.length)} strongest of ${whole(data.alerts)}. ` : "")
      + "Click one to see its values beside what was usual just before it.";
  at("more").addEventListener("click", () => { shown += 5 * PAGE; fillTable(); });
}

function fillTable() {
  const { column, down } = order, body = document.querySelector("#table tbody");
  data.table.sort((a, b) => {
    const u = column.value(a), v = column.value(b);
    const by = typeof u === "string" ? u.localeCompare(v, undefined, { numeric: true }) : u === v ? 0 : u < v ? -1 : 1;
    return (down ? -by : by) || a.row - b.row;
  });
  for (const c of columns) {
    c.arrow.textContent = c === column ? (down ? " ↓" : " ↑") : "";
    c.head.setAttribute("aria-sort", c === column ? (down ? "descending" : "ascending") : "none");
  }
  body.replaceChildren();
  for (const alert of data.table.slice(0, shown)) addRow(body, alert);
  at("more").hidden = shown >= data.table.length;
  at("more").textContent = `Show more (${whole(Math.max(data.table.length - shown, 0))})`;
}

function addRow(body, alert) {
  const line = add(body, "tr", { class: "row", tabindex: 0, "data-row": alert.row });
  for (const column of columns) {
    const cell = add(line, "td", { class: [column.text && "text", column.chips && "top", column.class, column.optional && "optional"].filter(Boolean).join(" ") });
    if (!column.chips) { cell.textContent = column.show(alert); continue; }
    for (const feature of alert.features.slice(0, 3)) {
      const chip = add(cell, "span", { class: "chip" }, `${feature.name} = ${short(feature.value)} `);
      if (feature.usual) add(chip, "i", {}, `usually ${short(feature.usual[1])}`);
    }
  }
  const toggle = () => opened === alert ? close() : open(alert, line);
  line.addEventListener("click", toggle);
  line.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
  });
  if (opened === alert) open(alert, line);
}

function close() {
  document.querySelectorAll("#table .detail").forEach((element) => element.remove());
  document.querySelectorAll("#table .open").forEach((element) => element.classList.remove("open"));
  marks.forEach((m) => m.mark.classList.remove("here"));
  opened = null;
}

function open(alert, line) {
  close();
  opened = alert;
  line.classList.add("open");
  marks.filter((m) => m.alert === alert).forEach((m) => m.mark.classList.add("here"));
  const detail = document.createElement("tr");
  detail.className = "detail";
  line.after(detail);
  const cell = add(detail, "td", { colspan: columns.length });
  const facts = [alert.where, `p-value ${short(alert.p_value)}`, `score ${short(alert.score)} where ${short(alert.threshold)} was the threshold`];
  for (const [name, value] of Object.entries(alert.context)) facts.push(`${name}: ${value}`);
  add(cell, "p", { class: "facts" }, facts.join(" · "));
  for (const feature of alert.features) addFeature(cell, feature);
}

function addFeature(parent, { name, value, share, usual }) {
  const line = add(parent, "div", { class: "feature" });
  add(line, "span", { class: "name" }, `${name} `);
  add(line, "span", { class: "value" }, value === null ? "missing" : short(value));
  const range = add(line, "div", { class: "range" });
  if (usual && value !== null) {
    const [low, middle, high] = usual;
    const from = Math.min(low, value), to = Math.max(high, value), margin = 0.06 * (to - from) || Math.abs(value) || 1;
    const place = (v) => 100 * (v - from + margin) / (to - from + 2 * margin) + "%";
    add(range, "div", { class: "rail" });
    const normal = add(range, "div", { class: "normal" });
    normal.style.left = place(low);
    normal.style.right = `calc(100% - ${place(high)})`;
    const outside = value < low || value > high;
    add(range, "div", { class: outside ? "dot outside" : "dot" }).style.left = place(value);
    add(line, "span", { class: "usual" }, `usually ${short(low)} – ${short(high)}; share ${percent(share)}`);
  } else {
    add(line, "span", { class: "usual" }, `share ${percent(share)}`);
  }
}

function reveal(alert) {
  while (data.table.indexOf(alert) >= shown) shown += PAGE;
  opened = alert;
  fillTable();
  document.querySelector(`#table tr[data-row="${Number(alert.row)}"]`).scrollIntoView({ block: "center" });
}

document.title = `${data.title} – svead-stream`;
at("title").textContent = data.title;
at("subtitle").textContent = `${data.written} · ${whole(data.rows)} rows in ${data.seconds.toFixed(1)} s`;
figures();
timeline();
distribution();
shares();
prepareTable();
fillTable();
for (const [name, value] of Object.entries(data.settings)) {
  const pair = add(at("settings"), "div");
  add(pair, "dt", {}, name.replaceAll("_", " "));
  add(pair, "dd", {}, value === null ? "none" : String(value));
}
document.documentElement.dataset.ready = "true";
