// The page: incoming frames, user actions and routing between views.

import { Actions } from "./actions.js";
import { speakOnce } from "./announcements.js";
import { drawBlank, drawPlace, drawState, isAway, toast } from "./around.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { ConversationView } from "./conversation.js";
import { byId } from "./dom.js";
import { drawHealth, healthIsComing } from "./health.js";
import { JobsView } from "./jobs.js";
import { choice, draft, forgetChoice, keepChoice, keepDraft, newKey, Outbox } from "./kept.js";
import { hashOf, ListView } from "./list.js";
import { Live, tokenFromLink } from "./live.js";
import { copyCode, words } from "./prose.js";
import { showDoor, showPage } from "./screens.js";

const SPOKEN_LENGTH = 800;
const SHOW = "w:"; // prefix of the data of a "Show all" button

const chats = new Map(); // id → Chat, for each opened session
let listed = []; // the server's list, most recently active first
let host = "";
let followed = null; // id of the session whose changes the server sends: one for each page
let asked = null; // id of the session that it was asked to follow, until it answers
let awaitsNew = null; // key of a conversation that is being created
let arrives = true; // the page or a link was just opened

const outbox = new Outbox();
const list = new ListView({
  searches: (words) => live.send({ do: "search", words }),
  more: () => live.send({ do: "more" }),
});
const view = new ConversationView({ earlier: askEarlier });
const composer = new Composer(say);
const jobs = new JobsView(act);
const actions = new Actions({ sends: request, says: say, title: () => view.chat?.entry?.title ?? "" });
const live = new Live({
  hears: (frame) => Object.hasOwn(HEARD, frame.is) && HEARD[frame.is](frame),
  tells: (state, until, failures) => {
    drawState(state, until, failures);
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
    followed = null;
    asked = null;
    showPage();
    HEARD.chats(frame);
    outbox.all().forEach(transmit);
    if (awaitsNew) begin();
    route();
    if (arrives) composer.focus();
    arrives = false;
  },

  chats(frame) {
    listed = frame.chats;
    byId("more-chats").hidden = !frame.more;
    for (const { id, title } of drawList()) {
      if (awaitsNew === null) speakOnce(id, `New conversation: ${title}`); // not the user's own
    }
    if (!view.chat && !location.hash && listed.length) route();
    if (view.chat?.trouble && listed.some((chat) => chat.id === view.chat.id)) openChat(view.chat.id);
    drawAround();
  },

  shown(frame) {
    live.settled(`open ${frame.was}`);
    followed = frame.chat;
    if (frame.was === asked) asked = null;
    const former = chatOf(frame.was);
    const begins = former.shown && !former.entry; // nothing was said before
    const chat = frame.chat === frame.was ? former : follow(frame);
    const first = !chat.shown;
    const fresh = chat.show(frame);
    if (chat !== view.chat) {
      if (view.chat && !view.chat.trouble) askToFollow(view.chat);
      return;
    }
    if (first) view.open(chat);
    else view.draw();
    if (begins || !(first || frame.fresh)) fresh.forEach(announce);
    drawList();
    drawAround();
  },

  earlier(frame) {
    chatOf(frame.chat).prepend(frame);
    if (view.chat?.id === frame.chat) view.draw({ above: true });
  },

  message(frame) {
    const chat = chatOf(frame.chat);
    if (!chat.put(frame.message) || chat !== view.chat) return;
    view.draw();
    announce(frame.message);
    drawAround();
  },

  writing(frame) {
    const chat = chatOf(frame.chat);
    chat.write(frame);
    if (chat === view.chat) view.draw();
  },

  gone(frame) {
    chats.delete(frame.chat);
    if (followed === frame.chat) followed = null;
    if (view.chat?.id !== frame.chat) return;
    view.open(new Chat(frame.chat));
    view.chat.trouble = "This conversation was deleted.";
    drawAround();
  },

  found: (frame) => list.found(frame),
  exported: (frame) => actions.exported(frame),

  taken(frame) {
    live.settled(frame.key);
    outbox.settle(frame.key);
    actions.done(frame.key);
    chats.get(frame.chat)?.taken(frame);
    if (view.chat?.id === frame.chat) view.draw();
    if (frame.key === awaitsNew) {
      awaitsNew = null;
      history.pushState(null, "", `/${hashOf(frame.chat)}`);
      route();
      composer.focus();
    }
  },

  health: drawHealth,
  jobs: (frame) => jobs.draw(frame),

  refused(frame) {
    live.settled(frame.key);
    if (frame.key !== null) {
      takeBack(frame.key);
      toast(frame.reason);
    } else if (view.chat && !view.chat.shown) {
      live.settled(`open ${view.chat.id}`);
      asked = null;
      view.chat.trouble = frame.reason;
      drawAround();
    } else toast(frame.reason);
  },
};

function chatOf(id) {
  if (!chats.has(id)) chats.set(id, new Chat(id));
  return chats.get(id);
}

/** The session that the server shows instead of the one that was asked for: that of an old link or
 * a new conversation, or the one that came in its place after /new or /resume. */
function follow({ was, chat: id }) {
  const former = chatOf(was);
  const chat = chatOf(id);
  if (!former.entry) {
    for (const [key, said] of former.own) chat.own.set(key, said);
    keepDraft(id, draft(was) || draft(id));
    keepDraft(was, "");
    chats.delete(was);
  }
  if (view.chat === former) {
    history.replaceState(null, "", `/${hashOf(id)}`);
    view.open(chat);
  }
  return chat;
}

/** Announce a message of the agent to screen readers; once, also if the transcript repeats it. */
function announce({ role, author, html, buttons = [], no, seq, shows }) {
  if ((role ?? author) !== "assistant" && author !== "agent") return;
  if (!html || (no && buttons.length === 0 && choice(view.chat.id, { no, html }))) return;
  const asks = buttons.map((button) => button.label).join(", ");
  const subject = no ?? shows ?? `${view.chat.id} line ${seq}`;
  speakOnce(subject, words(html).slice(0, SPOKEN_LENGTH), asks && ` Your answer: ${asks}`);
}

// Outgoing frames

function transmit(frame) {
  live.send(frame, frame.key);
}

/** Send a request about the open session. Returns its key, or null without a connection. */
function request(frame) {
  const key = newKey();
  if (view.chat && live.send({ ...frame, chat: view.chat.id, key }, key)) return key;
  toast("Segue cannot be reached at the moment. Try again when it is back.");
  return null;
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
  view.draw();
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
  keepChoice(id, message, { data: answer, label });
  post({ do: "press", chat: id, key: newKey(), message: no, data: answer });
  view.draw();
  composer.focus(); // the disabled button cannot keep it
}

/** Undo a message or a button press that the server refused. */
function takeBack(key) {
  const frame = outbox.settle(key);
  if (key === awaitsNew) awaitsNew = null;
  if (frame?.do === "say") {
    chatOf(frame.chat).own.delete(key);
    composer.takeBack(frame.chat, frame.text);
    view.draw();
  } else if (frame?.do === "press") {
    forgetChoice(frame.chat, frame.message);
    view.draw();
  }
}

/** Do that with a job. */
function act(number, action) {
  const key = newKey();
  if (live.send({ do: "job", number, action, key }, key)) return;
  toast("Segue cannot be reached at the moment. Try again when it is back.");
}

function bring() {
  const button = byId("bring");
  button.disabled = true; // until it can no longer be a second click
  setTimeout(() => (button.disabled = false), 2000);
  post({ do: "bring", chat: view.chat.id, key: newKey() });
  composer.focus();
}

function begin() {
  awaitsNew ??= newKey();
  if (live.send({ do: "new", key: awaitsNew }, awaitsNew)) return;
  toast("Segue cannot be reached at the moment. The conversation starts when it is back.");
}

/** Have the server follow that session, unless it does or was asked to. */
function askToFollow({ id, seq, edits }) {
  if ((asked ?? followed) === id) return;
  if (live.send({ do: "open", chat: id, seq, edits }, `open ${id}`)) asked = id;
}

function askEarlier() {
  const { chat } = view;
  if (!chat?.more || chat.asksEarlier) return;
  chat.asksEarlier = live.send({ do: "earlier", chat: chat.id, before: chat.first });
}

// Routing

const OTHERS = {
  "#/health": { id: "health", title: "Health", isComing: healthIsComing },
  "#/jobs": { id: "jobs", title: "Jobs", isComing: () => jobs.isComing() },
};

function route() {
  const token = tokenFromLink();
  if (token !== null) {
    arrives = true;
    live.open(token);
    return;
  }
  toast("");
  const other = Object.hasOwn(OTHERS, location.hash) ? OTHERS[location.hash] : null;
  byId("conversation").hidden = other !== null;
  for (const one of Object.values(OTHERS)) {
    byId(one.id).hidden = one !== other;
    byId(`to-${one.id}`).setAttribute("aria-current", one === other ? "page" : "false");
  }
  if (list.isOpen) list.toggle(false);
  if (other === null) openChat(wanted());
  else {
    openChat(null);
    other.isComing();
    live.send({ do: other.id });
  }
}

/** The conversation named in the URL, or the most recently active one. */
function wanted() {
  const named = /^#\/c\/(.+)$/.exec(location.hash);
  if (named) return decodeURIComponent(named[1]);
  if (listed.length === 0) return null;
  history.replaceState(null, "", `/${hashOf(listed[0].id)}`);
  return listed[0].id;
}

function openChat(id) {
  const chat = id === null ? null : chatOf(id);
  const isOther = chat !== view.chat;
  if (isOther) {
    for (const frame of outbox.all()) {
      if (frame.do === "say" && frame.chat === id) chat.recall(frame);
    }
    view.open(chat);
  }
  if (chat) askToFollow(chat);
  drawList();
  drawAround();
  if (isOther) composer.offer();
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
  if (Object.hasOwn(OTHERS, location.hash)) return OTHERS[location.hash].title;
  if (!view.chat || view.chat.trouble) return "Segue";
  return view.chat.entry?.title || "New conversation";
}

function drawAround() {
  const { chat } = view;
  drawPlace(chat?.entry);
  actions.show(Boolean(chat?.entry));
  composer.open(chat && !chat.trouble ? chat.id : null);
  drawBlank(chat, host);
}

// Clicks and keys

byId("stop").addEventListener("click", () => {
  say("/stop");
  composer.focus(); // the button goes away
});
byId("bring").addEventListener("click", bring);
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
  } else if (!event.target.matches("input, textarea")) composer.take(event);
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
