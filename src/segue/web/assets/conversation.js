// The open conversation: its history, its messages and the scroll position.

import { byId, el, icon, morph } from "./dom.js";
import { choice } from "./kept.js";
import { prose } from "./prose.js";
import { activities } from "./activity.js";
import { apart, clock, dayAndClock } from "./times.js";

const NEAR = 60; // pixels from the bottom that still count as the bottom
const SETTLE = 500; // milliseconds before the buttons of a new question can be pressed

export class ConversationView {
  #scroller = byId("scroller");
  #history = byId("history");
  #messages = byId("messages");
  #pending = byId("pending");
  #earlier = byId("earlier");
  #pill = byId("pill");
  #stuck = true; // scrolled to the bottom, and follows new messages
  #chat = null;
  #articles = new Map(); // by message number
  #asked = new Map(); // when each question appeared, by message number

  constructor({ earlier }) {
    this.#earlier.addEventListener("click", earlier);
    this.#pill.addEventListener("click", () => this.toBottom());
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    const follow = new ResizeObserver(() => this.#stuck && this.#bottom());
    follow.observe(this.#scroller);
    follow.observe(byId("column"));
    new IntersectionObserver(([seen]) => seen.isIntersecting && this.#chat?.shown && earlier(), {
      root: this.#scroller,
    }).observe(this.#earlier);
  }

  get chat() {
    return this.#chat;
  }

  /** Show that conversation from its end; null for none. */
  open(chat) {
    this.#chat = chat;
    this.#articles.clear();
    this.#asked.clear();
    this.#messages.replaceChildren();
    this.#pending.replaceChildren();
    this.#history.replaceChildren();
    this.drawHistory();
    for (const message of chat?.inOrder() ?? []) this.put(message);
    this.drawOwn();
    this.toBottom();
  }

  drawHistory() {
    const { history, more } = this.#chat ?? { history: [], more: false };
    const fromBottom = this.#scroller.scrollHeight - this.#scroller.scrollTop;
    this.#earlier.hidden = !more;
    this.#history.replaceChildren(...lines(history));
    const moved = byId("moved");
    moved.hidden = history.length === 0;
    const first = this.#chat?.inOrder()[0];
    moved.firstElementChild.textContent = first ? `Moved here · ${dayAndClock(first.at)}` : "Moved here";
    // Keep the visible text in place when lines are added above it.
    this.#scroller.scrollTop = this.#scroller.scrollHeight - fromBottom;
  }

  /** Show a new or changed message. */
  put(message) {
    const own = message.key && this.#pending.querySelector(`[data-key="${CSS.escape(message.key)}"]`);
    const known = this.#articles.get(message.no) ?? own;
    const before = this.#before(message.no);
    // The first message is below the divider, which already shows its time.
    const former = before?.dataset.at ?? (this.#chat.history.length ? message.at : null);
    const fresh = article(this.#chat, message, former, this.#cameUpNow(message));
    if (known) morph(known, fresh);
    const shown = known || fresh;
    if (shown.parentNode !== this.#messages) {
      if (before) before.after(shown);
      else this.#messages.prepend(shown);
    }
    this.#articles.set(message.no, shown);
    if (!known && !this.#stuck) this.#pill.hidden = false;
  }

  /** Draw the user's messages that the server has not returned yet. */
  drawOwn() {
    const own = [...(this.#chat?.own.values() ?? [])].map((said) =>
      el(
        "article",
        {
          class: said.taken ? "said person" : "said person waiting",
          "data-key": said.key,
          "data-at": said.at,
          "aria-label": said.taken ? "You" : "You, not sent yet",
        },
        el("div", { class: "prose plain" }, said.text),
      ),
    );
    this.#pending.replaceChildren(...own);
  }

  toBottom() {
    this.#stuck = true;
    this.#bottom();
    this.#pill.hidden = true;
  }

  /** Whether a question just appeared, so that a click or key may be meant for what was there
   * before. */
  #cameUpNow({ no, buttons }) {
    if (buttons.length === 0) return false;
    const now = performance.now();
    if (!this.#asked.has(no)) {
      const chat = this.#chat;
      this.#asked.set(no, now);
      setTimeout(() => chat === this.#chat && this.put(chat.messages.get(no)), SETTLE);
    }
    return now - this.#asked.get(no) < SETTLE;
  }

  #before(no) {
    let found = null;
    for (const [other, node] of this.#articles) {
      if (other < no && (!found || other > Number(found.dataset.no))) found = node;
    }
    return found;
  }

  #bottom() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    this.#stuck = scrollHeight - scrollTop - clientHeight < NEAR;
    if (this.#stuck) this.#pill.hidden = true;
  }
}

function when(at, former) {
  return apart(former, at) && el("p", { class: "when" }, el("time", { datetime: at }, dayAndClock(at)));
}

const spokenBy = (who, at) => `${who}, ${clock(at)}`;

function article(chat, message, former, cameUpNow) {
  const person = message.author === "person";
  const chosen = choice(chat.id, message);
  const asks = message.buttons.length > 0 || chosen !== null;
  const made = el(
    "article",
    {
      class: `said ${message.author}${asks ? " asks" : ""}`,
      "data-no": message.no,
      "data-at": message.at,
      "aria-label": spokenBy(person ? "You" : "Segue", message.at),
    },
    when(message.at, former),
    el("div", { class: "prose" }, prose(message.html)),
    asks && answers(message, chosen, cameUpNow),
  );
  if (isActivity(made)) made.classList.add("doing");
  return made;
}

/** Whether the message shows the agent's current activity: tool names, then "…". */
function isActivity(made) {
  const written = made.querySelector(".prose");
  const only = written.children.length === 1 && written.firstElementChild;
  return only && only.firstChild?.nodeName === "CODE" && only.textContent === `${only.firstChild.textContent} …`;
}

function answers(message, chosen, cameUpNow) {
  if (message.buttons.length === 0) {
    return el("p", { class: "chosen" }, icon("check"), `You chose “${chosen.label}”`);
  }
  const group = el("div", { class: "answers", role: "group", "aria-label": "Your answer", tabindex: -1 });
  message.buttons.forEach(({ label, data }, i) => {
    const mine = chosen?.data === data;
    const kind = /^(deny|no|cancel)\b/i.test(label) ? "deny" : i === 0 ? "first" : "quiet";
    group.append(
      el(
        "button",
        {
          class: `button answer ${kind}${mine ? " mine" : ""}`,
          "data-answer": data,
          "data-label": label,
          "aria-pressed": chosen ? String(mine) : null,
          disabled: chosen !== null || cameUpNow,
        },
        mine && icon("check"),
        label,
      ),
    );
  });
  return group;
}

/** The history: who wrote what, and the tool calls in between, in few lines. */
function lines(history) {
  const made = [];
  let former = null;
  for (const part of activities(history)) {
    if (part.done) {
      made.push(part.done);
      continue;
    }
    const { line } = part;
    const person = line.role === "user";
    made.push(
      el(
        "article",
        { class: `said ${person ? "person" : "agent"}`, "aria-label": spokenBy(person ? "You" : "Segue", line.at) },
        when(line.at, former),
        el("div", { class: "prose" }, prose(line.html)),
      ),
    );
    former = line.at;
  }
  return made;
}
