"use strict";
// Controls are hidden in the HTML and shown here, so that a browser without scripts shows no control without effect.
const announce = (text) => { document.getElementById("announcer").textContent = text; };

// Light or dark theme: the system's preference until the reader selects one.
const theme = document.getElementById("theme");
const preferred = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (preferred.matches ? "dark" : "light")) === "dark";
const showTheme = () => { theme.lastElementChild.textContent = isDark() ? "Switch to light" : "Switch to dark"; };
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});
preferred.addEventListener("change", showTheme);
theme.hidden = false;
showTheme();

// Sortable tables. Cells without a value stay at the end in both directions.
const sortKey = (cell) => (cell.dataset.sort ?? cell.textContent).trim();

function compareKeys(a, b) {
  const x = Number(a);
  const y = Number(b);
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, { numeric: true }) : x - y;
}

function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, key: sortKey(row.cells[column]) }));
  const isEmpty = (key) => key === "" || key === "nan" || key === "–";
  rows.sort((a, b) => isEmpty(a.key) - isEmpty(b.key) || direction * compareKeys(a.key, b.key));
  body.append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    header.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      // Numbers are sorted in descending order first, names in ascending order.
      const first = header.classList.contains("num") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = header.getAttribute("aria-sort") === first ? other : first;
      headers.forEach((each) => each.setAttribute("aria-sort", each === header ? order : "none"));
      sortTable(table, column, order === "ascending" ? 1 : -1);
      announce(`Sorted by ${button.textContent}, ${order}.`);
    });
  });
}

// Paper shows what the screen folds.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

// Copying needs the browser's permission; without it the text is selected, so that the reader can copy it.
const copy = document.getElementById("copy");
if (copy) {
  const command = document.getElementById("command");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      copy.textContent = "Copied";
      announce("Command copied.");
    } catch {
      getSelection().selectAllChildren(command);
      copy.textContent = "Selected: press Ctrl+C or ⌘C";
      announce("Command selected. Copy it with your keyboard.");
    }
  });
  copy.hidden = false;
}

// A frame can have the keyboard focus only while it can be scrolled.
const frames = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth + 1 || target.scrollHeight > target.clientHeight + 1;
    if (scrolls) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll(".scroll").forEach((frame) => frames.observe(frame));
