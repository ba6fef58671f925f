"use strict";
// Filters of the matrix and the search. Both keep what they show in the address, so that it can be sent.
(() => {
  const params = () => new URLSearchParams(location.hash.slice(1));
  const keep = (form) => {
    const held = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value && !(name === "sort" && value === "name")) held.set(name, value);
    history.replaceState(null, "", "#" + held);
  };
  const fill = (form) => {
    const given = params();
    for (const field of form.elements) if (field.name) field.value = given.get(field.name) ?? (field.name === "sort" ? "name" : "");
  };
  const DAY = 86400000, OLD = 90;
  const MARKS = { pass: "✓", deviation: "≠", fail: "✗", open: "○", error: "!", timeout: "⏱", waived: "w", "stale waiver": "w!", unsupported: "·" };

  const filters = document.getElementById("filters");
  if (filters) {
    const rows = JSON.parse(document.getElementById("rows").textContent);
    const tables = [...document.querySelectorAll("table.matrix")];
    const lines = new Map(tables.flatMap((table) => [...table.tBodies[0].rows]).map((line) => [line.dataset.slug, line]));
    for (const row of rows) if (row.date && Date.now() - Date.parse(row.date) > OLD * DAY) lines.get(row.slug).classList.add("stale");
    const shown = (cell, operation) => {
      if (!operation) {
        const sum = Object.values(cell.o).reduce((a, [, asked, failing]) => [a[0] + asked, a[1] + failing], [0, 0]);
        return { verdict: cell.v, asked: sum[0], failing: sum[1] };
      }
      const own = cell.o[operation];
      return own && own[1] ? { verdict: own[0], asked: own[1], failing: own[2] } : null;
    };
    const apply = () => {
      const want = Object.fromEntries(new FormData(filters));
      const words = want.q.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      const failing = new Map();
      for (const row of rows) {
        const line = lines.get(row.slug);
        let hit = false, bad = 0;
        for (const field of line.querySelectorAll("[data-column]")) {
          const column = field.dataset.column, cell = row.cells[column], link = field.firstElementChild;
          const hidden = want.format && column !== want.format;
          field.hidden = Boolean(hidden);
          if (!cell || !link) continue;
          const now = shown(cell, want.operation);
          link.hidden = now === null;
          if (now === null) continue;
          link.className = "v-" + now.verdict.replace(" ", "-");
          link.querySelector("b").textContent = MARKS[now.verdict];
          link.querySelector("i").textContent = now.asked - now.failing + "/" + now.asked;
          if (hidden) continue;
          bad += now.failing;
          hit ||= !want.verdict || now.verdict === want.verdict;
        }
        const text = line.textContent.toLowerCase();
        line.hidden = !(hit && (!want.device || row.device === want.device) && words.every((w) => text.includes(w)));
        count += !line.hidden;
        failing.set(row.slug, bad);
      }
      for (const head of document.querySelectorAll("thead th[data-column]")) head.hidden = Boolean(want.format) && head.dataset.column !== want.format;
      const by = { name: (a, b) => a.name.localeCompare(b.name), date: (a, b) => b.date.localeCompare(a.date), failing: (a, b) => failing.get(b.slug) - failing.get(a.slug) };
      for (const row of [...rows].sort((a, b) => by[want.sort](a, b) || a.slug.localeCompare(b.slug))) lines.get(row.slug).parentElement.append(lines.get(row.slug));
      document.getElementById("count").textContent = count + " of " + rows.length;
      document.getElementById("nothing").hidden = count > 0;
    };
    filters.hidden = false;
    fill(filters);
    apply();
    filters.addEventListener("input", () => { keep(filters); apply(); });
    filters.addEventListener("submit", (event) => event.preventDefault());
    filters.addEventListener("reset", () => setTimeout(() => { history.replaceState(null, "", "#"); fill(filters); apply(); }));
    addEventListener("hashchange", () => { fill(filters); apply(); });
  }

  const search = document.getElementById("search");
  if (search && window.MXSPEC_PAGES) {
    const list = document.getElementById("found"), count = document.getElementById("count");
    const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
    const excerpt = (text, words) => {
      const low = text.toLowerCase(), place = Math.min(...words.map((w) => low.indexOf(w)).filter((p) => p >= 0), Infinity);
      const start = place === Infinity ? 0 : Math.max(0, place - 60);
      let out = escape((start ? "… " : "") + text.slice(start, start + 220) + (text.length > start + 220 ? " …" : ""));
      for (const w of words) out = out.replace(new RegExp(w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi"), (m) => "<mark>" + m + "</mark>");
      return out;
    };
    const apply = () => {
      const words = new FormData(search).get("q").toLowerCase().split(/\s+/).filter((w) => w.length > 1);
      list.replaceChildren();
      if (!words.length) { count.textContent = ""; return; }
      const found = [];
      for (const page of window.MXSPEC_PAGES) {
        const title = page.t.toLowerCase(), text = page.x.toLowerCase();
        if (!words.every((w) => title.includes(w) || text.includes(w))) continue;
        found.push([words.reduce((sum, w) => sum + (title.includes(w) ? 10 : 0) + text.split(w).length - 1, 0), page]);
      }
      found.sort((a, b) => b[0] - a[0] || a[1].t.localeCompare(b[1].t));
      count.textContent = found.length === 1 ? "1 page" : found.length + " pages";
      for (const [, page] of found.slice(0, 60)) {
        const item = document.createElement("li");
        item.innerHTML = '<a href="' + escape(page.u) + '">' + escape(page.t) + '</a> <span class="where">' + escape(page.k) + "</span><br>" + excerpt(page.x, words);
        list.append(item);
      }
    };
    fill(search);
    apply();
    search.addEventListener("input", () => { keep(search); apply(); });
    search.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => { fill(search); apply(); });
  }
})();
