// Marks what is made up in answers, or labels them. Texts of answers, questions and references are only ever
// written by textContent, and an answer's element holds its characters and nothing else: offsets are counted there.
//
// Offsets on the page count UTF-16 units, as the browser does. Those in `spans`, kept and saved, count code points.
(() => {
  "use strict";
  const id = (name) => document.getElementById(name);
  const all = (selector, inside = document) => Array.from(inside.querySelectorAll(selector));
  const content = JSON.parse(id("content").textContent);
  const { kind, categories } = content;
  const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

  function made(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    if (properties.label) element.setAttribute("aria-label", properties.label);
    element.append(...children);
    return element;
  }

  // -------------------------------------------------------------------------------------------------------- texts
  const PATTERNS = { word: /[\p{L}\p{M}\p{N}]+|\S/gu, grapheme: /\P{M}\p{M}*|\p{M}+/gu, sentence: /[^.!?।。؟\n]*[.!?।。؟\n]*\s*/gu };

  // The words, graphemes or sentences of a text, as [start, end]. Japanese, Thai and others have no spaces to go by.
  function segments(text, granularity, language) {
    const known = language && /^[a-z]{2,3}(-[a-z0-9]{2,8})*$/i.test(language) ? language : "und";
    const parts = Intl.Segmenter
      ? Array.from(new Intl.Segmenter(known, { granularity }).segment(text), ({ index, segment }) => [index, index + segment.length])
      : Array.from(text.matchAll(PATTERNS[granularity]), (found) => [found.index, found.index + found[0].length]);
    return parts.filter(([start, end]) => start < end);
  }

  // What the arrows go to: words, numbers, symbols and emoji, or whatever there is where a text has none.
  function wordsOf(text, language) {
    const every = segments(text, "word", language).filter(([start, end]) => text.slice(start, end).trim());
    const words = every.filter(([start, end]) => /[\p{L}\p{N}\p{S}]/u.test(text.slice(start, end)));
    return words.length ? words : every;
  }

  // The UTF-16 offset of each code point, and of the end. Half of a surrogate pair is one, as it is in Python.
  function pointsOf(text) {
    const starts = [];
    for (let at = 0; at < text.length; at += text.codePointAt(at) > 0xffff ? 2 : 1) starts.push(at);
    return [...starts, text.length];
  }

  // The place of the code point that begins at a UTF-16 offset, or, inside of one, before or after it.
  function pointAt(starts, unit, after) {
    const place = starts.findIndex((start) => start >= unit);
    return starts[place] > unit && !after ? place - 1 : place;
  }

  function directionOf(text) {
    const letters = (text.match(/\p{L}/gu) ?? []).length;
    const leftward = (text.match(/[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/gu) ?? []).length;
    return letters ? (leftward * 2 > letters ? "rtl" : "ltr") : content.direction;
  }

  // Case, accents and vowel points make no difference to a search.
  const folded = (text) => text.normalize("NFKD").replace(/[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u065f\u0670]/g, "").toLowerCase();

  // Writes a text into an element; layers are {start, end, name, tag, category}, and may overlap.
  function paint(element, text, layers) {
    const cuts = Array.from(new Set([0, text.length, ...layers.flatMap((layer) => [layer.start, layer.end])])).sort((a, b) => a - b);
    const pieces = cuts.slice(1).map((end, place) => {
      const start = cuts[place];
      const over = layers.filter((layer) => layer.start <= start && end <= layer.end);
      if (!over.length) return document.createTextNode(text.slice(start, end));
      const piece = made(over.find((layer) => layer.tag)?.tag ?? "span", { className: over.map((layer) => layer.name).join(" ") });
      piece.textContent = text.slice(start, end);
      const named = over.find((layer) => layer.category && layer.end === end);
      if (named) piece.dataset.category = named.category;
      return piece;
    });
    element.replaceChildren(...pieces);
  }

  // --------------------------------------------------------------------------------------------------------- state
  const first = content.items[0].line;
  const drawOf = (line) => JSON.stringify([line.task, line.kind, line.draw?.seed, line.draw?.runs]);
  const keyOf = (line) => JSON.stringify([line.id, line.run]);
  const address = (...parts) => JSON.stringify(["lm-eval-grounded mark", drawOf(first), ...parts]);
  const untouched = { changed: 0, done: false, suggested: content.suggest, spans: [], cannot_tell: false, note: "", seconds: 0 };
  const fresh = (item) => ({ ...untouched, spans: item.suggested });

  const nameOf = (item) => `Answer ${items.indexOf(item) + 1}`;
  const items = content.items.map(({ line, suggested }) => {
    const item = { line, key: keyOf(line), characters: Array.from(line.answer) };
    item.suggested = suggested.reduce((spans, span) => withMark(item, spans, ...span), []);
    return Object.assign(item, { state: fresh(item) });
  });
  const unkept = new Set(); // items that the browser has not kept yet
  let annotator = "";
  let current = null; // null: at the start or the end
  let steps = []; // for Undo: the states before each, as [item, state]

  function isState(state, item) {
    const isSpan = ([start, end, category]) =>
      Number.isInteger(start) && Number.isInteger(end) && 0 <= start && start < end && end <= item.characters.length && typeof category === "string";
    return (
      Number.isFinite(state?.changed) && Number.isFinite(state.seconds) && typeof state.note === "string" &&
      Array.isArray(state.spans) && state.spans.every((span) => Array.isArray(span) && isSpan(span))
    );
  }

  // Everything is kept twice, in the browser and in this tab. Chromium may take a page to another process when it is loaded again,
  // and show it an empty localStorage there, which forgets what is written to it.
  function kept(...place) {
    const [inBrowser, inTab] = ["localStorage", "sessionStorage"].map((store) => {
      try {
        return JSON.parse(window[store].getItem(address(...place)));
      } catch {
        return null;
      }
    });
    return inTab?.changed > (inBrowser?.changed ?? 0) ? inTab : inBrowser ?? inTab;
  }

  // Takes what another tab has kept of an answer since. What could be undone here is not there any more.
  function refresh(item) {
    const state = kept(annotator, item.key);
    if (!isState(state, item) || state.changed <= item.state.changed) return false;
    item.state = state;
    steps = steps.filter((step) => step.every(([other]) => other !== item));
    renderUndo();
    return true;
  }

  function keep(value, ...place) {
    const text = JSON.stringify(value);
    try {
      sessionStorage.setItem(address(...place), text);
    } catch {
      // the other store counts
    }
    try {
      localStorage.setItem(address(...place), text);
      warn("");
      return true;
    } catch (error) {
      const reason = /quota/i.test(error.name) ? "This browser has no room left to keep your work" : "This browser lets the page keep nothing";
      warn(`${reason}. You can go on, but save the file before you close the page, or your work is lost.`);
      return false;
    }
  }

  function warn(text) {
    id("warning").textContent = text;
    id("warning").hidden = !text;
  }

  function keepAll() {
    for (const item of unkept) {
      if (!refresh(item) && !keep(item.state, annotator, item.key)) return;
      unkept.delete(item);
    }
  }

  // One step: changes the states of some items, keeps them, and can be undone.
  function change(changed, edit, isStep = true) {
    tick();
    isSaved = false;
    changed.forEach(refresh);
    if (isStep) steps.push(changed.map((item) => [item, structuredClone(item.state)]));
    renderUndo();
    for (const item of changed) {
      edit(item.state, item);
      item.state.changed = Math.max(Date.now(), item.state.changed + 1);
      unkept.add(item);
    }
    keepAll();
  }

  function undo() {
    if (steps.at(-1)?.filter(([item]) => refresh(item)).length) {
      render();
      return say("Not undone: another tab has changed this answer since.");
    }
    const step = steps.pop();
    if (!step) return say("There is nothing to undo.");
    const before = new Map(step);
    const restored = (state, item) => {
      item.state = { ...before.get(item), changed: state.changed, seconds: state.seconds };
    };
    change(Array.from(before.keys()), restored, false);
    if (before.size === 1 && current !== step[0][0]) go(items.indexOf(step[0][0]));
    render();
    if (current && !steps.length) panes[0].element.focus({ preventScroll: true }); // the button cannot hold the focus any more
    say("Undone.");
  }

  function renderUndo() {
    for (const button of all(".undo")) button.disabled = !steps.length;
  }

  const say = (text) => {
    id("message").textContent = text;
  };

  // Seconds at an answer. A pause of more than a minute is no work, nor is what happens in another tab.
  let lastSign = performance.now();
  let isVisible = !document.hidden;
  function tick() {
    const now = performance.now();
    if (current && isVisible) current.state.seconds += Math.min(now - lastSign, 60_000) / 1000;
    lastSign = now;
  }

  // --------------------------------------------------------------------------------------------------------- marks
  // The spans with another, without white space at their ends. Where it overlaps one of its category both become one; of others
  // it takes what it covers.
  function withMark({ characters }, spans, start, end, category) {
    const isApart = ([from, to, of]) => of === category || to <= start || end <= from;
    const rest = spans.flatMap((span) => (isApart(span) ? [span] : [[span[0], start, span[2]], [end, span[1], span[2]]]));
    const merged = [];
    for (let [from, to, of] of [...rest, [start, end, category]].sort((a, b) => a[0] - b[0])) {
      while (from < to && !characters[from].trim()) from += 1;
      while (from < to && !characters[to - 1].trim()) to -= 1;
      const before = merged.at(-1);
      if (before?.[2] === of && from <= before[1]) before[1] = Math.max(before[1], to);
      else if (from < to) merged.push([from, to, of]);
    }
    return merged;
  }

  // Changes the spans of the answer. What is done stays done while something is marked.
  function setSpans(edit) {
    change([current], (state) => {
      const spans = edit(state.spans);
      Object.assign(state, { spans, cannot_tell: false, done: state.done && !state.cannot_tell && spans.length > 0 });
    });
    render();
  }

  const without = (gone) => (spans) => spans.filter((span) => !gone.some((other) => String(other) === String(span)));

  const category = () => id("choices").elements.category?.value || categories[0] || "hallucination";

  // Marks a part of the answer, in UTF-16 units. What the arrows have selected is exact.
  function mark([from, to], isExact = false) {
    const [pane] = panes;
    if (id("whole").checked && !isExact)
      for (const [start, end] of pane.words) {
        if (start < from && from < end) from = start;
        if (start < to && to < end) to = end;
      }
    const [start, end] = [pointAt(pane.points, from, false), pointAt(pane.points, to, true)];
    getSelection().removeAllRanges();
    held = null;
    cursor = { pane, anchor: [from, to], focus: [from, to] };
    setSpans((spans) => withMark(current, spans, start, end, category()));
    speak("marked");
  }

  const touched = ([from, to]) => current.state.spans.filter(([start, end]) => panes[0].points[start] < to && from < panes[0].points[end]);

  function unmark(part) {
    const gone = touched(part);
    if (gone.length) setSpans(without(gone));
    speak(gone.length ? "not marked any more" : "not marked");
  }

  // A click on a mark removes it, or gives it the chosen category.
  function toggle(element) {
    const from = offsetIn(panes[0].element, element, 0);
    const [span] = touched([from, from + 1]);
    if (categories.length && span[2] !== category()) setSpans((spans) => withMark(current, spans, span[0], span[1], category()));
    else setSpans(without([span]));
  }

  // ----------------------------------------------------------------------------------------- words under the cursor
  // A pane is an answer on the page. The cursor is in one: anchor and focus are words or graphemes, as [start, end].
  let panes = [];
  let cursor = null;
  let held = null; // what is selected by mouse or finger, as [start, end]

  const spread = ({ anchor, focus }) => [Math.min(anchor[0], focus[0]), Math.max(anchor[1], focus[1])];
  const selected = () => held ?? (cursor && spread(cursor));

  function neighbour(list, unit, by) {
    const onward = by > 0 ? list.find(([start]) => start >= unit[1]) : list.findLast(([, end]) => end <= unit[0]);
    return onward ?? unit;
  }

  function moved(pane, by, extend, byCharacter) {
    const [word] = pane.words;
    if (!word || cursor?.pane !== pane) return word ? { pane, anchor: word, focus: word } : null;
    let { anchor, focus } = cursor;
    if (byCharacter) {
      const [from, to] = spread(cursor);
      const edges = [pane.graphemes.find(([, end]) => end > from), pane.graphemes.findLast(([start]) => start < to)];
      const isForward = anchor[0] <= focus[0];
      if (extend) [anchor, focus] = isForward ? edges : [edges[1], edges[0]];
      else if (edges[0] !== edges[1]) return { pane, anchor: edges[by > 0 ? 1 : 0], focus: edges[by > 0 ? 1 : 0] };
    }
    focus = neighbour(byCharacter ? pane.graphemes : pane.words, focus, by);
    return { pane, anchor: extend ? anchor : focus, focus };
  }

  // The word above or below, nearest to the middle of this one.
  function movedLine(pane, by, extend) {
    if (cursor?.pane !== pane) return moved(pane, by, extend, false);
    const [box] = boxesOf(pane, cursor.focus);
    const middle = (box.left + box.right) / 2;
    const onward = by > 0 ? pane.words.filter(([start]) => start >= cursor.focus[1]) : pane.words.filter(([, end]) => end <= cursor.focus[0]).reverse();
    let [best, line, nearest] = [cursor.focus, null, Infinity];
    for (const word of onward) {
      const [here] = boxesOf(pane, word);
      const height = (here.top + here.bottom) / 2;
      if (box.top < height && height < box.bottom) continue;
      line ??= here;
      if (height < line.top || line.bottom < height) break;
      const distance = Math.max(here.left - middle, middle - here.right, 0);
      if (distance < nearest) [best, nearest] = [word, distance];
    }
    return { pane, anchor: extend ? cursor.anchor : best, focus: best };
  }

  function boxesOf(pane, [start, end]) {
    const range = document.createRange();
    const walker = document.createTreeWalker(pane.element, NodeFilter.SHOW_TEXT);
    for (let at = 0, node = walker.nextNode(); node; at += node.length, node = walker.nextNode()) {
      if (at <= start && start < at + node.length) range.setStart(node, start - at);
      if (at < end && end <= at + node.length) {
        range.setEnd(node, end - at);
        break;
      }
    }
    return Array.from(range.getClientRects());
  }

  function offsetIn(element, node, at) {
    const range = document.createRange();
    range.setStart(element, 0);
    range.setEnd(node, at);
    return range.toString().length;
  }

  // What of a pane the mouse or a finger has selected, if the selection began there.
  function nativeSelection(pane) {
    const selection = getSelection();
    if (!pane || selection.isCollapsed || !pane.element.contains(selection.anchorNode)) return null;
    const { startContainer, startOffset, endContainer, endOffset } = selection.getRangeAt(0);
    const inside = (node) => pane.element.contains(node);
    const start = inside(startContainer) ? offsetIn(pane.element, startContainer, startOffset) : 0;
    const end = inside(endContainer) ? offsetIn(pane.element, endContainer, endOffset) : pane.text.length;
    return start < end ? [start, end] : null;
  }

  function wordAt(pane, x, y) {
    const caret = document.caretPositionFromPoint?.(x, y);
    const range = caret ? null : document.caretRangeFromPoint?.(x, y);
    const [node, at] = caret ? [caret.offsetNode, caret.offset] : [range?.startContainer, range?.startOffset];
    if (!node || !pane.element.contains(node)) return null;
    const unit = offsetIn(pane.element, node, at);
    const beside = pane.words.filter(([start, end]) => start <= unit && unit <= end); // two where there are no spaces
    const isUnder = (word) => boxesOf(pane, word).some((box) => box.left <= x && x <= box.right);
    return beside.find(isUnder) ?? beside[0] ?? neighbour(pane.words, [unit, unit], 1);
  }

  // What a screen reader says where the cursor went.
  function speak(what) {
    if (!cursor) return;
    const [from, to] = spread(cursor);
    const note = what ?? (kind === "spans" && touched([from, to]).length ? "marked" : "");
    id("spoken").textContent = cursor.pane.text.slice(from, to) + (note && `, ${note}`);
  }

  function setCursor(next) {
    cursor = next;
    renderTexts();
    cursor?.pane.element.querySelector(".cursor")?.scrollIntoView({ block: "nearest" });
    speak();
  }

  // ----------------------------------------------------------------------------------------------------- reference
  let reference = { text: null };
  let inFocus = ""; // the sentence of an answer whose words the reference shows
  let hits = [];
  let hit = 0;

  const stemOf = (word) => folded(word).slice(0, 6); // finds most inflected forms

  function referenceOf(text, language) {
    const passages = [];
    let start = 0;
    for (const [, end] of segments(text, "sentence", language))
      if (end - start >= 240 || text[end - 1] === "\n" || end === text.length) {
        passages.push({ start, end, words: [] });
        start = end;
      }
    const frequency = new Map(); // of a stem: in how many passages it is
    let place = 0;
    for (const [from, to] of wordsOf(text, language)) {
      while (passages[place].end <= from) place += 1;
      passages[place].words.push({ start: from, end: to, stem: stemOf(text.slice(from, to)) });
    }
    for (const { words } of passages)
      for (const stem of new Set(words.map((word) => word.stem))) frequency.set(stem, (frequency.get(stem) ?? 0) + 1);
    return { text, passages, weight: (stem) => Math.log(1 + passages.length / (frequency.get(stem) ?? 1)) };
  }

  // The passages that hold most of a sentence's words, best first, if it is a fifth or more. Rare words count most.
  function nearest(stems) {
    const sum = (words) => words.reduce((total, stem) => total + reference.weight(stem), 0);
    const scored = reference.passages.map((passage) => {
      const own = new Set(passage.words.map((word) => word.stem));
      return { passage, score: sum(Array.from(stems).filter((stem) => own.has(stem))) };
    });
    const least = Math.max(0.2 * sum(Array.from(stems)), ...scored.map(({ score }) => 0.6 * score));
    const near = scored.filter(({ score }) => score > 0 && score >= least).sort((a, b) => b.score - a.score);
    return near.slice(0, 3).map(({ passage }) => passage);
  }

  function placesOf(text, wanted) {
    const points = pointsOf(text);
    const origins = []; // of each folded character
    let flat = "";
    for (let place = 0; place < points.length - 1; place += 1) {
      flat += folded(text.slice(points[place], points[place + 1]));
      while (origins.length < flat.length) origins.push(place);
    }
    const places = [];
    for (let at = wanted ? flat.indexOf(wanted) : -1; at >= 0; at = flat.indexOf(wanted, at + wanted.length))
      places.push([points[origins[at]], points[origins[at + wanted.length - 1] + 1]]);
    return places;
  }

  function search(by) {
    const wanted = folded(id("search").value.trim());
    if (by) hit = (hit + by + hits.length) % (hits.length || 1);
    else [hits, hit] = [placesOf(reference.text, wanted), 0];
    id("hits").textContent = wanted ? (hits.length ? `${hit + 1} of ${hits.length}` : "nowhere") : "";
    renderReference();
    scrollReference(".here");
  }

  function scrollReference(selector) {
    const [box, target] = [id("reference"), id("reference").querySelector(selector)];
    if (target) box.scrollTop += target.getBoundingClientRect().top - box.getBoundingClientRect().top - 40;
  }

  function sentence() {
    const pane = cursor?.pane ?? panes[0];
    const at = held?.[0] ?? cursor?.focus[0] ?? 0;
    return { pane, range: pane.sentences.find(([, end]) => at < end) ?? [0, 0] };
  }

  function renderReference() {
    const { pane, range } = sentence();
    const words = pane.words.filter(([start]) => range[0] <= start && start < range[1]);
    const stems = new Set(words.map(([start, end]) => stemOf(pane.text.slice(start, end))));
    const near = nearest(stems);
    const layers = hits.map(([start, end], place) => ({ start, end, name: place === hit ? "hit here" : "hit", tag: "mark" }));
    const parts = reference.passages.map((passage) => {
      const span = made("span", { className: near.includes(passage) ? (passage === near[0] ? "near best" : "near") : "" });
      const shared = near.includes(passage) ? passage.words.filter((word) => stems.has(word.stem)) : [];
      const inside = [...layers, ...shared.map((word) => ({ ...word, name: "shared" }))]
        .filter((layer) => layer.start < passage.end && passage.start < layer.end)
        .map((layer) => ({ ...layer, start: Math.max(layer.start - passage.start, 0), end: Math.min(layer.end, passage.end) - passage.start }));
      paint(span, reference.text.slice(passage.start, passage.end), inside);
      return span;
    });
    id("reference").replaceChildren(...parts);
  }

  // Shows what the reference says of the sentence in focus, where that has changed.
  function follow() {
    const { pane, range } = sentence();
    const next = JSON.stringify([panes.indexOf(pane), ...range]);
    if (next === inFocus) return;
    inFocus = next;
    renderReference();
    scrollReference(".best");
  }

  // ------------------------------------------------------------------------------------------------------ the page
  function openItem(item) {
    const { line } = item;
    panes = all(".answer").map((element, place) => {
      const text = item.line.answer;
      Object.assign(element, { lang: line.language ?? "", dir: directionOf(text) });
      return {
        element,
        text,
        points: pointsOf(text),
        words: wordsOf(text, line.language),
        graphemes: segments(text, "grapheme", line.language),
        sentences: segments(text, "sentence", line.language),
      };
    });
    for (const [name, text] of [["question", line.question ?? ""], ["reference", line.reference ?? ""]]) {
      Object.assign(id(name), { lang: line.language ?? "", dir: directionOf(text), textContent: text });
      if (name === "reference" && text !== reference.text) reference = referenceOf(text, line.language);
    }
    [cursor, held, inFocus, hits] = [null, null, "", []];
    id("search").value = id("hits").textContent = "";
    id("reference").scrollTop = 0;
    render();
  }

  // To an answer, or behind the last one to the end.
  function go(place) {
    tick();
    if (current) unkept.add(current);
    keepAll();
    current = items[place] ?? null;
    for (const name of ["start", "work", "end"]) id(name).hidden = name !== (current ? "work" : "end");
    id("controls").hidden = false;
    isNoting = false;
    say("");
    if (current) {
      refresh(current);
      openItem(current);
      panes[0].element.focus({ preventScroll: true });
    } else {
      renderEnd();
      id("end-title").focus();
    }
    if (current && matchMedia("(max-width: 56rem)").matches) id("work").scrollIntoView(); // all of a phone is for reading
    else scrollTo(0, 0);
  }

  function renderTexts() {
    for (const pane of panes) {
      const layers = [];
      if (kind === "spans")
        for (const [start, end, of] of current.state.spans)
          layers.push({ start: pane.points[start], end: pane.points[end], name: "made-up", tag: "mark", category: categories.length ? of : "" });
      if (cursor?.pane === pane) {
        const [start, end] = spread(cursor);
        layers.push({ start, end, name: "cursor" });
      }
      paint(pane.element, pane.text, layers);
    }
    if (kind === "spans") id("mark").disabled = !selected();
    follow();
  }

  function markEntry(span) {
    const { points, text } = panes[0];
    const quoted = text.slice(points[span[0]], points[span[1]]);
    const entry = made("li", {}, made("bdi", { textContent: quoted }));
    if (categories.length) {
      const select = made("select", { label: `Category of ${quoted}` }, ...categories.map((name) => made("option", { textContent: name })));
      select.value = span[2];
      select.addEventListener("change", () => {
        setSpans((spans) => withMark(current, spans, span[0], span[1], select.value));
        id("marks").children[current.state.spans.findIndex(([start, end]) => start <= span[0] && span[1] <= end)].querySelector("select").focus();
      });
      entry.append(select);
    }
    const button = made("button", { type: "button", textContent: "\u00d7", label: `Remove the mark of ${quoted}`, title: "Remove this mark" });
    button.addEventListener("click", () => {
      setSpans(without([span]));
      panes[0].element.focus();
    });
    entry.append(button);
    return entry;
  }

  function stateInWords({ done, spans, cannot_tell, label }) {
    if (cannot_tell && kind === "spans") return "Done: cannot tell.";
    if (kind === "spans" && spans.length) return `${count(spans.length, "part")} marked${done ? ". Done." : ': "Next" confirms.'}`;
    const what = { spans: "nothing made up", labels: label }[kind];
    return done ? (what ? `Done: ${what}.` : "Done.") : "Not done yet.";
  }

  function render() {
    if (!current) return renderEnd();
    renderStatus();
    const { state } = current;
    renderTexts();
    id("place").textContent = `${nameOf(current)} of ${items.length}`;
    id("state").textContent = stateInWords(state);
    if (id("note").value !== state.note) id("note").value = state.note;
    id("back").disabled = current === items[0];
    id("next").textContent = current === items.at(-1) ? "Finish" : "Next";
    if (kind === "spans") {
      id("marks").replaceChildren(...state.spans.map(markEntry));
      id("nothing").setAttribute("aria-pressed", state.done && !state.cannot_tell && !state.spans.length);
      id("unknown").setAttribute("aria-pressed", state.cannot_tell);
    }
    for (const button of all("[data-label]")) button.setAttribute("aria-pressed", state.label === button.dataset.label);
  }

  function renderStatus() {
    const done = items.filter((item) => item.state.done);
    const mean = done.reduce((sum, item) => sum + item.state.seconds, 0) / done.length;
    const open = items.length - done.length;
    const minutes = Math.ceil((mean * open) / 60);
    const left = minutes < 90 ? count(minutes, "minute") : count(Math.round(minutes / 60), "hour");
    id("progress").textContent = `${done.length} of ${items.length} done${done.length && open ? `, about ${left} left` : ""}`;
    Object.assign(id("bar"), { max: items.length, value: done.length });
    id("who").textContent = annotator;
    id("save").disabled = id("save-end").disabled = !done.length;
  }

  function renderEnd() {
    const open = items.filter((item) => !item.state.done);
    id("end-title").textContent = open.length ? `${count(open.length, "answer")} still open` : "Everything is done";
    const before = open.length ? "Go to them, or save what is done and go on later." : "Thank you!";
    id("end-text").textContent = `${before} Save the file and send it to whoever sent you this page.`;
    id("left").replaceChildren(
      ...open.map((item) => {
        const button = made("button", { type: "button", textContent: nameOf(item) });
        button.addEventListener("click", () => go(items.indexOf(item)));
        return button;
      }),
    );
    renderStatus();
  }

  // ---------------------------------------------------------------------------------------------------- what is done
  function next() {
    const { state } = current;
    if (kind === "spans" && state.spans.length && !state.done) decide({});
    else step(1);
  }

  function step(by) {
    const left = by > 0 && !current.state.done ? `${nameOf(current)} is left open.` : "";
    go(items.indexOf(current) + by);
    say(left);
  }

  function decide(judgement) {
    const cleared = judgement.spans && current.state.spans.length ? `${nameOf(current)} has lost its marks. Undo brings them back.` : "";
    change([current], (state) => Object.assign(state, judgement, { done: true }));
    step(1);
    if (cleared) say(cleared);
  }

  const labelOf = Object.fromEntries(all("[data-label]").map(({ dataset }) => [dataset.label[0], dataset.label])); // by key
  const nothing = () => decide({ spans: [], cannot_tell: false });
  const unknown = () => decide({ spans: [], cannot_tell: true });

  // The key as a Latin keyboard has it: annotators write in scripts of their own.
  function latin({ key, code }) {
    const name = /^[ -~]+$/.test(key) ? key : code.replace(/^(Key|Digit|Numpad)/, "");
    return name.length === 1 ? name.toLowerCase() : name;
  }

  function onKey(event, pane) {
    const { shiftKey, altKey } = event;
    const key = latin(event);
    if (event.ctrlKey || event.metaKey) return;
    const isLeftward = getComputedStyle(pane.element).direction === "rtl";
    const by = { ArrowRight: isLeftward ? -1 : 1, ArrowLeft: isLeftward ? 1 : -1, ArrowUp: -1, ArrowDown: 1 }[key];
    const part = selected();
    const remove = () => part && unmark(part);
    const actions = { Enter: () => part && mark(part, !held), Backspace: remove, Delete: remove, n: nothing, t: unknown };
    const edge = { Home: pane.words[0], End: pane.words.at(-1) }[key];
    if (edge) setCursor({ pane, anchor: shiftKey && cursor?.pane === pane ? cursor.anchor : edge, focus: edge });
    else if (by) {
      held = null;
      setCursor(key === "ArrowUp" || key === "ArrowDown" ? movedLine(pane, by, shiftKey) : moved(pane, by, shiftKey, altKey));
    } else if (key === "Escape") setCursor((held = null));
    else if (kind === "labels" && labelOf[key]) decide({ label: labelOf[key] });
    else if (kind === "spans" && categories[key - 1]) id("choices").elements.category[key - 1].checked = true;
    else if (kind === "spans" && !altKey && actions[key]) actions[key]();
    else return;
    event.preventDefault();
  }

  // A click or a tap on a word, or on a mark. A second tap, or a click with Shift, selects as far as there.
  function onWord(event, pane) {
    const element = event.target.closest("mark");
    if (kind === "spans" && element && !event.shiftKey) {
      cursor = null;
      return event.detail < 2 && toggle(element);
    }
    const word = wordAt(pane, event.clientX, event.clientY);
    if (!word) return;
    const range = cursor?.pane === pane ? spread(cursor) : null;
    const isTap = pointer !== "mouse" && kind === "spans";
    if (isTap && range && range[0] <= word[0] && word[1] <= range[1]) setCursor(null);
    else setCursor({ pane, anchor: range && (isTap || event.shiftKey) ? cursor.anchor : word, focus: word });
  }

  let pointer = "mouse";
  let began = null; // the pane where the mouse went down
  const paneOf = (node) => panes.find((pane) => pane.element.contains(node)) ?? null;

  document.addEventListener("pointerdown", (event) => {
    pointer = event.pointerType;
    began = paneOf(event.target);
    if (began && pointer === "mouse" && event.shiftKey) getSelection().removeAllRanges();
  });
  document.addEventListener("mouseup", (event) => {
    if (pointer !== "mouse" || event.button || !began) return;
    const part = nativeSelection(began);
    if (part && kind === "spans" && !event.shiftKey) mark(part);
    else if (!part && began.element.contains(event.target)) onWord(event, began);
  });
  document.addEventListener("click", (event) => {
    const pane = paneOf(event.target);
    if (pointer !== "mouse" && pane && !nativeSelection(pane)) onWord(event, pane);
  });
  document.addEventListener("selectionchange", () => {
    const part = current && nativeSelection(panes[0]);
    if (!part && document.activeElement === id("mark")) return; // on some phones a tap on the button ends the selection first
    if (part || held) held = part;
    if (current && kind === "spans") id("mark").disabled = !selected();
    if (part) follow();
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("textarea, input[type=text], input[type=search]");
    const isCommand = event.ctrlKey || event.metaKey;
    const pane = current && (paneOf(event.target) ?? (kind === "labels" && !isTyping && labelOf[latin(event)] ? panes[0] : null));
    if (isCommand && latin(event) === "z" && !event.shiftKey && !isTyping) undo();
    else if (isCommand && event.key === "Enter" && current) next();
    else if (event.key === "/" && !isTyping && current) id("search").focus();
    else return pane && onKey(event, pane);
    event.preventDefault();
  });
  const signs = ["pointermove", "pointerdown", "keydown", "scroll"];
  for (const sign of signs) document.addEventListener(sign, tick, { capture: true, passive: true });

  const onClick = (name, action) => id(name)?.addEventListener("click", action);
  onClick("mark", () => {
    mark(selected());
    cursor = null; // the next tap begins anew
    render();
    panes[0].element.focus();
  });
  onClick("nothing", nothing);
  onClick("unknown", unknown);
  for (const button of all("[data-label]")) button.addEventListener("click", () => decide({ label: button.dataset.label }));
  onClick("next", next);
  onClick("back", () => step(-1));
  onClick("again", () => go(items.length - 1));
  for (const button of all(".undo")) button.addEventListener("click", undo);

  let isNoting = false; // what is typed in one go is one step
  id("note").addEventListener("input", () => {
    change([current], (state) => Object.assign(state, { note: id("note").value }), !isNoting);
    isNoting = true;
  });
  id("choices").addEventListener("submit", (event) => event.preventDefault());
  id("choices").addEventListener("change", ({ target }) => {
    if (target.id === "note") isNoting = false;
    else return target.id === "whole" && keep(target.checked, "whole words");
    render();
  });
  id("search").addEventListener("input", () => search(0));
  id("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) search(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") panes[0].element.focus();
  });

  // --------------------------------------------------------------------------------------------------------- files
  let isSaved = true;

  // The first line of a file has the order of the draw, its thresholds, and their digest.
  function lineOf({ line, state }, place) {
    const { spans, cannot_tell, label, note, suggested } = state;
    const judgement = kind === "spans" ? { spans: cannot_tell ? null : spans, cannot_tell } : { label };
    const draw = place ? line.draw : first.draw;
    const judged = { ...line, draw, annotator, ...judgement, note, seconds: Math.round(state.seconds * 10) / 10, suggested };
    return `${JSON.stringify(judged).replace(/[\u0085\u2028\u2029]/g, (end) => `\\u${end.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`;
  }

  function fileOf(person) {
    const name = person.normalize("NFC").replace(/[^\p{L}\p{M}\p{N}-]+/gu, "_").replace(/^_+|_+$/g, "").slice(0, 60);
    return `${content.file}_${name || "annotator"}.jsonl`;
  }

  function save() {
    const done = items.filter((item) => item.state.done);
    const link = made("a", {
      href: URL.createObjectURL(new Blob(done.map(lineOf), { type: "application/x-ndjson" })),
      download: fileOf(annotator),
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    isSaved = true;
    const skipped = items.slice(0, items.indexOf(done.at(-1))).filter((item) => !item.state.done);
    const names = skipped.length > 9 ? count(skipped.length, "answer") : skipped.map(nameOf).join(", ");
    const plea = names && ` Skipped so far: ${names}. Please do them, too.`;
    say(`${count(done.length, "answer")} saved as ${link.download}, among your downloads.${plea}`);
  }

  // The answer and the state that a line of a saved file is of. Throws why it cannot be taken.
  function judgementOf(text) {
    let line;
    try {
      line = JSON.parse(text);
    } catch {
      line = null;
    }
    if (typeof line !== "object" || line === null || Array.isArray(line)) throw Error("is none of a saved file");
    const drawn = ({ task, draw }) => `${task}, seed ${draw?.seed}`;
    if (drawOf(line) !== drawOf(first)) throw Error(`is of another draw (${drawn(line)}) than this page (${drawn(first)})`);
    const item = items.find(({ key }) => key === keyOf(line));
    if (!item) throw Error(`is of an answer that is not on this page (${line.id})`);
    const isOther = (name) => JSON.stringify(line[name]) !== JSON.stringify(item.line[name]);
    const other = ["question", "reference", "answer"].find(isOther);
    if (other) throw Error(`has another ${other} for ${line.id} than this page`);
    if (typeof line.annotator !== "string" || !line.annotator) throw Error("names no annotator");
    if (annotator && line.annotator !== annotator) throw Error(`is by ${line.annotator}, and you are ${annotator}; change your name to go on with it`);
    const { spans, note = "", seconds = 0 } = line;
    const state = { ...untouched, done: true, spans: spans ?? [], note, seconds };
    Object.assign(state, { suggested: line.suggested === true, cannot_tell: line.cannot_tell === true });
    if (kind === "labels") state.label = line.label;
    const isJudged = {
      spans: state.cannot_tell || Array.isArray(line.spans),
      labels: all("[data-label]").some((button) => button.dataset.label === line.label),
    }[kind];
    if (!isJudged || !isState(state, item)) throw Error("is damaged: its marks do not fit its answer");
    return { item, state, name: line.annotator };
  }

  async function restore(files) {
    const states = new Map();
    const refused = [];
    let name = annotator;
    for (const file of files) {
      if (file.size > 200_000_000) refused.push(`${file.name} is too large for a saved file`);
      else
        for (const [place, text] of (await file.text()).split("\n").entries()) {
          try {
            if (!text.trim()) continue;
            const judgement = judgementOf(text);
            name ||= judgement.name;
            if (judgement.name !== name) throw Error(`is by ${judgement.name}, and the first line by ${name}`);
            states.set(judgement.item, judgement.state);
          } catch (error) {
            refused.push(`line ${place + 1} of ${file.name} ${error.message}`);
          }
        }
    }
    if (states.size && !annotator) begin(name);
    const replaced = Array.from(states.keys()).filter((item) => item.state.done).length;
    if (states.size)
      change(Array.from(states.keys()), (state, item) => {
        item.state = { ...states.get(item), changed: state.changed };
      });
    if (states.size) go(firstOpen());
    const more = refused.length > 3 ? `, and ${refused.length - 3} more` : "";
    const undone = replaced ? `, of which ${replaced} had been done here (Undo brings them back)` : "";
    const left = refused.length ? ` Not taken: ${refused.slice(0, 3).join("; ")}${more}.` : "";
    say(`${count(states.size, "answer")} restored${undone}.${left}`);
  }

  onClick("save", save);
  onClick("save-end", save);
  for (const name of ["open", "resume"]) onClick(name, () => id("file").click());
  id("file").addEventListener("change", async () => {
    await restore(Array.from(id("file").files));
    id("file").value = "";
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return; // words that are dragged into the note
    event.preventDefault();
    restore(Array.from(event.dataTransfer.files));
  });

  // ------------------------------------------------------------------------------------------- beginning, and leaving
  function firstOpen() {
    const place = items.findIndex((item) => !item.state.done);
    return place < 0 ? items.length : place;
  }

  // Goes on as this person. What another person did stays in the browser, under that name.
  function begin(name, isCorrected = false) {
    keepAll();
    annotator = name;
    for (const item of items) {
      if (!isCorrected) item.state = fresh(item);
      refresh(item);
      if (isCorrected || item.state.changed) unkept.add(item); // where only the tab has kept it
    }
    if (!isCorrected) steps = [];
    renderUndo();
    keepAll();
    keep(name);
    id("help").open = false;
    go(firstOpen());
  }

  function askName() {
    const isOther = items.some((item) => item.state.changed);
    go(items.length);
    for (const name of ["work", "end"]) id(name).hidden = true;
    id("start").hidden = false;
    id("controls").hidden = !annotator;
    id("whose").hidden = !isOther;
    id("naming").elements.owner[0].checked = true;
    id("name").value = annotator;
    id("name").focus({ preventScroll: true });
  }

  onClick("who", askName);
  id("naming").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = id("name").value.normalize("NFC").replace(/\s+/g, " ").trim();
    if (name) begin(name, name === annotator || (!id("whose").hidden && id("naming").elements.owner.value === "mine"));
  });

  addEventListener("storage", (event) => {
    if (event.key === address() && kept() && kept() !== annotator) {
      begin(kept());
      say(`Another tab goes on as ${annotator}.`);
    }
    const item = items.find(({ key }) => event.key === address(annotator, key));
    if (item && refresh(item)) (item === current ? render : renderStatus)();
  });
  document.addEventListener("visibilitychange", () => {
    tick();
    isVisible = !document.hidden;
    if (current) unkept.add(current);
    keepAll();
  });
  addEventListener("beforeunload", (event) => {
    if (unkept.size && !isSaved) event.preventDefault();
  });

  if (kind === "spans") {
    id("whole").checked = kept("whole words") !== false;
    if (categories.length) id("choices").elements.category[0].checked = true;
  }
  const person = kept();
  if (person) begin(person);
  else askName();
})();
