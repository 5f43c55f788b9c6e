// The charts: the scores, and below them the features, on one axis, with the incidents, the alerts and what was usual.

const LEFT = 58, RIGHT = 16; // room beside a plot, the same for all, so that they stand below each other
const AT_ONCE = 6, MORE = 24; // charts of features that are shown at first, and more at a click
const BLAMED = 0.2; // share from which on an alert is marked in the chart of a feature
let charts = []; // those on the page, the one of the scores first
let nFeatures = AT_ONCE;
let pointRows = 0; // rows for which there is a point now

const ratio = () => uPlot.pxRatio;
const chartWidth = () => at("charts").clientWidth;
const mostTicks = (u) => Math.max(2, Math.floor(u.bbox.width / ratio() / 76));
const fits = (u, x) => u.valToPos(x, "x") < u.bbox.width / ratio() - 6;

function makeChart(parent, { name, height, labelled, series, bands = [], range }) {
  const chart = { name, points: { xs: [], bins: [] }, bins: {} };
  chart.box = add(parent, "div", { class: "chart" });
  const head = add(chart.box, "div", { class: "chart-head" });
  add(head, "h3", {}, name);
  chart.readout = add(head, "span", { class: "readout" });
  chart.place = add(chart.box, "div", { class: "plot", role: "img" });
  const grid = { stroke: () => palette.line, width: 1 }, stroke = () => palette.dim, font = "11px system-ui, sans-serif";
  chart.plot = new uPlot({
    width: Math.max(chartWidth(), 100),
    height: height + (labelled ? 36 : 0),
    padding: [8, RIGHT, labelled ? 0 : 6, 0],
    legend: { show: false },
    scales: { x: { time: false, range: () => [view.min, view.max] }, y: { range } },
    series: [{}, ...series],
    bands,
    axes: [
      {
        stroke, font, grid, ticks: { show: labelled, stroke: () => palette.line, size: 4, width: 1 }, size: labelled ? 36 : 0, gap: 3,
        splits: (u, _, min, max) => ticksBetween(min, max, mostTicks(u)),
        values: (u, list) => labelled ? textsOfTicks(list, view.min, view.max, mostTicks(u)).map((text, k) => fits(u, list[k]) ? text : "") : list.map(() => ""),
      },
      { stroke, font, grid, ticks: { show: false }, size: LEFT, gap: 6, space: 26, values: (u, list) => tickTexts(list) },
    ],
    cursor: {
      y: false,
      points: { show: false },
      // Its own guess at what is no click is off when the page moves below the pointer: `press` has another.
      drag: { x: true, y: false, setScale: false, dist: DRAG, click: () => {} },
      sync: { key: "run", scales: ["x", null], filters: { pub: (type) => ["mousemove", "mouseleave"].includes(type) } },
      bind: gestures(),
    },
    hooks: {
      drawClear: [(u) => drawBehind(u, chart)],
      draw: [(u) => drawMarks(u, chart)],
      setCursor: [(u) => showReadout(u, chart)],
      setSelect: [(u) => selected(u)],
    },
  }, [[], ...series.map(() => [])], chart.place);
  listen(chart);
  return chart;
}

const hidden = { stroke: null, width: 0, points: { show: false } };
const line = (color, more = {}) => ({ stroke: () => palette[color], width: 1.5, points: { show: false }, ...more });
const edge = () => line("edge", { width: 1, paths: stepped() }); // of what is usual, above the range of values
const stepped = () => uPlot.paths.stepped({ align: 1 });

function drawCharts() {
  if (!charts.length) charts = [scoreChart()];
  const known = new Set(charts.slice(1).map((chart) => chart.name)), kept = new Map(data.features.kept.map((f) => [f.name, f]));
  const shown = [...known, ...[...kept.keys()].filter((name) => !known.has(name))].slice(0, nFeatures);
  for (const name of shown) if (!known.has(name)) charts.push(featureChart(name));
  for (const chart of charts.slice(1)) chart.feature = kept.get(chart.name) ?? chart.feature;
  const rest = kept.size - shown.length;
  at("features-more").hidden = rest <= 0;
  say("features-more", rest <= MORE ? `Show ${count(rest, "more feature")}` : `Show ${MORE} of ${count(rest, "more feature")}`);
  fillCharts();
  describe();
}

function scoreChart() {
  const low = (u, min, max) => [0, Math.max(1.06 * max, 1e-9)];
  return makeChart(at("score-chart"), {
    name: "Score", height: window.innerWidth < 720 ? 170 : 210, labelled: true, range: low,
    series: [hidden, hidden, line("blue"), line("threshold", { dash: [5, 3] })],
    bands: [{ series: [1, 2], fill: () => palette.band }],
  });
}

function featureChart(name) {
  const padded = (u, min, max) => {
    if (min === null) return [0, 1];
    const margin = 0.08 * (max - min) || 0.1 * Math.abs(max) || 1;
    return [min - margin, max + margin];
  };
  return makeChart(at("feature-charts"), {
    name, height: { 1: 190, 2: 150 }[data.features.kept.length] ?? 104, labelled: false, range: padded, // few have more room
    series: [{ ...hidden, paths: stepped() }, { ...hidden, paths: stepped() }, hidden, hidden, edge(), edge(), line("blue")],
    bands: [{ series: [1, 2], fill: () => palette.usual }, { series: [3, 4], fill: () => palette.band }],
  });
}

function fillCharts() {
  pointRows = rowsAPoint(view);
  const all = new Map(); // charts of the same bins have the same points
  for (const chart of charts) {
    const bins = chart.bins = chart.feature ? featureBins(chart.feature, pointRows) : scoreBins(pointRows);
    if (!all.has(bins.width)) all.set(bins.width, pointsOf(bins.width));
    chart.points = all.get(bins.width);
    const of = (values) => chart.points.bins.map((bin) => bin < 0 ? null : values[bin]), none = [];
    const range = bins.width > 1 ? [of(bins.high), of(bins.low)] : [none, none];
    chart.plot.setData(chart.feature ? [chart.points.xs, ...usual(bins, of), ...range, ...usual(bins, of), of(bins.mean)]
      : [chart.points.xs, ...range, of(bins.mean), of(bins.threshold)]);
  }
}

const usual = ({ usualHigh, usualLow }, of) => [of(usualHigh), of(usualLow)];

// What is in the charts, for those who do not see them.
function describe() {
  const { high, width } = data.timeline, top = high.reduce((best, v, i) => v !== null && (best < 0 || v > high[best]) ? i : best, -1);
  charts[0].place.setAttribute("aria-label", top < 0 ? "No scores." : `Scores ${stretchOfRun()}. The highest is ${short(high[top])}, at `
    + `${textOf(placeOf(top * width + 1))}. ${count(data.incidents.total, "incident")} and ${count(data.alerts, "alert")} are marked.`);
  for (const chart of charts.slice(1)) {
    const { feature } = chart, lowest = least(feature.low ?? feature.mean), highest = most(feature.high ?? feature.mean);
    chart.alerts = data.table.filter((a) => a.features.some((f) => f.name === chart.name && f.share >= BLAMED));
    chart.place.setAttribute("aria-label", lowest === null ? `${chart.name}: no values.`
      : `${chart.name} ${stretchOfRun()}: from ${short(lowest)} to ${short(highest)}`
        + (feature.missing ? `, ${percent(feature.missing_share)} missing` : "") + `. ${count(chart.alerts.length, "alert")} due to it.`);
  }
}

const stretchOfRun = () => axis.timed ? `from ${moment(axis.min)} to ${moment(axis.max)}` : `of ${count(data.rows, "row")}`;

// A stretch of the axis, at least as wide as can be seen.
function fillStretch({ ctx, valToPos }, from, to, color, alpha, top, height) {
  const left = valToPos(from, "x", true), width = Math.max(valToPos(to, "x", true) - left, 2 * ratio());
  ctx.fillStyle = color;
  ctx.globalAlpha = alpha;
  ctx.fillRect(left, top, width, height);
}

function clipped({ ctx, bbox }, draw) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 4 * ratio(), bbox.width, bbox.height + 4 * ratio());
  ctx.clip();
  draw();
  ctx.restore();
}

// Behind the lines: rows that were only learned.
function drawBehind(u, chart) {
  if (!data.burn_in) return;
  const { ctx, bbox } = u, px = ratio(), end = placeOf(data.burn_in);
  clipped(u, () => {
    fillStretch(u, axis.min, end, palette.dim, 0.1, bbox.top, bbox.height);
    const left = Math.max(u.valToPos(axis.min, "x", true), bbox.left);
    if (chart !== charts[0] || u.valToPos(end, "x", true) - left < 70 * px) return;
    ctx.globalAlpha = 1;
    ctx.fillStyle = palette.dim;
    ctx.font = `${11 * px}px system-ui, sans-serif`;
    ctx.textAlign = "left"; // an axis may have left another
    ctx.fillText("learning", left + 8 * px, bbox.top + bbox.height - 8 * px); // few scores are near zero
  });
}

// On top of the lines: incidents, alerts, and missing values at the bottom.
function drawMarks(u, chart) {
  clipped(u, () => {
    drawIncidents(u, chart);
    if (chart.bins.missing) drawMissing(u, chart);
  });
  drawAlerts(u, chart);
}

function drawIncidents(u, chart) {
  const { top, height, width } = u.bbox, cap = 4 * ratio(), inView = ([from, to]) => to >= view.min && from <= view.max;
  const seen = data.incidents.kept.filter((i) => i.last >= 1 && inView(placeOfIncident(i))); // others were over before the run began
  const crowded = seen.length > width / ratio() / 6; // then lines that are as thin as can be would be all that is seen
  for (const incident of seen) {
    const [from, to] = placeOfIncident(incident), here = incident.number === marked.incident;
    const thin = u.valToPos(to, "x") - u.valToPos(from, "x") < 2;
    if (here || !crowded || !thin) fillStretch(u, from, to, palette.alert, here ? 0.22 : 0.14, top, height);
    if (chart === charts[0]) fillStretch(u, from, to, palette.alert, 1, top - cap, cap);
  }
}

function drawMissing(u, { bins: { missing, width } }) {
  const { top, height } = u.bbox, size = 4 * ratio();
  missing.forEach((many, bin) => {
    if (many) fillStretch(u, placeOf(bin * width + 1), placeOf(Math.min((bin + 1) * width, data.rows)), palette.dim, 0.25 + 0.75 * many / width, top + height - size, size);
  });
}

// Alerts where they were, in the chart of a feature those it was to blame for; of those that are not kept, their bins.
function drawAlerts(u, chart) {
  const { ctx, bbox } = u, px = ratio(), bottom = bbox.top + bbox.height, t = chart.bins;
  const size = data.alerts > 200 ? 2.2 : 2.8;
  const dot = (x, y, here) => {
    if (x < view.min || x > view.max) return;
    const height = y === null ? bottom : Math.min(Math.max(u.valToPos(y, "y", true), bbox.top), bottom);
    ctx.beginPath();
    ctx.arc(u.valToPos(x, "x", true), height, (here ? 5.5 : size) * px, 0, 2 * Math.PI);
    ctx.fill();
    if (here) ctx.stroke();
  };
  ctx.save();
  ctx.fillStyle = palette.alert;
  ctx.strokeStyle = palette.text;
  ctx.lineWidth = 1.5 * px;
  if (chart === charts[0]) {
    const kept = new Set(data.table.map((a) => Math.floor((a.row - 1) / t.width)));
    chart.points.bins.forEach((bin, k) => { if (bin >= 0 && t.alerts[bin] && !kept.has(bin)) dot(chart.points.xs[k], t.high[bin], false); });
    for (const alert of data.table) dot(placeOfAlert(alert), alert.score, alert.row === marked.alert);
  } else {
    for (const alert of chart.alerts ?? []) dot(placeOfAlert(alert), alert.features.find((f) => f.name === chart.name).value, alert.row === marked.alert);
  }
  ctx.restore();
}

// What is opened in the tables is marked in the charts.
const marked = { incident: null, alert: null };

function mark(what, which) {
  marked[what] = which;
  for (const chart of charts) chart.plot.redraw(false);
}

// Below the pointer

function showReadout(u, chart) {
  const k = u.cursor.left >= 0 ? u.cursor.idx : null, bin = k === null || k === undefined ? -1 : chart.points.bins[k] ?? -1;
  chart.readout.textContent = bin < 0 ? "" : chart === charts[0] ? scoreAt(chart.bins, bin) : featureAt(chart.bins, bin);
  if (chart === charts[0]) at("cursor-time").textContent = bin < 0 ? "" : placeAt(chart.bins, bin);
}

function placeAt({ width }, bin) {
  const first = bin * width + 1, last = Math.min(first + width - 1, data.rows), told = [];
  const rows = first === last ? "row " + whole(first) : "rows " + whole(first) + " – " + whole(last);
  if (clock) {
    const { start, end } = timesOf(width, bin);
    if (start !== undefined) told.push(start === end ? moment(start) : `${moment(start)} – ${momentBeside(end, start)}`);
  }
  const here = data.incidents.kept.filter((i) => i.row <= last && first <= i.last);
  if (here.length) told.push(here.length > 1 ? count(here.length, "incident") : `incident ${here[0].number}`);
  if (first <= data.burn_in) told.push("learning");
  return [rows, ...told].join(" · ");
}

function scoreAt({ width, high, threshold, alerts }, bin) {
  const parts = [width > 1 ? `up to ${short(high[bin])}` : short(high[bin])];
  if (threshold[bin] !== null) parts.push(`threshold ${short(threshold[bin])}`);
  if (alerts[bin]) parts.push(width > 1 ? count(alerts[bin], "alert") : "alert");
  return parts.join(" · ");
}

function featureAt({ width, low, high, mean, missing, usualLow, usualHigh }, bin) {
  const parts = [];
  if (mean[bin] !== null) parts.push(low[bin] < high[bin] ? `${short(mean[bin])} (${short(low[bin])} – ${short(high[bin])})` : short(mean[bin]));
  if (missing?.[bin]) parts.push(width > 1 ? `${whole(missing[bin])} missing` : "missing");
  if (usualLow[bin] !== null) parts.push(`usually ${short(usualLow[bin])} – ${short(usualHigh[bin])}`);
  return parts.join(" · ");
}
