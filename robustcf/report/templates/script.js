"use strict";
(() => {
  const cards = [...document.querySelectorAll("#cards .card")];
  if (!cards.length) return;
  const size = Number(document.getElementById("cards").dataset.size);
  const texts = cards.map((card) => card.textContent.toLowerCase());
  const by = (id) => document.getElementById(id);
  const [search, outcome, before, next, where, nobody] =
    ["search", "outcome", "before", "next", "where", "nobody"].map(by);
  let page = 0;

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = cards.filter((card, i) =>
      (!outcome.value || card.dataset.outcome === outcome.value) && words.every((w) => texts[i].includes(w)));
    const pages = Math.max(1, Math.ceil(found.length / size));
    page = Math.min(Math.max(page, 0), pages - 1);
    const shown = new Set(found.slice(page * size, (page + 1) * size));
    for (const card of cards) card.hidden = !shown.has(card);
    nobody.hidden = found.length > 0;
    before.disabled = page === 0;
    next.disabled = page >= pages - 1;
    where.textContent = `page ${page + 1} of ${pages}, ${found.length} customers`;
  }

  function turn(step) {
    page += step;
    show();
    by("customers").scrollIntoView({ block: "start" });
  }

  before.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  by("find").addEventListener("submit", (event) => event.preventDefault());
  for (const control of [search, outcome]) {
    control.addEventListener("input", () => { page = 0; show(); });
  }
  document.querySelector(".pager").hidden = false;
  show();
})();

// A link to a folded data set opens it. For printing, all folds except the figures' tables are opened.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}
addEventListener("hashchange", unfold);
unfold();
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.population")) part.open = true;
});
