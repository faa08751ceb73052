// A fitted model with new rows: their novelty, their positions, and the least certain predictions.
import { byId, call, element, percent, showStatus, unpack } from "./api.js";
import { legend } from "./charts.js";
import { Plot, colorOf, shapeOf } from "./plot.js";

const ROWS_PER_PAGE = 100;
const count = (n) => n.toLocaleString("en");

export async function showModel() {
  showStatus("Predicting the new rows…");
  const facts = await call("model");
  const points = unpack(facts.positions);
  showStatus("");
  byId("model").hidden = false;
  byId("facts").textContent = `${facts.name}: ${count(facts.rows)} rows, ${facts.classes.length} classes, ${facts.sources.length} source domains`;
  showNovelty(facts);
  const groups = new Map();
  facts.label.forEach((name, i) => {
    const code = facts.classes.indexOf(name);
    if (!groups.has(code)) groups.set(code, { rows: [], color: colorOf(code), shape: shapeOf(code), hollow: true });
    groups.get(code).rows.push(i);
  });
  const describe = (i) => {
    const lines = [`row ${facts.row[i]}`, `predicted ${facts.label[i]}, ${percent(facts.certainty[i])}`];
    if (facts.domain[i] !== null) lines.push(`domain ${facts.domain[i]}`);
    return lines.join("\n");
  };
  const plot = new Plot(byId("positions"), byId("positions-tip"), { describe });
  const anchors = facts.source_positions.map((position, k) => ({ position, name: facts.sources[k], color: "--q6" }));
  plot.show(points, { groups: [...groups.values()], anchors });
  legend(byId("positions-legend"), { colors: facts.classes, shapes: [], paired: true });
  showRows(facts);
}

function showNovelty({ summary, notices, rows, row }) {
  const lines = summary.novelty.map(({ domain, text, far }) =>
    element("p", { class: far ? "alarm" : "" }, domain === null ? "" : `${domain}: `, text));
  if (summary.agreement) {
    lines.push(element("p", {}, `Accuracy on the labels of the table: ${percent(summary.agreement.accuracy)}`));
  }
  if (row.length < rows) {
    const text = `The ${count(row.length)} least certain of ${count(rows)} rows are shown and listed.`;
    lines.push(element("p", { class: "soft" }, text));
  }
  lines.push(...notices.map((text) => element("p", { class: "soft" }, text)));
  byId("novelty").replaceChildren(...lines);
}

function showRows({ row, label, certainty, probabilities, domain, classes }) {
  const hasDomains = domain.some((name) => name !== null);
  const headers = ["Row", ...(hasDomains ? ["Domain"] : []), "Predicted", "Certainty", ...classes.map((name) => `p(${name})`)];
  const head = element("thead", {}, element("tr", {}, ...headers.map((text) => element("th", {}, text))));
  const body = element("tbody");
  byId("rows").replaceChildren(head, body);
  let shown = 0;
  const showMore = () => {
    const end = Math.min(row.length, shown + ROWS_PER_PAGE);
    for (; shown < end; shown++) {
      const numbers = probabilities[shown].map((probability) => probability.toFixed(3));
      const cells = [row[shown], ...(hasDomains ? [domain[shown]] : []), label[shown], percent(certainty[shown]), ...numbers];
      body.append(element("tr", {}, ...cells.map((text) => element("td", {}, text))));
    }
    byId("more").hidden = shown >= row.length;
  };
  byId("more").addEventListener("click", showMore);
  showMore();
}
