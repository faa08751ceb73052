// The tab of the pool: who is in it, what the guards saw, and what a skew of classes does.
import { Failed, byId, call, element, percent, say } from "./api.js";
import { lines } from "./charts.js";
import { colourOf } from "./plot.js";

export function poolTab(where, hold, remember) {
  let made = null; // { key, facts, series, counts }
  let skew = 0, busy = false, making = false, playing = false, facts = null;
  const key = () => JSON.stringify(where());
  const ticks = () => ["as it is", ...made.facts.shares.map((share) => `${Math.round(100 * share)}%`)];

  function render(data, state) {
    facts = data;
    const select = byId("pool-held");
    if ([...select.options].map((o) => o.value).join("\n") !== data.domains.join("\n")) {
      select.replaceChildren(...data.domains.map((name) => element("option", { value: name }, name)));
    }
    select.value = state.held;
    skew = Math.max(0, Math.min(7, Number(state.skew ?? 0) || 0));
    if (made && made.key !== key()) { made = null; byId("pool-found").hidden = true; }
    if (state.tab === "pool" && state.pool && !made && !making) make(); // it is in the address, so that it was made before
  }

  async function make() {
    const asked = key(), { data, held } = where();
    making = byId("pool-make").disabled = true;
    remember({ pool: "made" });
    say("Asking all models about every source…");
    try {
      const found = await call("pool", { data, setting: { held } });
      if (asked !== key()) return;
      made = { key: asked, facts: found, series: {}, counts: {} };
      say("");
      byId("pool-found").hidden = false;
      show(held);
      await look();
    } catch (error) {
      if (error.name !== "AbortError") say(error instanceof Failed ? error.message : "The server does not answer.", true);
    } finally {
      making = byId("pool-make").disabled = false;
    }
  }

  function show(held) {
    const { members, guards, name, kind, plain } = made.facts;
    byId("pool-text").textContent = `Chosen without ${held}: ${name}, ${kind}. The best plain model is ${plain}.`;
    const most = Math.max(...members.map((one) => one.weight));
    const params = (one) => Object.entries(one.params).map(([k, v]) => `${k}=${v}`).join(", ");
    byId("members").replaceChildren(element("table", { class: "bars" },
      element("thead", {}, element("tr", {}, element("th", {}, "Model"), element("th", {}, "Weight"), element("th", {}))),
      element("tbody", {}, ...members.map((one) => {
        const fill = element("div", { class: "fill", "aria-hidden": "true" });
        fill.style.width = `${(100 * one.weight) / most}%`;
        return element("tr", {}, element("th", { scope: "row" }, one.model, element("div", { class: "soft small" }, params(one))),
          element("td", {}, fill), element("td", {}, percent(one.weight)));
      }))));
    const mean = (values) => values.reduce((a, b) => a + b, 0) / (values.length || 1), points = (v) => `${v >= 0 ? "+" : "−"}${Math.abs(v).toFixed(1)}`;
    byId("guards").replaceChildren(...guards.flatMap((guard) => [
      element("p", {}, element("b", {}, guard.adopts ? "Taken. " : "Not taken. "), guard.reason),
      element("table", { class: "lines" },
        element("thead", {}, element("tr", {}, ...["Gain in points on", ...made.facts.domains.slice(0, guard.natural.length), "mean"].map((text) => element("th", {}, text)))),
        element("tbody", {}, ...[["natural batches", guard.natural], ["skewed batches", guard.skewed]].map(([text, values]) =>
          element("tr", {}, element("th", { scope: "row" }, text), ...[...values, mean(values)].map((v) => element("td", {}, points(v))))))),
    ]), ...(guards.length ? [] : [element("p", {}, "No step looks at the new batch.")]));
  }

  async function look() {
    const { facts: pool, series, counts } = made, share = skew ? pool.shares[skew - 1] : 0;
    byId("skew").max = pool.shares.length;
    byId("skew").value = skew;
    byId("skew-value").textContent = ticks()[skew];
    byId("skew").setAttribute("aria-valuetext", ticks()[skew]);
    if (busy) return;
    if (!(skew in counts)) {
      busy = true;
      const asked = skew, mine = made;
      try {
        const { data, held } = where(), found = await call("skew", { data, setting: { held }, share });
        for (const [name, value] of Object.entries(found.accuracy)) (series[name] ??= [])[asked] = value;
        counts[asked] = found.counts;
      } catch (error) {
        if (error.name !== "AbortError") say(error instanceof Failed ? error.message : "The server does not answer.", true);
      } finally {
        busy = false;
      }
      if (mine === made && asked !== skew) return look();
    }
    if (!(skew in counts)) return;
    const filled = Object.fromEntries(Object.entries(series).map(([name, own]) => [name, Array.from(ticks(), (_, i) => own[i])]));
    lines(byId("skew-chart"), filled, ticks(), skew);
    byId("skew-figures").replaceChildren(element("table", { class: "lines" }, element("tbody", {}, ...Object.keys(series).map((name, k) => {
      const sign = element("span", { class: "key", "aria-hidden": "true" });
      sign.style.background = `var(${colourOf(k)})`;
      return element("tr", {}, element("th", { scope: "row" }, sign, name), element("td", { "data-model": name, "data-value": series[name][skew] }, percent(series[name][skew])));
    }))));
    const told = facts.classes.map((name, i) => `${name}: ${counts[skew][i] ?? 0}`).join(", ");
    byId("skew-text").textContent = `Rows of ${where().held} in the batch: ${told}. ${skew ? "Means over three draws, of which this is one. " : ""}Accuracy looks at its labels.`;
    document.documentElement.dataset.skew = skew;
  }

  function move(to) {
    skew = to;
    remember({ skew: String(to) });
    return look();
  }

  byId("pool-make").addEventListener("click", make);
  byId("pool-held").addEventListener("change", (event) => hold(event.target.value));
  byId("skew").addEventListener("input", (event) => { playing = false; move(Number(event.target.value)); });
  byId("skew-play").addEventListener("click", async () => {
    if (playing) { playing = false; return; }
    playing = true;
    for (let i = 0; i <= made.facts.shares.length && playing; i++) {
      await move(i);
      await new Promise((next) => setTimeout(next, 150));
    }
    playing = false;
  });
  return { render };
}
