// The table of alerts.

function alertColumns() {
  const context = data.table.length ? Object.keys(data.table[0].context)[0] : undefined;
  return [
    { name: "Row", value: (a) => a.row, show: (a) => whole(a.row), class: "number" },
    ...(clock ? [{ name: "Time", value: (a) => a.time ?? -Infinity, show: (a) => moment(a.time), class: "when", up: true }] : []),
    ...(context === undefined ? [] : [{ name: context, value: (a) => a.context[context] ?? "", show: (a) => a.context[context] ?? "", class: "text", up: true }]),
    ...(data.incidents.total ? [{ name: "Incident", value: (a) => a.incident ?? -1, show: (a) => a.incident === null ? "–" : whole(a.incident), class: "number", up: true }] : []),
    { name: "Score", value: (a) => a.score, show: (a) => exact(a.score), class: "number" },
    { name: "× threshold", value: (a) => a.strength ?? Infinity, show: (a) => times(a.strength), class: "number", optional: true },
    ...(data.truth ? [{ name: "Truth", value: (a) => a.label ?? -1, show: (a) => ["normal", "anomaly"][a.label] ?? "–", class: "truth" }] : []),
    { name: "Due to", value: (a) => a.features[0]?.name ?? "", fill: addReasons, class: "top", up: true },
    ...(takesAnswers ? [answerColumn((a) => a, (a) => `Alert of row ${whole(a.row)}`)] : []),
  ];
}

const alertFile = () => [
  ["row", (a) => a.row], ...(clock ? [["time", (a) => exactTime(a.time)]] : []), ["where", (a) => a.where],
  ["score", (a) => a.score], ["threshold", (a) => a.threshold], ["p_value", (a) => a.p_value], ["incident", (a) => a.incident],
  ...(data.truth ? [["truth", (a) => ["normal", "anomaly"][a.label] ?? ""]] : []),
  ["answer", (a) => answers.has(a.row) ? answerText(answers.get(a.row)) : ""], ["top_features", (a) => topText(a.features)],
  ...[...new Set(data.table.flatMap((a) => Object.keys(a.context)))].map((name) => [name, (a) => a.context[name]]),
];

function alertTable() {
  tables.alerts ??= makeTable("alerts", {
    rows: () => data.table,
    key: (a) => a.row,
    link: (a) => `alert-${a.row}`,
    columns: alertColumns,
    order: { name: isLive ? "Row" : "× threshold", down: true },
    detail: alertDetail,
    opens: (a) => { mark("alert", a && a.row); setAddress(a ? `#alert-${a.row}` : ""); },
    features: (a) => a.features.slice(0, 3).map((f) => f.name),
    text: (a) => [a.row, moment(a.time), a.where, truthText(a.label), ...Object.values(a.context), ...a.features.map((f) => f.name)].join(" "),
    truth: (a) => a.label === null ? null : a.label === 1,
    answer: (a) => answers.get(a.row),
    file: alertFile,
  });
  tables.alerts.draw();
  const none = nothingJudged();
  say("alerts-note", !data.alerts ? noneOf("alerts") + (none ? ` ${none}.` : "")
    : strongest(data.table.length, data.alerts) + "Click one to see its values beside what was usual just before it." + (data.incidents.total ? "" : INVITATION));
}

function addReasons(cell, { features }) {
  for (const { name, value, share, usual } of toBlame(features)) {
    const first = share === features[0].share, chip = add(cell, "span", { class: "chip" }, first ? `${name} = ${short(value)} ` : name + " ");
    if (!first || usual) add(chip, "i", {}, first ? `usually ${short(usual[1])}` : percent(share));
    cell.append(" ");
  }
}

function alertDetail(cell, alert) {
  const facts = [alert.where, `p-value ${short(alert.p_value)}`, `score ${short(alert.score)} where ${short(alert.threshold)} was the threshold`];
  for (const [name, value] of Object.entries(alert.context)) facts.push(`${name}: ${value}`);
  add(cell, "p", { class: "facts" }, facts.join(" · "));
  for (const feature of alert.features) addFeature(cell, feature);
  const incident = data.incidents.kept.find((i) => i.number === alert.incident);
  if (incident) addLink(add(cell, "p", { class: "links" }), `Show incident ${whole(incident.number)}`, () => tables.incidents.reveal(incident.number));
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
