// The tab of the ensemble: its members, the acceptance tests, and the effect of a skew of the classes.
import { byId, call, element, errorText, percent, showStatus } from "./api.js";
import { lines } from "./charts.js";
import { colorOf } from "./plot.js";

const STEP = 150; // milliseconds between the steps of a sweep

// `current()` returns the data set and the held-out domain, `holdOut(name)` changes the held-out domain, and
// `remember(values)` writes values to the address.
export function ensembleTab({ current, holdOut, remember }) {
  let fitted = null; // { key, facts, series, counts }
  let facts = null; // of the data
  let skew = 0;
  let isBusy = false;
  let isFitting = false;
  let isPlaying = false;
  const key = () => JSON.stringify(current());
  const ticks = () => ["unchanged", ...fitted.facts.shares.map((share) => `${Math.round(100 * share)}%`)];

  function render(data, state) {
    facts = data;
    const select = byId("ensemble-held-out");
    if ([...select.options].map((option) => option.value).join("\n") !== data.domains.join("\n")) {
      select.replaceChildren(...data.domains.map((name) => element("option", { value: name }, name)));
    }
    select.value = state.held_out;
    skew = Math.max(0, Math.min(7, Number(state.skew ?? 0) || 0));
    if (fitted && fitted.key !== key()) {
      fitted = null;
      byId("ensemble-result").hidden = true;
    }
    // An address with `ensemble` is that of a page on which the ensemble was fitted.
    if (state.tab === "ensemble" && state.ensemble && !fitted && !isFitting) fit();
  }

  async function fit() {
    const requested = key();
    const { data, held_out } = current();
    isFitting = true;
    byId("ensemble-fit").disabled = true;
    remember({ ensemble: "fitted" });
    showStatus("Evaluating all models on every source domain…");
    try {
      const result = await call("ensemble", { data, setting: { held_out } });
      if (requested !== key()) return;
      fitted = { key: requested, facts: result, series: {}, counts: {} };
      showStatus("");
      byId("ensemble-result").hidden = false;
      showMembers(held_out);
      showAcceptanceTests();
      await showSkew();
    } catch (error) {
      if (error.name !== "AbortError") showStatus(errorText(error), true);
    } finally {
      isFitting = false;
      byId("ensemble-fit").disabled = false;
    }
  }

  function showMembers(heldOut) {
    const { members, name, kind, plain } = fitted.facts;
    byId("ensemble-text").textContent = `Selected without ${heldOut}: ${name}, ${kind}. The best plain model is ${plain}.`;
    const largest = Math.max(...members.map(({ weight }) => weight));
    const rows = members.map(({ model, params, weight }) => {
      const settings = Object.entries(params).map(([parameter, value]) => `${parameter}=${value}`).join(", ");
      const fill = element("div", { class: "fill", "aria-hidden": "true" });
      fill.style.width = `${(100 * weight) / largest}%`;
      return element("tr", {}, element("th", { scope: "row" }, model, element("div", { class: "soft small" }, settings)),
        element("td", {}, fill), element("td", {}, percent(weight)));
    });
    const headers = ["Model", "Weight", ""].map((text) => element("th", {}, text));
    byId("members").replaceChildren(element("table", { class: "bars" },
      element("thead", {}, element("tr", {}, ...headers)), element("tbody", {}, ...rows)));
  }

  function showAcceptanceTests() {
    const { acceptance_tests: tests, domains } = fitted.facts;
    const mean = (values) => values.reduce((a, b) => a + b, 0) / (values.length || 1);
    const points = (value) => `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(1)}`;
    const parts = tests.flatMap((test) => {
      const headers = ["Gain in points on", ...domains.slice(0, test.natural.length), "mean"];
      const rows = [["unchanged batches", test.natural], ["skewed batches", test.skewed]].map(([text, values]) =>
        element("tr", {}, element("th", { scope: "row" }, text),
          ...[...values, mean(values)].map((value) => element("td", {}, points(value)))));
      return [
        element("p", {}, element("b", {}, test.is_used ? "Accepted. " : "Not accepted. "), test.reason),
        element("table", { class: "lines" },
          element("thead", {}, element("tr", {}, ...headers.map((text) => element("th", {}, text)))),
          element("tbody", {}, ...rows)),
      ];
    });
    if (!parts.length) parts.push(element("p", {}, "There is no transductive step to test."));
    byId("acceptance-tests").replaceChildren(...parts);
  }

  async function showSkew() {
    const { facts: ensemble, series, counts } = fitted;
    byId("skew").max = ensemble.shares.length;
    byId("skew").value = skew;
    byId("skew-value").textContent = ticks()[skew];
    byId("skew").setAttribute("aria-valuetext", ticks()[skew]);
    if (isBusy) return;
    if (!(skew in counts)) {
      isBusy = true;
      const requested = skew;
      const requestedFor = fitted;
      const { data, held_out } = current();
      const share = skew ? ensemble.shares[skew - 1] : 0;
      try {
        const result = await call("skew", { data, setting: { held_out }, share });
        for (const [name, value] of Object.entries(result.accuracy)) {
          series[name] ??= [];
          series[name][requested] = value;
        }
        counts[requested] = result.counts;
      } catch (error) {
        if (error.name !== "AbortError") showStatus(errorText(error), true);
      } finally {
        isBusy = false;
      }
      if (requestedFor === fitted && requested !== skew) return showSkew();
    }
    if (!(skew in counts)) return;
    const complete = Object.fromEntries(Object.entries(series).map(([name, values]) => [name, Array.from(ticks(), (_, i) => values[i])]));
    lines(byId("skew-chart"), complete, ticks(), skew);
    const rows = Object.keys(series).map((name, k) => {
      const symbol = element("span", { class: "key", "aria-hidden": "true" });
      symbol.style.background = `var(${colorOf(k)})`;
      const accuracy = series[name][skew];
      return element("tr", {}, element("th", { scope: "row" }, symbol, name),
        element("td", { "data-model": name, "data-value": accuracy }, percent(accuracy)));
    });
    byId("skew-figures").replaceChildren(element("table", { class: "lines" }, element("tbody", {}, ...rows)));
    const classCounts = facts.classes.map((name, i) => `${name}: ${counts[skew][i] ?? 0}`).join(", ");
    const note = skew ? "The accuracies are means over three random batches, of which this is one. " : "";
    byId("skew-text").textContent = `Rows of ${current().held_out} in the batch: ${classCounts}. ${note}The accuracy uses its labels.`;
    document.documentElement.dataset.skew = skew;
  }

  function changeSkew(value) {
    skew = value;
    remember({ skew: String(value) });
    return showSkew();
  }

  byId("ensemble-fit").addEventListener("click", fit);
  byId("ensemble-held-out").addEventListener("change", (event) => holdOut(event.target.value));
  byId("skew").addEventListener("input", (event) => {
    isPlaying = false;
    changeSkew(Number(event.target.value));
  });
  byId("skew-play").addEventListener("click", async () => {
    if (isPlaying) {
      isPlaying = false;
      return;
    }
    isPlaying = true;
    for (let i = 0; i <= fitted.facts.shares.length && isPlaying; i++) {
      await changeSkew(i);
      await new Promise((resolve) => setTimeout(resolve, STEP));
    }
    isPlaying = false;
  });
  return { render };
}
