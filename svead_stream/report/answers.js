// What a person says of alerts: real, or a false alarm. Kept with the page, and written to a file for --feedback.

const answers = new Map(); // by the row of the alert: true if it was real
const takesAnswers = data.answers !== false; // there is something that can be done with them
const INVITATION = takesAnswers ? " Say which were real: later runs learn from it." : "";

const strength = (alert) => alert.strength ?? Infinity;
const strongestAlerts = new Map();

function readAnswers() {
  strongestAlerts.clear();
  for (const alert of data.table) {
    const other = strongestAlerts.get(alert.incident);
    if (!other || strength(alert) > strength(other)) strongestAlerts.set(alert.incident, alert);
  }
}

const strongestAlert = (incident) => strongestAlerts.get(incident.number);

// The column of a table in which a row has two buttons: `alertOf` tells which alert they are about, if any.
function answerColumn(alertOf, name) {
  return {
    name: "Answer",
    class: "said",
    value: (row) => Number(answers.get(alertOf(row)?.row) ?? -1),
    fill: (cell, row) => {
      const alert = alertOf(row);
      if (alert) addAnswer(cell, alert, name(row));
      else cell.textContent = "–";
    },
  };
}

function addAnswer(cell, alert, name) {
  const group = add(cell, "div", { class: "answer" });
  for (const [real, text] of [[true, "real"], [false, "false alarm"]]) {
    const button = add(group, "button", { type: "button", class: real ? "real" : "false", "data-row": alert.row, "aria-label": `${name}: ${text}` }, text);
    showPressed(button);
    button.addEventListener("click", (event) => {
      event.stopPropagation(); // the row below would open
      if (answers.get(alert.row) === real) answers.delete(alert.row);
      else answers.set(alert.row, real);
      keepAnswers();
      showAnswers();
    });
  }
}

function showPressed(button) {
  button.setAttribute("aria-pressed", answers.get(Number(button.dataset.row)) === (button.className === "real"));
}

function showAnswers() {
  document.querySelectorAll(".answer button").forEach(showPressed); // an incident and its alert have the same answer
  at("answers").hidden = !answers.size;
  at("answers-count").textContent = count(answers.size, "answer");
}

// Answers outlive a reload, where the browser allows it to a file. All files may share the place: the data are the key,
// unless they bring one of their own, because they will change.

const keptUnder = `svead-stream answers ${data.key ?? `${data.written} ${hashed(at("data").textContent)}`}`;

function hashed(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash;
}

function keepAnswers() {
  try {
    if (answers.size) localStorage.setItem(keptUnder, JSON.stringify([...answers]));
    else localStorage.removeItem(keptUnder);
  } catch { /* they last as long as the page */ }
}

function startAnswers() {
  try {
    const rows = new Set(data.table.map((alert) => alert.row));
    for (const [row, real] of JSON.parse(localStorage.getItem(keptUnder)) ?? []) {
      if (rows.has(row) && typeof real === "boolean") answers.set(row, real);
    }
  } catch { /* there are none, or none that can be read */ }
  at("answers-download").addEventListener("click", () => save("answers.csv", answersCsv()));
  showAnswers();
}

// The file

const PREFIX = "feature:"; // before a feature whose name would be taken for another column, as the command line has it
const columnOf = (name) => ["", "row", "time", "is_anomaly"].includes(name.trim()) || name.startsWith(PREFIX) ? PREFIX + name : name;

// To all digits, so that it is found again: a Date ends with milliseconds.
function exactTime(t) {
  if (t === null) return "";
  if (clock !== "dates" || Math.abs(t) > 8e12) return String(t);
  const second = Math.floor(t), rest = (t - second).toFixed(9).replace(/\.?0+$/, "").slice(1);
  return new Date(1000 * second).toISOString().slice(0, -5) + rest + "Z";
}

function answersCsv() {
  const alerts = data.table.filter((alert) => answers.has(alert.row)).sort((a, b) => a.row - b.row);
  const used = data.columns.map((name, i) => i).filter((i) => alerts.some((alert) => i in alert.values));
  const head = ["row", ...(clock ? ["time"] : []), "is_anomaly", ...used.map((i) => columnOf(data.columns[i]))];
  const lines = alerts.map((alert) => [
    alert.row, ...(clock ? [exactTime(alert.time)] : []), Number(answers.get(alert.row)), ...used.map((i) => alert.values[i] ?? ""),
  ]);
  return asLines([head, ...lines]);
}
