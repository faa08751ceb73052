// Figures beside the picture: accuracies, bars of scatters, the surface of settings, legends.
import { element, percent } from "./api.js";
import { colourOf, shapeOf, traceShape } from "./plot.js";

export function figures(place, found, held, transductive) {
  const mark = (text, alarm) => element("span", { class: `mark ${alarm ? "alarm" : "soft"}` }, text);
  const parts = [
    element("div", { class: "figure" },
      element("span", {}, `On ${held}, by a model of the other domains`),
      element("b", { id: "accuracy", "data-value": found.accuracy }, percent(found.accuracy)),
      mark(`looks at the labels of ${held}: to understand, not to choose`, true)),
    element("div", { class: "figure" },
      element("span", {}, "Leaving one source out in turn, on average"),
      element("b", { id: "validation", "data-value": found.validation ?? "" }, percent(found.validation)),
      mark(found.pending ? "decomposing the kernel matrices of the sources…" : found.unscored || (found.validated
        ? `looks at the labels of ${found.validated} sources alone: what a choice may go by`
        : "there is one source, and no other to hold out"), Boolean(found.unscored))),
  ];
  if (transductive) parts.push(element("p", { class: "small soft" }, `Transductive: ${held} is centered on its own rows, without their labels.`));
  place.replaceChildren(...parts);
  place.setAttribute("aria-busy", Boolean(found.pending));
  document.getElementById("caption").textContent = `${held}: ${percent(found.accuracy)} · leaving one source out: ${percent(found.validation)}`;
}

export function bars(place, { scatters, n_train }) {
  const total = scatters.between + scatters.within || 1;
  const rows = [
    ["between", "between classes", scatters.between / total],
    ["within", "within classes", scatters.within / total],
    ["conditional", "conditional", (n_train * scatters.conditional) / total],
    ["prior", "prior", (n_train * scatters.prior) / total],
  ];
  const most = Math.max(1, ...rows.map(([, , share]) => share));
  if (!place.firstChild) {
    place.append(element("table", { class: "bars" }, element("tbody", {}, ...rows.map(([name, label]) =>
      element("tr", { "data-term": name }, element("th", { scope: "row" }, label),
        element("td", {}, element("div", { class: "fill", "aria-hidden": "true" })), element("td", {}))))));
  }
  for (const [name, , share] of rows) {
    const row = place.querySelector(`[data-term="${name}"]`);
    row.querySelector(".fill").style.width = `${(100 * share) / most}%`;
    row.lastChild.textContent = share >= 0.001 || share === 0 ? share.toFixed(3) : share.toExponential(1);
    row.dataset.value = scatters[name];
  }
}

const number = (text) => {
  const [factor, unit] = text.includes("*") ? text.split("*") : [isNaN(text) ? "1" : text, ""];
  return unit === undefined ? NaN : Number(factor);
};

// Which of some values a value is nearest to, on a scale of powers; 0 is nearest to itself.
export function nearestValue(values, text) {
  const at = values.indexOf(text);
  if (at >= 0) return at;
  const wanted = Math.log(number(text));
  let best = 0, least = Infinity;
  values.forEach((value, i) => {
    const apart = Math.abs(Math.log(number(value)) - wanted);
    if (apart < least) { least = apart; best = i; }
  });
  return best;
}

export function surface(place, found, labels, choose) {
  const { names, rows, columns, scores } = found, known = scores.flat().filter((v) => v !== null);
  const low = Math.min(...known), high = Math.max(...known), short = (text) => text.replace("*scale", "").replace(/^scale$/, "1");
  const shade = (v) => (v === null ? "--ground" : `--h${high > low ? Math.round((9 * (v - low)) / (high - low)) : 5}`);
  const body = rows.map((row, i) => element("tr", {}, element("th", { scope: "row" }, short(row)),
    ...columns.map((column, j) => {
      const score = scores[i][j];
      const button = element("button", { type: "button", tabindex: "-1", "data-i": i, "data-j": j,
        "aria-label": `${labels[0] ? `${labels[0]} ${row}, ` : ""}${labels[1]} ${column}: ${percent(score)}` },
      score === null ? "" : (100 * score).toFixed(1));
      button.style.background = `var(${shade(score)})`;
      button.addEventListener("click", () => choose({ ...(names[0] ? { [names[0]]: row } : {}), [names[1]]: column }));
      return element("td", {}, button);
    })));
  const table = element("table", { class: "grid" }, element("caption", {}, `${labels[0] ? `Down: ${labels[0]}. ` : ""}Across: ${labels[1]}.`),
    element("thead", {}, element("tr", {}, element("td", {}), ...columns.map((c) => element("th", { scope: "col" }, short(c))))),
    element("tbody", {}, ...body));
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const at = event.target.closest("button");
    if (!step || !at) return;
    event.preventDefault();
    table.querySelector(`[data-i="${+at.dataset.i + step[0]}"][data-j="${+at.dataset.j + step[1]}"]`)?.focus();
  });
  place.replaceChildren(table);
}

export function markSurface(place, found, values) {
  const at = found.names.map((name, k) => name ? nearestValue(k ? found.columns : found.rows, values[name]) : 0);
  for (const button of place.querySelectorAll("button")) {
    const here = +button.dataset.i === at[0] && +button.dataset.j === at[1];
    if (here) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    button.tabIndex = here ? 0 : -1;
  }
}

function sign(shape, color, hollow) {
  const drawing = { d: "", moveTo(x, y) { this.d += `M${x} ${y}`; }, lineTo(x, y) { this.d += `L${x} ${y}`; },
    closePath() { this.d += "Z"; }, rect(x, y, w, h) { this.d += `M${x} ${y}h${w}v${h}h${-w}Z`; },
    arc(x, y, r) { this.d += `a${r} ${r} 0 1 1 ${-2 * r} 0a${r} ${r} 0 1 1 ${2 * r} 0`; } };
  traceShape(drawing, shape, 7, 7, 4);
  const path = element("svg:path", { d: drawing.d });
  path.style.fill = hollow || shape === "cross" ? "none" : `var(${color})`;
  path.style.stroke = `var(${color})`;
  path.style.strokeWidth = "1.5";
  return element("svg:svg", { width: 14, height: 14, "aria-hidden": "true" }, path);
}

export function legend(place, { colors, shapes, held = "", wrong = false, paired = false }) {
  const item = (drawn, text) => element("li", {}, drawn, text);
  place.replaceChildren(
    ...colors.map((name, i) => item(sign(paired ? shapeOf(i) : "circle", colourOf(i), paired), name)),
    ...shapes.map((name, i) => item(sign(shapeOf(i), "--soft", false), name)),
    ...(held ? [item(sign("circle", "--soft", true), `hollow: ${held}, held out`)] : []),
    ...(wrong ? [item(sign("circle", "--alarm", true), "ringed: predicted wrongly")] : []));
}

// Accuracy of some models over the share of a skew: a line each, and a rule at the current share.
export function lines(place, series, ticks, current) {
  const width = Math.max(260, Math.min(680, place.clientWidth)), height = 260, left = 42, right = 12, top = 12, bottom = 34, names = Object.keys(series);
  const values = names.flatMap((name) => series[name].filter((v) => v !== undefined));
  if (!values.length) return;
  const low = Math.max(0, Math.floor(10 * Math.min(...values) - 0.3) / 10), high = Math.min(1, Math.ceil(10 * Math.max(...values) + 0.1) / 10);
  const x = (i) => left + ((width - left - right) * i) / (ticks.length - 1), y = (v) => top + ((high - v) / (high - low || 1)) * (height - top - bottom);
  const drawing = element("svg:svg", { width, height, role: "img",
    "aria-label": "Accuracy over the share that half of the classes have of a batch; the table below has the numbers." });
  const stroke = (node, color, wide) => { node.style.stroke = `var(${color})`; node.style.strokeWidth = wide; node.style.fill = "none"; return node; };
  for (let k = 0; k <= 4; k++) {
    const v = low + ((high - low) * k) / 4;
    drawing.append(stroke(element("svg:path", { d: `M${left} ${y(v)}H${width - right}` }), "--line", 1),
      element("svg:text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, `${Math.round(100 * v)}%`));
  }
  ticks.forEach((tick, i) => drawing.append(element("svg:text", { x: x(i), y: height - 12, "text-anchor": "middle" }, tick)));
  drawing.append(stroke(element("svg:path", { d: `M${x(current)} ${top}V${height - bottom}` }), "--soft", 1));
  names.forEach((name, k) => {
    const known = series[name].map((v, i) => [i, v]).filter(([, v]) => v !== undefined);
    const line = stroke(element("svg:path", { d: known.map(([i, v], a) => `${a ? "L" : "M"}${x(i)} ${y(v)}`).join("") }), colourOf(k), 2);
    if (k > 1) line.style.strokeDasharray = "6 5"; // models that say the same lie on each other
    drawing.append(line);
    for (const [i, v] of known) {
      const dot = element("svg:circle", { cx: x(i), cy: y(v), r: i === current ? 5 : 3 });
      dot.style.fill = `var(${colourOf(k)})`;
      drawing.append(dot);
    }
  });
  place.replaceChildren(drawing);
}
