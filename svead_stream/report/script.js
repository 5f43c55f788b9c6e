// Draws the report, from top to bottom.

function figures() {
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
  figure(whole(Math.round(data.rows / data.seconds)), "rows a second");
}

document.title = `${data.title} – svead-stream`;
at("title").textContent = data.title;
at("subtitle").textContent = `${data.written} · ${count(data.rows, "row")} in ${data.seconds.toFixed(1)} s`
  + (clock ? ` · from ${moment(period.start)} to ${moment(period.end)}${clock === "dates" ? " UTC" : ""}` : "");
figures();
timeline();
distribution();
shares();
incidentTable();
alertTable();
startAnswers();
for (const [name, value] of Object.entries(data.settings)) {
  const pair = add(at("settings"), "div");
  add(pair, "dt", {}, name.replaceAll("_", " "));
  add(pair, "dd", {}, value === null ? "none" : String(value));
}
document.documentElement.dataset.ready = "true";
