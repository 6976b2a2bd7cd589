"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const table = $("table");
  if (table) rows(table);
  document.querySelectorAll("a[href^='#run-']").forEach((link) => link.addEventListener("click", () => {
    const run = $(link.hash.slice(1));
    if (run) run.open = true;
  }));
  const asked = $(location.hash.slice(1));
  if (asked && asked.matches("details.one")) asked.open = true;
  document.querySelectorAll("details.one").forEach((run) => {
    const show = async () => {
      if (!run.open) return;
      const packed = run.querySelector("script.packed");
      if (packed) packed.parentElement.innerHTML = await unpacked(packed).text();
      run.querySelectorAll("figure.picture:not([data-shown])").forEach(picture);
    };
    run.addEventListener("toggle", show);
    show();
  });

  function rows(table) {
    const body = table.tBodies[0], all = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const at = Object.fromEntries(heads.map((head, i) => [head.dataset.key, i]));
    const words = all.map((row) => row.textContent.toLowerCase());
    const runs = all.map((row) => $("run-" + row.dataset.run));
    const numeric = heads.map((head) => head.classList.contains("num"));
    const text = (row, key) => row.cells[at[key]].textContent;
    const order = new Intl.Collator("en", { numeric: true });
    let falling = false;
    document.querySelector(".tools").hidden = false;
    heads.forEach((head) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sortBy(head.dataset.key, $("sort").value === head.dataset.key && !falling));
      head.replaceChildren(button);
    });
    $("filter").addEventListener("input", show);
    $("status").addEventListener("change", show);
    $("group").addEventListener("change", show);
    $("sort").addEventListener("change", () => sortBy($("sort").value, falling));
    $("turn").addEventListener("click", () => sortBy($("sort").value, !falling));
    document.querySelectorAll(".choose input").forEach((box) =>
      box.addEventListener("change", () => table.classList.toggle("hide-" + box.value, !box.checked)));

    function sortBy(key, down) {
      $("sort").value = key;
      falling = down;
      $("turn").setAttribute("aria-pressed", String(down));
      $("turn").textContent = down ? "falling" : "rising";
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      if (key) heads[at[key]].setAttribute("aria-sort", down ? "descending" : "ascending");
      show();
    }

    // what has no value stands last, whichever way is sorted
    function sorted(list) {
      const key = $("sort").value, sign = falling ? -1 : 1;
      if (!key) return falling ? list.slice().reverse() : list;
      if (!numeric[at[key]])
        return list.map((i) => [text(all[i], key), i]).sort((a, b) => sign * order.compare(a[0], b[0])).map((p) => p[1]);
      const value = (i) => { const v = all[i].cells[at[key]].dataset.v; return v === undefined ? NaN : Number(v); };
      return list.map((i) => [value(i), i]).sort((a, b) =>
        (isNaN(a[0]) - isNaN(b[0])) || (isNaN(a[0]) ? 0 : sign * (a[0] - b[0]))).map((p) => p[1]);
    }

    function show() {
      const asked = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean), status = $("status").value;
      const fits = all.map((row, i) =>
        asked.every((word) => words[i].includes(word)) && (!status || text(row, "status") === status));
      const kept = sorted([...all.keys()].filter((i) => fits[i])), group = $("group").value;
      const parts = document.createDocumentFragment();
      if (group) {
        const groups = new Map();
        kept.forEach((i) => {
          const name = text(all[i], group) || "none";
          groups.set(name, [...(groups.get(name) || []), i]);
        });
        groups.forEach((own, name) => {
          const row = document.createElement("tr"), cell = document.createElement("td");
          row.className = "group";
          row.setAttribute("role", "row");
          cell.setAttribute("role", "cell");
          cell.colSpan = heads.length;
          const gaps = own.map((i) => all[i].cells[at.gap]).filter((c) => c.dataset.v !== undefined)
            .sort((a, b) => a.dataset.v - b.dataset.v);
          const best = gaps.length ? ", best gap " + gaps[0].textContent : "";
          cell.textContent = name + ": " + own.length + (own.length === 1 ? " run" : " runs") + best;
          row.append(cell);
          parts.append(row, ...own.map((i) => all[i]));
        });
      } else parts.append(...kept.map((i) => all[i]));
      body.replaceChildren(parts);
      runs.forEach((run, i) => { if (run && run.hidden === fits[i]) run.hidden = !fits[i]; });
      $("count").textContent = kept.length + " of " + all.length + " runs";
    }
  }

  function unpacked(script) {
    const bytes = Uint8Array.from(atob(script.textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
  }

  async function picture(figure) {
    figure.dataset.shown = "yes";
    let drawn;
    try {
      if (figure.dataset.at) drawn = await (await fetch(figure.dataset.at)).json();
      else drawn = await unpacked(figure.querySelector("script")).json();
      if (!drawn.svg) throw new Error(drawn.error || "there is no picture");
    } catch (error) {
      figure.textContent = "The picture can't be shown: " + error.message;
      return;
    }
    view(figure, drawn.svg, drawn.spots);
  }

  function view(figure, svg, spots) {
    const make = (name, parts) => Object.assign(document.createElement(name), parts);
    const bar = make("div", { className: "bar" }), frame = make("div", { className: "view", tabIndex: 0 });
    const sheet = make("div", { className: "sheet" }), tip = make("div", { className: "tip", hidden: true });
    const label = figure.dataset.label;
    const source = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
    sheet.append(make("img", { src: source, alt: label }));
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", label + ": + and - zoom, arrows move");
    frame.append(sheet);
    let zoom = 1;
    const to = (factor, x = 0.5, y = 0.5) => {
      const before = zoom, left = frame.scrollLeft + x * frame.clientWidth, top = frame.scrollTop + y * frame.clientHeight;
      zoom = Math.min(40, Math.max(1, zoom * factor));
      sheet.style.width = 100 * zoom + "%";
      frame.scrollLeft = left * zoom / before - x * frame.clientWidth;
      frame.scrollTop = top * zoom / before - y * frame.clientHeight;
    };
    [["+", "zoom in", 1.5], ["\u2212", "zoom out", 1 / 1.5], ["whole", "whole picture", 0]].forEach(([text, title, factor]) => {
      const button = make("button", { type: "button", textContent: text, title });
      button.setAttribute("aria-label", title);
      button.addEventListener("click", () => to(factor || 1 / zoom));
      bar.append(button);
    });
    frame.addEventListener("keydown", (event) => {
      const factor = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, "0": 1 / zoom }[event.key];
      if (factor) { to(factor); event.preventDefault(); }
    });
    frame.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      const box = frame.getBoundingClientRect();
      to(event.deltaY < 0 ? 1.2 : 1 / 1.2, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
      event.preventDefault();
    }, { passive: false });
    if (spots.length) {
      const find = make("input", { type: "search", placeholder: "find a name" }), said = make("output", {});
      find.setAttribute("aria-label", "find a name in the picture");
      said.setAttribute("aria-live", "polite");
      find.addEventListener("input", () => {
        sheet.querySelectorAll(".mark").forEach((mark) => mark.remove());
        const word = find.value.toLowerCase();
        const found = word ? spots.filter((spot) => spot[4].toLowerCase().includes(word)) : [];
        sheet.append(...found.slice(0, 500).map(([x, y, w, h]) => {
          const mark = make("div", { className: "mark" });
          Object.assign(mark.style, { left: 100 * x + "%", top: 100 * y + "%", width: 100 * w + "%", height: 100 * h + "%" });
          return mark;
        }));
        said.textContent = word ? found.length + " found" + (found.length ? ": " + found[0][4] : "") : "";
      });
      bar.append(find, said);
      frame.addEventListener("pointermove", (event) => {
        const box = sheet.getBoundingClientRect();
        const x = (event.clientX - box.left) / box.width, y = (event.clientY - box.top) / box.height;
        const within = (near) => spots.findLast(([l, t, w, h]) => x >= l - near && x <= l + w + near && y >= t && y <= t + h);
        const spot = within(0) || within(2 / box.width);
        tip.hidden = !spot;
        if (spot) {
          tip.textContent = spot[4];
          tip.style.left = Math.min(event.clientX + 14, innerWidth - 330) + "px";
          tip.style.top = event.clientY + 14 + "px";
        }
      });
      frame.addEventListener("pointerleave", () => { tip.hidden = true; });
    }
    figure.replaceChildren(bar, frame, tip);
  }
})();
