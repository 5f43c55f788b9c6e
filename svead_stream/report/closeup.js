// An incident from nearby: the features most to blame, from some time before it to some time after it.

const CLOSE_UPS = 3, CLOSE_BINS = 240; // features, and most points of each
const WIDE = 300, HIGH = 84;

function addCloseUps(cell, incident) {
  const row = add(cell, "div", { class: "close-ups" });
  for (const { name } of incident.features.slice(0, CLOSE_UPS)) {
    const feature = data.features.kept.find((f) => f.name === name);
    if (feature) addCloseUp(row, feature, incident);
  }
}

function addCloseUp(parent, feature, incident) {
  const own = data.features.width, margin = Math.max(2 * length(incident), 30 * own);
  const first = Math.max(incident.row - 1 - margin, 0), last = Math.min(incident.last + margin, data.rows);
  let width = own;
  while ((last - first) / width > CLOSE_BINS) width *= 2;
  const bins = featureBins(feature, width), from = Math.floor(first / width), to = Math.ceil(last / width);
  const { low, high, mean, usualLow, usualHigh } = Object.fromEntries(["low", "high", "mean", "usualLow", "usualHigh"].map((kind) => [kind, bins[kind].slice(from, to)]));
  const bottom = least([...low, ...usualLow]), top = most([...high, ...usualHigh]);
  if (bottom === null || mean.length < 3) return;
  const x = (k) => (WIDE * (k + 0.5) / mean.length).toFixed(1), y = (v) => (4 + (HIGH - 8) * (top > bottom ? (top - v) / (top - bottom) : 0.5)).toFixed(1);
  const figure = add(parent, "figure", { class: "close-up" });
  const svg = add(figure, "svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const band = (kind, lows, highs) => {
    const there = lows.map((_, k) => k).filter((k) => lows[k] !== null && highs[k] !== null);
    if (there.length) add(svg, "path", { class: kind, d: `M${[...there.map((k) => `${x(k)} ${y(highs[k])}`), ...there.reverse().map((k) => `${x(k)} ${y(lows[k])}`)].join("L")}Z` });
  };
  band("usual", usualLow, usualHigh);
  const left = WIDE * ((incident.row - 1) / width - from) / mean.length, right = WIDE * (incident.last / width - from) / mean.length;
  add(svg, "rect", { class: "during", x: left.toFixed(1), width: Math.max(right - left, 1).toFixed(1), y: 0, height: HIGH });
  if (width > 1) band("between", low, high);
  add(svg, "path", { class: "mean", d: mean.map((v, k) => v === null ? "" : `${k && mean[k - 1] !== null ? "L" : "M"}${x(k)} ${y(v)}`).join("") });
  const inside = (values) => values.filter((_, k) => (from + k + 1) * width >= incident.row && (from + k) * width < incident.last);
  const lowest = least(inside(low)), highest = most(inside(high)), before = (values) => inside(values).find((v) => v !== null);
  const told = lowest === null ? "missing" : lowest === highest ? short(lowest) : `${short(lowest)} – ${short(highest)}`;
  add(figure, "figcaption", {}, `${feature.name}: ${told}` + (before(usualLow) === undefined ? "" : `, usually ${short(before(usualLow))} – ${short(before(usualHigh))}`));
}
