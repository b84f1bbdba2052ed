"use strict";
(() => {
  const names = ["system", "light", "dark"];
  const root = document.documentElement, button = document.getElementById("theme");
  const label = document.getElementById("theme-name");
  const read = () => { try { return localStorage.getItem("cgverify-theme"); } catch { return null; } };
  const write = (name) => { try { localStorage.setItem("cgverify-theme", name); } catch { /* a page from a file may keep nothing */ } };
  const show = (name) => {
    if (name === "system") delete root.dataset.theme; else root.dataset.theme = name;
    label.textContent = name;
  };
  let current = names.includes(read()) ? read() : "system";
  show(current);
  button.hidden = false;
  button.addEventListener("click", () => {
    current = names[(names.indexOf(current) + 1) % names.length];
    write(current);
    show(current);
  });
})();
