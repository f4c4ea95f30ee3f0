// Search, filter and order of the documents, and order of the tables. Everything is on the page without this.
(() => {
  "use strict";
  const all = (selector, inside = document) => Array.from(inside.querySelectorAll(selector));
  const id = (name) => document.getElementById(name);

  // ------------------------------------------------------------------------------------------------- documents
  const filters = document.querySelector(".filters");
  const tasks = all("details.task");
  const fields = { text: id("search"), task: id("by-task"), model: id("by-model"), kind: id("by-kind"), order: id("by-order") };
  const groups = tasks.map((task) => ({
    task,
    open: task.open,
    documents: all("details.document", task).map((element, place) => ({
      element,
      place,
      kinds: element.dataset.kinds.split(" "),
      share: Number(element.dataset.share),
      answers: all(".answer", element).map((answer) => ({
        answer,
        model: answer.dataset.model,
        kinds: answer.dataset.kinds.split(" "),
      })),
      text: null,
    })),
  }));

  const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const value = (field) => (field ? field.value : "");

  function isOfTask(task, wanted) {
    const [what, name] = [wanted.slice(0, wanted.indexOf(":")), wanted.slice(wanted.indexOf(":") + 1)];
    return !wanted || (what === "task" ? task.dataset.task === name : task.dataset.benchmark === name);
  }

  function matches(document_, words, model, kind) {
    const answers = document_.answers.filter((each) => !model || each.model === model);
    if (!answers.length) return false;
    if (kind === "disagree" ? !document_.kinds.includes(kind) : kind && !answers.some((each) => each.kinds.includes(kind)))
      return false;
    if (!words.length) return true;
    document_.text ??= folded(document_.element.textContent);
    return words.every((word) => document_.text.includes(word));
  }

  function apply() {
    const words = folded(value(fields.text)).split(/\s+/).filter(Boolean);
    const [task, model, kind] = [value(fields.task), value(fields.model), value(fields.kind)];
    const narrowed = Boolean(words.length || task || model || kind);
    let [found, total] = [0, 0];
    for (const group of groups) {
      const here = isOfTask(group.task, task);
      let shown = 0;
      for (const each of group.documents) {
        const fits = here && matches(each, words, model, kind);
        each.element.hidden = !fits;
        shown += fits;
        for (const { answer, model: of } of each.answers) answer.hidden = Boolean(model) && of !== model;
      }
      group.task.hidden = narrowed && !shown;
      group.task.open = narrowed ? shown > 0 : group.open;
      found += shown;
      total += group.documents.length;
    }
    id("found").textContent = narrowed ? `${found} of ${total} documents on this page match.${found ? "" : " Clear the filters to see all."}` : "";
  }

  function order() {
    const byShare = value(fields.order) === "share";
    for (const group of groups) {
      const sorted = group.documents.slice().sort((a, b) => (byShare && b.share - a.share) || a.place - b.place);
      group.task.append(...sorted.map((each) => each.element));
    }
  }

  if (filters) {
    filters.hidden = false;
    let waiting = 0;
    fields.text.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(apply, 120);
    });
    for (const field of [fields.task, fields.model, fields.kind]) field?.addEventListener("change", apply);
    fields.order.addEventListener("change", order);
    id("clear").addEventListener("click", () => {
      for (const field of Object.values(fields)) if (field) field.value = "";
      order();
      apply();
      fields.text.focus();
    });
  }

  // ------------------------------------------------------------------------------------------- documents to check
  // Flags are kept by task and document: another report of the same document has them, too.
  const FLAGS = "lm-eval-grounded flags";
  let flags = {}; // task and document to a note
  const every = groups.flatMap(({ task: { dataset }, documents }) =>
    documents.map(({ element, answers }) => {
      const [box, field] = all(".flag input", element);
      const entry = { task: dataset.task, document: element.querySelector(".key").textContent };
      const models = answers.map(({ answer }) => answer.querySelector(".model").title);
      return { element, box, field, name: JSON.stringify(entry), entry: { ...entry, models } };
    }),
  );

  function readFlags() {
    try {
      flags = JSON.parse(localStorage.getItem(FLAGS)) ?? {};
    } catch {
      // A browser may keep nothing of a file: flags then last as long as the page.
    }
  }

  function showFlags() {
    for (const { element, box, field, name } of every) {
      box.checked = element.classList.toggle("flagged", flags[name] !== undefined);
      field.parentElement.hidden = !box.checked;
      if (field !== document.activeElement) field.value = flags[name] ?? "";
    }
    const number = all(".flagged").length;
    id("save-flags").hidden = !number;
    id("save-flags").textContent = `Save flagged (${number})`;
  }

  function setFlag({ box, field, name }) {
    readFlags(); // another tab may have set some since
    flags[name] = box.checked ? field.value : undefined;
    try {
      localStorage.setItem(FLAGS, JSON.stringify(flags));
    } catch {
      // as above
    }
    showFlags();
  }

  function saveFlags() {
    const list = every.filter(({ box }) => box.checked).map(({ entry, name }) => ({ ...entry, note: flags[name] }));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${JSON.stringify(list, null, 1)}\n`], { type: "application/json" }));
    link.download = "flagged_documents.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  for (const each of every) {
    each.box.closest(".flag").hidden = false;
    each.box.addEventListener("change", () => setFlag(each));
    each.field.addEventListener("input", () => setFlag(each));
  }
  if (filters) {
    id("save-flags").addEventListener("click", saveFlags);
    readFlags();
    showFlags();
  }

  // A link to a document opens it.
  function reveal() {
    const target = location.hash.length > 1 ? id(decodeURIComponent(location.hash.slice(1))) : null;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target?.matches("details")) target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  reveal();

  // --------------------------------------------------------------------------------------------------- tables
  const rowsFilter = document.querySelector(".rows-filter");
  if (rowsFilter) {
    rowsFilter.hidden = false;
    rowsFilter.querySelector("input").addEventListener("input", (event) => {
      const wanted = folded(event.target.value.trim());
      const rows = all(".dots tbody tr, .ranking tbody tr");
      for (const row of rows) row.hidden = !folded(row.querySelector("th").textContent).includes(wanted);
      rowsFilter.querySelector("[role=status]").textContent = wanted ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
    });
  }

  function key(row, column) {
    const cell = row.cells[column];
    return cell.dataset.sort ? Number(cell.dataset.sort) : (cell.dataset.sort ?? cell.textContent);
  }

  function sort(table, heading, column) {
    const down = heading.getAttribute("aria-sort") === "ascending";
    const rows = Array.from(table.tBodies[0].rows).map((row) => [key(row, column), row]);
    const compared = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    rows.sort(([a], [b]) => (a === "") - (b === "") || (down ? compared(b, a) : compared(a, b))); // what is not known is last
    for (const each of all("th", table.tHead)) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  for (const table of all("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    all("th", table.tHead).forEach((heading, column) => {
      if (heading.className === "drawn") return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, heading, column));
    });
  }
})();
