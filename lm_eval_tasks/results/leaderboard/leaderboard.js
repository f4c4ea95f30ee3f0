// Orders a table by a column, and hides rows that are not looked for. Everything is on the page without this.
(() => {
  "use strict";
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        const rising = now ? now === "descending" : head.dataset.first !== "descending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.sort;
        const rows = Array.from(body.rows).map((row, place) => ({ row, place, key: key(row) }));
        rows.sort((a, b) => {
          if ((a.key === undefined) !== (b.key === undefined)) return a.key === undefined ? 1 : -1; // what is missing is last
          if (a.key === b.key) return a.place - b.place;
          const [x, y] = [Number(a.key), Number(b.key)];
          const order = Number.isNaN(x) || Number.isNaN(y) ? a.key.localeCompare(b.key) : x - y;
          return rising ? order : -order;
        });
        body.append(...rows.map((each) => each.row));
      });
    });
  }
  // Of the tables by language, one language alone, its best model first.
  const inside = Array.from(document.querySelectorAll("details table.sortable"), (table) => [table, Array.from(table.tHead.rows[0].cells)]);
  const select = document.querySelector(".filter select");
  for (const [, heads] of inside)
    for (const { dataset } of heads)
      if (dataset.name && !select.querySelector(`[value="${CSS.escape(dataset.name)}"]`)) select.append(new Option(dataset.language, dataset.name));
  select?.addEventListener("change", () => {
    for (const [table, heads] of inside) {
      const isShown = heads.map(({ dataset }) => !dataset.name || !select.value || dataset.name === select.value);
      for (const row of table.rows) Array.from(row.cells).forEach((cell, column) => (cell.hidden = !isShown[column]));
      const first = heads.find(({ dataset }) => select.value && dataset.name === select.value);
      table.closest("details").open = Boolean(first);
      first?.removeAttribute("aria-sort");
      first?.querySelector("button").click();
    }
    document.querySelector("details[open]:has(table)")?.scrollIntoView();
  });
  const filter = document.querySelector(".filter");
  if (!filter) return;
  filter.hidden = false;
  filter.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    const rows = Array.from(document.querySelectorAll("table.sortable tbody tr"));
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    const shown = rows.filter((row) => !row.hidden).length;
    filter.querySelector("[role=status]").textContent = wanted ? `${shown} of ${rows.length} rows` : "";
  });
})();
