// Where an axis has its ticks, and what is written there.

function ticks(low, high, n) {
  const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
  const list = [];
  for (let t = Math.ceil(low / step) * step; t <= high * (1 + 1e-9); t += step) list.push(t);
  return list;
}

// The steps of an axis of time, from fine to coarse: `floor` gives the last round time up to a given one, `label` what is
// written of it, `day` whether the date goes below.
function timeSteps() {
  const list = [], step = (size, label, day = false, from = 0) => {
    const ms = Math.round(1000 * size); // whole numbers have no rounding errors
    list.push({ floor: (t) => Math.floor((Math.round(1000 * t) - 1000 * from) / ms) * ms / 1000 + from, label, day });
  };
  if (clock === "seconds") {
    const plain = (t) => t.toLocaleString("en-US", { maximumFractionDigits: 3 });
    for (let power = -3; power < 15; power++) for (const f of [1, 2, 5]) step(f * 10 ** power, plain);
    return list;
  }
  const part = (from, to) => (t) => iso(t).slice(from, to), day = 86400, monday = 4 * day;
  for (const size of [1, 2, 5, 10, 20, 50, 100, 200, 500]) step(size / 1000, part(11, MILLISECONDS), true);
  for (const size of [1, 2, 5, 10, 15, 30]) step(size, part(11, SECONDS), true);
  for (const size of [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720]) step(60 * size, part(11, MINUTES), true);
  for (const size of [1, 2, 4]) step(size * day, part(0, DAYS));
  for (const size of [7, 14]) step(size * day, part(0, DAYS), false, monday);
  for (const months of [1, 2, 3, 6, 12, 24, 60, 120]) {
    const floor = (t) => {
      const date = new Date(1000 * t), month = 12 * date.getUTCFullYear() + date.getUTCMonth(), first = month - month % months;
      return Date.UTC(Math.floor(first / 12), first % 12) / 1000;
    };
    list.push({ floor, label: part(0, months < 12 ? 7 : 4), day: false });
  }
  return list;
}

// Round times on an axis of rows. Between two rows the time is taken to pass evenly; a gap lies between two neighbours, so
// that one tick at most stands for all the time in it. Of the steps with at most n ticks, the one with most is taken.
function timeTicks(t, rows, n, room) {
  const knots = []; // [row, time]
  t.start.forEach((start, i) => {
    if (start === null) return;
    const first = i * t.width + 0.5, last = Math.min((i + 1) * t.width, rows) - 0.5;
    knots.push([first, start]);
    if (last > first) knots.push([last, t.end[i]]);
  });
  let best = [];
  for (const { floor, label, day } of timeSteps()) {
    const list = [];
    knots.forEach(([row, time], k) => {
      const [before, since] = k ? knots[k - 1] : [row, time], round = floor(time);
      if (round > since || (!k && round === time)) {
        const part = time > since ? (round - since) / (time - since) : 1;
        list.push({ row: before + (row - before) * part, time: round });
      }
    });
    if (list.length > n) continue;
    const labelled = list.map((tick) => ({ ...tick, label: label(tick.time), day: day ? iso(tick.time).slice(0, DAYS) : null }));
    const apart = spaced(labelled, room);
    if (apart.length >= best.length) best = apart;
  }
  if (best.length < 2 && knots.length) { // all at nearly the same time: at least the first and the last one
    const ends = knots.length > 1 && period.end > period.start ? [knots[0], knots.at(-1)] : [knots[0]];
    return ends.map(([row, time]) => ({ row, label: moment(time), day: null }));
  }
  return best.map((tick, k) => ({ ...tick, day: k && best[k - 1].day === tick.day ? null : tick.day }));
}

function spaced(list, room) {
  const kept = [];
  for (const tick of list) {
    const needed = room * Math.max(tick.label.length, tick.day ? DAYS : 0);
    if (!kept.length || tick.row - kept.at(-1).row >= needed) kept.push(tick);
  }
  return kept;
}
