import type { Site } from "../bench/support/setup.ts";
import type { Tally } from "./support/tally.ts";

/** What a scenario is given. */
export type LoadContext = {
  site: Site;
  tally: Tally;
  clients: number;
  seconds: number;
  /** Operations a second over all clients, where the scenario sends at a rate. */
  rate: number;
  /** What is being done now, for the progress line. */
  say(phase: string): void;
  /** How far that has come. */
  count(done: number, of: number): void;
};

export type Scenario = {
  name: string;
  about: string;
  /** Of a run that says nothing else. */
  defaults: { clients: number; seconds: number; rate: number };
  run(context: LoadContext): Promise<void>;
};
