// The table of incidents.

const when = (time, row) => clock && time !== null ? moment(time) : `row ${whole(row)}`;
const began = (i) => i.row < 1 && !(clock && i.start !== null) ? "before this run" : when(i.start, i.row);
const ended = (i) => i.open ? "open" : clock && i.end !== null ? momentBeside(i.end, i.start) : `row ${whole(i.last)}`;
const length = (i) => i.last - i.row + 1;
const lasted = (i) => (!clock ? whole(length(i)) : i.end > i.start ? lasting(i.end - i.start) : count(length(i), "row")) + (i.open ? " so far" : "");
const truthText = (truth) => truth === null ? "–" : truth ? "anomaly" : "normal";

function incidentColumns() {
  return [
    { name: "Incident", value: (i) => i.number, show: (i) => whole(i.number), class: "number", up: true },
    { name: "Start", value: (i) => i.row, show: began, class: "when", up: true },
    { name: "End", value: (i) => i.open ? Infinity : i.last, show: ended, class: "when", up: true },
    { name: clock ? "Duration" : "Rows", value: (i) => clock && i.end !== null ? i.end - i.start : length(i), show: lasted, class: "when number" },
    { name: "Alerts", value: (i) => i.alerts, show: (i) => whole(i.alerts), class: "number" },
    { name: "Peak", value: (i) => i.peak, show: (i) => exact(i.peak), class: "number" },
    ...(data.truth ? [{ name: "Truth", value: (i) => Number(i.truth ?? -1), show: (i) => truthText(i.truth), class: "truth" }] : []),
    { name: "Due to", value: (i) => i.features[0]?.name ?? "", fill: addBlamed, class: "top", up: true },
    ...(takesAnswers ? [answerColumn(strongestAlert, (i) => `Incident ${whole(i.number)}`)] : []),
  ];
}

const incidentFile = () => [
  ["incident", (i) => i.number], ["state", (i) => i.open ? "open" : "closed"],
  ...(clock ? [["start", (i) => exactTime(i.start)], ["end", (i) => exactTime(i.end)]] : []),
  ["first_row", (i) => i.row], ["last_row", (i) => i.last], ["where", (i) => i.where], ["alerts", (i) => i.alerts],
  ["peak", (i) => i.peak], ["p_value", (i) => i.p_value],
  ...(data.truth ? [["truth", (i) => i.truth === null ? "" : truthText(i.truth)]] : []),
  ["answer", (i) => answers.has(strongestAlert(i)?.row) ? answerText(answers.get(strongestAlert(i).row)) : ""],
  ["top_features", (i) => topText(i.features)],
];

function incidentTable() {
  const { total, open, true: hits, kept } = data.incidents;
  tables.incidents ??= makeTable("incidents", {
    rows: () => data.incidents.kept,
    key: (i) => i.number,
    link: (i) => `incident-${i.number}`,
    columns: incidentColumns,
    order: { name: "Start", down: isLive },
    detail: incidentDetail,
    opens: (i) => {
      mark("incident", i && i.number);
      if (i) showIncident(i);
      setAddress(i ? `#incident-${i.number}` : "");
    },
    features: (i) => i.features.map((f) => f.name),
    text: (i) => [i.number, began(i), ended(i), i.where, truthText(i.truth), ...i.features.map((f) => f.name)].join(" "),
    truth: (i) => i.truth,
    answer: (i) => answers.get(strongestAlert(i)?.row),
    file: incidentFile,
  });
  tables.incidents.draw();
  const none = nothingJudged() || (data.alerts && "None of the alerts was rare enough to open one");
  say("incidents-note", !total ? noneOf("incidents") + (none ? ` ${none}.` : "")
    : strongest(kept.length, total) + (open ? `${whole(open)} still open${isLive ? "" : " at the end"}. ` : "")
      + (data.truth ? `${whole(hits)} of ${whole(total)} with a labelled anomaly. ` : "") + "Click one to see more of it, here and in the charts." + INVITATION);
}

function addBlamed(cell, incident) {
  for (const { name, share } of toBlame(incident.features)) {
    const chip = add(cell, "span", { class: "chip" }, name + " ");
    add(chip, "i", {}, percent(share));
    cell.append(" ");
  }
}

function incidentDetail(cell, incident) {
  const rows = incident.row < 1 ? "began before this run"
    : length(incident) === 1 ? `row ${whole(incident.row)}` : `rows ${whole(incident.row)} – ${whole(incident.last)}`;
  add(cell, "p", { class: "facts" }, [incident.where, rows, `smallest p-value ${short(incident.p_value)}`].join(" · "));
  addCloseUps(cell, incident);
  for (const { name, share } of incident.features) addShare(cell, name, share, incident.features[0].share);
  const links = add(cell, "p", { class: "links" });
  addLink(links, "Show in the charts", () => at("course").scrollIntoView());
  const first = data.table.filter((a) => a.incident === incident.number).sort((a, b) => a.row - b.row)[0];
  if (first) addLink(links, first.row === incident.row ? "Show its first alert" : `Show its alert of row ${whole(first.row)}`, () => tables.alerts.reveal(first.row));
}
