// Numbers, times and durations as text.

const whole = (n) => n.toLocaleString("en-US");
const count = (n, one, many = one + "s") => `${whole(n)} ${n === 1 ? one : many}`;
const short = (v) => v === null || v === undefined ? "–"
  : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2)
  : v.toLocaleString("en-US", { maximumSignificantDigits: 4 });
const percent = (v) => (100 * v).toFixed(v < 0.0995 ? 1 : 0) + " %";
const times = (v) => v === null ? "–" : "× " + v.toLocaleString("en-US", { maximumSignificantDigits: 3 });

// Times are seconds; "dates" are those since 1970, in UTC, other seconds are counted from a moment that nobody knows.

const clock = data.timeline.clock;
const known = (clock ? data.timeline.start.concat(data.timeline.end) : []).filter((t) => t !== null);
const period = { start: known.reduce((a, b) => Math.min(a, b), Infinity), end: known.reduce((a, b) => Math.max(a, b), -Infinity) };

const iso = (t) => new Date(Math.round(1000 * t)).toISOString().replace("T", " ");
const DAYS = 10, MINUTES = 16, SECONDS = 19, MILLISECONDS = 23; // where the text of a time is cut off
const precision = known.every((t) => t % 86400 === 0) ? DAYS : known.every((t) => t % 60 === 0) ? MINUTES
  : period.end - period.start > 600 || known.every((t) => t % 1 === 0) ? SECONDS : MILLISECONDS;

function moment(t) {
  if (t === null || t === undefined) return "–";
  return clock === "dates" && Math.abs(t) < 8e12 // what a Date can hold
    ? iso(t).slice(0, precision) : t.toLocaleString("en-US", { maximumFractionDigits: 3 }) + " s";
}

// A time beside another one: a date that both have is not said again.
function momentBeside(t, other) {
  const [text, before] = [moment(t), moment(other)];
  return clock === "dates" && precision > DAYS && text.slice(0, DAYS) === before.slice(0, DAYS) ? text.slice(DAYS + 1) : text;
}

function lasting(seconds) {
  for (const [unit, size, smaller, part] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
    if (seconds < size) continue;
    const parts = Math.round(seconds / part), many = Math.floor(parts * part / size), rest = parts - many * size / part;
    return `${many} ${unit}` + (rest ? ` ${rest} ${smaller}` : "");
  }
  return Number(seconds.toPrecision(3)) + " s";
}
