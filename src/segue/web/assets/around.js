// Everything around the messages: the connection state, toasts, and the hint in an empty
// conversation.

import { speak } from "./announcements.js";
import { byId, el, typed } from "./dom.js";

const TOAST = 6000; // milliseconds
const LOST = 4; // attempts to connect, after which the page may have moved: some 15 seconds

let countdown = 0;
let wasAway = false;
let toasting = 0;

/** Whether the gateway is unreachable in that state. */
export const isAway = (state) => state === "offline" || state === "impostor";

/** Show the state: "connecting", "live", or one that is away until the next attempt at `until`,
 * after that many failures. */
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
      const seconds = Math.max(1, Math.ceil((until - Date.now()) / 1000));
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

/** Show where the session is and whether the agent works there. */
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

/** Show the text for a while. An empty text hides the toast. */
export function toast(text) {
  const shown = byId("toast");
  shown.classList.toggle("up", text !== "");
  shown.replaceChildren(...typed(text));
  clearTimeout(toasting);
  if (text) toasting = setTimeout(toast, TOAST, "");
}

/** Draw the hint for an empty conversation, or for when there is none. */
export function drawBlank(chat, host) {
  const blank = byId("blank");
  blank.hidden = chat !== null && !chat.trouble && !(chat.shown && chat.isEmpty);
  // Redrawing would lose the focus and interrupt a click.
  const shows = chat ? chat.trouble || `on ${host}` : "none yet";
  if (blank.hidden || blank.dataset.shows === shows) return;
  blank.dataset.shows = shows;
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
