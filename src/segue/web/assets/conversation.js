// The open session: its messages in the transcript's order, the tool calls between them, and the
// scroll position.

import { byId, el, icon, morph } from "./dom.js";
import { choice } from "./kept.js";
import { prose } from "./prose.js";
import { apart, clock, dayAndClock } from "./times.js";

/** @import * as frames from "../frames.js" */
/** @import { Chat, LinePart, MessagePart, MovePart } from "./chat.js" */
/** @import { Answer } from "./kept.js" */
/** A call of a tool. Its result is missing until there is one.
 * @typedef {{ name: string, what: string, html?: string }} Call */
/** A run of tools.
 * @typedef {{ kind: "tools", seq: number, tools: Call[] }} ToolsPart */
/** The node of a part, and what it shows.
 * @typedef {{ node: HTMLElement, shows: string }} Drawn */
/** A part with its key, a text that changes with what it shows, and a function that makes it.
 * @typedef {{ key: string, shows: string, make: () => HTMLElement }} Described */

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
  /** @type {Chat | null} */
  #chat = null;
  /** What is shown, by a key for each part.
   * @type {Map<string, Drawn>} */
  #drawn = new Map();
  /** When each question appeared, by message number.
   * @type {Map<number, number>} */
  #asked = new Map();

  /** `onEarlier` is called when earlier messages are wanted.
   * @param {{ onEarlier: () => void }} callbacks */
  constructor({ onEarlier }) {
    this.#earlier.addEventListener("click", onEarlier);
    this.#pill.addEventListener("click", () => this.toBottom());
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    const follow = new ResizeObserver(() => {
      if (this.#stuck) this.#bottom();
    });
    follow.observe(this.#scroller);
    follow.observe(byId("column"));
    const reach = ([seen] = /** @type {IntersectionObserverEntry[]} */ ([])) => {
      if (seen.isIntersecting && this.#chat?.shown) onEarlier();
    };
    new IntersectionObserver(reach, { root: this.#scroller }).observe(this.#earlier);
  }

  get chat() {
    return this.#chat;
  }

  /** Show that session from its end; null for none.
   * @param {Chat | null} chat */
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
    const before = this.#messages.lastElementChild;
    this.#earlier.hidden = !this.#chat?.more;
    this.#drawn = this.#parts();
    this.#place([...this.#drawn.values()].map(({ node }) => node));
    this.#drawOwn();
    if (above) this.#scroller.scrollTop = this.#scroller.scrollHeight - (scrollHeight - scrollTop);
    else if (!this.#stuck && before && this.#messages.lastElementChild !== before) this.#pill.hidden = false;
  }

  /** What the session shows, in order. Nodes that are shown already are kept. */
  #parts() {
    /** @type {Map<string, Drawn>} */
    const drawn = new Map();
    /** @type {string | null} */
    let former = null;
    for (const part of activities(this.#chat?.inOrder() ?? [])) {
      const { key, shows, make } = this.#described(part, former);
      const known = this.#drawn.get(key);
      if (known && known.shows !== shows) morph(known.node, make());
      drawn.set(key, { node: known?.node ?? make(), shows });
      if (part.kind !== "tools") former = part.item.at;
    }
    // A question that waits for an answer speaks for itself.
    if (this.#chat?.writing && this.#chat.entry?.state !== "asking") {
      drawn.set("writing", { node: writing(this.#chat.writing), shows: "" });
    }
    return drawn;
  }

  /** @param {LinePart | MessagePart | MovePart | ToolsPart} part
   * @param {string | null} former
   * @returns {Described} */
  #described(part, former) {
    if (part.kind === "tools") {
      const shows = part.tools.map(({ name, html }) => `${name} ${html?.length}`).join();
      return { key: `tools ${part.seq}`, shows, make: () => activity(part.tools) };
    }
    const late = apart(former, part.item.at);
    if (part.kind === "line") {
      const line = part.item;
      return { key: `line ${line.seq}`, shows: String(late), make: () => spoken(line, late) };
    }
    if (part.kind === "move") {
      const move = part.item;
      return { key: `move ${move.no}`, shows: "", make: () => moved(move) };
    }
    const message = part.item;
    const chosen = this.#chat && choice(this.#chat.id, message);
    const cameUpNow = this.#cameUpNow(message);
    const shows = `${late} ${message.rev} ${chosen?.data} ${cameUpNow}`;
    return { key: `message ${message.no}`, shows, make: () => article(message, chosen, cameUpNow, late) };
  }

  /** Make the nodes the children, in this order. Nodes that stay in place are not touched.
   * @param {HTMLElement[]} nodes */
  #place(nodes) {
    const wanted = new Set(/** @type {Element[]} */ (nodes));
    for (const node of [...this.#messages.children]) if (!wanted.has(node)) node.remove();
    let next = this.#messages.firstElementChild;
    for (const node of nodes) {
      if (node === next) next = node.nextElementSibling;
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
   * before.
   * @param {frames.Message} message */
  #cameUpNow({ no, buttons }) {
    if (buttons.length === 0) return false;
    const now = performance.now();
    const asked = this.#asked.get(no);
    if (asked !== undefined) return now - asked < SETTLE;
    this.#asked.set(no, now);
    setTimeout(() => this.draw(), SETTLE);
    return true;
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

/** @type {(at: string, late: boolean) => HTMLElement | false} */
const when = (at, late) => late && el("p", { class: "when" }, el("time", { datetime: at }, dayAndClock(at)));

/** @type {(who: string, at: string) => string} */
const spokenBy = (who, at) => `${who}, ${clock(at)}`;

/** A message of the transcript.
 * @param {frames.Line} line
 * @param {boolean} late */
function spoken({ role, html, at }, late) {
  const person = role === "user";
  return el(
    "article",
    { class: `said ${person ? "person" : "agent"}`, "aria-label": spokenBy(person ? "You" : "Segue", at) },
    when(at, late),
    el("div", { class: "prose" }, prose(html)),
  );
}

/** A message that is not in the transcript, such as a question.
 * @param {frames.Message} message
 * @param {Answer | null} chosen
 * @param {boolean} cameUpNow
 * @param {boolean} late */
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

/** An arrival or a departure.
 * @param {frames.MoveLine} move */
const moved = ({ text, at }) => el("p", { class: "moved" }, el("span", {}, `${text} · ${dayAndClock(at)}`));

/** The answer that is being written.
 * @param {string} html */
function writing(html) {
  const made = el("article", { class: "said agent" }, el("div", { class: "prose" }, prose(html)));
  if (isActivity(made)) made.classList.add("doing");
  return made;
}

/** Whether it shows the agent's current activity: tool names, then "…".
 * @param {HTMLElement} made */
function isActivity(made) {
  const parts = made.querySelector(".prose")?.children;
  const names = parts?.item(0)?.firstChild;
  if (parts?.length !== 1 || names?.nodeName !== "CODE") return false;
  return parts[0].textContent === `${names.textContent} …`;
}

/** @param {frames.Message} message
 * @param {Answer | null} chosen
 * @param {boolean} cameUpNow */
function answers(message, chosen, cameUpNow) {
  if (message.buttons.length === 0) {
    return el("p", { class: "chosen" }, icon("check"), `You chose “${chosen?.label}”`);
  }
  const group = el("div", { class: "answers", role: "group", "aria-label": "Your answer" });
  for (const [i, { label, data }] of message.buttons.entries()) {
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
  }
  return group;
}

/** Group what a session shows, in its order. Lines with text, messages and moves stay as they are.
 * Each run of tools becomes one part.
 * @param {(LinePart | MessagePart | MovePart)[]} ordered */
function activities(ordered) {
  /** @type {(LinePart | MessagePart | MovePart | ToolsPart)[]} */
  const parts = [];
  /** Tools without a result yet.
   * @type {Call[]} */
  let open = [];
  /** Add the tool to the run at the end. A run begins with the line with that number.
   * @type {(seq: number, tool: Call) => void} */
  const add = (seq, tool) => {
    const run = parts.at(-1);
    if (run?.kind === "tools") run.tools.push(tool);
    else parts.push({ kind: "tools", seq, tools: [tool] });
  };
  for (const part of ordered) {
    if (part.kind !== "line") {
      parts.push(part);
      continue;
    }
    const { role, seq, html, tools } = part.item;
    if (role === "tool") {
      const tool = open.shift();
      if (tool) tool.html = html;
      else add(seq, { name: "", what: "", html });
      continue;
    }
    if (html) parts.push(part);
    open = tools.map((tool) => ({ ...tool }));
    for (const tool of open) add(seq, tool);
  }
  return parts;
}

/** An element that shows a run of tools.
 * @param {Call[]} tools */
function activity(tools) {
  const body =
    tools.length === 1 ? [result(tools[0])] : tools.map((tool) => el("details", {}, summary(tool), result(tool)));
  const head = tools.length === 1 ? summary(tools[0]) : summary({ name: named(tools), what: "" });
  return el("details", { class: "activity" }, head, el("div", { class: "activity-body" }, ...body));
}

/** The tool names with their counts: `read_file, run ×2`.
 * @param {Call[]} tools */
function named(tools) {
  /** @type {Map<string, number>} */
  const counted = new Map();
  for (const { name } of tools) counted.set(name, (counted.get(name) ?? 0) + 1);
  return [...counted].map(([name, n]) => (n === 1 ? name : `${name} ×${n}`)).join(", ");
}

/** @param {Call} call */
function summary({ name, what }) {
  return el(
    "summary",
    {},
    icon("right"),
    el("code", { class: "tool-name" }, name || "result"),
    what && el("span", { class: "tool-what" }, what),
  );
}

/** @param {Call} call */
function result({ html, what }) {
  const shown = el("div", { class: "prose result" });
  if (what) shown.append(el("p", { class: "tool-call" }, what));
  shown.append(html ? prose(html) : el("p", { class: "faint" }, "No result yet."));
  return shown;
}
