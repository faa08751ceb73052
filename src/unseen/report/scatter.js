"use strict";
// Two scatter plots of the same samples. All samples of one class in one domain are one SVG path, so that thousands
// of points are a few dozen elements that follow the theme and print sharply.
const root = document.getElementById("scatter");
if (!root) return;
root.hidden = false;
const data = JSON.parse(document.getElementById("scatter-data").textContent);
const N_COLORS = 7;
const MARGIN = 14;
const RADIUS = data.row.length > 800 ? 2.8 : 4;
const names = { class: data.classes, domain: data.domains };
const hidden = { class: new Set(), domain: new Set() };
const heldOut = data.domains.indexOf(data.held_out);
// Points fill their plot, each axis separately; those with a missing coordinate are left out.
const toUnit = (values) => {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known);
  const width = Math.max(...known) - low;
  return values.map((value) => (width > 0 ? (value - low) / width : 0.5));
};
const toPoints = (pairs) => {
  const [x, y] = [0, 1].map((axis) => toUnit(pairs.map((pair) => pair[axis])));
  return pairs.map((pair, sample) => (pair.includes(null) ? null : [x[sample], y[sample]]));
};
const plotted = [toPoints(data.before), toPoints(data.after)];
const panels = [...root.querySelectorAll(".panel")].map((element, index) => ({ element, points: plotted[index] }));
let mode = "class";
let picked = null;

const svg = (name, attributes = {}) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

// Seven colors; from the eighth group on, the colors repeat with the next shape.
const shapes = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (x, y, r) => `M${x} ${y - 1.2 * r}l${1.2 * r} ${2.1 * r}h${-2.4 * r}z`,
  (x, y, r) => `M${x} ${y - 1.35 * r}l${1.35 * r} ${1.35 * r}l${-1.35 * r} ${1.35 * r}l${-1.35 * r} ${-1.35 * r}z`,
];
const shapeOf = (group) => shapes[Math.floor(group / N_COLORS) % shapes.length];
const colorOf = (group) => `var(--q${group % N_COLORS})`;

// Samples by class and domain; held-out samples come last, to be drawn on top.
const cells = new Map();
data.row.forEach((_, sample) => {
  const key = `${data.class[sample]} ${data.domain[sample]}`;
  if (!cells.has(key)) cells.set(key, { class: data.class[sample], domain: data.domain[sample], samples: [] });
  cells.get(key).samples.push(sample);
});
const ordered = [...cells.values()].sort((a, b) => (a.domain === heldOut) - (b.domain === heldOut));
const isShown = (cell) => !hidden[mode].has(cell[mode]);
const sampleShown = (sample) => !hidden[mode].has(data[mode][sample]);

function position(panel, sample) {
  const point = panel.points[sample];
  if (!point) return null;
  const { clientWidth: width, clientHeight: height } = panel.element;
  const x = MARGIN + point[0] * (width - 2 * MARGIN);
  const y = height - MARGIN - point[1] * (height - 2 * MARGIN);
  return [Math.round(x * 10) / 10, Math.round(y * 10) / 10];
}

function draw(panel) {
  const { clientWidth, clientHeight } = panel.element;
  // With a view box the picture is also scaled to the page when printed, where it is not redrawn.
  const picture = svg("svg", { "aria-hidden": "true", viewBox: `0 0 ${clientWidth} ${clientHeight}` });
  for (const cell of ordered.filter(isShown)) {
    const shape = shapeOf(cell[mode]);
    const ring = cell.domain === heldOut;
    const places = cell.samples.map((sample) => position(panel, sample)).filter(Boolean);
    const path = places.map(([x, y]) => shape(x, y, RADIUS + (ring ? 0.8 : 0))).join("");
    const paint = { [ring ? "stroke" : "fill"]: colorOf(cell[mode]), class: ring ? "rings" : "dots" };
    picture.append(svg("path", { d: path, ...paint }));
  }
  panel.element.replaceChildren(picture);
  mark(panel);
}

const drawAll = () => panels.forEach(draw);

// The sample selected with the pointer or the arrow keys is marked in both plots and described in the active one.
const describe = (sample) => [
  ["row", String(data.row[sample])],
  ["class", data.classes[data.class[sample]]],
  ["domain", data.domains[data.domain[sample]] + (data.domain[sample] === heldOut ? " (held out)" : "")],
];

function mark(panel) {
  panel.element.querySelectorAll(".picked, .tip").forEach((element) => element.remove());
  const place = picked && sampleShown(picked.sample) && position(panel, picked.sample);
  if (!place) return;
  const [x, y] = place;
  panel.element.firstChild.append(svg("circle", { class: "picked", cx: x, cy: y, r: RADIUS + 5 }));
  if (picked.panel !== panel) return;
  const tip = document.createElement("div");
  tip.className = "tip";
  for (const [label, value] of describe(picked.sample)) {
    const line = document.createElement("div");
    const name = document.createElement("bdi");
    name.textContent = value;
    line.append(`${label}: `, name);
    tip.append(line);
  }
  const side = x < panel.element.clientWidth / 2 ? "left" : "right";
  tip.style[side] = `${(side === "left" ? x : panel.element.clientWidth - x) + 14}px`;
  const level = y < panel.element.clientHeight / 2 ? "top" : "bottom";
  tip.style[level] = `${level === "top" ? y : panel.element.clientHeight - y}px`;
  panel.element.append(tip);
}

function pick(panel, sample) {
  if (picked?.panel === panel && picked.sample === sample) return;
  picked = sample === null ? null : { panel, sample };
  panels.forEach(mark);
}

function nearest(panel, x, y) {
  let best = null;
  let smallest = 20 ** 2;
  data.row.forEach((_, sample) => {
    const place = sampleShown(sample) && position(panel, sample);
    const distance = place ? (place[0] - x) ** 2 + (place[1] - y) ** 2 : Infinity;
    if (distance < smallest) {
      best = sample;
      smallest = distance;
    }
  });
  return best;
}

const STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 20, PageDown: -20, Home: -Infinity, End: Infinity };

for (const panel of panels) {
  const { element } = panel;
  const fromLeft = data.row.map((_, sample) => sample).filter((sample) => panel.points[sample])
    .sort((a, b) => panel.points[a][0] - panel.points[b][0]);
  const follow = (event) => {
    const frame = element.getBoundingClientRect();
    pick(panel, nearest(panel, event.clientX - frame.left, event.clientY - frame.top));
  };
  const go = (step) => {
    const shown = fromLeft.filter(sampleShown);
    if (!shown.length) return;
    const here = picked ? shown.indexOf(picked.sample) : -1;
    const next = Math.min(Math.max(here + step, 0), shown.length - 1);
    pick(panel, shown[next]);
    element.setAttribute("aria-valuemax", shown.length);
    element.setAttribute("aria-valuenow", next + 1);
    element.setAttribute("aria-valuetext", describe(shown[next]).map((pair) => pair.join(": ")).join(", "));
  };
  element.addEventListener("pointermove", follow);
  element.addEventListener("pointerdown", follow);
  element.addEventListener("pointerleave", () => pick(panel, null));
  element.addEventListener("blur", () => pick(panel, null));
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") pick(panel, null);
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    go(STEPS[event.key]);
  });
  new ResizeObserver(() => draw(panel)).observe(element);
}

function legend() {
  const items = names[mode].map((name, group) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(!hidden[mode].has(group)));
    const ring = mode === "domain" && group === heldOut;
    const swatch = svg("svg", { width: 16, height: 16, "aria-hidden": "true" });
    const paint = ring ? { class: "rings", stroke: colorOf(group) } : { fill: colorOf(group) };
    swatch.append(svg("path", { d: shapeOf(group)(8, 8, 5), ...paint }));
    const label = document.createElement("bdi");
    label.textContent = name;
    button.append(swatch, label, ring ? " (held out)" : "");
    button.addEventListener("click", () => {
      if (!hidden[mode].delete(group)) hidden[mode].add(group);
      button.setAttribute("aria-pressed", String(!hidden[mode].has(group)));
      drawAll();
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  root.querySelector(".legend").replaceChildren(...items);
}

root.querySelectorAll("input[name=color]").forEach((input) => {
  input.addEventListener("change", () => {
    mode = input.value;
    legend();
    drawAll();
  });
});
// Browsers may restore the state of the radio buttons when a page is reloaded.
mode = root.querySelector("input[name=color]:checked").value;
legend();
drawAll();
