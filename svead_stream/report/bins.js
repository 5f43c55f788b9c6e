// Bins for drawing: joined to wider ones, so that there are not more of them than a screen can show.

const least = (some) => some.reduce((a, b) => a === null || (b !== null && b < a) ? b : a, null);
const most = (some) => some.reduce((a, b) => a === null || (b !== null && b > a) ? b : a, null);
const sum = (some) => some.reduce((a, b) => a + b, 0);

const joined = (values, many, join) => many === 1 ? values
  : Array.from({ length: Math.ceil(values.length / many) }, (_, i) => join(values.slice(i * many, (i + 1) * many)));

function joinedMeans(means, counts, many) {
  const totals = joined(means.map((v, i) => v === null ? 0 : v * counts[i]), many, sum);
  return joined(means.map((v, i) => v === null ? 0 : counts[i]), many, sum).map((n, i) => n ? totals[i] / n : null);
}

// As few rows as the data have a point for, and as many as leave a pixel or more for each point.
function rowsAPoint({ min, max }) {
  const { width, start, high } = data.timeline;
  const bins = axis.timed ? start.filter((t) => t >= min && t <= max).length : high.length * (max - min) / (axis.max - axis.min);
  let rows = width;
  while (bins * width / rows > chartWidth() - LEFT - RIGHT) rows *= 2;
  return rows;
}

function scoreBins(width) {
  const t = data.timeline, many = width / t.width, counts = t.high.map((_, i) => Math.min(t.width, data.rows - i * t.width));
  return {
    width, low: joined(t.low, many, least), high: joined(t.high, many, most), mean: joinedMeans(t.mean, counts, many),
    threshold: joined(t.threshold, many, most), alerts: joined(t.alerts, many, sum),
  };
}

function featureBins({ low, high, mean, missing, usual }, wanted) {
  const own = data.features.width, width = Math.max(wanted, own), many = width / own;
  const counts = mean.map((_, i) => Math.min(own, data.rows - i * own) - (missing?.[i] ?? 0));
  const each = (values) => usual.at.flatMap((start, k) => Array((usual.at[k + 1] ?? mean.length) - start).fill(values[k])); // told where it changes
  return {
    width, low: joined(low ?? mean, many, least), high: joined(high ?? mean, many, most), mean: joinedMeans(mean, counts, many),
    missing: missing && joined(missing, many, sum), usualLow: joined(each(usual.low), many, least), usualHigh: joined(each(usual.high), many, most),
  };
}
