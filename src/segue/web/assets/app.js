// The page: what comes in over the line, what the person does, and which view is shown.

import { Chat, isAnswer } from "./chat.js";
import { ConversationView } from "./conversation.js";
import { byId, el } from "./dom.js";
import { drawHealth, healthIsComing } from "./health.js";
import { choice, draft, keepChoice, keepDraft, newKey, Outbox } from "./kept.js";
import { ListView } from "./list.js";
import { Live, tokenFromLink } from "./live.js";
import { copyCode, words } from "./prose.js";
import { showDoor, showPage } from "./screens.js";

const SPOKEN_LENGTH = 800;

const chats = new Map(); // id → Chat, those that were opened
let listed = []; // as the server lists them
let host = "";
let awaitsNew = null; // the key of a conversation that is being begun

const outbox = new Outbox();
const list = new ListView();
const view = new ConversationView({ earlier: askEarlier });
const live = new Live({ hears: hear, tells: drawState, refuses: (status) => showDoor(status) });
const composer = byId("composer");

// What comes in

const HEARD = {
  hello(frame) {
    host = frame.host;
    byId("host").textContent = `${frame.host} · ${frame.version}`;
    for (const chat of chats.values()) chat.lineLost();
    showPage();
    HEARD.chats(frame);
    outbox.all().forEach(transmit);
    if (awaitsNew) begin();
    route();
  },

  chats(frame) {
    listed = [...frame.chats].sort((a, b) => (a.active < b.active ? 1 : -1));
    for (const { title } of drawList()) speak(`New conversation: ${title}`);
    drawHead();
  },

  shown(frame) {
    live.settled(`open ${frame.chat}`);
    const chat = chatOf(frame.chat);
    const first = !chat.shown;
    const changed = chat.show(frame);
    if (chat !== view.chat) return;
    if (first) view.open(chat);
    else changed.forEach(show);
    drawAround();
  },

  earlier(frame) {
    chatOf(frame.chat).prepend(frame);
    if (view.chat?.id === frame.chat) view.drawHistory();
  },

  message(frame) {
    const chat = chatOf(frame.chat);
    if (!chat.put(frame.message) || chat !== view.chat) return;
    show(frame.message);
    drawAround();
  },

  working(frame) {
    chatOf(frame.chat).working = Date.now() + frame.seconds * 1000;
    drawAround();
    setTimeout(drawAround, frame.seconds * 1000 + 50);
  },

  taken(frame) {
    live.settled(frame.key);
    outbox.settle(frame.key);
    const said = chatOf(frame.chat).own.get(frame.key);
    if (said) said.taken = true;
    if (view.chat?.id === frame.chat) view.drawOwn();
    if (frame.key === awaitsNew) {
      awaitsNew = null;
      go(frame.chat);
      composer.focus();
    }
  },

  health: drawHealth,

  refused(frame) {
    live.settled(frame.key);
    const kept = outbox.settle(frame.key);
    if (frame.key === awaitsNew) awaitsNew = null;
    if (kept?.do === "say") takeBack(kept);
    if (kept?.do === "press") {
      keepChoice(kept.chat, kept.message, null);
      redraw(kept.chat, kept.message);
    }
    if (view.chat && !view.chat.shown && frame.key === null) {
      live.settled(`open ${view.chat.id}`);
      view.chat.trouble = frame.reason;
      drawAround();
    } else toast(frame.reason);
  },
};

function hear(frame) {
  HEARD[frame.is]?.(frame);
}

function chatOf(id) {
  if (!chats.has(id)) chats.set(id, new Chat(id));
  return chats.get(id);
}

function show(message) {
  view.put(message);
  if (isAnswer(message)) {
    const asks = message.buttons.map((button) => button.label).join(", ");
    speak(words(message.html).slice(0, SPOKEN_LENGTH) + (asks && ` Your answer: ${asks}`));
  }
}

function redraw(id, no) {
  const message = chatOf(id).messages.get(no);
  if (message && view.chat?.id === id) view.put(message);
}

// What goes out

function transmit(frame) {
  live.send(frame, frame.key);
}

/** Send it, and keep it until the server has acknowledged it. */
function post(frame) {
  outbox.add(frame);
  transmit(frame);
}

function say(text) {
  const frame = { do: "say", chat: view.chat.id, key: newKey(), text };
  view.chat.own.set(frame.key, { ...frame, at: new Date().toISOString(), taken: false });
  post(frame);
  view.drawOwn();
  view.toBottom();
  drawAround();
}

/** What the server would not have goes back to where it was written. */
function takeBack({ chat, key, text }) {
  chatOf(chat).own.delete(key);
  if (!draft(chat)) keepDraft(chat, text);
  if (view.chat?.id !== chat) return;
  view.drawOwn();
  if (!composer.value) fill(text);
}

function press(button) {
  const { id } = view.chat;
  const no = Number(button.closest("article").dataset.no);
  if (choice(id, no)) return;
  const { answer, label } = button.dataset;
  const group = button.parentElement;
  keepChoice(id, no, { data: answer, label });
  post({ do: "press", chat: id, key: newKey(), message: no, data: answer });
  redraw(id, no);
  group.focus({ preventScroll: true }); // a disabled button has no focus to go on from
}

function begin() {
  awaitsNew ??= newKey();
  if (live.send({ do: "new", key: awaitsNew }, awaitsNew)) return;
  toast("Segue cannot be reached at the moment. It begins as soon as it can.");
}

function askEarlier() {
  const { chat } = view;
  if (!chat?.more || chat.asksEarlier) return;
  chat.asksEarlier = live.send({ do: "earlier", chat: chat.id, before: chat.history[0].seq });
}

// Which view is shown

const go = (id) => (location.hash = `#/c/${encodeURIComponent(id)}`);

function route() {
  const token = tokenFromLink();
  if (token !== null) {
    live.open(token);
    return;
  }
  const health = location.hash === "#/health";
  const wanted = /^#\/c\/(.+)$/.exec(location.hash);
  byId("conversation").hidden = health;
  byId("health").hidden = !health;
  byId("to-health").setAttribute("aria-current", health ? "page" : "false");
  if (health) {
    openChat(null);
    healthIsComing();
    live.send({ do: "health" });
  } else if (wanted) openChat(decodeURIComponent(wanted[1]));
  else if (listed.length) {
    history.replaceState(null, "", `/#/c/${encodeURIComponent(listed[0].id)}`);
    openChat(listed[0].id);
  } else openChat(null);
  if (list.isOpen) list.toggle(false);
}

function openChat(id) {
  const chat = id === null ? null : chatOf(id);
  if (chat !== view.chat) {
    if (chat) for (const frame of outbox.all()) recall(chat, frame);
    view.open(chat);
    fill(chat ? draft(chat.id) : "");
  }
  if (chat && !chat.live) live.send({ do: "open", chat: id, after: chat.rev }, `open ${id}`);
  drawList();
  drawAround();
}

/** Something that was said before a reload, and not acknowledged yet. */
function recall(chat, frame) {
  if (frame.do !== "say" || frame.chat !== chat.id || chat.own.has(frame.key)) return;
  chat.own.set(frame.key, { ...frame, at: new Date().toISOString(), taken: false });
}

// What is drawn around the messages

function drawList() {
  const fresh = list.draw(listed, view.chat?.id);
  drawHead();
  return fresh;
}

function drawHead() {
  const title = titled();
  byId("title").textContent = title;
  document.title = `${list.unread ? `(${list.unread}) ` : ""}${title === "Segue" ? "" : `${title} · `}Segue`;
}

function titled() {
  if (location.hash === "#/health") return "Health";
  if (!view.chat) return "Segue";
  return listed.find((chat) => chat.id === view.chat.id)?.title || "New conversation";
}

function drawAround() {
  const { chat } = view;
  byId("working").hidden = !chat || chat.working < Date.now();
  const where = listed.find((other) => other.id === chat?.id)?.where ?? "here";
  byId("elsewhere").hidden = where === "here";
  byId("elsewhere").textContent = `This conversation goes on ${where}. What you write here begins a new session.`;
  composer.disabled = !chat;
  drawBlank(chat);
  drawSend();
}

function drawBlank(chat) {
  const blank = byId("blank");
  const empty = !chat || (chat.history.length === 0 && chat.messages.size === 0 && chat.own.size === 0);
  blank.hidden = !empty || (chat && !chat.shown && !chat.trouble);
  if (blank.hidden) return;
  if (chat?.trouble) blank.replaceChildren(el("p", {}, chat.trouble));
  else if (chat) blank.replaceChildren(el("p", { class: "blank-title" }, "What shall we do?"), el("p", {}, `Segue works on ${host}, and asks before it changes or runs anything.`));
  else {
    const button = el("button", { class: "button first", "data-new": true }, "New conversation");
    const hint = el("p", {}, "Begin one here, or type ", el("code", {}, "/handoff web"), " in the terminal to bring one along.");
    blank.replaceChildren(el("p", { class: "blank-title" }, "No conversations yet"), hint, button);
  }
}

let countdown = 0;
let wasOffline = false;

function drawState(state, until) {
  clearInterval(countdown);
  const text = byId("state-text");
  byId("state").dataset.state = state;
  byId("retry").hidden = state !== "offline";
  if (state === "live") text.textContent = "Live";
  else if (state === "connecting") text.textContent = "Connecting…";
  else {
    const count = () => {
      const seconds = Math.max(1, Math.ceil((until - Date.now()) / 1000));
      text.textContent = `Offline, trying again in ${seconds} s`;
    };
    count();
    countdown = setInterval(count, 500);
  }
  if (state === "offline") showPage();
  if (state !== "connecting" && wasOffline !== (state === "offline")) {
    wasOffline = !wasOffline;
    speak(wasOffline ? "Offline" : "Live again");
  }
}

function speak(text) {
  const spoken = byId("spoken");
  spoken.append(el("p", {}, text));
  while (spoken.childElementCount > 5) spoken.firstElementChild.remove();
}

let toasting = 0;

function toast(text) {
  const shown = byId("toast");
  shown.textContent = text;
  shown.classList.add("up");
  clearTimeout(toasting);
  toasting = setTimeout(() => {
    shown.classList.remove("up");
    shown.textContent = "";
  }, 6000);
}

// The composer

function fill(text) {
  composer.value = text;
  fit();
  drawSend();
}

function drawSend() {
  byId("send").disabled = !view.chat || composer.value.trim() === "";
}

/** As high as what is written in it; browsers that know field-sizing do it by themselves. */
function fit() {
  if (CSS.supports("field-sizing", "content")) return;
  composer.style.height = "auto";
  composer.style.height = `${composer.scrollHeight}px`;
}

function submit() {
  const text = composer.value.trim();
  if (!view.chat || text === "") return;
  keepDraft(view.chat.id, "");
  fill("");
  say(text);
}

composer.addEventListener("input", () => {
  keepDraft(view.chat.id, composer.value);
  fit();
  drawSend();
});
composer.addEventListener("keydown", (event) => {
  // While an input method composes a word, Enter ends that word.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
byId("send").addEventListener("click", () => {
  submit();
  composer.focus();
});

// Clicks and keys

byId("stop").addEventListener("click", () => say("/stop"));
byId("new").addEventListener("click", begin);
byId("retry").addEventListener("click", () => live.again());
byId("door-again").addEventListener("click", () => live.again());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
byId("column").addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button?.matches(".copy")) copyCode(button);
  else if (button?.matches(".answer")) press(button);
  else if (button?.matches("[data-new]")) begin();
});
byId("chats").addEventListener("click", ({ target }) => {
  if (target.closest("[aria-current]") && list.isOpen) list.toggle(false);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (list.isOpen) list.toggle(false);
    else if (document.activeElement === composer) byId("scroller").focus();
    return;
  }
  if (event.target.matches("input, textarea, [contenteditable]") || byId("app").hidden) return;
  if (event.key === "/" && view.chat) {
    event.preventDefault();
    composer.focus();
  } else if (event.key === "n") {
    event.preventDefault();
    begin();
  }
});

// The window

addEventListener("hashchange", route);
addEventListener("online", () => live.state !== "live" && live.again());
addEventListener("pageshow", (event) => event.persisted && live.again());
document.addEventListener("visibilitychange", () => {
  // Perhaps the network is back, or the browser was paired in another tab.
  if (!document.hidden && (live.state === "offline" || !byId("door").hidden)) live.again();
});
visualViewport?.addEventListener("resize", () => {
  // The keyboard of a phone covers the page on some systems; a pinch is not a keyboard.
  if (visualViewport.scale === 1) document.documentElement.style.setProperty("--height", `${visualViewport.height}px`);
});

live.open(tokenFromLink());
