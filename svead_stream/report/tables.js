// The tables of incidents and alerts: sorted by any column, with more to see of a row that is clicked.

const PAGE = 100; // rows shown at once
const tables = {};

// A table of `rows`. A column has a name, a value to sort by, and shows it as text, or adds more to its cell. `detail`
// fills the place below a row that was opened; `marked` is told which row is open, or null.
function makeTable(id, rows, columns, order, { detail, marked }) {
  const table = at(id), head = table.querySelector("thead tr"), body = table.querySelector("tbody"), more = at(id + "-more");
  let shown = PAGE, opened = null;
  const lines = new Map();
  table.hidden = !rows.length;
  for (const column of columns) {
    column.head = add(head, "th", { scope: "col", class: column.optional ? "optional" : "" });
    const button = add(column.head, "button", { type: "button" }, column.name);
    column.arrow = add(button, "span", { class: "arrow" });
    button.addEventListener("click", () => {
      order = { column, down: order.column === column ? !order.down : !column.up };
      fill();
    });
  }
  more.addEventListener("click", () => { shown += 5 * PAGE; fill(); });

  function fill() {
    const { column, down } = order;
    rows.sort((a, b) => {
      const u = column.value(a), v = column.value(b);
      const by = typeof u === "string" ? u.localeCompare(v, undefined, { numeric: true }) : u === v ? 0 : u < v ? -1 : 1;
      return (down ? -by : by) || a.row - b.row;
    });
    for (const c of columns) {
      c.arrow.textContent = c === column ? (down ? " ↓" : " ↑") : "";
      c.head.setAttribute("aria-sort", c === column ? (down ? "descending" : "ascending") : "none");
    }
    body.replaceChildren();
    lines.clear();
    for (const row of rows.slice(0, shown)) addLine(row);
    more.hidden = shown >= rows.length;
    more.textContent = `Show more (${whole(Math.max(rows.length - shown, 0))})`;
  }

  function addLine(row) {
    const line = add(body, "tr", { class: "row", tabindex: 0 });
    lines.set(row, line);
    for (const column of columns) {
      const names = [column.class, column.optional && "optional"].filter(Boolean).join(" ");
      const cell = add(line, "td", { class: names, "data-name": column.name });
      if (column.fill) column.fill(cell, row);
      else cell.textContent = column.show(row);
    }
    const toggle = () => opened === row ? close() : open(row);
    line.addEventListener("click", toggle);
    line.addEventListener("keydown", (event) => {
      if (event.target === line && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); toggle(); }
    });
    if (opened === row) open(row);
  }

  function close() {
    body.querySelectorAll(".detail").forEach((element) => element.remove());
    body.querySelectorAll(".open").forEach((element) => element.classList.remove("open"));
    opened = null;
    marked(null);
  }

  function open(row) {
    close();
    opened = row;
    marked(row);
    const line = lines.get(row), below = document.createElement("tr");
    line.classList.add("open");
    below.className = "detail";
    line.after(below);
    detail(add(below, "td", { colspan: columns.length }), row);
  }

  fill();
  return {
    reveal(row) {
      while (rows.indexOf(row) >= shown) shown += PAGE;
      opened = row;
      fill();
      lines.get(row).scrollIntoView({ block: "center" });
      lines.get(row).focus({ preventScroll: true });
    },
  };
}

function addLink(parent, text, follow) {
  add(parent, "button", { type: "button", class: "link" }, text).addEventListener("click", follow);
}

const nothingJudged = () => data.rows && data.burn_in >= data.rows
  ? `All ${count(data.rows, "row")} went into learning, which gives no alerts` : "";
const strongest = (kept, total) => kept < total ? `The ${whole(kept)} strongest of ${whole(total)}. ` : "";

// incidents

const when = (time, row) => clock && time !== null ? moment(time) : `row ${whole(row)}`;
const began = (i) => i.row < 1 && !(clock && i.start !== null) ? "before this run" : when(i.start, i.row);
const ended = (i) => i.open ? "open" : clock && i.end !== null ? momentBeside(i.end, i.start) : `row ${whole(i.last)}`;
const length = (i) => i.last - i.row + 1;
const lasted = (i) => (!clock ? whole(length(i)) : i.end > i.start ? lasting(i.end - i.start) : count(length(i), "row")) + (i.open ? " so far" : "");
const describeIncident = (i) => `Incident ${whole(i.number)}: from ${began(i)} ${i.open ? "on, still open" : "to " + when(i.end, i.last)}, `
  + `${count(i.alerts, "alert")}, peak ${short(i.peak)}`;

function incidentTable() {
  const { total, open, true: hits, kept } = data.incidents;
  const columns = [
    { name: "Incident", value: (i) => i.number, show: (i) => whole(i.number), up: true },
    { name: "Start", value: (i) => i.row, show: began, class: "when", up: true },
    { name: "End", value: (i) => i.open ? Infinity : i.last, show: ended, class: "when", up: true },
    { name: clock ? "Duration" : "Rows", value: (i) => clock && i.end !== null ? i.end - i.start : length(i), show: lasted, class: "when" },
    { name: "Alerts", value: (i) => i.alerts, show: (i) => whole(i.alerts) },
    { name: "Peak", value: (i) => i.peak, show: (i) => short(i.peak) },
  ];
  if (data.truth) columns.push({ name: "Truth", value: (i) => Number(i.truth ?? -1), show: (i) => i.truth === null ? "–" : i.truth ? "anomaly" : "normal", class: "truth" });
  columns.push({ name: "Due to", value: (i) => i.features[0]?.name ?? "", fill: addBlamed, class: "top", up: true });
  columns.push(answerColumn(strongestAlert, (i) => `Incident ${whole(i.number)}`));
  tables.incidents = makeTable("incidents", kept, columns, { column: columns[1], down: false }, {
    detail: incidentDetail,
    marked: (row) => spans.forEach(({ group, incident }) => group.classList.toggle("here", incident === row)),
  });
  const none = nothingJudged() || (data.alerts && "None of the alerts was rare enough to open one");
  at("incidents-note").textContent = !total ? "There were none." + (none ? ` ${none}.` : "")
    : strongest(kept.length, total) + (open ? `${whole(open)} still open at the end. ` : "")
      + (data.truth ? `${whole(hits)} of ${whole(total)} with a labelled anomaly. ` : "") + "Click one to see more of it." + INVITATION;
}

function addBlamed(cell, incident) {
  for (const { name, share } of incident.features.slice(0, 3)) {
    const chip = add(cell, "span", { class: "chip" }, name + " ");
    add(chip, "i", {}, percent(share));
    cell.append(" ");
  }
}

function incidentDetail(cell, incident) {
  const rows = incident.row < 1 ? "began before this run"
    : length(incident) === 1 ? `row ${whole(incident.row)}` : `rows ${whole(incident.row)} – ${whole(incident.last)}`;
  add(cell, "p", { class: "facts" }, [incident.where, rows, `smallest p-value ${short(incident.p_value)}`].join(" · "));
  for (const { name, share } of incident.features) addShare(cell, name, share, incident.features[0].share);
  const first = data.table.filter((a) => a.incident === incident.number).sort((a, b) => a.row - b.row)[0];
  if (first) addLink(cell, first.row === incident.row ? "Show its first alert" : `Show its alert of row ${whole(first.row)}`, () => tables.alerts.reveal(first));
}

// alerts

function alertTable() {
  const columns = [{ name: "Row", value: (a) => a.row, show: (a) => whole(a.row) }];
  if (clock) columns.push({ name: "Time", value: (a) => a.time ?? -Infinity, show: (a) => moment(a.time), class: "when", up: true });
  const context = data.table.length ? Object.keys(data.table[0].context)[0] : undefined;
  if (context !== undefined) {
    columns.push({ name: context, value: (a) => a.context[context] ?? "", show: (a) => a.context[context] ?? "", class: "text", up: true });
  }
  if (data.incidents.total) {
    columns.push({ name: "Incident", value: (a) => a.incident ?? -1, show: (a) => a.incident === null ? "–" : whole(a.incident), up: true });
  }
  const strength = { name: "× threshold", value: (a) => a.strength ?? Infinity, show: (a) => times(a.strength), optional: true };
  columns.push({ name: "Score", value: (a) => a.score, show: (a) => short(a.score) }, strength);
  if (data.truth) {
    columns.push({ name: "Truth", value: (a) => a.label ?? -1, show: (a) => ["normal", "anomaly"][a.label] ?? "–", class: "truth" });
  }
  columns.push({ name: "Due to", value: (a) => a.features[0]?.name ?? "", fill: addReasons, class: "top", up: true });
  columns.push(answerColumn((a) => a, (a) => `Alert of row ${whole(a.row)}`));
  tables.alerts = makeTable("alerts", data.table, columns, { column: strength, down: true }, {
    detail: alertDetail,
    marked: (row) => marks.forEach(({ mark, alert }) => mark.classList.toggle("here", row !== null && alert === row)),
  });
  const none = nothingJudged();
  at("alerts-note").textContent = !data.alerts ? "There were none." + (none ? ` ${none}.` : "")
    : strongest(data.table.length, data.alerts) + "Click one to see its values beside what was usual just before it." + (data.incidents.total ? "" : INVITATION);
}

function addReasons(cell, alert) {
  for (const feature of alert.features.slice(0, 3)) {
    const chip = add(cell, "span", { class: "chip" }, `${feature.name} = ${short(feature.value)} `);
    if (feature.usual) add(chip, "i", {}, `usually ${short(feature.usual[1])}`);
    cell.append(" ");
  }
}

function alertDetail(cell, alert) {
  const facts = [alert.where, `p-value ${short(alert.p_value)}`, `score ${short(alert.score)} where ${short(alert.threshold)} was the threshold`];
  for (const [name, value] of Object.entries(alert.context)) facts.push(`${name}: ${value}`);
  add(cell, "p", { class: "facts" }, facts.join(" · "));
  for (const feature of alert.features) addFeature(cell, feature);
  const incident = data.incidents.kept.find((i) => i.number === alert.incident);
  if (incident) addLink(cell, `Show incident ${whole(incident.number)}`, () => tables.incidents.reveal(incident));
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
