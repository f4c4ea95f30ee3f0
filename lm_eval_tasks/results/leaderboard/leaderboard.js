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
  const inside = Array.from(document.querySelectorAll("details table.sortable"));
  const select = document.querySelector(".filter select");
  const names = new Map(inside.flatMap((table) => Array.from(table.tHead.rows[0].cells).slice(1).map((head) => [head.dataset.name, head.querySelector("button").firstChild.textContent])));
  for (const [code, name] of Array.from(names).sort(([, a], [, b]) => a.localeCompare(b))) select?.append(new Option(name, code));
  select?.parentElement.toggleAttribute("hidden", !names.size);
  select?.addEventListener("change", () => {
    for (const table of inside) {
      const heads = Array.from(table.tHead.rows[0].cells);
      const isShown = heads.map((head, column) => !column || !select.value || head.dataset.name === select.value);
      for (const row of table.rows) Array.from(row.cells).forEach((cell, column) => (cell.hidden = !isShown[column]));
      const first = heads.find((head, column) => column && isShown[column]);
      table.closest("details").open = Boolean(select.value && first);
      first?.removeAttribute("aria-sort");
      if (select.value) first?.querySelector("button").click();
    }
    if (select.value) inside.find((table) => table.closest("details").open)?.closest("details").scrollIntoView();
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
