// The frames between the page and its server, for the checks of the page's scripts.
// Written by `.venv/bin/python -m tests.web.page_types` from frames.py, which explains them.

/** A time, as ISO 8601 writes it. */
export type Time = string;

export interface Greet {
  do: "greet";
  key: string;
  nonce: string;
}

export interface LinkProof {
  key: string;
  proof: string;
}

export interface Prove {
  do: "prove";
  proof: string;
  link?: LinkProof | null;
}

export interface Open {
  do: "open";
  chat: string;
  seq?: number;
  edits?: number;
}

export interface Earlier {
  do: "earlier";
  chat: string;
  before: number;
}

export interface Say {
  do: "say";
  chat: string;
  key: string;
  text: string;
}

export interface Press {
  do: "press";
  chat: string;
  key: string;
  message: number;
  data: string;
}

export interface Bring {
  do: "bring";
  chat: string;
  key: string;
}

export interface Rename {
  do: "rename";
  chat: string;
  key: string;
  title: string;
}

export interface Delete {
  do: "delete";
  chat: string;
  key: string;
}

export interface Export {
  do: "export";
  chat: string;
  key: string;
}

export interface New {
  do: "new";
  key: string;
}

export interface Search {
  do: "search";
  words: string;
}

export interface More {
  do: "more";
}

export interface Health {
  do: "health";
}

export interface ListJobs {
  do: "jobs";
}

export interface ChangeJob {
  do: "job";
  number: number;
  key: string;
  action: "pause" | "resume" | "run" | "delete";
}

export interface Proof {
  is: "proof";
  nonce: string;
  proof: string;
}

export interface Unknown {
  is: "unknown";
}

export interface Chat {
  id: string;
  title: string;
  where: string;
  state: "working" | "asking" | "idle";
  last: string;
  active: Time;
}

export interface Hello {
  is: "hello";
  version: string;
  host: string;
  chats: Chat[];
  more: boolean;
}

export interface Tool {
  name: string;
  what: string;
}

export interface Line {
  seq: number;
  role: "user" | "assistant" | "tool" | "system";
  html: string;
  at: Time;
  tools: Tool[];
  shows: number | null;
}

export interface Button {
  label: string;
  data: string;
}

export interface Message {
  no: number;
  rev: number;
  author: "agent" | "person";
  html: string;
  buttons: Button[];
  at: Time;
  after: number | null;
  key: string | null;
}

export interface MoveLine {
  no: number;
  after: number;
  text: string;
  at: Time;
}

export interface Shown {
  is: "shown";
  chat: string;
  was: string;
  fresh: boolean;
  entry: Chat | null;
  lines: Line[];
  more: boolean;
  messages: Message[];
  moves: MoveLine[];
  seq: number;
  edits: number;
}

export interface History {
  is: "earlier";
  chat: string;
  lines: Line[];
  more: boolean;
  messages: Message[];
  moves: MoveLine[];
}

export interface Taken {
  is: "taken";
  key: string;
  chat: string | null;
  no: number | null;
}

export interface Refused {
  is: "refused";
  reason: string;
  key: string | null;
}

export interface PlatformState {
  platform: string;
  state: "connecting" | "connected" | "down";
  detail: string;
}

export interface GatewayState {
  name: string;
  since: Time;
  platforms: PlatformState[];
}

export interface HandoffState {
  session: string;
  title: string;
  platform: string;
  state: "pending" | "running" | "completed" | "failed";
  step: string | null;
  error: string | null;
  at: Time;
}

export interface Trouble {
  address: string;
  error: string;
  at: Time;
}

export interface Healthy {
  is: "health";
  gateway: GatewayState | null;
  handoffs: HandoffState[];
  troubles: Trouble[];
}

export interface SearchHit {
  chat: string;
  title: string;
  text: string;
  at: Time;
}

export interface Found {
  is: "found";
  words: string;
  hits: SearchHit[];
}

export interface Exported {
  is: "exported";
  key: string;
  name: string;
  text: string;
}

export interface JobEntry {
  number: number;
  name: string;
  state: "enabled" | "paused" | "done";
  error: string | null;
  next: string[];
  facts: [string, string][];
  prompt: string;
  last: string | null;
  lamp: "" | "bad" | "busy" | "good";
  at: Time | null;
  session: string | null;
}

export interface JobList {
  is: "jobs";
  jobs: JobEntry[];
}

export interface Chats {
  is: "chats";
  chats: Chat[];
  more: boolean;
}

export interface Changed {
  is: "message";
  chat: string;
  message: Message;
}

export interface Writing {
  is: "writing";
  chat: string;
  html: string;
  after: number;
}

export interface Gone {
  is: "gone";
  chat: string;
}

export type Ask =
  | Open
  | Earlier
  | Say
  | Press
  | Bring
  | Rename
  | Delete
  | Export
  | New
  | Search
  | More
  | Health
  | ListJobs
  | ChangeJob;

export type Tell =
  | Proof
  | Unknown
  | Hello
  | Shown
  | History
  | Taken
  | Refused
  | Healthy
  | Found
  | Exported
  | JobList
  | Chats
  | Changed
  | Writing
  | Gone;
