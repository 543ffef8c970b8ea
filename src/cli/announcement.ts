/** What a start tells about the server, besides its log. */
export type ReadyServer = {
  /** Name and version, state and address, for people. */
  title: string;
  url: string;
  /** Where health and metrics are. */
  operate: string;
  mode: string;
  /** Time since the process started. */
  seconds: number;
};

/** What a start tells about the demo. */
export type ReadyDemo = {
  players: number;
  events: number;
  days: number;
  /** The season that runs, with how many players take part; none if it was ended. */
  season?: { name: string; endsAt: string; quests: number; tiers: number; players: number };
  email: string;
  /** Only after the start that made the account. */
  password?: string;
  key: string;
  /** Where the key is kept. */
  keyFile: string;
  /** How long the event of the self test took through every stage. */
  selfTestMs?: number;
  /** Why the self test failed. */
  problem?: string;
  /** Commands to copy: they send an event, show a board, the player's quests, and watch a player. */
  commands: { track: string; board: string; goals: string; watch: string };
};

/** Where a start tells what it has to: on a terminal, or as JSON lines. */
export type Announcer = {
  /** A process without the web role is ready; `operate` is where its health and metrics are. */
  worker(told: { title: string; operate: string | undefined; mode: string; seconds: number }): void;
  server(told: ReadyServer): void;
  demo(told: ReadyDemo): void;
  /** The demo could not be made. */
  failure(problem: string): void;
  /** There is no demo: what comes next. */
  next(): void;
  note(text: string): void;
  /** Shows how far the demo has been made; may be called any number of times. */
  progress(text: string): void;
  /** Removes what `progress` shows. */
  progressed(): void;
};
