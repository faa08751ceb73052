// The page. Its state is in the address after the #: every control changes it, and one request at a time uses it.
const WIDTH = 1000; // of the drawing, in its own units
const HEIGHT = 620;
const MARGIN = 20;
const N_COLORS = 10;
const SHAPES = ["M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0Z", "M-5-5H5V5H-5Z", "M0-7L6 5H-6Z", "M0-7L7 0L0 7L-7 0Z", "M0 7L6-5H-6Z", "M-5-2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z"];
const CENTERINGS = { source: "the source domains", target: "itself (transductive)" };

let state = {}; // strings by name, as in the address
let data = null; // the data set and its controls
let isRunning = false; // whether a request is running
let hasChanged = false; // whether the state has changed since it was sent

const byId = (id) => document.getElementById(id);
const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}%`);
const currentMethod = () => data.methods.find(({ name }) => name === state.method);

// Make an element with attributes and children; text is never interpreted as markup.
function element(name, attributes = {}, ...children) {
  const created = document.createElementNS(["svg", "path"].includes(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  created.append(...children);
  return created;
}

async function call(name, values) {
  const response = await fetch(`api/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(values),
  }).catch(() => {
    throw new Error("The server does not respond. Is the command still running?");
  });
  const result = await response.json();
  if (!response.ok) throw new Error(result.error);
  return result;
}

function showStatus(text, isError = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("alarm", isError);
}

function fillSelect(id, values, texts = {}) {
  byId(id).replaceChildren(...values.map((value) => element("option", { value }, texts[value] ?? value)));
}

function makeSliders() {
  byId("sliders").replaceChildren(...currentMethod().sliders.map(({ name, label, values }) => {
    const input = element("input", { type: "range", id: name, min: 0, max: values.length - 1 });
    input.addEventListener("input", () => change({ [name]: values[input.value] }));
    return element("div", {}, element("label", { for: name }, label), element("output", { id: `${name}-value`, for: name }), input);
  }));
  byId("sliders").dataset.method = state.method;
}

// Change the state, replace values that these data do not have by defaults, and show and request the result.
function change(values) {
  Object.assign(state, values);
  const check = (name, allowed, first) => {
    if (!allowed.includes(state[name])) state[name] = first;
  };
  check("held_out", data.domains, data.domains.at(-1));
  check("method", data.methods.map(({ name }) => name), data.default_method);
  check("head", data.heads, data.heads[0]);
  check("centering", data.centerings, data.centerings[0]);
  check("color", ["class", "domain"], "class");
  if (byId("sliders").dataset.method !== state.method) makeSliders();
  for (const { name, values: allowed, default: position } of currentMethod().sliders) {
    check(name, allowed, allowed[position]);
    byId(name).value = allowed.indexOf(state[name]);
    byId(name).setAttribute("aria-valuetext", state[name]);
    byId(`${name}-value`).textContent = state[name];
  }
  for (const name of ["held_out", "method", "head", "centering", "color"]) byId(name).value = state[name];
  byId("about").textContent = currentMethod().about;
  history.replaceState(null, "", `#${new URLSearchParams(state)}`);
  hasChanged = true;
  request();
}

// One request at a time: the newest state is sent when the running request has finished.
async function request() {
  if (isRunning) return;
  isRunning = true;
  document.querySelector("main").setAttribute("aria-busy", true);
  const slow = setTimeout(() => showStatus("Decomposing the kernel matrix; other weights will then be fast…"), 400);
  try {
    while (hasChanged) {
      hasChanged = false;
      const sent = { ...state };
      const names = ["held_out", "method", "head", "centering", ...currentMethod().sliders.map(({ name }) => name)];
      const query = { data: sent.data, setting: Object.fromEntries(names.map((name) => [name, sent[name]])) };
      const solution = await call("solve", query);
      draw(sent, solution);
      showStatus("");
      clearTimeout(slow);
      await validate(sent, query, solution);
    }
  } catch (error) {
    showStatus(error.message, true);
  } finally {
    clearTimeout(slow);
    isRunning = false;
    document.querySelector("main").setAttribute("aria-busy", false);
  }
}

// Hold out one source domain after another, until the setting changes.
async function validate(sent, query, solution) {
  const scores = [];
  for (const domain of solution.validation_domains) {
    showAccuracy(sent, solution, scores);
    await new Promise((resolve) => setTimeout(resolve)); // a slider may have moved
    if (hasChanged) return;
    scores.push([domain, (await call("validate", { ...query, domain })).accuracy]);
  }
  showAccuracy(sent, solution, scores);
}

function showBars(id, rows) {
  const largest = Math.max(1, ...rows.map(([, value]) => value));
  byId(id).replaceChildren(...rows.map(([label, value, text]) => element("tr", {},
    element("th", { scope: "row" }, label),
    element("td", {}, element("meter", { max: largest, value: value ?? 0, "aria-label": label })),
    element("td", { "data-value": value ?? "" }, text))));
}

function showAccuracy({ held_out: heldOut, centering }, { accuracy, validation_domains: domains }, scores) {
  const isComplete = scores.length === domains.length;
  const canAverage = isComplete && scores.length && scores.every(([, score]) => score !== null);
  const mean = canAverage ? scores.reduce((sum, [, score]) => sum + score, 0) / scores.length : null;
  const rows = [[`${heldOut} (test)`, accuracy], ["mean of the source domains", mean], ...scores];
  showBars("accuracy", rows.map(([label, value]) => [label, value, percent(value)]));
  const rule = domains.length
    ? `Do not select settings by the accuracy on ${heldOut}, since it uses its labels. Select them by the mean of the source domains: each is held out in turn, without ${heldOut}.`
    : "Settings can be selected only with two or more source domains, which are held out in turn.";
  const note = centering === "target" ? " Transductive: the held-out domain is centered on its own rows, without their labels." : "";
  byId("accuracy-text").textContent = rule + note;
  byId("accuracy").setAttribute("aria-busy", !isComplete);
}

// Place the samples in the drawing. Both axes have the same scale, since classifiers depend on distances. A single component
// is the horizontal axis, and each domain has a lane.
function place(points) {
  const isFlat = points[0].length === 1;
  const xs = points.map(([x]) => x);
  const ys = isFlat ? points.map((_, i) => data.domain[i] + 0.7 * ((i * 0.618) % 1)) : points.map(([, y]) => y);
  const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const [left, right] = range(xs);
  const [bottom, top] = range(ys);
  const xScale = (WIDTH - 2 * MARGIN) / Math.max(right - left, 1e-12);
  const yScale = (HEIGHT - 2 * MARGIN) / Math.max(top - bottom, 1e-12);
  const [a, b] = isFlat ? [xScale, yScale] : [Math.min(xScale, yScale), Math.min(xScale, yScale)];
  return xs.map((x, i) => [WIDTH / 2 + a * (x - (left + right) / 2), HEIGHT / 2 - b * (ys[i] - (bottom + top) / 2)]);
}

function draw(sent, solution) {
  const heldOut = data.domains.indexOf(sent.held_out);
  const groups = sent.color === "class" ? data.class : data.domain;
  const predictions = solution.predicted[Symbol.iterator](); // in the order of the held-out rows
  const predicted = data.domain.map((domain) => (domain === heldOut ? predictions.next().value : null));
  const marks = place(solution.points).map(([x, y], i) => {
    const kinds = [`q${groups[i] % N_COLORS}`];
    if (predicted[i] !== null) kinds.push("hollow");
    if (predicted[i] !== null && predicted[i] !== data.class[i]) kinds.push("wrong");
    return element("path", { d: SHAPES[groups[i] % SHAPES.length], class: kinds.join(" "), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
  });
  byId("plot").replaceChildren(...marks);
  byId("plot").onpointerover = (event) => {
    const i = marks.indexOf(event.target);
    if (i < 0) return;
    const guess = predicted[i] === null ? "" : `, predicted ${data.classes[predicted[i]]}`;
    byId("sample").textContent = `Row ${data.row[i].toLocaleString("en")}: class ${data.classes[data.class[i]]}, domain ${data.domains[data.domain[i]]}${guess}`;
  };
  const names = sent.color === "class" ? data.classes : data.domains;
  byId("legend").replaceChildren(...names.map((name, k) => element("li", {},
    element("svg", { viewBox: "-8 -8 16 16", "aria-hidden": true }, element("path", { d: SHAPES[k % SHAPES.length], class: `q${k % N_COLORS}` })), name)));
  const axes = solution.components === 1 ? "One component, from left to right; each domain has a lane." : `Components 1 and 2 of ${solution.components}.`;
  byId("caption").textContent = `${axes} Hollow: ${sent.held_out}, held out. Thick red outline: misclassified.`;
  byId("code").textContent = solution.code;
  showScatters(solution.scatters, predicted.filter((code) => code === null).length);
  document.dispatchEvent(new Event("drawn"));
}

function showScatters({ between, within, conditional, prior }, nTrain) {
  const total = between + within || 1;
  const shares = { "between classes": between, "within classes": within, conditional: nTrain * conditional, prior: nTrain * prior };
  showBars("scatters", Object.entries(shares).map(([label, value]) => {
    const share = value / total;
    return [label, share, share >= 0.001 || share === 0 ? share.toFixed(3) : share.toExponential(1)];
  }));
}

async function open(values) {
  showStatus("Opening the data…");
  data = await call("data", values.data ? { data: values.data } : {});
  state = { data: values.data ?? data.sources[0], ...values };
  const count = (n) => n.toLocaleString("en");
  const sample = data.row.length < data.rows ? `, of which a random sample of ${count(data.row.length)} is used` : "";
  byId("facts").textContent = `${data.name}: ${count(data.rows)} rows${sample}; ${data.features} features, ${data.classes.length} classes, ${data.domains.length} domains`;
  fillSelect("data", data.sources);
  fillSelect("held_out", data.domains);
  fillSelect("method", data.methods.map(({ name }) => name));
  fillSelect("head", data.heads);
  fillSelect("centering", data.centerings, CENTERINGS);
  fillSelect("color", ["class", "domain"]);
  byId("data").value = state.data;
  change({});
}

async function start() {
  byId("plot").setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  const show = (values) => open(values).catch((error) => showStatus(error.message, true));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("data").addEventListener("change", (event) => show({ data: event.target.value }));
  for (const name of ["held_out", "method", "head", "centering", "color"]) {
    byId(name).addEventListener("change", (event) => change({ [name]: event.target.value }));
  }
  const readAddress = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  addEventListener("hashchange", () => show(readAddress()));
  await show(readAddress());
}

start();
