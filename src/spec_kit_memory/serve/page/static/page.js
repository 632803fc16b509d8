/* Keys, several at once, the palette, plots and the graph. Everything here only adds to pages that work without it. */
"use strict";
(() => {
  // What stands before every address: nothing, or the project of a team server.
  const base = (document.querySelector(".mark")?.getAttribute("href") ?? "/search").replace(/\/search$/, "");
  const list = () => [...document.querySelectorAll("[data-item]")];
  const typing = (target) => target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
  let going = false;

  const current = () => document.querySelector("[data-item].current");
  const choose = (item) => {
    if (!item) return;
    current()?.classList.remove("current");
    item.classList.add("current");
    item.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  };
  const move = (step) => {
    const items = list();
    if (!items.length) return;
    const at = items.indexOf(current());
    choose(items[at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + step))]);
  };

  // --- several at once: what all ticked ones can do is done to each of them, and each keeps its own undo

  const boxes = () => [...document.querySelectorAll("[data-tick]")];
  const ticked = () => boxes().filter((box) => box.checked).map((box) => box.closest("[data-item]"));
  const name = (button) => button.dataset.togetherLabel || button.firstChild.textContent.trim();
  const together = () => {
    const items = ticked();
    const [first, ...rest] = items;
    const buttons = first ? [...first.querySelectorAll("button[data-key]")] : [];
    return buttons.filter((button) => rest.every((item) => {
      const same = item.querySelector(`button[data-key="${button.dataset.key}"]`);
      return same && name(same) === name(button);
    }));
  };
  const apply = (key) => {
    if (!together().some((button) => button.dataset.key === key)) return false;
    ticked().forEach((item) => item.querySelector(`button[data-key="${key}"]`).click());
    boxes().forEach((box) => { box.checked = false; });
    count();
    return true;
  };
  const count = () => {
    const bar = document.querySelector("[data-together]");
    if (!bar) return;
    const items = ticked();
    const all = boxes();
    bar.hidden = !all.length;
    const every = bar.querySelector("[data-tick-all]");
    every.checked = items.length > 0 && items.length === all.length;
    every.indeterminate = items.length > 0 && items.length < all.length;
    bar.querySelector("b").textContent = items.length ? `${items.length} of ${all.length} chosen` : `Choose all ${all.length}`;
    bar.querySelector("span").replaceChildren(...(items.length ? together() : []).map((button) => {
      const made = document.createElement("button");
      const key = document.createElement("kbd");
      key.textContent = button.dataset.key;
      made.type = "button";
      made.className = button.className;
      made.append(`${name(button)} `, key);
      made.addEventListener("click", () => apply(button.dataset.key));
      return made;
    }));
  };
  const showBoxes = () => { boxes().forEach((box) => { box.hidden = false; }); count(); };
  const tick = () => {
    const box = current()?.querySelector("[data-tick]");
    if (box) box.click();
    return Boolean(box);
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-tick-all]")) boxes().forEach((box) => { box.checked = event.target.checked; });
    if (event.target.matches("[data-tick-all], [data-tick]")) count();
  });
  document.addEventListener("htmx:afterSettle", showBoxes);

  // --- the palette: pages, what can be done here, and memories by what they say

  const palette = document.getElementById("palette");
  const options = () => [...palette.querySelectorAll("[role=option]")];
  const point = (to) => {
    options().forEach((option) => option.setAttribute("aria-selected", String(option === to)));
    palette.querySelector("input").setAttribute("aria-activedescendant", to?.id ?? "");
    to?.scrollIntoView({ block: "nearest" });
  };
  const offer = (label, note, act) => {
    const option = document.createElement("li");
    const [what, about] = [document.createElement("bdi"), document.createElement("span")];
    what.textContent = label;
    about.textContent = note;
    about.className = "dim";
    option.setAttribute("role", "option");
    option.append(what, " ", about);
    option.addEventListener("click", () => { palette.close(); act(); });
    return option;
  };
  const here = () => [
    ...[...document.querySelectorAll("[data-go]")].map((link) => offer(link.textContent.trim(), "page", () => link.click())),
    ...[...document.querySelectorAll(".tabs a, main .chips a")].map((link) => offer(link.textContent.trim().replace(/\s+/g, " "), "on this page", () => link.click())),
    ...[...(current() ?? document).querySelectorAll("[data-key]")].filter((one) => !one.closest("dialog") && (current() || !one.closest("[data-item]")))
      .map((one) => offer(one.firstChild.textContent.trim(), current() ? "the chosen one" : "this page", () => one.click())),
    ...[...document.querySelectorAll("[data-theme-toggle]")].map((link) => offer(`Colours: ${link.textContent.trim()}`, "change", () => link.click())),
    offer("Keys", "help", help),
  ];
  let asked = 0;
  const setOptions = (made) => {
    made.forEach((option, at) => { option.id = `option-${at}`; });
    palette.querySelector("ul").replaceChildren(...made);
    point(made[0]);
  };
  const look = async (text) => {
    const mine = ++asked;
    const known = here().filter((option) => option.textContent.toLowerCase().includes(text.toLowerCase()));
    if (!text) { setOptions(known); return; }
    const address = `${base}/search?q=${encodeURIComponent(text)}`;
    const search = offer(`Search for “${text}”`, "all results", () => { location.href = address; });
    setOptions([...known, search]);
    await new Promise((resolve) => { setTimeout(resolve, 150); });
    if (mine !== asked) return;
    const found = await results(text);
    if (mine !== asked) return;
    const memories = found.slice(0, 6).map(({ id, title }) => offer(title, `#${id}`, () => { location.href = `${base}/memory/${id}`; }));
    setOptions([...known, ...memories, search]);
  };
  const results = async (text) => {
    const answer = await fetch(`${base}/search.json?q=${encodeURIComponent(text)}`).catch(() => null);
    return answer?.ok ? (await answer.json()).search?.data.results ?? [] : [];
  };
  const openPalette = () => {
    palette.querySelector("input").value = "";
    look("");
    palette.showModal();
  };
  palette?.addEventListener("input", (event) => look(event.target.value.trim()));
  palette?.addEventListener("keydown", (event) => {
    const all = options();
    const at = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && all.length) { event.preventDefault(); point(all[(at + step + all.length) % all.length]); }
    if (event.key === "Enter") { event.preventDefault(); all[at]?.click(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || !palette) return;
    event.preventDefault();
    if (palette.open) palette.close(); else if (!document.querySelector("dialog[open]")) openPalette();
  });
  document.querySelectorAll("[data-palette]").forEach((button) => { button.hidden = false; button.addEventListener("click", openPalette); });

  const help = () => document.getElementById("keys")?.showModal();

  const press = (key) => {
    if (ticked().length && apply(key)) return true;
    // Of the item that is chosen, else of what was just done, else of the page as a whole.
    const item = current();
    const inside = item?.querySelector(`[data-key="${CSS.escape(key)}"]`);
    const done = key === "z" && document.querySelector('.notice [data-key="z"]');
    const page = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].find((one) => !one.closest("[data-item]"));
    const found = inside || done || page;
    found?.click();
    return Boolean(found);
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    // The browser's own Escape would empty the box as well.
    if (event.key === "Escape" && typing(event.target)) { event.preventDefault(); event.target.blur(); return; }
    if (typing(event.target)) return;
    if (going) {
      going = false;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    const act = {
      j: () => move(1), k: () => move(-1), g: () => { going = true; },
      "/": () => { const box = document.getElementById("q"); if (box) { box.focus(); box.select(); } else { location.href = `${base}/search`; } },
      "?": help,
      Enter: () => (document.activeElement === current() ? current()?.querySelector("[data-open]")?.click() : null),
    }[event.key];
    if (event.key === "Enter") {
      if (document.activeElement === current() && current()) { event.preventDefault(); act(); }
      return;
    }
    if (act) { event.preventDefault(); act(); return; }
    if (event.key === "x" && tick()) { event.preventDefault(); return; }
    if (event.key === " " && event.target === current()) {
      const peeks = [...current().querySelectorAll("[data-peek]")];
      const open = peeks.every((peek) => peek.open);
      peeks.forEach((peek) => { peek.open = !open; });
      if (peeks.length) event.preventDefault();
      return;
    }
    if (event.key.length === 1 && press(event.key)) event.preventDefault();
  });

  // --- a memory that is named by words

  document.addEventListener("input", async (event) => {
    const box = event.target.closest("[data-pick]");
    const text = box?.value.trim();
    if (!text || /^#?\d*$/.test(text)) return;
    await new Promise((resolve) => { setTimeout(resolve, 150); });
    if (box.value.trim() !== text) return;
    const found = await results(text);
    if (box.value.trim() !== text) return;
    box.list.replaceChildren(...found.slice(0, 8).map(({ id, title }) => {
      const option = document.createElement("option");
      option.value = `#${id}`;
      option.textContent = title;
      return option;
    }));
  });

  showBoxes();
  document.querySelectorAll("[data-help]").forEach((button) => { button.hidden = false; button.addEventListener("click", help); });
  document.addEventListener("focusin", (event) => {
    const item = event.target.closest("[data-item]");
    if (item && item !== current()) { current()?.classList.remove("current"); item.classList.add("current"); }
  });
  // More findings may come while one decides: what was done stays with its undo, what was chosen stays chosen.
  let staying;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target } = event.detail;
    if (target.matches?.("[data-item]")) staying = { decided: target.dataset.item };
    else if (target.id === "items") staying = { done: [...target.querySelectorAll("[data-done]")], ticked: ticked().map((item) => item.dataset.item), current: current()?.contains(document.activeElement) && current().dataset.item };
  });
  const stay = (items) => {
    const { done, ticked: chosen, current: at } = staying;
    const named = (key) => list().find((item) => !("done" in item.dataset) && item.dataset.item === key);
    let rows = items.querySelector(".rows");
    if (done.length && !rows) {
      rows = document.createElement("ol");
      rows.className = "rows care";
      items.querySelector(".empty")?.remove();
      items.append(rows);
    }
    done.reverse().forEach((one) => { named(one.dataset.item)?.remove(); rows.prepend(one); });
    chosen.forEach((key) => { const box = named(key)?.querySelector("[data-tick]"); if (box) box.checked = true; });
    if (at) choose(list().find((item) => item.dataset.item === at));
  };

  // After a change inside a list, what was done stays chosen: j goes on from there, z takes it back.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "items" && staying?.done) stay(event.detail.target);
    else if (event.detail.target.matches?.("[data-item]") || event.detail.elt?.matches?.("[data-done]")) {
      const made = document.querySelector("[data-done]:not([data-seen])");
      if (made && staying?.decided) made.dataset.item = staying.decided;
      choose(document.querySelector("[data-done]:not([data-seen])"));
      document.querySelectorAll("[data-done]").forEach((one) => { one.dataset.seen = ""; });
    }
  });
  document.addEventListener("htmx:responseError", (event) => {
    if ([401, 403].includes(event.detail.xhr.status)) location.reload();
  });

  // --- plots

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = () => ({ stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } });
  // Days are days in UTC, wherever the browser is, and are written as everywhere else on the page.
  const day = (text) => Date.parse(`${text}T00:00:00Z`) / 1000;
  const date = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);
  const months = (plot, places) => places.map((seconds) => date(seconds).slice(5));
  const known = (plot, seconds) => (seconds == null ? "--" : date(seconds));
  const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [1, 2], [10, 4]];
  const TIERS = ["--part-tier", "--hot", "--warm", "--part-relevance", "--cold", "--archived"];

  const plots = {
    use: (values) => [
      { scales: { x: { time: true }, tokens: { range: (_, least, most) => [0, Math.max(most, 1)] }, y: { range: (_, least, most) => [0, Math.max(most, 1)] } },
        tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        axes: [{ ...axis(), values: months, incrs: [1, 2, 4, 7, 14, 28, 56, 112].map((days) => days * 86400) }, { ...axis(), label: "uses", labelSize: 18 }, { ...axis(), scale: "tokens", side: 1, label: "tokens", labelSize: 18, size: 60, grid: { show: false } }],
        series: [{ label: "day", value: known }, { label: "uses", stroke: colour("--part-relevance"), width: 2, points: { show: false } }, { label: "searches", stroke: colour("--part-tier"), width: 1.5, dash: [2, 3], points: { show: false } }, { label: "tokens sent", scale: "tokens", stroke: colour("--part-recency"), width: 1.5, dash: [5, 4], points: { show: false } }] },
      [values.days.map(day), values.uses, values.searches, values.tokens],
    ],
    decay: (values) => {
      const data = [[...values.days]];
      const series = [{ label: "days" }];
      values.curves.forEach((curve, at) => {
        data.push(curve.left);
        series.push({ label: `${curve.tier} (${curve.memories.reduce((a, b) => a + b, 0)})`, stroke: colour(TIERS[at % TIERS.length]), width: 2, dash: DASHES[at % DASHES.length],
          // The more memories stand at a place of the curve, the larger its point.
          points: { show: true, size: 1, paths: (plot, index) => {
            const path = new Path2D();
            curve.memories.forEach((count, i) => {
              if (!count) return;
              const radius = Math.min(14, 2 + 2.2 * Math.sqrt(count)) * devicePixelRatio / 2;
              const x = plot.valToPos(values.days[i], "x", true), y = plot.valToPos(curve.left[i], "y", true);
              path.moveTo(x + radius, y);
              path.arc(x, y, radius, 0, 2 * Math.PI);
            });
            return { stroke: path, fill: path };
          } } });
      });
      return [{ scales: { x: { time: false }, y: { range: [0, 1.08] } }, axes: [{ ...axis(), label: "days since it was used", labelSize: 18 }, { ...axis(), label: "left", labelSize: 18 }], series }, data];
    },
  };
  const charts = () => [...document.querySelectorAll("[data-chart]")];
  const heights = new WeakMap();
  const draw = (boxes) => boxes.forEach((box) => {
    if (!window.uPlot) return;
    const [options, data] = plots[box.dataset.chart](JSON.parse(box.dataset.values));
    box.replaceChildren();
    const room = box.clientHeight;
    const line = (plot, at) => { const [drawn] = plot.series[at].dash ?? []; return !drawn ? "solid" : drawn > 2 ? "dashed" : "dotted"; };
    new window.uPlot({ width: box.clientWidth, height: Math.max(240, Math.min(560, room - 80)), legend: { markers: { width: 2, dash: line } }, ...options }, data, box);
    heights.set(box, box.clientHeight);
  });
  draw(charts());
  let later;
  addEventListener("resize", () => { clearTimeout(later); later = setTimeout(() => draw(charts()), 150); });
  // A panel that grew makes room for the plot beside it.
  document.addEventListener("htmx:afterSettle", () => draw(charts().filter((box) => box.clientHeight !== heights.get(box))));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(charts()));

  // --- the graph of a neighbourhood

  const SVG = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  document.querySelectorAll("[data-graph]").forEach((box) => {
    if (!window.d3?.forceSimulation) return;
    const { centre, nodes, links } = JSON.parse(box.dataset.graph);
    const width = box.clientWidth, height = Math.max(box.clientHeight, Math.min(900, nodes.length * (width < 480 ? 44 : 24)));
    box.style.height = `${height}px`;
    const letters = Math.round(Math.min(34, width / 14));
    nodes.forEach((node) => { if (node.id === centre) { node.fx = width / 2; node.fy = height / 2; } });
    window.d3.forceSimulation(nodes).stop()
      .force("link", window.d3.forceLink(links).id((node) => node.id).distance(Math.min(170, width / 4)))
      .force("charge", window.d3.forceManyBody().strength(-900))
      .force("x", window.d3.forceX(width / 2).strength(width < height * 1.5 ? 0.3 : 0.05)).force("y", window.d3.forceY(height / 2).strength(width < height * 1.5 ? 0.06 : 0.2))
      .force("room", window.d3.forceCollide(Math.min(60, width / 8))).tick(300);
    const picture = make(box, "svg", { viewBox: `0 0 ${width} ${height}` });
    const long = (text) => text.getComputedTextLength() || text.textContent.length * 6;
    nodes.forEach((node) => {
      node.link = make(picture, "a", { href: `${base}/memory/${node.id}`, class: node.id === centre ? "centre" : "", tabindex: "-1" });
      node.circle = make(node.link, "circle", { r: node.id === centre ? 8 : 6 });
      node.label = make(node.link, "text", { "text-anchor": "middle" }, short(node.title, letters));
      node.half = Math.min(long(node.label), width - 12) / 2;
      make(node.link, "title", {}, node.title);
    });
    // No name stands on another: who does makes way, up or down, within the frame.
    const around = ({ x, y, half }) => ({ left: x - half - 4, right: x + half + 4, top: y - 9, bottom: y + 24 });
    const over = (one, other) => Math.min(one.right, other.right) > Math.max(one.left, other.left) && Math.max(0, Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top));
    const within = (node) => { node.x = Math.min(width - node.half - 5, Math.max(node.half + 5, node.x)); node.y = Math.min(height - 26, Math.max(12, node.y)); };
    nodes.forEach(within);
    for (let round = 0; round < 300; round += 1) {
      let moved = false;
      nodes.forEach((one, at) => nodes.slice(at + 1).forEach((other) => {
        const much = over(around(one), around(other));
        if (!much) return;
        moved = true;
        const [upper, lower] = one.y <= other.y ? [one, other] : [other, one];
        if (upper.id !== centre) upper.y -= much / 2 + 0.5;
        if (lower.id !== centre) lower.y += much / 2 + 0.5;
        within(upper);
        within(lower);
      }));
      if (!moved) break;
    }
    // In the middle of its frame.
    const [left, right] = [Math.min(...nodes.map((node) => around(node).left)), Math.max(...nodes.map((node) => around(node).right))];
    const [top, bottom] = [Math.min(...nodes.map(({ y }) => y)), Math.max(...nodes.map(({ y }) => y + 20))];
    nodes.forEach((node) => { node.x += (width - left - right) / 2; node.y += (height - top - bottom) / 2; });
    const taken = nodes.map(around);
    links.forEach(({ source, target, relation }) => {
      picture.prepend(make(picture, "line", { x1: source.x, y1: source.y, x2: target.x, y2: target.y }));
      const said = make(picture, "text", { class: "relation", "text-anchor": "middle" }, `${relation.replaceAll("_", " ")} ${source.x <= target.x ? "→" : "←"}`);
      const half = long(said) / 2;
      // Where it is free along the line; the table below says it, too.
      const place = [0.5, 0.6, 0.4, 0.7, 0.3].map((part) => {
        const x = source.x + part * (target.x - source.x), y = source.y + part * (target.y - source.y);
        return { x, y, left: x - half, right: x + half, top: y - 9, bottom: y + 3 };
      }).find((spot) => !taken.some((other) => over(spot, other)));
      if (!place) { said.remove(); return; }
      taken.push(place);
      said.setAttribute("x", place.x);
      said.setAttribute("y", place.y);
    });
    nodes.forEach(({ x, y, link, circle, label }) => {
      circle.setAttribute("cx", x);
      circle.setAttribute("cy", y);
      label.setAttribute("x", x);
      label.setAttribute("y", y + 20);
      picture.append(link);
    });
  });
})();
