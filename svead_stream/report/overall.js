// What holds for the run as a whole: how the features moved, the distribution of the scores, the shares of the features.

const ALL_AT_ONCE = 12;
let allMoves = false;

function drift() {
  const { kept, total } = data.features, body = at("drift").querySelector("tbody"), rows = kept[0]?.rows ?? 0;
  const moved = (f) => f.change === null ? -1 : Math.abs(f.change);
  const list = [...kept].sort((a, b) => moved(b) - moved(a)), largest = Math.max(...list.map(moved), 1);
  at("drift").hidden = !kept.length;
  say("drift-note", !kept.length ? "No values of features were kept."
    : (rows ? `The first and the last ${whole(rows)} rows compared: the range in which nine of ten values lie, and the move of the middle in units of its width.`
      : "Too few rows to compare the first with the last ones.") + (kept.length < total ? ` ${whole(kept.length)} of ${whole(total)} features.` : ""));
  body.replaceChildren();
  for (const feature of list.slice(0, allMoves ? Infinity : ALL_AT_ONCE)) {
    const line = add(body, "tr");
    add(line, "th", { scope: "row", class: "text", title: feature.name }, feature.name);
    addSparkline(add(line, "td", { class: "spark" }), feature);
    for (const [name, [low, , high]] of [["At first", feature.first], ["At last", feature.last]]) {
      add(line, "td", { class: "number", "data-name": name }, low === null ? "–" : `${short(low)} – ${short(high)}`);
    }
    addMove(add(line, "td", { class: "move", "data-name": "Moved" }), rows ? feature.change : null, largest);
    add(line, "td", { class: "number", "data-name": "Missing" }, feature.missing_share ? percent(feature.missing_share) : "–");
  }
  at("drift-more").hidden = allMoves || kept.length <= ALL_AT_ONCE;
  at("drift-more").textContent = `Show all ${whole(kept.length)}`;
}

function addSparkline(cell, { mean, name }) {
  const W = 160, H = 28, svg = add(cell, "svg", { viewBox: `0 0 ${W} ${H}`, "aria-hidden": "true", preserveAspectRatio: "none" });
  const size = Math.max(1, Math.ceil(mean.length / W)), points = [];
  for (let i = 0; i < mean.length; i += size) {
    const some = mean.slice(i, i + size).filter((v) => v !== null);
    points.push(some.length ? some.reduce((a, b) => a + b, 0) / some.length : null);
  }
  const known = points.filter((v) => v !== null), low = Math.min(...known), high = Math.max(...known);
  const y = (v) => (2 + (H - 4) * (high > low ? (high - v) / (high - low) : 0.5)).toFixed(1);
  let path = "";
  points.forEach((v, i) => {
    if (v !== null) path += `${path && points[i - 1] !== null ? "L" : "M"}${(i * W / Math.max(points.length - 1, 1)).toFixed(1)} ${y(v)}`;
  });
  add(svg, "path", { d: path });
}

function addMove(cell, change, largest) {
  const size = change === null ? 0 : 50 * Math.abs(change) / largest, bar = add(add(cell, "div", { class: "shift" }), "i");
  bar.style.width = size + "%";
  bar.style[change < 0 ? "right" : "left"] = "50%";
  add(cell, "span", { class: "number" }, change === null ? "–" : (change < 0 ? "−" : change > 0 ? "+" : "") + Math.abs(change).toFixed(2));
}

function distribution() {
  const d = data.distribution, n = d.rows.length;
  const W = 480, H = 230, L = 48, R = 8, T = 8, B = 24;
  say("distribution-note", n ? "Rows by score, both axes logarithmic." : "No row had a score above zero.");
  at("distribution").hidden = at("distribution-legend").hidden = !n;
  at("distribution").replaceChildren();
  if (!n) return;
  const svg = add(at("distribution"), "svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Distribution of scores from ${short(d.edges[0])} to ${short(d.edges[n])}` });
  const top = Math.log10(Math.max(...d.rows)) + 0.15;
  const y = (many) => many < 1 ? H - B : H - B - (H - T - B) * (Math.log10(many) + 0.15) / (top + 0.15);
  const x = (i) => L + (W - L - R) * i / n;
  for (let p = 0; p <= top; p += Math.ceil(top / 5)) {
    add(svg, "line", { class: "axis", x1: L, x2: W - R, y1: y(10 ** p), y2: y(10 ** p) });
    add(svg, "text", { x: L - 6, y: y(10 ** p) + 4, "text-anchor": "end" }, whole(10 ** p));
  }
  for (let i = 0; i < n; i++) {
    const group = add(svg, "g");
    for (const [name, many] of [["bar-rows", d.rows[i]], ["bar-alerts", d.alerts[i]]]) {
      if (many) add(group, "rect", { class: name, x: x(i) + 0.5, width: x(1) - x(0) - 1, y: y(many), height: H - B - y(many) });
    }
    add(group, "title", {}, `score ${short(d.edges[i])} – ${short(d.edges[i + 1])}: ${count(d.rows[i], "row")}, ${count(d.alerts[i], "alert")}`);
  }
  for (let i = 0; i <= n; i += n / 4) {
    add(svg, "text", { x: x(i), y: H - 6, "text-anchor": i === 0 ? "start" : i >= n ? "end" : "middle" }, short(d.edges[i]));
  }
}

function shares() {
  const largest = Math.max(...data.shares.map((s) => s.share), 1e-9);
  say("shares-note", data.shares.length ? `Mean share of each feature in the ${count(data.alerts, "alert")}.` : noneOf("alerts"));
  at("shares").replaceChildren();
  for (const { name, share, first } of data.shares.slice(0, 12)) {
    addShare(at("shares"), name, share, largest).title = `${name}: the largest share in ${count(first, "alert")}`;
  }
}
