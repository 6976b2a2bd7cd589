// What search.html?q=... shows: sections that hold all words, the best first. SECTIONS: [page, title, link, text].
(function () {
  const MOST = 60, AROUND = 90;
  const query = (new URLSearchParams(location.search).get("q") || "").trim();
  const summary = document.getElementById("search-summary");
  const list = document.getElementById("search-found");
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  for (const box of document.querySelectorAll("input[name=q]")) box.value = query;
  if (!words.length) { summary.textContent = "Type words into the field at the left."; return; }

  const escaped = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const begins = words.map((word) => new RegExp("(?<![\\p{L}\\p{N}])" + escaped(word), "giu"));
  const phrase = words.join(" ");
  const count = (text, pattern) => (text.match(pattern) || []).length;

  function score([page, title, link, text]) {
    let sum = 0;
    for (const pattern of begins) {
      const inTitle = count(title, pattern), inPage = count(page, pattern), inText = count(text, pattern);
      if (!inTitle && !inPage && !inText) return 0;
      sum += (inTitle ? 40 : 0) + (inPage ? 8 : 0) + Math.min(inText, 8);
    }
    const heading = title.toLowerCase();
    if (heading === phrase) sum += 60;
    else if (heading.startsWith(phrase)) sum += 40;
    else if (heading.includes(phrase)) sum += 20;
    if (words.length > 1 && text.toLowerCase().includes(phrase)) sum += 30;
    return /^(benchmarks\/|CHANGELOG|docs\/reference\/api)/.test(link) ? sum / 2 : sum;
  }

  function marked(text) {
    const part = document.createElement("span");
    const any = new RegExp("(?<![\\p{L}\\p{N}])(?:" + words.map(escaped).join("|") + ")", "giu");
    let last = 0;
    for (const hit of text.matchAll(any)) {
      part.append(text.slice(last, hit.index));
      const mark = document.createElement("mark");
      mark.textContent = hit[0];
      part.append(mark);
      last = hit.index + hit[0].length;
    }
    part.append(text.slice(last));
    return part;
  }

  function excerpt(text) {
    const whole = words.length > 1 ? text.toLowerCase().indexOf(phrase) : -1;
    const at = whole >= 0 ? whole : Math.max(0, Math.min(...begins.map((one) => text.search(one)).filter((i) => i >= 0)));
    if (!Number.isFinite(at)) return text.slice(0, 2 * AROUND);
    const from = Math.max(0, at - AROUND), to = Math.min(text.length, at + AROUND + 40);
    return (from ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : "");
  }

  const hits = SECTIONS.map((one) => [score(one), one]).filter(([points]) => points > 0);
  hits.sort((one, other) => other[0] - one[0]);
  summary.textContent = hits.length
    ? `${hits.length} sections with ${query}` + (hits.length > MOST ? `; the best ${MOST}:` : ":")
    : `No section with ${query}. Every word must begin a word of the section.`;
  for (const [, [page, title, link, text]] of hits.slice(0, MOST)) {
    const item = document.createElement("li"), anchor = document.createElement("a"), where = document.createElement("div");
    anchor.href = link;
    anchor.append(marked(title));
    where.className = "search-page";
    where.textContent = page === title ? "" : page;
    const found = document.createElement("div");
    found.append(marked(excerpt(text)));
    item.append(anchor, where, found);
    list.append(item);
  }
})();
