// A table that is sorted by any column, filtered, searched and saved as CSV, with more to see of a row that is opened.

const PAGE = 25, MORE_ROWS = 200; // rows shown at first, and more at a click
const FEW = 5; // more rows than that need no click
const ON_PAPER = 30; // rows that are printed, as the style sheet has it
const tables = {};

// `rows` tells the rows, `key` what a row is known by, whatever is drawn anew. A column has a name, a value to sort by, and
// shows it as text, or adds more to its cell. `detail` fills the place below a row that was opened; `opens` is told which,
// or null; `text` is what a search looks at; `file` has the columns of the CSV.
function makeTable(id, { rows, key, link, columns, order, detail, opens, features, text, truth, answer, file }) {
  const table = at(id), body = table.querySelector("tbody"), head = table.querySelector("thead tr"), more = at(id + "-more");
  const filters = makeFilters(at(id + "-filters"), id, () => { shown = PAGE; fill(); });
  let shown = PAGE, opened = null, list = [], heads = [], sorted = order;
  more.addEventListener("click", () => { shown += MORE_ROWS; fill(); });
  filters.save.addEventListener("click", () => save(`${id}.csv`, asCsv(file(), list)));

  function drawHead() {
    if (columns().map((c) => c.name).join("\n") === heads.map((h) => h.name).join("\n")) return;
    head.replaceChildren();
    heads = columns().map(({ name, up, ...column }) => {
      const cell = add(head, "th", { scope: "col", class: classOf(column) });
      const button = add(cell, "button", { type: "button" }, name), arrow = add(button, "span", { class: "arrow", "aria-hidden": "true" });
      button.addEventListener("click", () => { sorted = { name, down: sorted.name === name ? !sorted.down : !up }; fill(); });
      return { name, cell, arrow };
    });
  }

  const classOf = (column) => [column.class, column.optional && "optional"].filter(Boolean).join(" ");
  const compare = (column, down) => (a, b) => {
    const u = column.value(a), v = column.value(b);
    const by = typeof u === "string" ? u.localeCompare(v, undefined, { numeric: true }) : u === v ? 0 : u < v ? -1 : 1;
    return (down ? -by : by) || a.row - b.row;
  };

  function wanted(row) {
    const { search, feature, truth: kind, answer: said } = filters.read();
    return (!search || text(row).toLowerCase().includes(search)) && (!feature || features(row).includes(feature))
      && (!kind || truth(row) === (kind === "anomaly")) && (!said || said === answerText(answer(row)));
  }

  function fill() {
    const all = rows(), used = columns(), column = used.find((c) => c.name === sorted.name) ?? used[0];
    list = all.filter(wanted).sort(compare(column, sorted.down));
    table.hidden = !all.length;
    filters.draw(all, features, Boolean(data.truth), list.length);
    for (const { name, cell, arrow } of heads) {
      arrow.textContent = name === column.name ? (sorted.down ? " ↓" : " ↑") : "";
      cell.setAttribute("aria-sort", name === column.name ? (sorted.down ? "descending" : "ascending") : "none");
    }
    const lines = document.createDocumentFragment();
    const limit = list.length - shown > FEW ? shown : list.length;
    for (const row of list.slice(0, limit)) addLine(lines, row, used);
    body.replaceChildren(lines);
    const printed = Math.min(limit, ON_PAPER);
    say(id + "-printed", printed < list.length ? `Printed are the first ${whole(printed)} of ${whole(list.length)}.` : "");
    more.hidden = limit === list.length;
    more.textContent = `Show more (${whole(list.length - limit)})`;
  }

  function addLine(parent, row, used) {
    const open = key(row) === opened, line = add(parent, "tr", { class: open ? "row open" : "row", id: "row-" + link(row) }); // not the link: the browser would go there itself
    used.forEach((column, k) => {
      const cell = add(line, "td", { class: classOf(column), "data-name": column.name });
      if (k === 0) addName(cell, row, column, open);
      else if (column.fill) column.fill(cell, row);
      else cell.textContent = column.show(row);
    });
    line.addEventListener("click", ({ detail: clicks }) => {
      if (clicks && !getSelection().isCollapsed) return; // some of its text was selected, to be copied
      inPlace(() => open ? close() : openRow(row));
    });
    if (open) detail(add(add(parent, "tr", { class: "detail" }), "td", { colspan: used.length }), row);
  }

  // A link, so that it can be kept or opened elsewhere; a click opens the row here.
  function addName(cell, row, column, open) {
    const text = column.show(row), name = `${column.name} ${text}`;
    add(cell, "a", { href: "#" + link(row), "aria-expanded": open, "aria-label": name }, text).addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey) event.stopPropagation();
      else event.preventDefault();
    });
  }

  function close() {
    opened = null;
    opens(null);
    fill();
  }

  function openRow(row) {
    opened = key(row);
    opens(row);
    fill();
  }

  return {
    draw() { drawHead(); fill(); },
    reveal(which) {
      const row = rows().find((one) => key(one) === which);
      if (!row) return;
      if (!wanted(row)) filters.clear();
      fill();
      while (list.indexOf(row) >= shown) shown += MORE_ROWS;
      openRow(row);
      const line = at("row-" + link(row));
      line.scrollIntoView({ block: "center" });
      line.querySelector("a").focus({ preventScroll: true });
    },
  };
}

// Search, and a choice of features, of truth and of answers.
function makeFilters(place, id, changed) {
  const choice = (label, texts) => {
    const select = add(place, "select", { "aria-label": label });
    for (const [value, text] of texts) add(select, "option", { value }, text);
    select.addEventListener("change", changed);
    return select;
  };
  const search = add(place, "input", { type: "search", placeholder: "Search", "aria-label": `Search ${id}`, autocomplete: "off" });
  search.addEventListener("input", changed);
  const feature = choice("Feature", [["", "All features"]]);
  const truth = choice("Truth", [["", "Any truth"], ["anomaly", "Anomaly"], ["normal", "Normal"]]);
  const answer = choice("Answer", [["", "Any answer"], ["none", "No answer"], ["real", "Real"], ["false alarm", "False alarm"]]);
  const found = add(place, "span", { class: "found", role: "status" });
  const saving = add(place, "button", { type: "button", class: "more save" }, "Download CSV");
  return {
    save: saving,
    read: () => ({ search: search.value.trim().toLowerCase(), feature: feature.value, truth: truth.value, answer: answer.value }),
    clear() { search.value = feature.value = truth.value = answer.value = ""; },
    draw(all, features, labelled, n) {
      place.hidden = !all.length;
      truth.hidden = !labelled;
      answer.hidden = !takesAnswers;
      const known = new Set([...feature.options].map((option) => option.value));
      for (const name of new Set(all.flatMap((row) => features(row).slice(0, 3)))) if (!known.has(name)) add(feature, "option", { value: name }, name);
      found.textContent = n < all.length ? `${whole(n)} of ${whole(all.length)}` : "";
    },
  };
}

const answerText = (said) => said === undefined ? "none" : said ? "real" : "false alarm";

// Text that a spreadsheet would take for a formula gets a quote before it.
const plainCell = (value) => value === null || value === undefined ? "" : typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
const quoted = (text) => /[",;|\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
const asLines = (lines) => lines.map((cells) => cells.map((cell) => quoted(String(cell))).join(",") + "\n").join("");
const asCsv = (file, rows) => asLines([file.map(([name]) => plainCell(name)), ...rows.map((row) => file.map(([, of]) => plainCell(of(row))))]);
const toBlame = (features) => features.filter((f, k) => k === 0 || f.share >= 0.1).slice(0, 3); // those worth a look
const topText = (features) => features.slice(0, 3).map(({ name, share }) => `${name} (${percent(share)})`).join("; ");

const nothingJudged = () => data.rows && data.burn_in >= data.rows
  ? `All ${count(data.rows, "row")} went into learning, which gives no alerts` : "";
const strongest = (kept, total) => kept < total ? `The ${whole(kept)} strongest of ${whole(total)}. ` : "";
