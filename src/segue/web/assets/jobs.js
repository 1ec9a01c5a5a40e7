// The jobs view: what the agent does at set times, with a switch for each.

import { byId, closest, el, icon, morph, typed } from "./dom.js";
import { hashOf } from "./list.js";
import { dayAndClock } from "./times.js";

/** @import * as frames from "../frames.js" */
/** @import { Child } from "./dom.js" */
/** @typedef {frames.ChangeJob["action"]} Action */

export class JobsView {
  #column = byId("jobs-column");
  #dialog = byId("delete-job");
  #doomed = 0; // the number of the job that the dialog asks about

  /** `onAction` receives the number of a job and what to do with it.
   * @param {{ onAction: (number: number, action: Action) => void }} callbacks */
  constructor({ onAction }) {
    this.#column.addEventListener("click", (event) => {
      const { action, job, name } = closest(event, "button")?.dataset ?? {};
      if (action === "delete") this.#ask(Number(job), name ?? "");
      else if (action) onAction(Number(job), /** @type {Action} */ (action));
    });
    this.#dialog.addEventListener("close", () => {
      if (this.#dialog.returnValue === "yes") onAction(this.#doomed, "delete");
    });
  }

  isComing() {
    if (!this.#column.hasChildNodes()) this.#column.append(faint("Asking the gateway…"));
  }

  /** @param {frames.JobList} frame */
  draw({ jobs }) {
    const drawn = jobs.length ? jobs.map(card) : [el("div", { class: "blank" }, ...none())];
    // Equal parts stay, so that the focus does.
    morph(this.#column, el("div", { id: "jobs-column", class: "column" }, ...drawn));
  }

  /** @param {number} number
   * @param {string} name */
  #ask(number, name) {
    this.#doomed = number;
    byId("delete-job-name").textContent = name;
    this.#dialog.returnValue = "";
    this.#dialog.showModal();
  }
}

/** @param {string} text */
const faint = (text) => el("p", { class: "faint" }, ...typed(text));

const none = () => [
  el("p", { class: "blank-title" }, "No jobs yet"),
  el("p", {}, ...typed("Ask for one in a conversation: “Remind me in 20 minutes.” Or type `/remind 20 Call the bank.`")),
];

/** @param {frames.JobEntry} job */
function card(job) {
  const { number, name, state, error, next, facts, prompt, session } = job;
  /** @type {(label: string, what: Action, more?: string) => Child} */
  const action = (label, what, more = "") =>
    el("button", { class: `button quiet ${more}`, "data-action": what, "data-job": number, "data-name": name }, label);
  return el(
    "section",
    { class: `card job ${state}`, "aria-label": name },
    el("h2", {}, el("span", { class: "job-name" }, name), state === "done" ? el("span", { class: "faint" }, "done") : toggle(job)),
    el("details", { class: "activity" }, el("summary", {}, icon("right"), el("span", { class: "job-says" }, prompt)), el("p", { class: "activity-body plain" }, prompt)),
    error && el("p", { class: "row-error" }, ...typed(error)),
    el("dl", { class: "facts" }, ...pair("next", next), ...facts.flatMap(([key, value]) => pair(key, [value])), ...pair("last", lastRun(job))),
    el(
      "div",
      { class: "job-actions" },
      action("Run now", "run"),
      session && el("a", { class: "button quiet", href: hashOf(session) }, "Conversation"),
      action("Delete", "delete", "danger"),
    ),
  );
}

/** @type {(key: string, values: Child[]) => Child[]} */
const pair = (key, values) =>
  values.length ? [el("dt", {}, key), el("dd", {}, ...values.map((value) => el("div", {}, value)))] : [];

/** @param {frames.JobEntry} job */
function lastRun({ last, lamp, at }) {
  if (last === null || at === null) return [];
  const time = el("time", { class: "faint", datetime: at }, ` ${dayAndClock(at)}`);
  return [el("span", {}, el("span", { class: `lamp ${lamp}` }), last, time)];
}

/** @param {frames.JobEntry} job */
function toggle({ number, name, state }) {
  const on = state === "enabled";
  return el("button", {
    class: "switch",
    role: "switch",
    "aria-checked": String(on),
    "aria-label": `${name}: enabled`,
    title: on ? "Pause" : "Resume",
    "data-action": on ? "pause" : "resume",
    "data-job": number,
  });
}
