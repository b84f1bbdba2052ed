(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const words = (text) => (text ? text.split(" ") : []);
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const rove = (items, from, to) => {
    if (!to) return;
    for (const item of items) item.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };

  // One of several sheets is shown at a time.
  const sheets = [...document.querySelectorAll(".sheet")];
  const nav = document.querySelector(".tabs");
  if (nav) {
    nav.setAttribute("role", "tablist");
    const tabs = [...nav.children];
    const show = (index, focus) => tabs.forEach((tab, k) => {
      tab.setAttribute("aria-selected", String(k === index));
      tab.tabIndex = k === index ? 0 : -1;
      sheets[k].hidden = k !== index;
      if (k === index && focus) tab.focus();
    });
    tabs.forEach((tab, index) => {
      tab.setAttribute("role", "tab");
      tab.id = `tab-${index}`;
      tab.setAttribute("aria-controls", sheets[index].id);
      sheets[index].setAttribute("role", "tabpanel");
      tab.addEventListener("click", (event) => { event.preventDefault(); show(index, true); });
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) { event.preventDefault(); show((index + step + tabs.length) % tabs.length, true); }
        if (event.key === " ") { event.preventDefault(); show(index, true); }
      });
    });
    const asked = sheets.findIndex((sheet) => location.hash.startsWith(`#${sheet.id}`));
    show(Math.max(asked, 0), false);
  }

  const index = (lines, field) => {
    const found = new Map();
    for (const line of lines) for (const name of words(line.dataset[field])) {
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(line);
    }
    return found;
  };

  const setUp = (sheet) => {
    const columns = [...sheet.querySelectorAll(".trace")].map((list) => {
      const lines = [...list.children];
      return { list, lines, makers: index(lines, "d"), users: index(lines.filter((line) => !line.matches(".del")), "r") };
    });
    const columnOf = (line) => columns.find((column) => column.list === line.parentElement);
    const byKey = (key) => document.getElementById(`${sheet.id}-${key}`);
    const partnersOf = (line) => words(line.dataset.p).map(byKey).filter(Boolean);
    const rows = new Map([...sheet.querySelectorAll("[data-l]")].map((row) => [row.dataset.l, row]));
    const places = new Map([...sheet.querySelectorAll("[data-at]")].map((row) => [row.dataset.at, row]));
    const inspector = sheet.querySelector(".inspector");
    const segments = [...sheet.querySelectorAll(".order button")];
    let marked = [], chosen = null;

    const mark = (element, name) => { element.classList.add(name); marked.push([element, name]); };
    const related = (line) => {
      const { makers, users } = columnOf(line);
      const unique = (lists) => [...new Set(lists.flat())].filter((other) => other !== line);
      return {
        makers: unique(words(line.dataset.r).map((name) => makers.get(name) || [])),
        users: unique(words(line.dataset.d).map((name) => users.get(name) || [])),
      };
    };
    const highlight = (line) => {
      for (const [element, name] of marked) element.classList.remove(name);
      marked = [];
      if (!line) return;
      const names = new Set([...words(line.dataset.r), ...words(line.dataset.d)]);
      const { makers, users } = related(line);
      partnersOf(line).forEach((other) => mark(other, "partner"));
      makers.forEach((other) => mark(other, "maker"));
      users.forEach((other) => mark(other, "user"));
      for (const other of [line, ...makers, ...users, ...partnersOf(line)])
        for (const token of other.querySelectorAll("i")) if (names.has(token.dataset.v)) mark(token, "hot");
      for (const name of names) if (rows.has(name)) mark(rows.get(name), "hot");
      explain(line, makers, users);
    };

    const jump = (line) => {
      const link = make("a", line.querySelector(".n").textContent);
      link.href = `#${line.id}`;
      link.addEventListener("click", (event) => { event.preventDefault(); choose(line); });
      return link;
    };
    const textOf = (line) => [...line.querySelector("code").childNodes].filter((node) => node.nodeName !== "U")
      .map((node) => node.textContent).join("").trim();
    const explain = (line, makers, users) => {
      const list = document.createElement("dl");
      const say = (term, ...parts) => {
        if (!parts.length) return;
        list.append(make("dt", term));
        const cell = document.createElement("dd");
        parts.forEach((part, k) => cell.append(...(k ? [", "] : []), part));
        list.append(cell);
      };
      const side = line.closest(".before") ? "before" : "after", other = side === "before" ? "after" : "before";
      const region = line.dataset.g;
      say("stands", `line ${line.querySelector(".n").textContent} of the trace ${side}` + (region === undefined ? "" : `, in region G${region}`));
      if (line.dataset.w) say("un-graphed", line.dataset.w);
      const found = [...line.querySelectorAll("strong")].map((mark) => mark.textContent);
      if (found.length) say("verifier", found.join(", "));
      const partners = partnersOf(line);
      if (partners.length > 6) say(other, `${partners.length} lines, from ${partners[0].querySelector(".n").textContent}`);
      else say(other, ...partners.map(jump));
      if (line.matches(".alone")) say(other, "nothing does the same there");
      say("inputs from", ...makers.map(jump));
      say("results used by", ...users.slice(0, 12).map(jump), ...(users.length > 12 ? [`and ${users.length - 12} more`] : []));
      for (const name of words(line.dataset.d)) {
        const row = rows.get(name);
        if (row) say(name, [row.cells[1].textContent, `owned by ${row.cells[2].textContent}`, row.cells[4].textContent.trim()].filter(Boolean).join(", "));
      }
      const place = places.get(line.dataset.s);
      const shown = [make("p", textOf(line), "line"), list];
      if (place) {
        say("source", place.cells[0].textContent);
        shown.push(make("p", place.cells[1].textContent.trim(), "quoted"));
      }
      inspector.replaceChildren(...shown);
    };

    const reveal = (line) => {
      const list = line.parentElement;
      const top = line.offsetTop - list.offsetTop;
      if (top < list.scrollTop || top + line.offsetHeight > list.scrollTop + list.clientHeight)
        list.scrollTop = top - list.clientHeight / 3;
    };
    const choose = (line) => {
      if (!line) return;
      if (chosen) chosen.setAttribute("aria-selected", "false");
      chosen = line;
      line.setAttribute("aria-selected", "true");
      for (const segment of segments) segment.setAttribute("aria-current", String(segmentOf(line) === segment));
      highlight(line);
      reveal(line);
      const partner = partnersOf(line)[0];
      if (partner) reveal(partner);
      if (document.activeElement !== line) rove(columnOf(line).lines, null, line);
    };
    const after = columns[1];
    const starts = segments.map((segment) => after.lines.indexOf(byKey(segment.dataset.to)));
    const segmentOf = (line) => {
      const there = columnOf(line) === after ? line : partnersOf(line)[0];
      const at = there ? after.lines.indexOf(there) : -1;
      let found = null;
      starts.forEach((start, k) => { if (start <= at) found = segments[k]; });
      return found;
    };
    const neighbour = (line, step) => {
      const now = segments.indexOf(segmentOf(line));
      const next = segments[Math.min(Math.max(now + step, 0), segments.length - 1)];
      if (!next) return null;
      const head = byKey(next.dataset.to);
      return columnOf(line) === after ? head : partnersOf(head)[0] || null;
    };

    for (const column of columns) {
      column.list.addEventListener("focusin", (event) => { const line = event.target.closest("li"); if (line && line !== chosen) choose(line); });
      column.list.addEventListener("click", (event) => { const line = event.target.closest("li"); if (line) rove(column.lines, null, line); });
      column.list.addEventListener("mouseover", (event) => { const line = event.target.closest("li"); if (line) highlight(line); });
      column.list.addEventListener("mouseleave", () => { if (chosen) highlight(chosen); else highlight(null); });
      column.list.addEventListener("keydown", (event) => {
        const line = event.target.closest("li");
        if (!line || event.altKey || event.ctrlKey || event.metaKey) return;
        const at = column.lines.indexOf(line);
        const across = partnersOf(line)[0];
        const next = {
          ArrowDown: () => column.lines[at + 1], ArrowUp: () => column.lines[at - 1],
          Home: () => column.lines[0], End: () => column.lines[column.lines.length - 1],
          ArrowLeft: () => (column === after ? across : null), ArrowRight: () => (column === after ? null : across),
          PageDown: () => neighbour(line, 1), PageUp: () => neighbour(line, -1),
        }[event.key];
        if (!next) return;
        event.preventDefault();
        const target = next();
        if (target) rove(columnOf(target).lines, line, target);
      });
    }
    segments.forEach((segment, k) => {
      segment.addEventListener("click", () => choose(byKey(segment.dataset.to)));
      segment.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        rove(segments, segment, segments[Math.min(Math.max(k + step, 0), segments.length - 1)]);
      });
    });
    for (const link of sheet.querySelectorAll("table a"))
      link.addEventListener("click", (event) => { event.preventDefault(); choose(document.getElementById(link.hash.slice(1))); });
  };
  sheets.forEach(setUp);
})();
