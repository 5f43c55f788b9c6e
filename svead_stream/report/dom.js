// The data, and how they get onto the page: as text, or as the value of an attribute that runs nothing.
"use strict";
// Canvases have at least two pixels for one of the page, so that they are sharp on paper, too.
if (devicePixelRatio < 2) Object.defineProperty(window, "devicePixelRatio", { value: 2, configurable: true });

let data = JSON.parse(document.getElementById("data").textContent);
const isLive = "key" in data; // newer data will come: the newest are first in tables
const SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);
const say = (id, text) => { if (at(id).textContent !== text) at(id).textContent = text; }; // what is the same is not read out again

function add(parent, tag, attributes = {}, text) {
  const element = parent instanceof SVGElement || tag === "svg"
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function addShare(parent, name, share, largest) {
  const line = add(parent, "div", { class: "share" });
  add(line, "span", { class: "name" }, name);
  add(add(line, "div", { class: "track" }), "div", { class: "fill" }).style.width = 100 * share / largest + "%";
  add(line, "span", { class: "number" }, percent(share));
  return line;
}

function addLink(parent, text, follow) {
  add(parent, "button", { type: "button", class: "link" }, text).addEventListener("click", follow);
}

function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

function later(wait, act) { // once, when it has been quiet for a while
  let timer = null;
  return () => { clearTimeout(timer); timer = setTimeout(act, wait); };
}

// What is drawn anew has the focus again that it had before, and the page stays where it was.
function inPlace(draw) {
  const active = document.activeElement, within = active?.closest("[id]");
  const focusable = (element) => [element, ...element.querySelectorAll("a, button, input, select, [tabindex]")];
  const place = within ? focusable(within).indexOf(active) : -1, scrolled = window.scrollY;
  draw();
  if (window.scrollY !== scrolled) window.scrollTo({ top: scrolled, behavior: "instant" });
  if (place < 0 || document.contains(active)) return;
  const again = at(within.id);
  if (again) focusable(again)[place]?.focus({ preventScroll: true });
}

// Colours of canvases are those of the style sheet, for light, dark and paper.
let palette = {};

function readPalette() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["text", "dim", "line", "blue", "band", "alert", "threshold", "usual", "edge", "card"]) {
    palette[name] = style.getPropertyValue("--" + name).trim();
  }
}
