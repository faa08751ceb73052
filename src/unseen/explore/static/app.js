// The page. Its state is in the address after the #: every control changes it, and one request at a time uses it.
import { byId, call, element, errorText, showStatus, unpack } from "./api.js";
import { bars, figures, legend, markSurface, surface } from "./charts.js";
import { ensembleTab } from "./ensemble.js";
import { showModel } from "./model.js";
import { Plot, colorOf, shapeOf } from "./plot.js";

const ABORT_AFTER = 150; // milliseconds after which a running request is aborted for a newer one
const COMPARE_AFTER = 250; // milliseconds without a change before other settings are compared
const MIN_STEP = 90; // milliseconds between the steps of a sweep
const SELECTS = ["held_out", "method", "components", "centering", "head"];

let state = {}; // strings by name, as in the address
let facts = null; // of the data
let scene = null; // the solution of the last request
let before = { key: "", points: null };
let compared = null; // the surface
let pending = null; // the running request: { since, controller, changed }
let playing = null; // the name of the parameter that is swept
let comparing = null; // the AbortController of the comparison with other settings
let sequence = 0;
let compareTimer = 0;
let drawnCallbacks = [];

const plot = new Plot(byId("plot"), byId("tip"), { describe: describePoint, onSelect: listRows, onDrawn: finishDrawing });
const ensemble = ensembleTab({
  current: () => ({ data: state.data, held_out: state.held_out }),
  holdOut: (name) => change({ held_out: name }),
  remember: (values) => {
    Object.assign(state, values);
    writeAddress();
  },
});
const method = () => facts.methods.find(({ name }) => name === state.method);

function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

function writeAddress() {
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(state).filter(([, value]) => value !== undefined))}`);
}

function setting() {
  const names = [...SELECTS, ...method().sliders.map(({ name }) => name)];
  return Object.fromEntries(names.map((name) => [name, state[name]]));
}

// Replace values that the address lacks, or that these data do not have, by defaults.
function applyDefaults() {
  const check = (name, values, first) => {
    if (!values.includes(state[name])) state[name] = first;
  };
  check("held_out", facts.domains, facts.domains.at(-1));
  check("method", facts.methods.map(({ name }) => name), "CIDG");
  check("components", method().components, "all");
  check("centering", ["source", "target"], "source");
  check("head", ["1-NN", "logistic"], "1-NN");
  for (const slider of method().sliders) check(slider.name, slider.values, slider.values[slider.default]);
  check("stage", ["before", "after"], "after");
  check("color", ["class", "domain"], "class");
  check("dims", ["2", "3"], "2");
  check("tab", ["weights", "ensemble"], "weights");
}

function change(values) {
  Object.assign(state, values);
  applyDefaults();
  writeAddress();
  render();
  request();
}

// Set the controls to the state.
function render() {
  const current = method();
  options(byId("components"), current.components, state.components);
  for (const name of ["held_out", "method", "centering", "head"]) byId(name).value = state[name];
  byId("about").textContent = current.about;
  if (byId("sliders").dataset.method !== current.name) makeSliders(current);
  for (const { name, values } of current.sliders) {
    const input = byId(`s-${name}`);
    input.value = values.indexOf(state[name]);
    input.setAttribute("aria-valuetext", state[name]);
    byId(`v-${name}`).textContent = state[name];
  }
  for (const name of ["stage", "color", "dims"]) {
    document.querySelector(`input[name=${name}][value="${state[name]}"]`).checked = true;
  }
  for (const tab of ["weights", "ensemble"]) {
    const isActive = state.tab === tab;
    byId(tab).hidden = !isActive;
    byId(`tab-${tab}`).setAttribute("aria-selected", isActive);
    byId(`tab-${tab}`).tabIndex = isActive ? 0 : -1;
  }
  ensemble.render(facts, state);
  if (compared) markSurface(byId("surface"), compared, state);
}

function options(select, values, value) {
  if ([...select.options].map((option) => option.value).join("\n") !== values.join("\n")) {
    select.replaceChildren(...values.map((text) => element("option", { value: text }, text)));
  }
  select.value = value;
}

function makeSliders(current) {
  stopPlaying();
  byId("sliders").dataset.method = current.name;
  byId("sliders").replaceChildren(...current.sliders.map(({ name, label, values }) => {
    const input = element("input", { type: "range", id: `s-${name}`, min: 0, max: values.length - 1, step: 1 });
    input.addEventListener("input", () => {
      stopPlaying();
      change({ [name]: values[input.value] });
    });
    const play = element("button", { type: "button", id: `p-${name}`, "aria-label": `Play the ${label}`, "aria-pressed": "false" }, "▶");
    play.addEventListener("click", () => (playing === name ? stopPlaying() : sweep(name, values)));
    return element("div", { class: "slider" }, element("label", { for: `s-${name}` }, label),
      element("output", { id: `v-${name}`, for: `s-${name}` }), input, play);
  }));
}

function stopPlaying() {
  if (!playing) return;
  const button = byId(`p-${playing}`);
  playing = null;
  if (button) {
    button.textContent = "▶";
    button.setAttribute("aria-pressed", "false");
  }
}

async function sweep(name, values) {
  stopPlaying();
  playing = name;
  const button = byId(`p-${name}`);
  button.textContent = "❚❚";
  button.setAttribute("aria-pressed", "true");
  for (const value of values) {
    const start = performance.now();
    const drawn = nextDrawing();
    if (state[name] === value) request(); // the current value is drawn as well
    change({ [name]: value });
    await drawn;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, MIN_STEP - (performance.now() - start))));
    if (playing !== name) return;
  }
  stopPlaying();
}

const nextDrawing = () => new Promise((resolve) => drawnCallbacks.push(resolve));

function finishDrawing() {
  if (scene === null || scene.isDrawn) return;
  scene.isDrawn = true;
  if (!pending) byId("weights").setAttribute("aria-busy", "false");
  document.documentElement.dataset.drawn = scene.sequence;
  for (const resolve of drawnCallbacks.splice(0)) resolve();
  document.dispatchEvent(new CustomEvent("drawn", { detail: scene.sequence }));
}

// One request at a time: a change starts the next request when the running one has finished, or aborts it if it is slow.
async function request() {
  clearTimeout(compareTimer);
  comparing?.abort();
  byId("weights").setAttribute("aria-busy", "true");
  if (pending) {
    pending.changed = true;
    if (performance.now() - pending.since > ABORT_AFTER) pending.controller.abort();
    return;
  }
  const current = { since: performance.now(), controller: new AbortController(), changed: false };
  pending = current;
  sequence += 1;
  const number = sequence;
  const key = JSON.stringify([state.data, state.held_out, state.gamma]);
  const slow = setTimeout(() => showStatus("Decomposing the kernel matrix. Other weights will then be fast…"), 400);
  try {
    const requested = setting();
    const values = { data: state.data, setting: requested, before: before.key === key ? 0 : 1 };
    const solution = await call("solve", values, current.controller.signal);
    if (solution.before) before = { key, points: unpack(solution.before) };
    scene = { ...solution, points: unpack(solution.after), setting: requested, sequence: number };
    showStatus("");
    paint();
  } catch (error) {
    if (error.name !== "AbortError") {
      showStatus(errorText(error), true);
      byId("weights").setAttribute("aria-busy", "false");
      for (const resolve of drawnCallbacks.splice(0)) resolve();
    }
  } finally {
    clearTimeout(slow);
    pending = null;
    if (current.changed) request();
    else compareTimer = setTimeout(compare, COMPARE_AFTER);
  }
}

// Draw the plot, the scores and the bars of the last solution.
function paint() {
  if (!scene) return;
  const heldOut = facts.domains.indexOf(scene.held_out);
  const isAfter = state.stage === "after";
  const points = isAfter ? scene.points : before.points;
  const byClass = state.color === "class";
  const colors = byClass ? facts.class : facts.domain;
  const shapes = byClass ? facts.domain : facts.class;
  const groups = new Map();
  const wrong = [];
  let nextPrediction = 0; // predictions are in the order of the held-out rows
  for (let i = 0; i < points.n; i++) {
    const hollow = facts.domain[i] === heldOut;
    const key = (colors[i] * 1000 + shapes[i]) * 2 + hollow;
    if (!groups.has(key)) groups.set(key, { rows: [], color: colorOf(colors[i]), shape: shapeOf(shapes[i]), hollow });
    groups.get(key).rows.push(i);
    if (hollow) {
      if (scene.predicted[nextPrediction] !== facts.class[i]) wrong.push(i);
      nextPrediction += 1;
    }
  }
  const lanes = { of: facts.domain, count: facts.domains.length };
  plot.show(points, { groups: [...groups.values()], marks: isAfter ? wrong : [], dims: +state.dims, lanes });
  showFigures();
  bars(byId("bars"), scene);
  const key = JSON.stringify([state.color, scene.held_out, isAfter, facts.name]);
  if (byId("legend").dataset.key !== key) {
    byId("legend").dataset.key = key;
    const [colorNames, shapeNames] = byClass ? [facts.classes, facts.domains] : [facts.domains, facts.classes];
    legend(byId("legend"), { colors: colorNames, shapes: shapeNames, heldOut: scene.held_out, wrong: isAfter });
  }
  describeAxes(points, isAfter);
}

const showFigures = () => figures(byId("figures"), scene, scene.setting.centering === "target");

function describeAxes(points, isAfter) {
  const source = isAfter ? `After ${scene.setting.method}.` : "Before projection: kernel principal components.";
  const shown = plot.dims === 3 ? 3 : Math.min(2, points.q);
  const text = points.q === 1
    ? "One component, from left to right; each domain has a lane."
    : `The first ${shown} of ${isAfter ? scene.components : "all"} components.`;
  const flat = state.dims === "3" && plot.dims !== 3 ? " There is no third component." : "";
  const hint = plot.dims === 3 ? " Drag to rotate; drag with Shift to select points." : " Drag around points to list them.";
  byId("axes").textContent = `${source} ${text}${flat}${hint}`;
}

function describePoint(i) {
  const lines = [
    `row ${facts.row[i].toLocaleString("en")}`,
    `class ${facts.classes[facts.class[i]]}`,
    `domain ${facts.domains[facts.domain[i]]}`,
  ];
  const predicted = prediction(i);
  if (predicted) lines.push(`predicted ${predicted}`);
  return lines.join("\n");
}

function prediction(i) {
  if (!scene || facts.domains[facts.domain[i]] !== scene.held_out) return "";
  let position = -1;
  for (let k = 0; k <= i; k++) position += facts.domain[k] === facts.domain[i];
  return facts.classes[scene.predicted[position]];
}

function listRows(rows) {
  byId("chosen").hidden = !rows.length;
  const shown = rows.slice(0, 200);
  const note = rows.length > shown.length ? ` The first ${shown.length} are listed.` : "";
  byId("chosen-text").textContent = `${rows.length.toLocaleString("en")} rows.${note}`;
  byId("chosen-rows").tBodies[0].replaceChildren(...shown.map((i) => {
    const cells = [facts.row[i], facts.classes[facts.class[i]], facts.domains[facts.domain[i]], prediction(i)];
    return element("tr", {}, ...cells.map((text) => element("td", {}, text)));
  }));
}

// Slower results follow when the sliders have not changed for a while: the validation of the current setting on the
// sources, then that of other settings.
async function compare() {
  if (state.tab !== "weights") return;
  comparing = new AbortController();
  const { signal } = comparing;
  const current = scene;
  try {
    if (current?.pending) {
      Object.assign(current, await call("validate", { data: state.data, setting: current.setting }, signal));
    }
    if (current && current === scene) showFigures();
    await compareOthers(signal);
  } catch (error) {
    if (error.name !== "AbortError") byId("surface-text").textContent = errorText(error);
  }
}

async function compareOthers(signal) {
  const names = method().surface;
  const labels = names.map((name) => method().sliders.find((slider) => slider.name === name)?.label ?? "");
  const fixed = Object.entries(setting()).filter(([name]) => !names.includes(name));
  const key = JSON.stringify([...fixed, ["data", state.data]]);
  if (byId("surface").dataset.key === key) return;
  byId("surface-text").textContent = "Comparing…";
  compared = await call("surface", { data: state.data, setting: setting() }, signal);
  byId("surface").dataset.key = key;
  if (!compared.sources) {
    byId("surface").replaceChildren();
    byId("surface-text").textContent = "Settings are compared by holding out one source domain at a time, which needs at least two source domains.";
    return;
  }
  byId("surface-text").textContent = `Accuracy in percent, mean over ${compared.sources} held-out source domains, without ${state.held_out}. Weights are multiples of the scale of the data. Press a cell to select its setting; the framed cell is nearest to the current one.`;
  surface(byId("surface"), compared, labels, (values) => {
    stopPlaying();
    change(values);
  });
  markSurface(byId("surface"), compared, state);
}

async function copy(kind, button) {
  const code = await call("code", { data: state.data, setting: setting() });
  const output = byId("copied");
  const label = button.textContent;
  output.textContent = code[kind];
  output.hidden = false;
  try {
    await navigator.clipboard.writeText(code[kind]);
    button.textContent = "Copied";
  } catch { // without permission, the reader can copy the selected code
    getSelection().selectAllChildren(output);
    button.textContent = "Selected below";
  }
  setTimeout(() => (button.textContent = label), 1500);
}

async function save(kind, button) {
  button.disabled = true;
  showStatus(`Writing the ${kind}…`);
  try {
    const { path } = await call("save", { data: state.data, setting: setting(), kind });
    showStatus(`Wrote ${path}`);
  } catch (error) {
    showStatus(errorText(error), true);
  } finally {
    button.disabled = false;
  }
}

function listen() {
  for (const name of SELECTS) {
    byId(name).addEventListener("change", (event) => {
      stopPlaying();
      change({ [name]: event.target.value });
    });
  }
  for (const name of ["stage", "color", "dims"]) {
    byId(name).addEventListener("change", (event) => {
      state[name] = event.target.value;
      writeAddress();
      paint();
    });
  }
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("python").addEventListener("click", (event) => copy("python", event.target));
  byId("command").addEventListener("click", (event) => copy("command", event.target));
  byId("save-model").addEventListener("click", (event) => save("model", event.target));
  byId("save-report").addEventListener("click", (event) => save("report", event.target));
  byId("chosen-clear").addEventListener("click", () => {
    plot.clearSelection();
    listRows([]);
    byId("plot").focus();
  });
  byId("data").addEventListener("change", (event) => open({ data: event.target.value }));
  for (const tab of ["weights", "ensemble"]) byId(`tab-${tab}`).addEventListener("click", () => change({ tab }));
  byId("tabs").addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    change({ tab: state.tab === "weights" ? "ensemble" : "weights" });
    byId(`tab-${state.tab}`).focus();
  });
  addEventListener("hashchange", () => {
    const values = readAddress();
    if (values.data && values.data !== state.data) open(values);
    else change(values);
  });
}

function initializeTheme() {
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme ?? (prefersDark.matches ? "dark" : "light");
  const other = () => (current() === "dark" ? "light" : "dark");
  const update = () => {
    byId("theme").textContent = `Switch to ${other()}`;
    plot.requestDraw();
  };
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = other();
    update();
  });
  prefersDark.addEventListener("change", update);
  update();
}

async function open(values) {
  stopPlaying();
  showStatus("Opening the data…");
  facts = await call("data", values.data ? { data: values.data } : {});
  state = values;
  compared = null;
  before = { key: "", points: null };
  plot.clearSelection();
  listRows([]);
  delete byId("surface").dataset.key;
  byId("surface").replaceChildren();
  byId("sliders").dataset.method = "";
  const count = (n) => n.toLocaleString("en");
  const sample = facts.used < facts.rows
    ? `, of which a random sample of ${count(facts.used)}, with every class of every domain, is used`
    : "";
  byId("facts").textContent = `${facts.name}: ${count(facts.rows)} rows${sample}; ${facts.features} features, ${facts.classes.length} classes, ${facts.domains.length} domains`;
  options(byId("held_out"), facts.domains, null);
  options(byId("method"), facts.methods.map(({ name }) => name), null);
  options(byId("head"), ["1-NN", "logistic"], null);
  if (state.data) byId("data").value = state.data;
  change({});
}

async function start() {
  initializeTheme();
  try {
    const { mode, data } = await call("start");
    if (mode === "model") {
      await showModel();
      return;
    }
    const values = readAddress();
    byId("tabs").hidden = false;
    options(byId("data"), data, null);
    byId("pick").hidden = data.length < 2;
    listen();
    await open({ ...values, data: data.includes(values.data) ? values.data : data[0] });
  } catch (error) {
    showStatus(errorText(error), true);
  }
}

start();
