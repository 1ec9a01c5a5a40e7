// The page's parts put together, and the clicks, keys and events of the window.

import { drawState, isAway, showDoor, showPage } from "./around.js";
import { byId, closest } from "./dom.js";
import { hear } from "./incoming.js";
import { Live, tokenFromLink } from "./live.js";
import { Page } from "./page.js";
import { copyCode } from "./prose.js";

start();

function start() {
  const live = new Live({
    onFrame: (frame) => hear(page, frame),
    onState: (state, until, failures) => {
      drawState(state, until, failures);
      if (isAway(state)) showPage();
    },
    onRefused: showDoor,
  });
  const page = new Page(live);
  listenToClicks(page, live);
  listenToKeys(page);
  listenToWindow(page, live);
  live.open(tokenFromLink());
}

/** @param {Page} page
 * @param {Live} live */
function listenToClicks(page, live) {
  byId("stop").addEventListener("click", () => {
    page.say("/stop");
    page.composer.focus(); // the button goes away
  });
  byId("bring").addEventListener("click", () => page.bring());
  byId("new").addEventListener("click", () => page.requests.begin());
  byId("retry").addEventListener("click", () => live.again());
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the URL names the view
    byId("main").focus();
  });
  byId("column").addEventListener("click", (event) => {
    const button = closest(event, "button");
    if (button?.matches(".copy")) copyCode(button).catch(reportError);
    else if (button?.matches(".answer")) page.press(button);
    else if (button?.matches("[data-new]")) page.requests.begin();
  });
  byId("chats").addEventListener("click", (event) => {
    if (closest(event, "a")?.matches("[aria-current]") && page.list.isOpen) page.list.toggle(false);
  });
}

/** @param {Page} page */
function listenToKeys({ composer, list }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("app").hidden) return;
    if (event.key === "Escape") {
      if (list.isOpen) list.toggle(false);
      else if (composer.hasFocus) byId("scroller").focus();
    } else if (!(event.target instanceof Element && event.target.matches("input, textarea"))) composer.take(event);
  });
}

/** @param {Page} page
 * @param {Live} live */
function listenToWindow(page, live) {
  addEventListener("hashchange", () => page.route());
  addEventListener("online", () => {
    if (live.state !== "live") live.again();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) live.again();
  });
  document.addEventListener("visibilitychange", () => {
    // The network may be back, or the browser may have been paired in another tab.
    if (!document.hidden && (isAway(live.state) || !byId("door").hidden)) live.again();
  });
  const viewport = window.visualViewport;
  viewport?.addEventListener("resize", () => {
    // On some systems a phone's keyboard covers the page. Pinch zoom is not a keyboard.
    if (viewport.scale !== 1) return;
    document.documentElement.style.setProperty("--height", `${viewport.height}px`);
  });
}
