// Draws the report, from top to bottom, and again when there are newer data.

function figures() {
  at("figures").replaceChildren();
  const figure = (value, name, hot) => {
    const box = add(at("figures"), "div", { class: hot ? "figure hot" : "figure" });
    add(box, "b", {}, value);
    add(box, "span", {}, name);
  };
  const { total, open } = data.incidents, judged = data.rows - data.burn_in, later = data.burn_in ? " after learning" : "";
  figure(whole(total), (total === 1 ? "incident" : "incidents") + (open ? `, ${whole(open)} still open` : ""), total > 0);
  figure(whole(data.alerts), (data.alerts === 1 ? "alert" : "alerts") + (judged > 0 ? ` (${percent(data.alerts / judged)}${later})` : ""));
  figure(whole(data.rows), (data.rows === 1 ? "row" : "rows") + (data.burn_in ? `, ${whole(data.burn_in)} for learning` : ""));
  if (data.measured) {
    figure(data.measured.roc_auc.toFixed(3), "ROC AUC");
    figure(data.measured.average_precision.toFixed(3), "average precision");
  }
  if (data.truth) figure(whole(data.truth.found) + " of " + whole(data.truth.anomalies), "anomalies found" + later);
  if (data.rejected) figure(whole(data.rejected), "rows rejected", true);
}

// The run in a sentence.
function summary() {
  if (!data.rows) return noneOf("rows");
  const { total, kept } = data.incidents, strong = [...kept].sort((a, b) => b.peak - a.peak)[0];
  const span = clock ? ` from ${moment(period.start)} to ${moment(period.end)}${clock === "dates" ? " UTC" : ""}` : "";
  const found = total || data.alerts ? `${count(total, "incident")} and ${count(data.alerts, "alert")}` : "No alerts";
  const why = strong?.features.length ? `, mostly due to ${strong.features[0].name}` : "";
  return `${found} in ${count(data.rows, "row")}${span}.`
    + (strong ? ` The strongest was incident ${whole(strong.number)}, ${strong.row < 1 ? began(strong) : (clock && strong.start !== null ? "at " : "") + began(strong)}${why}.` : "");
}

function courseNote() {
  const { burn_in: learned, incidents } = data, featureRows = data.features.width, notes = [];
  if (data.rows) notes.push(pointRows === 1 ? "One point a row." : `Each point stands for ${whole(pointRows)} rows: lowest, mean and highest.`);
  if (data.rows && featureRows > pointRows) notes.push(`Of the features, each stands for ${whole(featureRows)} rows.`);
  if (learned) notes.push(learned < data.rows ? `Learning: the first ${count(learned, "row")}, no alerts.` : nothingJudged() + ".");
  if (clock && !axis.timed) notes.push(data.timeline.goes_back ? "The times go back, so the axis has the numbers of rows." : "All rows have the same time.");
  if (incidents.kept.length < incidents.total) notes.push(`Of the incidents, the ${whole(incidents.kept.length)} strongest are marked.`);
  say("course-note", notes.join(" ") || noneOf("rows"));
  at("key-range").hidden = Math.max(pointRows, featureRows) === 1;
  at("key-threshold").hidden = data.timeline.threshold.every((t) => t === null);
  at("key-alerts").hidden = !data.alerts;
  at("key-incidents").hidden = !incidents.kept.length;
  at("key-learning").hidden = !learned;
  at("key-missing").hidden = !data.features.kept.some((f) => f.missing);
}

function settings() {
  at("settings").replaceChildren();
  for (const [name, value] of Object.entries(data.settings)) {
    const pair = add(at("settings"), "div");
    add(pair, "dt", {}, name.replaceAll("_", " "));
    add(pair, "dd", {}, value === null ? "none" : String(value));
  }
  at("made").replaceChildren();
  for (const [name, value] of Object.entries(data.made ?? {})) {
    const pair = add(at("made"), "div");
    add(pair, "dt", {}, name);
    add(pair, "dd", {}, String(value));
  }
}

// Everything on the page, from the given data. May be called again with newer ones: the part of the axis that is seen,
// opened rows, filters, sorting, answers, focus and scrolling stay as they are.
function show(newer) {
  const followed = !axis || seesAll();
  data = newer;
  readClock();
  readAxis();
  readPalette();
  readAnswers();
  view = followed ? { min: axis.min, max: axis.max } : view;
  inPlace(() => {
    document.title = `${data.title} – svead-stream`;
    say("title", data.title);
    say("summary", summary());
    figures();
    at("charts").hidden = at("charts-legend").hidden = !data.rows;
    if (data.rows) {
      drawCharts();
      fillBrush();
      drawView();
    } else {
      courseNote();
    }
    incidentTable();
    alertTable();
    distribution();
    shares();
    drift();
    showAnswers();
    settings();
    say("written", `Written ${data.written} by svead-stream ${data.settings.version ?? ""}: ${count(data.rows, "row")} in ${lasting(data.seconds)}, ${whole(Math.round(data.rows / data.seconds))} rows a second.`);
  });
}

function redraw() {
  readPalette();
  for (const plot of [...charts.map((chart) => chart.plot), strip].filter(Boolean)) plot.redraw(false, true);
}

function resize(width = chartWidth()) {
  if (width < 50 || !charts.length || width === charts[0].plot.width) return;
  for (const { plot } of charts) plot.setSize({ width, height: plot.height });
  strip?.setSize({ width, height: strip.height });
  drawView();
}

// Paper is white and of its own width.
const PAPER = 690;
const onPaper = (printing) => { document.documentElement.classList.toggle("printing", printing); resize(printing ? PAPER : chartWidth()); redraw(); };

show(data);
startGestures();
startAnswers();
at("drift-more").addEventListener("click", () => { allMoves = true; drift(); });
window.addEventListener("hashchange", followAddress);
new ResizeObserver(() => resize()).observe(at("charts"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
window.addEventListener("beforeprint", () => onPaper(true));
window.addEventListener("afterprint", () => onPaper(false));
followAddress();
document.documentElement.dataset.ready = "true";
