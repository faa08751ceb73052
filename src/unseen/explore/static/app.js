// The page: its state lives in the address behind the #, every control writes there, and one call at a time reads it.
import { Failed, byId, call, element, say, unpack } from "./api.js";
import { bars, figures, legend, markSurface, surface } from "./charts.js";
import { showModel } from "./model.js";
import { Plot, colourOf, shapeOf } from "./plot.js";
import { poolTab } from "./pool.js";

const PATIENCE = 150; // milliseconds after which a call is given up for a newer one
const REST = 250; // milliseconds without a move before other settings are compared
const STEP = 90; // milliseconds at least between the steps of a sweep
const SHAPE = ["held", "method", "components", "centering", "head"];

let state = {}; // texts by name, as in the address
let facts = null; // of the data
let scene = null; // what was solved last
let before = { key: "", points: null };
let compared = null; // the surface
let waiting = null; // the call under way: { since, stop, changed }
let playing = null; // the name of what is swept
let comparing = null; // what stops the call for the surface
let sequence = 0, resting = 0, drawnWaiters = [];

const plot = new Plot(byId("plot"), byId("tip"), { tell: told, chosen: list, drawn });
const pool = poolTab(() => ({ data: state.data, held: state.held }), (held) => change({ held }), (some) => { Object.assign(state, some); write(); });
const method = () => facts.methods.find((one) => one.name === state.method);

function read() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

function write() {
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(state).filter(([, v]) => v !== undefined))}`);
}

const setting = () => Object.fromEntries([...SHAPE, ...method().sliders.map((s) => s.name)].map((name) => [name, state[name]]));

// Fill in what the address leaves out, and mend what these data do not have.
function mend() {
  const among = (name, values, first) => { if (!values.includes(state[name])) state[name] = first; };
  among("held", facts.domains, facts.domains.at(-1));
  among("method", facts.methods.map((one) => one.name), "CIDG");
  among("components", method().components, "all");
  among("centering", ["source", "target"], "source");
  among("head", ["1-NN", "logistic"], "1-NN");
  for (const { name, values, first } of method().sliders) among(name, values, values[first]);
  among("stage", ["before", "after"], "after");
  among("color", ["class", "domain"], "class");
  among("dims", ["2", "3"], "2");
  among("tab", ["weights", "pool"], "weights");
}

function change(some) {
  Object.assign(state, some);
  mend();
  write();
  render();
  request();
}

// Controls as the state has them.
function render() {
  const now = method();
  options(byId("components"), now.components, state.components);
  for (const name of ["held", "method", "centering", "head"]) byId(name).value = state[name];
  byId("about").textContent = now.about;
  if (byId("sliders").dataset.method !== now.name) makeSliders(now);
  for (const { name, values } of now.sliders) {
    const input = byId(`s-${name}`);
    input.value = values.indexOf(state[name]);
    input.setAttribute("aria-valuetext", state[name]);
    byId(`v-${name}`).textContent = state[name];
  }
  for (const name of ["stage", "color", "dims"]) document.querySelector(`input[name=${name}][value="${state[name]}"]`).checked = true;
  for (const tab of ["weights", "pool"]) {
    const here = state.tab === tab;
    byId(tab).hidden = !here;
    byId(`tab-${tab}`).setAttribute("aria-selected", here);
    byId(`tab-${tab}`).tabIndex = here ? 0 : -1;
  }
  pool.render(facts, state);
  if (compared) markSurface(byId("surface"), compared, state);
}

function options(select, values, value) {
  if ([...select.options].map((o) => o.value).join("\n") !== values.join("\n")) {
    select.replaceChildren(...values.map((text) => element("option", { value: text }, text)));
  }
  select.value = value;
}

function makeSliders(now) {
  stopPlaying();
  byId("sliders").dataset.method = now.name;
  byId("sliders").replaceChildren(...now.sliders.map(({ name, label, values }) => {
    const input = element("input", { type: "range", id: `s-${name}`, min: 0, max: values.length - 1, step: 1 });
    input.addEventListener("input", () => { stopPlaying(); change({ [name]: values[input.value] }); });
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
  if (button) { button.textContent = "▶"; button.setAttribute("aria-pressed", "false"); }
}

async function sweep(name, values) {
  stopPlaying();
  playing = name;
  const button = byId(`p-${name}`);
  button.textContent = "❚❚";
  button.setAttribute("aria-pressed", "true");
  for (const value of values) {
    const start = performance.now(), done = nextDrawing();
    if (state[name] === value) request(); // somewhere it stands already
    change({ [name]: value });
    await done;
    await new Promise((next) => setTimeout(next, Math.max(0, STEP - (performance.now() - start))));
    if (playing !== name) return;
  }
  stopPlaying();
}

const nextDrawing = () => new Promise((done) => drawnWaiters.push(done));

function drawn() {
  if (scene === null || scene.told) return;
  scene.told = true;
  if (!waiting) byId("weights").setAttribute("aria-busy", "false");
  document.documentElement.dataset.drawn = scene.sequence;
  for (const done of drawnWaiters.splice(0)) done();
  document.dispatchEvent(new CustomEvent("drawn", { detail: scene.sequence }));
}

// One call at a time: what changes meanwhile is asked for next, or at once if the call takes long.
async function request() {
  clearTimeout(resting);
  comparing?.abort();
  byId("weights").setAttribute("aria-busy", "true");
  if (waiting) {
    waiting.changed = true;
    if (performance.now() - waiting.since > PATIENCE) waiting.stop.abort();
    return;
  }
  const mine = { since: performance.now(), stop: new AbortController(), changed: false };
  waiting = mine;
  const number = ++sequence, key = JSON.stringify([state.data, state.held, state.gamma]);
  const slow = setTimeout(() => say("Decomposing the kernel matrix; every weight is instant after that…"), 400);
  try {
    const asked = setting();
    const found = await call("solve", { data: state.data, setting: asked, before: before.key === key ? 0 : 1 }, mine.stop.signal);
    if (found.before) before = { key, points: unpack(found.before) };
    scene = { ...found, points: unpack(found.after), asked, sequence: number };
    say("");
    paint();
  } catch (error) {
    if (error.name !== "AbortError") {
      say(error instanceof Failed ? error.message : "The server does not answer: has the command ended?", true);
      byId("weights").setAttribute("aria-busy", "false");
      for (const done of drawnWaiters.splice(0)) done();
    }
  } finally {
    clearTimeout(slow);
    waiting = null;
    if (mine.changed) request(); else resting = setTimeout(compare, REST);
  }
}

// Picture, figures and bars of what was solved last.
function paint() {
  if (!scene) return;
  const { held } = scene, at = facts.domains.indexOf(held), after = state.stage === "after";
  const points = after ? scene.points : before.points;
  const byClass = state.color === "class";
  const colors = byClass ? facts.class : facts.domain, shapes = byClass ? facts.domain : facts.class;
  const groups = new Map(), wrong = [];
  let next = 0;
  for (let i = 0; i < points.n; i++) {
    const hollow = facts.domain[i] === at, key = (colors[i] * 1000 + shapes[i]) * 2 + hollow;
    if (!groups.has(key)) groups.set(key, { rows: [], color: colourOf(colors[i]), shape: shapeOf(shapes[i]), hollow });
    groups.get(key).rows.push(i);
    if (hollow && scene.predicted[next++] !== facts.class[i]) wrong.push(i);
  }
  scene.wrong = new Set(wrong);
  const lanes = { of: facts.domain, count: facts.domains.length };
  plot.show(points, { groups: [...groups.values()], marks: after ? wrong : [], dims: +state.dims, lanes });
  figures(byId("figures"), scene, held, scene.asked.centering === "target");
  bars(byId("bars"), scene);
  const key = JSON.stringify([state.color, held, after, facts.name]);
  if (byId("legend").dataset.key !== key) {
    byId("legend").dataset.key = key;
    const [first, second] = byClass ? [facts.classes, facts.domains] : [facts.domains, facts.classes];
    legend(byId("legend"), { colors: first, shapes: second, held, wrong: after });
  }
  describe(points, after);
}

function describe(points, after) {
  const what = after ? scene.asked.method : "the kernel's principal components";
  const shown = plot.dims === 3 ? 3 : Math.min(2, points.q);
  const text = points.q === 1 ? "One component, from left to right; domains lie in lanes." : `The first ${shown} of ${after ? scene.components : "all"} components.`;
  const turn = plot.dims === 3 ? " Drag to turn, Shift and drag for a lasso." : " Drag a lasso around points to list them.";
  const flat = state.dims === "3" && plot.dims !== 3 ? " There is no third component to show." : "";
  byId("axes").textContent = `${after ? "After" : "Before"} ${after ? what : `any projection: ${what}`}. ${text}${flat}${turn}`;
}

function told(i) {
  const lines = [`row ${facts.row[i].toLocaleString("en")}`, `class ${facts.classes[facts.class[i]]}`, `domain ${facts.domains[facts.domain[i]]}`];
  const said = prediction(i);
  return [...lines, ...(said ? [`predicted ${said}`] : [])].join("\n");
}

function prediction(i) {
  if (!scene || facts.domains[facts.domain[i]] !== scene.held) return "";
  let at = -1;
  for (let k = 0; k <= i; k++) at += facts.domain[k] === facts.domain[i];
  return facts.classes[scene.predicted[at]];
}

function list(rows) {
  byId("chosen").hidden = !rows.length;
  const shown = rows.slice(0, 200), few = rows.length > shown.length ? ` The first ${shown.length} are listed.` : "";
  byId("chosen-text").textContent = `${rows.length.toLocaleString("en")} rows.${few}`;
  byId("chosen-rows").tBodies[0].replaceChildren(...shown.map((i) => element("tr", {}, element("td", {}, facts.row[i]),
    element("td", {}, facts.classes[facts.class[i]]), element("td", {}, facts.domains[facts.domain[i]]), element("td", {}, prediction(i)))));
}

// What looks at other sources waits until sliders rest: their accuracy, then that of other settings.
async function compare() {
  if (state.tab !== "weights") return;
  comparing = new AbortController();
  const { signal } = comparing, mine = scene;
  try {
    if (mine?.pending) Object.assign(mine, await call("validate", { data: state.data, setting: mine.asked }, signal));
    if (mine && mine === scene) figures(byId("figures"), scene, scene.held, scene.asked.centering === "target");
    await compareOthers(signal);
  } catch (error) {
    if (error.name !== "AbortError") byId("surface-text").textContent = error instanceof Failed ? error.message : "";
  }
}

async function compareOthers(signal) {
  const names = method().surface, labels = names.map((name) => method().sliders.find((s) => s.name === name)?.label ?? "");
  const key = JSON.stringify(Object.entries(setting()).filter(([name]) => !names.includes(name)).concat([["data", state.data]]));
  if (byId("surface").dataset.key === key) return;
  byId("surface-text").textContent = "Comparing…";
  const found = await call("surface", { data: state.data, setting: setting() }, signal);
  compared = found;
  byId("surface").dataset.key = key;
  if (!found.sources) {
    byId("surface").replaceChildren();
    byId("surface-text").textContent = "Settings are compared by leaving one source out: there is one source, and no other to hold out.";
    return;
  }
  byId("surface-text").textContent = `Accuracy in percent, leaving one of ${found.sources} sources out in turn, without ${state.held}. Weights are multiples of the data's own scale. Press a cell to go there; the framed one is nearest to where you are.`;
  surface(byId("surface"), found, labels, (some) => { stopPlaying(); change(some); });
  markSurface(byId("surface"), found, state);
}

async function copy(kind, button) {
  const found = await call("code", { data: state.data, setting: setting() }), place = byId("copied"), text = button.textContent;
  place.textContent = found[kind];
  place.hidden = false;
  try {
    await navigator.clipboard.writeText(found[kind]);
    button.textContent = "Copied";
  } catch { // not allowed: the code is there to be copied by hand
    getSelection().selectAllChildren(place);
    button.textContent = "Selected below";
  }
  setTimeout(() => (button.textContent = text), 1500);
}

async function keep(kind, button) {
  button.disabled = true;
  say(`Writing the ${kind}…`);
  try {
    const { path } = await call("save", { data: state.data, setting: setting(), kind });
    say(`Wrote ${path}`);
  } catch (error) {
    say(error instanceof Failed ? error.message : "The server does not answer.", true);
  } finally {
    button.disabled = false;
  }
}

function listen() {
  for (const name of ["held", "method", "components", "centering", "head"]) {
    byId(name).addEventListener("change", (event) => { stopPlaying(); change({ [name]: event.target.value }); });
  }
  for (const name of ["stage", "color", "dims"]) {
    byId(name).addEventListener("change", (event) => { state[name] = event.target.value; write(); paint(); });
  }
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("python").addEventListener("click", (event) => copy("python", event.target));
  byId("command").addEventListener("click", (event) => copy("command", event.target));
  byId("save-model").addEventListener("click", (event) => keep("model", event.target));
  byId("save-report").addEventListener("click", (event) => keep("report", event.target));
  byId("chosen-clear").addEventListener("click", () => { plot.forget(); list([]); byId("plot").focus(); });
  byId("data").addEventListener("change", (event) => open({ data: event.target.value }));
  for (const tab of ["weights", "pool"]) byId(`tab-${tab}`).addEventListener("click", () => change({ tab }));
  byId("tabs").addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    change({ tab: state.tab === "weights" ? "pool" : "weights" });
    byId(`tab-${state.tab}`).focus();
  });
  addEventListener("hashchange", () => { const found = read(); if (found.data && found.data !== state.data) open(found); else change(found); });
}

function theme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const now = () => root.dataset.theme ?? (dark.matches ? "dark" : "light");
  const tell = () => { byId("theme").textContent = `Switch to ${now() === "dark" ? "light" : "dark"}`; plot.later(); };
  byId("theme").addEventListener("click", () => { root.dataset.theme = now() === "dark" ? "light" : "dark"; tell(); });
  dark.addEventListener("change", tell);
  tell();
}

async function open(some) {
  stopPlaying();
  say("Opening the data…");
  facts = await call("data", some.data ? { data: some.data } : {});
  state = some;
  compared = null;
  before = { key: "", points: null };
  plot.forget();
  list([]);
  delete byId("surface").dataset.key;
  byId("surface").replaceChildren();
  byId("sliders").dataset.method = "";
  const rows = (n) => n.toLocaleString("en"), drawn = facts.used < facts.rows ? `; ${rows(facts.used)} of them, drawn at random with every class of every domain, are used and shown` : "";
  byId("facts").textContent = `${facts.name}: ${rows(facts.rows)} rows${drawn}; ${facts.features} features, ${facts.classes.length} classes, ${facts.domains.length} domains`;
  options(byId("held"), facts.domains, null);
  options(byId("method"), facts.methods.map((one) => one.name), null);
  options(byId("head"), ["1-NN", "logistic"], null);
  if (state.data) byId("data").value = state.data;
  change({});
}

async function start() {
  theme();
  try {
    const found = await call("start"), wanted = read();
    if (found.mode === "model") return await showModel();
    byId("tabs").hidden = false;
    options(byId("data"), found.data, null);
    byId("pick").hidden = found.data.length < 2;
    listen();
    await open({ ...wanted, data: found.data.includes(wanted.data) ? wanted.data : found.data[0] });
  } catch (error) {
    say(error instanceof Failed ? error.message : `The server does not answer: ${error.message}`, true);
  }
}

start();
