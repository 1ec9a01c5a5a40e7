// The health view: the gateway's state and recent handoffs.

import { byId, el, typed } from "./dom.js";
import { dayAndClock } from "./times.js";

/** @import * as frames from "../frames.js" */
/** @import { Child } from "./dom.js" */
/** @typedef {frames.PlatformState["state"] | frames.HandoffState["state"]} State */

/** @type {Record<State, string>} */
const LAMPS = {
  connected: "good",
  completed: "good",
  connecting: "busy",
  pending: "busy",
  running: "busy",
  down: "bad",
  failed: "bad",
};

/** @param {frames.Healthy} frame */
export function drawHealth({ gateway, handoffs, troubles }) {
  byId("health-column").replaceChildren(
    gateway ? running(gateway) : card("Gateway", [empty("No gateway is running. Type `segue gateway start`.")]),
    card("Handoffs", handoffs.length ? [rows(handoffs.map(handoff))] : [empty("None yet. Type `/handoff web` in the terminal.")]),
    card("Not delivered", troubles.length ? [rows(troubles.map(trouble))] : [empty("Nothing. All messages were delivered.")]),
  );
}

export function healthIsComing() {
  if (!byId("health-column").hasChildNodes()) byId("health-column").append(empty("Asking the gateway…"));
}

/** @param {string} text */
const empty = (text) => el("p", { class: "faint" }, ...typed(text));
/** @param {Child[]} items */
const rows = (items) => el("ul", { class: "rows" }, ...items);
/** @type {(title: string, parts: Child[], aside?: string) => HTMLElement} */
const card = (title, parts, aside = "") =>
  el("section", { class: "card" }, el("h2", {}, title, aside && el("span", { class: "faint" }, aside)), ...parts);

/** @param {State} state
 * @param {string} title
 * @param {string} detail
 * @param {string | null} at
 * @param {string | null} error */
function row(state, title, detail, at, error) {
  return el(
    "li",
    {},
    el("span", { class: `lamp ${LAMPS[state]}` }),
    el("span", { class: "row-title" }, title),
    el("span", { class: "row-detail" }, detail),
    at && el("time", { class: "row-time", datetime: at }, dayAndClock(at)),
    error && el("p", { class: "row-error" }, ...typed(error)),
  );
}

/** @param {frames.GatewayState} gateway */
function running({ name, since, platforms }) {
  const served = platforms.map(({ platform, state, detail }) => row(state, platform, state, null, detail));
  return card(
    "Gateway",
    [served.length ? rows(served) : empty("It serves no platform.")],
    `${name} · since ${dayAndClock(since)}`,
  );
}

/** @param {frames.HandoffState} handoff */
function handoff({ title, session, platform, state, step, error, at }) {
  const detail = state === "running" && step ? step : state;
  return row(state, `${title || session} → ${platform}`, detail, at, error);
}

/** @param {frames.Trouble} trouble */
const trouble = ({ address, error, at }) => row("failed", address, "", at, error);
