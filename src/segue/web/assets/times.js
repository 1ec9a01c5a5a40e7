// Human-readable times.

const MINUTE = 60_000;
const DAY = 86_400_000;

/** @param {string} iso */
export const clock = (iso) =>
  new Date(iso).toLocaleTimeString([], { hour: "numeric", minute: "2-digit" });

/** @param {Date} date */
const midnight = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());

/** Today, yesterday, a weekday or a date.
 * @param {string} iso */
export function day(iso, now = new Date()) {
  const date = new Date(iso);
  const days = Math.round((midnight(now).getTime() - midnight(date).getTime()) / DAY);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days > 1 && days < 7) return date.toLocaleDateString("en", { weekday: "long" });
  const isThisYear = date.getFullYear() === now.getFullYear();
  return date.toLocaleDateString("en", { day: "numeric", month: "long", ...(isThisYear ? {} : { year: "numeric" }) });
}

/** @param {string} iso */
export const dayAndClock = (iso) => `${day(iso)} ${clock(iso)}`;

/** A short form for the list.
 * @param {string} iso */
export function ago(iso, now = new Date()) {
  const passed = now.getTime() - Date.parse(iso);
  if (passed < MINUTE) return "now";
  if (passed < 60 * MINUTE) return `${Math.floor(passed / MINUTE)} min`;
  const when = day(iso, now);
  if (when === "Today") return clock(iso);
  return when === "Yesterday" ? when : new Date(iso).toLocaleDateString("en", { day: "numeric", month: "short" });
}

/** Whether the times are far enough apart to show the later one.
 * @param {string | null} former
 * @param {string} later */
export function apart(former, later) {
  if (!former) return true;
  const between = Date.parse(later) - Date.parse(former);
  return between > 30 * MINUTE || day(former) !== day(later);
}
