// The axis that all charts share: time where there is a clock that goes forward, else the numbers of rows.

let axis; // its ends, whether it is one of time, and how long a pause is a gap

function readAxis() {
  const { pause, goes_back: back } = data.timeline;
  axis = clock && !back && period.end > period.start
    ? { timed: true, min: period.start, max: period.end, gap: longPause(pause) }
    : { timed: false, min: 1, max: Math.max(data.rows, 2), gap: Infinity };
}

// Rows that come at random have pauses of several times the mean, which are no gaps.
function longPause(pauses) {
  const known = pauses.filter((p) => p > 0).sort((a, b) => a - b);
  return known.length ? 5 * known[Math.floor(0.8 * (known.length - 1))] : Infinity;
}

// Where a row stands, counted from 1; between the first and the last of its bin, time is taken to pass evenly.
function placeOf(row) {
  if (!axis.timed) return row;
  const t = data.timeline, last = t.start.length - 1, bin = Math.min(Math.max(Math.floor((row - 1) / t.width), 0), last);
  if (t.start[bin] === null) return axis.min;
  const part = Math.min(Math.max((row - 1 - bin * t.width) / Math.max(t.width - 1, 1), 0), 1);
  return t.start[bin] + (t.end[bin] - t.start[bin]) * part;
}

const onAxis = (t) => axis.timed && t !== null && t <= axis.max; // what is later comes from a clock that was wrong
const placeOfIncident = (i) => onAxis(i.start) && onAxis(i.end) ? [i.start, i.end] : [placeOf(i.row), placeOf(i.last)];
const placeOfAlert = (a) => onAxis(a.time) ? a.time : placeOf(a.row);

// The first and the last time of a bin of so many rows, and the longest pause before one of them.
function timesOf(width, bin) {
  const t = data.timeline, many = width / t.width, of = (list) => list.slice(bin * many, (bin + 1) * many);
  return { start: of(t.start).find((s) => s !== null), end: of(t.end).findLast((e) => e !== null), pause: most(of(t.pause)) ?? 0 };
}

// Bins of so many rows as points of a chart: where they stand, and which bins they are; -1 breaks the line in a gap.
function pointsOf(width) {
  const xs = [], bins = [];
  const put = (x, bin) => { xs.push(x); bins.push(bin); };
  let before = null;
  for (let bin = 0; bin * width < data.rows; bin++) {
    if (!axis.timed) {
      put((bin * width + 1 + Math.min((bin + 1) * width, data.rows)) / 2, bin);
      continue;
    }
    const { start, end, pause } = timesOf(width, bin);
    if (start === undefined) continue; // no time is known
    const gap = pause > axis.gap, within = gap && (before === null || start - before < 0.999 * pause);
    if (gap && !within) put((before + start) / 2, -1);
    if (within && end > start) {
      put(start, bin);
      put((start + end) / 2, -1);
      put(end, bin);
    } else {
      put((start + end) / 2, bin);
    }
    before = end;
  }
  return { xs, bins };
}

const textOf = (x, digits) => axis.timed ? moment(x, digits) : `row ${whole(Math.round(x))}`;

// A stretch of the axis in words.
function stretch(min, max) {
  if (!axis.timed) return `rows ${whole(Math.round(min))} – ${whole(Math.round(max))}`;
  const digits = Math.min(precision, max - min > 4 * 86400 ? MINUTES : MILLISECONDS);
  return `${moment(min, digits)} – ${momentBeside(max, min, digits)}${clock === "dates" ? " UTC" : ""}`;
}

// Ticks

function numberTicks(min, max, most) {
  const rough = (max - min) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const list = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max * (1 + 1e-12); i++) list.push(i * step + 0); // not minus zero
  return list;
}

const DAY = 86400, MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const monthOf = (t) => MONTHS[new Date(1000 * t).getUTCMonth()];
const dayOf = (t) => `${monthOf(t)} ${new Date(1000 * t).getUTCDate()}`;
const yearOf = (t) => iso(t).slice(0, 4);

// Steps from fine to coarse: how long, the text of a tick, and the text below it that is said where it changes.
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((ms) => ({ size: ms / 1000, text: (t) => iso(t).slice(14, MILLISECONDS), below: (t) => iso(t).slice(11, MINUTES) })),
  ...[1, 2, 5, 10, 15, 30].map((s) => ({ size: s, text: (t) => iso(t).slice(11, SECONDS), below: dayOf })),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((m) => ({ size: 60 * m, text: (t) => iso(t).slice(11, MINUTES), below: dayOf })),
  ...[1, 2, 4].map((d) => ({ size: d * DAY, text: dayOf, below: yearOf })),
  ...[7, 14].map((d) => ({ size: d * DAY, text: dayOf, below: yearOf, from: 4 * DAY })), // Mondays
  ...[1, 2, 3, 6].map((m) => ({ months: m, size: m * 30.4 * DAY, text: monthOf, below: yearOf })),
  ...[1, 2, 5, 10, 20, 50, 100].map((y) => ({ months: 12 * y, size: y * 365.25 * DAY, text: yearOf, below: () => "" })),
];

function timeTicks(min, max, most) {
  const step = STEPS.find(({ size }) => (max - min) / size <= most) ?? STEPS.at(-1), list = [];
  if (step.months) {
    const first = new Date(1000 * min), month = 12 * first.getUTCFullYear() + first.getUTCMonth();
    for (let m = month - month % step.months; ; m += step.months) {
      const t = Date.UTC(Math.floor(m / 12), m % 12) / 1000;
      if (t > max) break;
      if (t >= min) list.push(t);
    }
  } else {
    const ms = Math.round(1000 * step.size), from = 1000 * (step.from ?? 0); // whole numbers have no rounding errors
    for (let t = Math.ceil((1000 * min - from) / ms) * ms + from; t <= 1000 * max; t += ms) list.push(t / 1000);
  }
  return { list, step };
}

const ticksBetween = (min, max, most) => axis.timed && clock === "dates" ? timeTicks(min, max, most).list : numberTicks(min, max, most);

function textsOfTicks(list, min, max, most) {
  if (!axis.timed) return list.map((row) => row % 1 ? "" : whole(row));
  if (clock !== "dates") return tickTexts(list).map((text, k) => k ? text : text + "\ns");
  const { step } = timeTicks(min, max, most);
  return list.map((t, k) => step.text(t) + (k && step.below(t) === step.below(list[k - 1]) ? "" : "\n" + step.below(t)));
}
