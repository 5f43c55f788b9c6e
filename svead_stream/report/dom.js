// The data, and how they get onto the page: as text, or as the value of an attribute that runs nothing.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);

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

function tooltip(svg, describe) {
  let tip = null;
  const hide = () => { if (tip) tip.remove(); tip = null; };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const text = describe((event.clientX - box.left) / box.width);
    if (!text) return hide();
    if (!tip) tip = add(document.body, "div", { class: "tip" });
    tip.textContent = text;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = event.clientY + 18 + "px";
  });
  svg.addEventListener("pointerleave", hide);
}
