// Numbers, times and durations as text.

const whole = (n) => n.toLocaleString("en-US");
const noneOf = (what) => isLive ? `There are no ${what} yet.` : `There were no ${what}.`;
const count = (n, one, many = one + "s") => `${whole(n)} ${n === 1 ? one : many}`;
const short = (v) => v === null || v === undefined ? "–"
  : Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2)
  : v.toLocaleString("en-US", { maximumSignificantDigits: Math.abs(v) >= 1e4 ? 6 : 4 });
const exact = (v) => Math.abs(v) >= 1e5 ? v.toExponential(2) : v.toLocaleString("en-US", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
const percent = (v) => (100 * v).toFixed(v < 0.0995 && v > 0 ? 1 : 0) + " %";
const times = (v) => v === null ? "–" : "× " + exact(v);

// Numbers beside an axis: all with as many digits as they need to differ.
function tickTexts(list) {
  const step = list.length > 1 ? Math.abs(list[1] - list[0]) : Math.abs(list[0] ?? 1) || 1;
  const top = Math.max(...list.map(Math.abs), 0), power = Math.floor(Math.log10(step) + 1e-9);
  const size = Math.abs((step / 10 ** power) % 1 - 0.5) < 0.01 ? power - 1 : power, places = Math.max(0, -size); // 2.5 has one more
  if (top >= 1e6 || places > 4) {
    const first = Math.floor(Math.log10(top || 1)), parts = Math.max(0, Math.min(first - size, 5));
    return list.map((v) => v === 0 ? "0" : `${(v / 10 ** first).toFixed(parts)}e${first}`);
  }
  return list.map((v) => v.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }));
}

// Times are seconds; "dates" are those since 1970, in UTC, other seconds are counted from a moment that nobody knows.

const DAYS = 10, MINUTES = 16, SECONDS = 19, MILLISECONDS = 23; // where the text of a time is cut off
let clock, period, precision;

function readClock() {
  clock = data.timeline.clock;
  const known = (clock ? data.timeline.start.concat(data.timeline.end) : []).filter((t) => t !== null);
  period = { start: known.reduce((a, b) => Math.min(a, b), Infinity), end: known.reduce((a, b) => Math.max(a, b), -Infinity) };
  precision = known.every((t) => t % 86400 === 0) ? DAYS : known.every((t) => t % 60 === 0) ? MINUTES
    : period.end - period.start > 600 || known.every((t) => t % 1 === 0) ? SECONDS : MILLISECONDS;
}

const iso = (t) => new Date(Math.round(1000 * t)).toISOString().replace("T", " ");

function moment(t, digits = precision) {
  if (t === null || t === undefined) return "–";
  return clock === "dates" && Math.abs(t) < 8e12 // what a Date can hold
    ? iso(t).slice(0, digits) : t.toLocaleString("en-US", { maximumFractionDigits: 3 }) + " s";
}

// A time beside another one: a date that both have is not said again.
function momentBeside(t, other, digits = precision) {
  const [text, before] = [moment(t, digits), moment(other, digits)];
  return clock === "dates" && digits > DAYS && text.slice(0, DAYS) === before.slice(0, DAYS) ? text.slice(DAYS + 1) : text;
}

function lasting(seconds) {
  for (const [unit, size, smaller, part] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
    if (seconds < size) continue;
    const parts = Math.round(seconds / part), many = Math.floor(parts * part / size), rest = parts - many * size / part;
    return `${many} ${unit}` + (rest ? ` ${rest} ${smaller}` : "");
  }
  return Number(seconds.toPrecision(3)) + " s";
}
