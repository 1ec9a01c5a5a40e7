// The open session: its messages in the transcript's order, and the scroll position.

import { byId, el, icon, morph } from "./dom.js";
import { choice } from "./kept.js";
import { prose } from "./prose.js";
import { activities, activity } from "./activity.js";
import { apart, clock, dayAndClock } from "./times.js";

const NEAR = 60; // pixels from the bottom that still count as the bottom
const SETTLE = 500; // milliseconds before the buttons of a new question can be pressed

export class ConversationView {
  #scroller = byId("scroller");
  #messages = byId("messages");
  #pending = byId("pending");
  #earlier = byId("earlier");
  #pill = byId("pill");
  #stuck = true; // scrolled to the bottom, and follows new messages
  #top = 0; // the scroll position that was seen last
  #chat = null;
  #drawn = new Map(); // what is shown, by a key for each part: its node, and what it shows
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

  /** Show that session from its end; null for none. */
  open(chat) {
    this.#chat = chat;
    this.#drawn.clear();
    this.#asked.clear();
    this.#messages.replaceChildren();
    this.draw();
    this.toBottom();
  }

  /** Draw what is new or changed. With `above`, keep the visible text in place. */
  draw({ above = false } = {}) {
    const { scrollHeight, scrollTop } = this.#scroller;
    this.#earlier.hidden = !this.#chat?.more;
    const before = this.#messages.lastElementChild;
    const drawn = new Map();
    let former = null;
    for (const part of activities(this.#chat?.inOrder() ?? [])) {
      const [key, shows, make] = this.#described(part, former);
      const known = this.#drawn.get(key);
      if (known && known.shows !== shows) morph(known.node, make());
      drawn.set(key, { node: known?.node ?? make(), shows });
      if (part.kind !== "tools") former = part.item.at;
    }
    // A question that waits for an answer speaks for itself.
    if (this.#chat?.writing && this.#chat.entry?.state !== "asking") {
      drawn.set("writing", { node: writing(this.#chat.writing), shows: "" });
    }
    this.#drawn = drawn;
    this.#place([...drawn.values()].map(({ node }) => node));
    this.#drawOwn();
    if (above) this.#scroller.scrollTop = this.#scroller.scrollHeight - (scrollHeight - scrollTop);
    else if (!this.#stuck && before && this.#messages.lastElementChild !== before) this.#pill.hidden = false;
  }

  /** The key of a part, a text that changes with what it shows, and a function that makes it. */
  #described(part, former) {
    const chat = this.#chat;
    if (part.kind === "tools") {
      const shows = part.tools.map(({ name, html }) => `${name} ${html?.length}`).join();
      return [`tools ${part.seq}`, shows, () => activity(part.tools)];
    }
    const { item } = part;
    const late = apart(former, item.at);
    if (part.kind === "line") return [`line ${item.seq}`, `${late}`, () => spoken(item, late)];
    if (part.kind === "move") return [`move ${item.no}`, "", () => moved(item)];
    const chosen = choice(chat.id, item);
    const cameUpNow = this.#cameUpNow(item);
    const shows = `${late} ${item.rev} ${chosen?.data} ${cameUpNow}`;
    return [`message ${item.no}`, shows, () => article(item, chosen, cameUpNow, late)];
  }

  /** Make the nodes the children, in this order. Nodes that stay in place are not touched. */
  #place(nodes) {
    const wanted = new Set(nodes);
    for (const node of [...this.#messages.children]) if (!wanted.has(node)) node.remove();
    let next = this.#messages.firstElementChild;
    for (const node of nodes) {
      if (node === next) next = next.nextElementSibling;
      else this.#messages.insertBefore(node, next);
    }
  }

  /** Draw the user's messages that the server has not returned yet. */
  #drawOwn() {
    const own = [...(this.#chat?.own.values() ?? [])].map((said) =>
      el(
        "article",
        {
          class: said.taken ? "said person" : "said person waiting",
          "data-key": said.key,
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
      this.#asked.set(no, now);
      setTimeout(() => this.draw(), SETTLE);
    }
    return now - this.#asked.get(no) < SETTLE;
  }

  #bottom() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#top = this.#scroller.scrollTop;
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    const up = scrollTop < this.#top;
    this.#top = scrollTop;
    // Far from the bottom without having scrolled up: the messages have grown meanwhile.
    if (scrollHeight - scrollTop - clientHeight < NEAR) this.#stuck = true;
    else if (up) this.#stuck = false;
    if (this.#stuck) this.#pill.hidden = true;
  }
}

const when = (at, late) => late && el("p", { class: "when" }, el("time", { datetime: at }, dayAndClock(at)));

const spokenBy = (who, at) => `${who}, ${clock(at)}`;

/** A message of the transcript. */
function spoken({ role, html, at }, late) {
  const person = role === "user";
  return el(
    "article",
    { class: `said ${person ? "person" : "agent"}`, "aria-label": spokenBy(person ? "You" : "Segue", at) },
    when(at, late),
    el("div", { class: "prose" }, prose(html)),
  );
}

/** A message that is not in the transcript, such as a question. */
function article(message, chosen, cameUpNow, late) {
  const person = message.author === "person";
  const asks = message.buttons.length > 0 || chosen !== null;
  return el(
    "article",
    {
      class: `said ${message.author}${asks ? " asks" : person ? "" : " notice"}`,
      "data-no": message.no,
      "aria-label": spokenBy(person ? "You" : "Segue", message.at),
    },
    when(message.at, late),
    el("div", { class: "prose" }, prose(message.html)),
    asks && answers(message, chosen, cameUpNow),
  );
}

/** An arrival or a departure. */
const moved = ({ text, at }) => el("p", { class: "moved" }, el("span", {}, `${text} · ${dayAndClock(at)}`));

/** The answer that is being written. */
function writing(html) {
  const made = el("article", { class: "said agent" }, el("div", { class: "prose" }, prose(html)));
  if (isActivity(made)) made.classList.add("doing");
  return made;
}

/** Whether it shows the agent's current activity: tool names, then "…". */
function isActivity(made) {
  const written = made.querySelector(".prose");
  const only = written.children.length === 1 && written.firstElementChild;
  return only && only.firstChild?.nodeName === "CODE" && only.textContent === `${only.firstChild.textContent} …`;
}

function answers(message, chosen, cameUpNow) {
  if (message.buttons.length === 0) {
    return el("p", { class: "chosen" }, icon("check"), `You chose “${chosen.label}”`);
  }
  const group = el("div", { class: "answers", role: "group", "aria-label": "Your answer" });
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
