// The frames from the server, and what each changes on the page.

import { showPage, speakOnce, toast } from "./around.js";
import { Chat } from "./chat.js";
import { drawHealth } from "./health.js";
import { choice, forgetChoice } from "./kept.js";
import { hashOf } from "./list.js";
import { words } from "./prose.js";

/** @import * as frames from "../frames.js" */
/** @import { Page } from "./page.js" */

const SPOKEN_LENGTH = 800;

/** @param {Page} page
 * @param {frames.Tell} frame */
export function hear(page, frame) {
  switch (frame.is) {
    case "hello":
      hearHello(page, frame);
      break;
    case "chats":
      hearChats(page, frame);
      break;
    case "shown":
      hearShown(page, frame);
      break;
    case "earlier":
      hearEarlier(page, frame);
      break;
    case "message":
      hearMessage(page, frame);
      break;
    case "writing":
      hearWriting(page, frame);
      break;
    case "gone":
      hearGone(page, frame);
      break;
    case "taken":
      hearTaken(page, frame);
      break;
    case "refused":
      hearRefused(page, frame);
      break;
    case "found":
      page.list.found(frame);
      break;
    case "exported":
      page.actions.exported(frame);
      break;
    case "health":
      drawHealth(frame);
      break;
    case "jobs":
      page.jobs.draw(frame);
      break;
    case "proof":
    case "unknown":
      break; // only before the greeting
  }
}

/** @param {Page} page
 * @param {frames.Hello} frame */
function hearHello(page, frame) {
  page.greet(frame);
  page.chats.lineLost();
  page.following.lineLost();
  showPage();
  hearChats(page, frame);
  page.requests.resend();
  page.arrive();
}

/** @param {Page} page
 * @param {frames.Hello | frames.Chats} frame */
function hearChats(page, frame) {
  for (const { id, title } of page.listed(frame)) {
    if (!page.requests.isBeginning) speakOnce(id, `New conversation: ${title}`); // not the user's own
  }
}

/** @param {Page} page
 * @param {frames.Shown} frame */
function hearShown(page, frame) {
  const { view } = page;
  page.following.shows(frame);
  const former = page.chats.of(frame.was);
  const begins = former.shown && !former.entry; // nothing was said before
  const chat = page.chats.successor(former, frame.chat);
  if (chat !== former && view.chat === former) {
    history.replaceState(null, "", `/${hashOf(chat.id)}`);
    view.open(chat);
  }
  const first = !chat.shown;
  const fresh = chat.show(frame);
  if (chat !== view.chat) {
    if (view.chat && !view.chat.trouble) page.following.ask(view.chat);
    return;
  }
  if (first) view.open(chat);
  else view.draw();
  if (begins || !(first || frame.fresh)) for (const part of fresh) announce(chat, part);
  page.drawList();
  page.drawAround();
}

/** @param {Page} page
 * @param {frames.History} frame */
function hearEarlier({ chats, view }, frame) {
  const chat = chats.of(frame.chat);
  chat.prepend(frame);
  if (chat === view.chat) view.draw({ above: true });
}

/** @param {Page} page
 * @param {frames.Changed} frame */
function hearMessage(page, frame) {
  const chat = page.chats.of(frame.chat);
  if (!chat.put(frame.message) || chat !== page.view.chat) return;
  page.view.draw();
  announce(chat, frame.message);
  page.drawAround();
}

/** @param {Page} page
 * @param {frames.Writing} frame */
function hearWriting({ chats, view }, frame) {
  const chat = chats.of(frame.chat);
  chat.write(frame);
  if (chat === view.chat) view.draw();
}

/** @param {Page} page
 * @param {frames.Gone} frame */
function hearGone(page, frame) {
  page.chats.forget(frame.chat);
  page.following.gone(frame.chat);
  if (page.view.chat?.id === frame.chat) page.close(new Chat(frame.chat), "This conversation was deleted.");
}

/** The server has done what the user asked for.
 * @param {Page} page
 * @param {frames.Taken} frame */
function hearTaken(page, frame) {
  const request = page.requests.settle(frame.key);
  page.actions.done(frame.key);
  if (frame.chat === null) return;
  page.chats.get(frame.chat)?.taken(frame);
  if (page.view.chat?.id === frame.chat) page.view.draw();
  if (request?.do === "new") page.enter(frame.chat);
}

/** @param {Page} page
 * @param {frames.Refused} frame */
function hearRefused(page, { key, reason }) {
  const { chat } = page.view;
  if (key !== null) takeBack(page, key);
  else if (chat && !chat.shown) {
    page.following.refused(chat.id);
    page.close(chat, reason);
    return;
  }
  toast(reason);
}

/** Undo a message or a button press that the server refused.
 * @param {Page} page
 * @param {string} key */
function takeBack({ chats, composer, requests, view }, key) {
  const frame = requests.settle(key);
  if (frame?.do === "say") {
    chats.of(frame.chat).own.delete(key);
    composer.takeBack(frame.chat, frame.text);
    view.draw();
  } else if (frame?.do === "press") {
    forgetChoice(frame.chat, frame.message);
    view.draw();
  }
}

/** Announce a message of the agent to screen readers; once, also if the transcript repeats it.
 * @param {Chat} chat
 * @param {frames.Line | frames.Message} part */
function announce(chat, part) {
  const spoken = words(part.html).slice(0, SPOKEN_LENGTH);
  if (!spoken) return;
  if ("seq" in part) {
    if (part.role === "assistant") speakOnce(String(part.shows ?? `${chat.id} line ${part.seq}`), spoken);
    return;
  }
  const isAnswered = part.buttons.length === 0 && choice(chat.id, part) !== null;
  if (part.author !== "agent" || isAnswered) return;
  const asks = part.buttons.map((button) => button.label).join(", ");
  speakOnce(String(part.no), spoken, asks && ` Your answer: ${asks}`);
}
