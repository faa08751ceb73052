// A fitted model on new rows: how new they are, where they lie, and which are least certain.
import { byId, call, element, percent, say, unpack } from "./api.js";
import { legend } from "./charts.js";
import { Plot, colourOf, shapeOf } from "./plot.js";

const PAGE = 100;

export async function showModel() {
  say("Predicting the new rows…");
  const facts = await call("model"), points = unpack(facts.places), n = facts.rows.toLocaleString("en");
  say("");
  byId("model").hidden = false;
  byId("facts").textContent = `${facts.name}: ${n} rows, ${facts.classes.length} classes, ${facts.sources.length} sources`;
  novelty(facts);
  const codes = facts.label.map((name) => facts.classes.indexOf(name)), groups = new Map();
  codes.forEach((code, i) => {
    if (!groups.has(code)) groups.set(code, { rows: [], color: colourOf(code), shape: shapeOf(code), hollow: true });
    groups.get(code).rows.push(i);
  });
  const told = (i) => [`row ${facts.row[i]}`, `predicted ${facts.label[i]}, ${percent(facts.certain[i])}`, ...(facts.domain[i] === null ? [] : [`domain ${facts.domain[i]}`])].join("\n");
  const plot = new Plot(byId("places"), byId("places-tip"), { tell: told });
  const anchors = facts.source_places.map((place, k) => ({ place, name: facts.sources[k], color: "--q6" }));
  plot.show(points, { groups: [...groups.values()], anchors });
  legend(byId("places-legend"), { colors: facts.classes, shapes: [], paired: true });
  table(facts);
}

function novelty({ summary, notices, rows, row }) {
  const entries = summary.novelty.map(({ domain, text, far }) => element("p", { class: far ? "alarm" : "" }, domain === null ? "" : `${domain}: `, text));
  const agreement = summary.agreement ? [element("p", {}, `Accuracy by the labels of the table: ${percent(summary.agreement.accuracy)}`)] : [];
  const fewer = row.length < rows ? [element("p", { class: "soft" }, `The ${row.length.toLocaleString("en")} least certain of ${rows.toLocaleString("en")} rows are drawn and listed.`)] : [];
  byId("novelty").replaceChildren(...entries, ...agreement, ...fewer, ...notices.map((text) => element("p", { class: "soft" }, text)));
}

function table({ row, label, certain, probabilities, domain, classes }) {
  const named = domain.some((name) => name !== null), body = element("tbody");
  byId("rows").replaceChildren(element("thead", {}, element("tr", {}, ...["Row", ...(named ? ["Domain"] : []), "Predicted", "Certain", ...classes.map((name) => `p(${name})`)].map((text) => element("th", {}, text)))), body);
  let shown = 0;
  const more = () => {
    const end = Math.min(row.length, shown + PAGE);
    for (; shown < end; shown++) {
      const cells = [row[shown], ...(named ? [domain[shown]] : []), label[shown], percent(certain[shown]), ...probabilities[shown].map((p) => p.toFixed(3))];
      body.append(element("tr", {}, ...cells.map((text) => element("td", {}, text))));
    }
    byId("more").hidden = shown >= row.length;
  };
  byId("more").addEventListener("click", more);
  more();
}
