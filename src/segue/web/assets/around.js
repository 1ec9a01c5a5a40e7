// Everything around the messages: the three screens (opening, not admitted, the page), the state of
// the connection, toasts, what screen readers announce, and the hint in an empty conversation.

import { byId, el, typed } from "./dom.js";

/** @import * as frames from "../frames.js" */
/** @import { Chat } from "./chat.js" */
/** @import { State } from "./live.js" */

const LINK_FAILED = {
  title: "This link no longer works",
  text: "It was used already, has expired, or the gateway was restarted since. To get a new one:",
};
const NOT_PAIRED = {
  title: "This browser is not paired yet",
  text: "Only browsers paired by the owner can use this page. To pair this one:",
};

const TOAST = 6000; // milliseconds
const LOST = 4; // attempts to connect, after which the page may have moved: some 15 seconds

const SPOKEN = 5; // announcements that stay in the page, in case they are still being read

let countdown = 0;
let wasAway = false;
let toasting = 0;
/** Subject → the text announced last.
 * @type {Map<string, string>} */
const announced = new Map();

/** @param {"opening" | "door" | "app"} shown */
function only(shown) {
  for (const id of /** @type {const} */ (["opening", "door", "app"])) byId(id).hidden = id !== shown;
}

/** Show that this browser is not admitted. With `linkFailed`, it had a link that did not work.
 * @param {boolean} linkFailed */
export function showDoor(linkFailed) {
  const { title, text } = linkFailed ? LINK_FAILED : NOT_PAIRED;
  only("door");
  byId("door-title").textContent = title;
  byId("door-text").textContent = text;
  document.title = `${title} · Segue`;
  byId("door-title").focus();
}

export function showPage() {
  if (byId("app").hidden) only("app");
}

/** Announce the text to screen readers.
 * @param {string} text */
function speak(text) {
  const spoken = byId("spoken");
  spoken.append(el("p", {}, text));
  while (spoken.childElementCount > SPOKEN) spoken.firstElementChild?.remove();
}

/** Announce the text about that subject, and nothing of it twice: of a text that has grown, only
 * what is new. `after` follows it.
 * @param {string} subject
 * @param {string} text */
export function speakOnce(subject, text, after = "") {
  const before = announced.get(subject) ?? "";
  announced.set(subject, text);
  const news = text.startsWith(before) ? text.slice(before.length).trim() : text;
  if (news) speak(news + after);
}

/** Whether the gateway is unreachable in that state.
 * @param {State} state */
export const isAway = (state) => state === "offline" || state === "impostor";

/** Show the state. One that is away lasts until the next attempt at `until`, after that many
 * failures.
 * @param {State} state
 * @param {number | null} until
 * @param {number} failures */
export function drawState(state, until, failures) {
  clearInterval(countdown);
  byId("state").dataset.state = state;
  byId("retry").hidden = !isAway(state);
  if (state !== "connecting") {
    byId("impostor").hidden = state !== "impostor";
    byId("lost").hidden = state !== "offline" || failures < LOST;
  }
  const text = byId("state-text");
  if (isAway(state)) {
    const count = () => {
      const seconds = Math.max(1, Math.ceil(((until ?? 0) - Date.now()) / 1000));
      text.textContent = `Offline, trying again in ${seconds} s`;
    };
    count();
    countdown = setInterval(count, 500);
  } else text.textContent = state === "live" ? "Live" : "Connecting…";
  if (state !== "connecting" && wasAway !== isAway(state)) {
    wasAway = !wasAway;
    speak(wasAway ? "Offline" : "Connected again");
  }
}

/** Show where the session is and whether the agent works there.
 * @param {frames.Chat | null} entry */
export function drawPlace(entry) {
  const where = entry?.where ?? "here";
  byId("working").hidden = entry?.state !== "working";
  byId("stop").hidden = where !== "here";
  byId("do-move").hidden = where !== "here";
  byId("elsewhere").hidden = where === "here";
  const free = entry?.state === "idle" && where !== "in the terminal";
  const more = free ? " A message brings it here." : entry?.state === "asking" ? " It waits for your approval there." : "";
  byId("where").textContent = `This conversation is ${where}.${more}`;
}

/** Show the text for a while. An empty text hides the toast.
 * @param {string} text */
export function toast(text) {
  const shown = byId("toast");
  shown.classList.toggle("up", text !== "");
  shown.replaceChildren(...typed(text));
  clearTimeout(toasting);
  if (text) toasting = setTimeout(toast, TOAST, "");
}

/** Draw the hint for an empty conversation, or for when there is none.
 * @param {Chat | null} chat
 * @param {string} host */
export function drawBlank(chat, host) {
  const blank = byId("blank");
  blank.hidden = chat !== null && !chat.trouble && !(chat.shown && chat.isEmpty);
  // Redrawing would lose the focus and interrupt a click.
  const shows = chat ? chat.trouble || `on ${host}` : "none yet";
  if (blank.hidden || blank.dataset.shows === shows) return;
  blank.dataset.shows = shows;
  /** @param {string} text */
  const title = (text) => el("p", { class: "blank-title" }, text);
  if (chat?.trouble) blank.replaceChildren(title("Not available"), el("p", {}, ...typed(chat.trouble)));
  else if (chat) {
    const text = `Segue works on ${host}, and asks before it changes or runs anything.`;
    blank.replaceChildren(title("What can I do for you?"), el("p", {}, text));
  } else {
    blank.replaceChildren(
      title("No conversations yet"),
      el("p", {}, ...typed("Start one here, or type `/handoff web` in the terminal to move one here.")),
      el("button", { class: "button first", "data-new": true }, "New conversation"),
    );
  }
}
