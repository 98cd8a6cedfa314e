// What pages do beyond links and forms. Each page works without this file.
"use strict";
(() => {
  const field = document.getElementById("q");
  if (field && document.activeElement === field) field.setSelectionRange(field.value.length, field.value.length);
  const away = document.getElementById("away");
  const isLive = (element) => element instanceof Element && element.matches("[data-live]");

  // A tab that is not seen asks for nothing; it catches up when it is seen again.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && isLive(event.target)) event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !window.htmx) return;
    for (const element of document.querySelectorAll("[data-live]")) window.htmx.trigger(element, "seen");
  });

  // The server is away: say so, and go on asking.
  document.addEventListener("htmx:sendError", () => { if (away) away.hidden = false; });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const failed = event.detail.xhr.status >= 500;
    if (away) away.hidden = !failed;
    if (failed && isLive(event.detail.target)) event.detail.shouldSwap = false;
  });

  // Screen readers hear what a live part says: at most every ten seconds, and its end at once.
  const said = document.getElementById("said");
  const quiet = 10000;
  let heard = -Infinity, last = "";
  document.addEventListener("htmx:afterSwap", (event) => {
    const { target, xhr } = event.detail;
    const says = isLive(target) && target.querySelector("[data-says]");
    if (!says || !said || says.innerText === last) return;
    if (xhr.status === 200 && performance.now() - heard < quiet) return;
    heard = performance.now();
    said.textContent = last = says.innerText;
  });

  // What a visitor opened stays open when its part is renewed.
  const opened = new Set();
  document.addEventListener("htmx:beforeSwap", (event) => {
    for (const { id, open } of event.detail.target.querySelectorAll("details[id]")) {
      if (open) opened.add(id); else opened.delete(id);
    }
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    for (const element of event.detail.target.querySelectorAll("details[id]")) {
      if (opened.has(element.id)) element.open = true;
    }
  });

  // The log of a run that goes on stays at its end, or where its reader is. Without a new line it
  // is left alone, so that what is selected in it stays selected.
  const log = () => document.getElementById("log-lines");
  const toEnd = (element) => { element.scrollTop = element.scrollHeight; };
  let shown = "", left = null;
  if (log() && log().closest("[data-live]")) toEnd(log());
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr } = event.detail;
    if (target.id !== "live-log" || !event.detail.shouldSwap) return;
    if (xhr.status === 200 && xhr.responseText === shown) event.detail.shouldSwap = false;
    shown = xhr.responseText;
    const now = log();
    left = now && now.scrollTop + now.clientHeight < now.scrollHeight - 8 ? now.scrollTop : null;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "live-log" || !log()) return;
    if (left === null) toEnd(log()); else log().scrollTop = left;
  });

  // A form is sent once: a second click on its button does nothing.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post" || event.defaultPrevented) return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  });

  // "/" goes to the search, arrows go from hit to hit.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "/" && !typing && field) {
      event.preventDefault();
      field.focus();
      field.select();
      return;
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...document.querySelectorAll("[data-hit]")];
    const at = links.indexOf(document.activeElement);
    if (!links.length || (at < 0 && event.target !== field)) return;
    event.preventDefault();
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    if (next < 0 && field) field.focus();
    else (links[Math.min(Math.max(next, 0), links.length - 1)]).focus();
  });
})();
