// The whole run in a strip, with the part that is seen as a window in it that can be moved and pulled.

let strip = null;

function makeBrush() {
  const place = at("brush"), px = ratio;
  strip = new uPlot({
    width: Math.max(chartWidth(), 100), height: 44, padding: [4, RIGHT, 2, 0], legend: { show: false }, cursor: { show: false },
    scales: { x: { time: false, range: () => [axis.min, axis.max] }, y: { range: (u, min, max) => [0, Math.max(max, 1e-9)] } },
    series: [{}, { stroke: () => palette.blue, fill: () => palette.band, width: 1, points: { show: false } }],
    axes: [{ show: false }, { size: LEFT, grid: { show: false }, ticks: { show: false }, values: () => [] }],
    hooks: { drawClear: [({ ctx, bbox, valToPos }) => {
      ctx.fillStyle = palette.alert;
      for (const incident of data.incidents.kept) {
        const [from, to] = placeOfIncident(incident).map((x) => valToPos(x, "x", true));
        if (incident.last >= 1) ctx.fillRect(from, bbox.top - 4 * px(), Math.max(to - from, 1.5 * px()), 3 * px());
      }
    }] },
  }, [[], []], place);
  const pane = add(place, "div", { class: "window" });
  for (const side of ["left", "right"]) add(pane, "i", { class: "grip " + side });
  place.addEventListener("pointerdown", pull);
}

const plotLeft = () => strip.bbox.left / ratio();
const plotWidth = () => strip.bbox.width / ratio();

function drawBrush() {
  if (!strip) return;
  const part = (x) => (x - axis.min) / (axis.max - axis.min), pane = at("brush").querySelector(".window");
  pane.style.left = plotLeft() + plotWidth() * part(view.min) + "px";
  pane.style.width = Math.max(plotWidth() * (part(view.max) - part(view.min)), 6) + "px";
}

function fillBrush() {
  if (!strip) makeBrush();
  const { width, high } = scoreBins(rowsAPoint(axis)), { xs, bins } = pointsOf(width);
  strip.setData([xs, bins.map((bin) => bin < 0 ? null : high[bin])]);
}

// In the window it is moved, at its ends they are pulled, elsewhere a new one is drawn; a press alone brings it there.
function pull(event) {
  if (event.button) return;
  const left = at("brush").getBoundingClientRect().left + plotLeft(), scale = (axis.max - axis.min) / plotWidth();
  const place = ({ clientX }) => axis.min + Math.min(Math.max(clientX - left, 0), plotWidth()) * scale;
  const { min, max } = view, start = place(event), touched = event.target.classList;
  const inside = touched.contains("window") && !seesAll();
  let moved = false;
  const move = (to) => {
    moved = moved || Math.abs(place(to) - start) > 3 * scale;
    if (!moved) return;
    const by = place(to) - start;
    if (touched.contains("left")) setView(Math.min(place(to), max - leastSpan()), max);
    else if (touched.contains("right")) setView(min, Math.max(place(to), min + leastSpan()));
    else if (inside) setView(min + by, max + by);
    else setView(Math.min(start, place(to)), Math.max(start, place(to)));
  };
  const end = () => {
    if (!moved && !inside && !seesAll()) setView(start - (max - min) / 2, start + (max - min) / 2);
    at("brush").removeEventListener("pointermove", move);
  };
  event.preventDefault();
  try { at("brush").setPointerCapture(event.pointerId); } catch { /* it has gone already */ }
  at("brush").addEventListener("pointermove", move);
  for (const over of ["pointerup", "pointercancel"]) at("brush").addEventListener(over, end, { once: true });
}
