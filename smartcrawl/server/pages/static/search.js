// A search box for a page of another site:
//   <script src="https://crawl.example.com/search.js" data-key="sc_…" data-source="docs" defer></script>
// It stands where an element has the attribute data-smartcrawl, else where the script is. What was
// crawled becomes text nodes and links to http and https alone, whatever it contains.
"use strict";
(() => {
  const script = document.currentScript;
  const server = new URL(script.src).origin;
  const { key, source, label = "Search", empty = "Nothing was found.", away = "The search does not answer." } = script.dataset;
  const DELAY = 300; // milliseconds
  const MARKED = /(<em>[\s\S]*?<\/em>)/;

  const made = (name, className, ...children) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...children);
    return element;
  };

  const webAddress = (text) => {
    try {
      const url = new URL(text);
      return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
    } catch {
      return null;
    }
  };

  // The index puts <em> around the words found; all else is text, also where it looks like markup.
  const highlighted = (text) => text.split(MARKED).filter(Boolean).map((part, at, parts) =>
    MARKED.test(part) ? made("mark", "", part.slice(4, -5)) : document.createTextNode(part));

  const hitElement = (hit) => {
    const chunk = hit.chunks[0];
    const address = webAddress((chunk && chunk.link) || hit.url);
    const title = made(address ? "a" : "span", "smartcrawl-title", hit.title || hit.url);
    if (address) {
      title.href = address;
      title.rel = "noopener";
    }
    title.dir = "auto";
    const snippet = made("p", "smartcrawl-snippet", ...highlighted(hit.snippet));
    snippet.dir = "auto";
    return made("li", "smartcrawl-hit", title, snippet);
  };

  const field = made("input", "smartcrawl-field");
  field.type = "search";
  field.setAttribute("aria-label", label);
  field.placeholder = label;
  const said = made("p", "smartcrawl-status");
  said.setAttribute("role", "status");
  const list = made("ol", "smartcrawl-hits");
  const form = made("form", "smartcrawl-form", field);
  form.setAttribute("role", "search");
  const box = made("div", "smartcrawl-box", form, said, list);

  let asking = null; // the request under way: a newer one ends it, so that no older answer is shown
  const search = async () => {
    if (asking) asking.abort();
    const words = field.value.trim();
    if (!words) {
      list.replaceChildren();
      said.textContent = "";
      return;
    }
    const mine = new AbortController();
    asking = mine;
    const asked = new URLSearchParams({ q: words });
    if (source) asked.set("collection", source);
    try {
      const headers = key ? { Authorization: `Bearer ${key}` } : {};
      const answer = await fetch(`${server}/api/Search?${asked}`, { headers, signal: mine.signal, credentials: "omit", referrerPolicy: "no-referrer" });
      const data = await answer.json();
      if (mine !== asking) return;
      if (!answer.ok) throw new Error(data.error.message);
      list.replaceChildren(...data.hits.map(hitElement));
      said.textContent = data.hits.length ? "" : empty;
    } catch (error) {
      if (mine !== asking || error.name === "AbortError") return;
      list.replaceChildren();
      said.textContent = away;
      console.error(`smartcrawl: ${error.message}`); // for the author of the page
    }
  };

  let timer = 0;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, DELAY);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
  const place = document.querySelector("[data-smartcrawl]");
  if (place) place.append(box);
  else script.after(box);
})();
