// The page: incoming frames, user actions and routing between views.

import { drawBlank, drawState, isAway, speak, toast } from "./around.js";
import { Chat, isAnswer } from "./chat.js";
import { Composer } from "./composer.js";
import { ConversationView } from "./conversation.js";
import { byId } from "./dom.js";
import { drawHealth, healthIsComing } from "./health.js";
import { choice, forgetChoice, keepChoice, newKey, Outbox } from "./kept.js";
import { ListView } from "./list.js";
import { Live, tokenFromLink } from "./live.js";
import { copyCode, words } from "./prose.js";
import { showDoor, showPage } from "./screens.js";

const SPOKEN_LENGTH = 800;
const SHOW = "w:"; // prefix of the data of a "Show all" button

const chats = new Map(); // id → Chat, for each opened conversation
let listed = []; // the server's list, most recently active first
let host = "";
let awaitsNew = null; // key of a conversation that is being created

const outbox = new Outbox();
const list = new ListView();
const view = new ConversationView({ earlier: askEarlier });
const composer = new Composer(say);
const live = new Live({
  hears: (frame) => Object.hasOwn(HEARD, frame.is) && HEARD[frame.is](frame),
  tells: (state, until) => {
    drawState(state, until);
    if (isAway(state)) showPage();
  },
  refuses: showDoor,
});

// Incoming frames

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
    if (view.chat?.trouble && entry(view.chat.id)) openChat(view.chat.id);
    drawAround();
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
      location.hash = hashOf(frame.chat);
      route();
      composer.focus();
    }
  },

  health: drawHealth,

  refused(frame) {
    live.settled(frame.key);
    if (frame.key !== null) {
      takeBack(frame.key);
      toast(frame.reason);
    } else if (view.chat && !view.chat.shown) {
      live.settled(`open ${view.chat.id}`);
      view.chat.trouble = frame.reason;
      drawAround();
    } else toast(frame.reason);
  },
};

function chatOf(id) {
  if (!chats.has(id)) chats.set(id, new Chat(id));
  return chats.get(id);
}

const entry = (id) => listed.find((chat) => chat.id === id);

function show(message) {
  view.put(message);
  const answered = message.buttons.length === 0 && choice(view.chat.id, message);
  if (!isAnswer(message) || answered) return;
  const asks = message.buttons.map((button) => button.label).join(", ");
  speak(words(message.html).slice(0, SPOKEN_LENGTH) + (asks && ` Your answer: ${asks}`));
}

function redraw(id, no) {
  const message = chatOf(id).messages.get(no);
  if (message && view.chat?.id === id) view.put(message);
}

// Outgoing frames

function transmit(frame) {
  live.send(frame, frame.key);
}

/** Send the frame, and keep it until the server acknowledges it. */
function post(frame) {
  outbox.add(frame);
  transmit(frame);
}

function say(text) {
  const frame = { do: "say", chat: view.chat.id, key: newKey(), text };
  view.chat.recall(frame);
  post(frame);
  view.drawOwn();
  view.toBottom();
  drawAround();
}

function press(button) {
  const { id } = view.chat;
  const no = Number(button.closest("article").dataset.no);
  const message = view.chat.messages.get(no);
  if (choice(id, message)) return;
  const { answer, label } = button.dataset;
  if (answer.startsWith(SHOW)) {
    say(`/show ${answer.slice(SHOW.length)}`); // not an answer: the question stays open
    return;
  }
  const group = button.parentElement;
  keepChoice(id, message, { data: answer, label });
  post({ do: "press", chat: id, key: newKey(), message: no, data: answer });
  redraw(id, no);
  group.focus({ preventScroll: true }); // the disabled button cannot keep the focus
}

/** Undo a message or a button press that the server refused. */
function takeBack(key) {
  const frame = outbox.settle(key);
  if (key === awaitsNew) awaitsNew = null;
  if (frame?.do === "say") {
    chatOf(frame.chat).own.delete(key);
    composer.takeBack(frame.chat, frame.text);
    view.drawOwn();
  } else if (frame?.do === "press") {
    forgetChoice(frame.chat, frame.message);
    redraw(frame.chat, frame.message);
  }
}

function begin() {
  awaitsNew ??= newKey();
  if (live.send({ do: "new", key: awaitsNew }, awaitsNew)) return;
  toast("Segue cannot be reached at the moment. The conversation starts when it is back.");
}

function askEarlier() {
  const { chat } = view;
  if (!chat?.more || chat.asksEarlier) return;
  chat.asksEarlier = live.send({ do: "earlier", chat: chat.id, before: chat.history[0].seq });
}

// Routing

const hashOf = (id) => `#/c/${encodeURIComponent(id)}`;

function route() {
  const token = tokenFromLink();
  if (token !== null) {
    live.open(token);
    return;
  }
  toast("");
  const health = location.hash === "#/health";
  byId("conversation").hidden = health;
  byId("health").hidden = !health;
  byId("to-health").setAttribute("aria-current", health ? "page" : "false");
  if (health) showHealth();
  else openChat(wanted());
  if (list.isOpen) list.toggle(false);
}

/** The conversation named in the URL, or the most recently active one. */
function wanted() {
  const named = /^#\/c\/(.+)$/.exec(location.hash);
  if (named) return decodeURIComponent(named[1]);
  if (listed.length === 0) return null;
  history.replaceState(null, "", `/${hashOf(listed[0].id)}`);
  return listed[0].id;
}

function showHealth() {
  openChat(null);
  healthIsComing();
  live.send({ do: "health" });
}

function openChat(id) {
  const chat = id === null ? null : chatOf(id);
  if (chat !== view.chat) {
    for (const frame of outbox.all()) {
      if (frame.do === "say" && frame.chat === id) chat.recall(frame);
    }
    view.open(chat);
  }
  if (chat && !chat.live) live.send({ do: "open", chat: id, after: chat.rev }, `open ${id}`);
  drawList();
  drawAround();
}

/** Draw the list. Returns the new conversations. */
function drawList() {
  const fresh = list.draw(listed, view.chat?.id);
  const title = titled();
  byId("title").textContent = title;
  document.title = `${list.unread ? `(${list.unread}) ` : ""}${title === "Segue" ? "" : `${title} · `}Segue`;
  return fresh;
}

function titled() {
  if (location.hash === "#/health") return "Health";
  if (!view.chat || view.chat.trouble) return "Segue";
  return entry(view.chat.id)?.title || "New conversation";
}

function drawAround() {
  const { chat } = view;
  byId("working").hidden = !chat || chat.working < Date.now();
  const where = entry(chat?.id)?.where ?? "here";
  byId("elsewhere").hidden = where === "here";
  byId("elsewhere").textContent = `This conversation continues ${where}. A message here starts a new session.`;
  composer.open(chat && !chat.trouble ? chat.id : null);
  drawBlank(chat, host);
}

// Clicks and keys

byId("stop").addEventListener("click", () => say("/stop"));
byId("new").addEventListener("click", begin);
byId("retry").addEventListener("click", () => live.again());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the URL names the view
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
  if (event.ctrlKey || event.metaKey || event.altKey || byId("app").hidden) return;
  if (event.key === "Escape") {
    if (list.isOpen) list.toggle(false);
    else if (composer.hasFocus) byId("scroller").focus();
  } else if (event.target.matches("input, textarea")) return;
  else if (event.key === "/" && view.chat) {
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
  // The network may be back, or the browser may have been paired in another tab.
  if (!document.hidden && (isAway(live.state) || !byId("door").hidden)) live.again();
});
visualViewport?.addEventListener("resize", () => {
  // On some systems a phone's keyboard covers the page. Pinch zoom is not a keyboard.
  if (visualViewport.scale !== 1) return;
  document.documentElement.style.setProperty("--height", `${visualViewport.height}px`);
});

live.open(tokenFromLink());
