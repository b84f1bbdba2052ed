(() => {
  const map = document.getElementById("heat");
  if (!map) return;
  const cell = document.getElementById("heat-cell"), words = document.getElementById("heat-words");
  const rows = [...document.getElementById("heat-rows").children].map((item) => ({
    name: item.textContent,
    counts: new Map(item.dataset.c.split(" ").filter(Boolean).map((entry) => entry.split(":").map(Number))),
  }));
  let row = 0, column = 0;
  const show = () => {
    cell.removeAttribute("hidden");
    cell.setAttribute("x", column);
    cell.setAttribute("y", row);
    const count = rows[row].counts.get(column) || 0;
    words.textContent = `${rows[row].name} feeds ${rows[column].name}: ${count === 0 ? "never" : count === 1 ? "once" : `${count} times`}`;
  };
  const clamp = (value) => Math.min(Math.max(value, 0), rows.length - 1);
  map.addEventListener("pointermove", (event) => {
    const box = map.getBoundingClientRect();
    row = clamp(Math.floor((event.clientY - box.top) / box.height * rows.length));
    column = clamp(Math.floor((event.clientX - box.left) / box.width * rows.length));
    show();
  });
  map.addEventListener("focus", show);
  map.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    row = clamp(row + step[0]);
    column = clamp(column + step[1]);
    show();
  });
})();
