// What is told around the messages: the state of the line, notices, and what there is to do where
// nothing has been said yet.

import { byId, el, typed } from "./dom.js";

const TOAST = 6000; // milliseconds

let countdown = 0;
let wasAway = false;
let toasting = 0;

/** Whether the gateway cannot be reached in that state. */
export const isAway = (state) => state === "offline" || state === "impostor";

/** "connecting", "live", or one in which it is away until the next attempt. */
export function drawState(state, until) {
  clearInterval(countdown);
  byId("state").dataset.state = state;
  byId("retry").hidden = !isAway(state);
  if (state !== "connecting") byId("impostor").hidden = state !== "impostor";
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
    speak(wasAway ? "Offline" : "Live again");
  }
}

/** Let a screen reader say it. */
export function speak(text) {
  const spoken = byId("spoken");
  spoken.append(el("p", {}, text));
  while (spoken.childElementCount > 5) spoken.firstElementChild.remove();
}

/** Show it for a while; an empty text takes away what is shown. */
export function toast(text) {
  const shown = byId("toast");
  shown.classList.toggle("up", text !== "");
  shown.replaceChildren(...typed(text));
  clearTimeout(toasting);
  if (text) toasting = setTimeout(toast, TOAST, "");
}

/** What stands in a conversation without messages, or where there is no conversation. */
export function drawBlank(chat, host) {
  const blank = byId("blank");
  blank.hidden = chat !== null && !chat.trouble && !(chat.shown && chat.isEmpty);
  // Drawn again it would lose the focus, and a click that has begun.
  const shows = chat ? chat.trouble || `on ${host}` : "none yet";
  if (blank.hidden || blank.dataset.shows === shows) return;
  blank.dataset.shows = shows;
  const title = (text) => el("p", { class: "blank-title" }, text);
  if (chat?.trouble) blank.replaceChildren(title("Not here"), el("p", {}, ...typed(chat.trouble)));
  else if (chat) {
    const told = `Segue works on ${host}, and asks before it changes or runs anything.`;
    blank.replaceChildren(title("What shall we do?"), el("p", {}, told));
  } else {
    blank.replaceChildren(
      title("No conversations yet"),
      el("p", {}, ...typed("Begin one here, or type `/handoff web` in the terminal to bring one along.")),
      el("button", { class: "button first", "data-new": true }, "New conversation"),
    );
  }
}
