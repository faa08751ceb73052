// Elements next to the plot: scores, bars of scatters, the surface of settings, legends.
import { element, percent } from "./api.js";
import { colorOf, shapeOf, traceShape } from "./plot.js";

// Show the score on the held-out domain and the validation score.
export function figures(container, solution, isTransductive) {
  const heldOut = solution.held_out;
  const mark = (text, alarm) => element("span", { class: `mark ${alarm ? "alarm" : "soft"}` }, text);
  let validationNote = "not available: there is a single source domain";
  if (solution.pending) validationNote = "decomposing the kernel matrices of the sources…";
  else if (solution.unscored) validationNote = solution.unscored;
  else if (solution.validated) validationNote = `uses labels of ${solution.validated} source domains only: suitable to select settings`;
  const parts = [
    element("div", { class: "figure" },
      element("span", {}, `Accuracy on ${heldOut}, trained on the other domains`),
      element("b", { id: "accuracy", "data-value": solution.accuracy }, percent(solution.accuracy)),
      mark(`uses the labels of ${heldOut}: not suitable to select settings`, true)),
    element("div", { class: "figure" },
      element("span", {}, "Validation: mean accuracy on held-out source domains"),
      element("b", { id: "validation", "data-value": solution.validation ?? "" }, percent(solution.validation)),
      mark(validationNote, Boolean(solution.unscored))),
  ];
  if (isTransductive) {
    const text = `Transductive: ${heldOut} is centered on its own rows, without their labels.`;
    parts.push(element("p", { class: "small soft" }, text));
  }
  container.replaceChildren(...parts);
  container.setAttribute("aria-busy", Boolean(solution.pending));
  const caption = `${heldOut}: ${percent(solution.accuracy)} · validation on source domains: ${percent(solution.validation)}`;
  document.getElementById("caption").textContent = caption;
}

export function bars(container, { scatters, n_train }) {
  const total = scatters.between + scatters.within || 1;
  const rows = [
    ["between", "between classes", scatters.between / total],
    ["within", "within classes", scatters.within / total],
    ["conditional", "conditional", (n_train * scatters.conditional) / total],
    ["prior", "prior", (n_train * scatters.prior) / total],
  ];
  const largest = Math.max(1, ...rows.map(([, , share]) => share));
  if (!container.firstChild) {
    container.append(element("table", { class: "bars" }, element("tbody", {}, ...rows.map(([name, label]) =>
      element("tr", { "data-term": name }, element("th", { scope: "row" }, label),
        element("td", {}, element("div", { class: "fill", "aria-hidden": "true" })), element("td", {}))))));
  }
  for (const [name, , share] of rows) {
    const row = container.querySelector(`[data-term="${name}"]`);
    row.querySelector(".fill").style.width = `${(100 * share) / largest}%`;
    row.lastChild.textContent = share >= 0.001 || share === 0 ? share.toFixed(3) : share.toExponential(1);
    row.dataset.value = scatters[name];
  }
}

// The number of a value such as "0.1*scale", "scale" or "0.5".
const parseNumber = (text) => {
  const [factor, unit] = text.includes("*") ? text.split("*") : [isNaN(text) ? "1" : text, ""];
  return unit === undefined ? NaN : Number(factor);
};

// The index of the nearest value on a logarithmic scale.
export function nearestValue(values, text) {
  const index = values.indexOf(text);
  if (index >= 0) return index;
  const target = Math.log(parseNumber(text));
  let nearest = 0;
  let smallest = Infinity;
  values.forEach((value, i) => {
    const distance = Math.abs(Math.log(parseNumber(value)) - target);
    if (distance < smallest) {
      smallest = distance;
      nearest = i;
    }
  });
  return nearest;
}

// Show the validation scores as a grid of buttons; `select` is called with the parameters of a cell.
export function surface(container, { names, rows, columns, scores }, labels, select) {
  const known = scores.flat().filter((score) => score !== null);
  const low = Math.min(...known);
  const high = Math.max(...known);
  const short = (text) => text.replace("*scale", "").replace(/^scale$/, "1");
  const shade = (score) => {
    if (score === null) return "--ground";
    return `--h${high > low ? Math.round((9 * (score - low)) / (high - low)) : 5}`;
  };
  const body = rows.map((row, i) => element("tr", {}, element("th", { scope: "row" }, short(row)),
    ...columns.map((column, j) => {
      const score = scores[i][j];
      const button = element("button", { type: "button", tabindex: "-1", "data-i": i, "data-j": j,
        "aria-label": `${labels[0] ? `${labels[0]} ${row}, ` : ""}${labels[1]} ${column}: ${percent(score)}` },
      score === null ? "" : (100 * score).toFixed(1));
      button.style.background = `var(${shade(score)})`;
      button.addEventListener("click", () => select({ ...(names[0] ? { [names[0]]: row } : {}), [names[1]]: column }));
      return element("td", {}, button);
    })));
  const table = element("table", { class: "grid" }, element("caption", {}, `${labels[0] ? `Down: ${labels[0]}. ` : ""}Across: ${labels[1]}.`),
    element("thead", {}, element("tr", {}, element("td", {}), ...columns.map((column) => element("th", { scope: "col" }, short(column))))),
    element("tbody", {}, ...body));
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const button = event.target.closest("button");
    if (!step || !button) return;
    event.preventDefault();
    const i = Number(button.dataset.i) + step[0];
    const j = Number(button.dataset.j) + step[1];
    table.querySelector(`[data-i="${i}"][data-j="${j}"]`)?.focus();
  });
  container.replaceChildren(table);
}

// Mark the cell that is nearest to the current values.
export function markSurface(container, { names, rows, columns }, values) {
  const current = names.map((name, k) => (name ? nearestValue(k ? columns : rows, values[name]) : 0));
  for (const button of container.querySelectorAll("button")) {
    const isCurrent = Number(button.dataset.i) === current[0] && Number(button.dataset.j) === current[1];
    if (isCurrent) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    button.tabIndex = isCurrent ? 0 : -1;
  }
}

// A symbol of the legend.
function symbol(shape, color, hollow) {
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

export function legend(container, { colors, shapes, heldOut = "", wrong = false, paired = false }) {
  const item = (drawing, text) => element("li", {}, drawing, text);
  container.replaceChildren(
    ...colors.map((name, i) => item(symbol(paired ? shapeOf(i) : "circle", colorOf(i), paired), name)),
    ...shapes.map((name, i) => item(symbol(shapeOf(i), "--soft", false), name)),
    ...(heldOut ? [item(symbol("circle", "--soft", true), `hollow: ${heldOut}, held out`)] : []),
    ...(wrong ? [item(symbol("circle", "--alarm", true), "ring: misclassified")] : []));
}

// The accuracy of each model as a line over the share of half of the classes, with a vertical line at the current share.
export function lines(container, series, ticks, current) {
  const width = Math.max(260, Math.min(680, container.clientWidth));
  const height = 260;
  const left = 42;
  const right = 12;
  const top = 12;
  const bottom = 34;
  const names = Object.keys(series);
  const values = names.flatMap((name) => series[name].filter((value) => value !== undefined));
  if (!values.length) return;
  const low = Math.max(0, Math.floor(10 * Math.min(...values) - 0.3) / 10);
  const high = Math.min(1, Math.ceil(10 * Math.max(...values) + 0.1) / 10);
  const x = (i) => left + ((width - left - right) * i) / (ticks.length - 1);
  const y = (value) => top + ((high - value) / (high - low || 1)) * (height - top - bottom);
  const drawing = element("svg:svg", { width, height, role: "img",
    "aria-label": "Accuracy by the share of half of the classes in a batch; the table below has the numbers." });
  const stroke = (node, color, strokeWidth) => {
    node.style.stroke = `var(${color})`;
    node.style.strokeWidth = strokeWidth;
    node.style.fill = "none";
    return node;
  };
  for (let k = 0; k <= 4; k++) {
    const value = low + ((high - low) * k) / 4;
    drawing.append(stroke(element("svg:path", { d: `M${left} ${y(value)}H${width - right}` }), "--line", 1),
      element("svg:text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, `${Math.round(100 * value)}%`));
  }
  ticks.forEach((tick, i) => drawing.append(element("svg:text", { x: x(i), y: height - 12, "text-anchor": "middle" }, tick)));
  drawing.append(stroke(element("svg:path", { d: `M${x(current)} ${top}V${height - bottom}` }), "--soft", 1));
  names.forEach((name, k) => {
    const known = series[name].map((value, i) => [i, value]).filter(([, value]) => value !== undefined);
    const path = known.map(([i, value], position) => `${position ? "L" : "M"}${x(i)} ${y(value)}`).join("");
    const line = stroke(element("svg:path", { d: path }), colorOf(k), 2);
    if (k > 1) line.style.strokeDasharray = "6 5"; // so that lines of equal models are both visible
    drawing.append(line);
    for (const [i, value] of known) {
      const dot = element("svg:circle", { cx: x(i), cy: y(value), r: i === current ? 5 : 3 });
      dot.style.fill = `var(${colorOf(k)})`;
      drawing.append(dot);
    }
  });
  container.replaceChildren(drawing);
}
