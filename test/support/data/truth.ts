import { existsSync, readFileSync } from "node:fs";

const pathOf = (name: string): string =>
  new URL(`../../../../shared/data/${name}.truth.json`, import.meta.url).pathname;

/** Whether what is known about a file of events is there. */
export const hasTruth = (name: string): boolean => existsSync(pathOf(name));

export type TruthColumn = {
  offset: number;
  eligible: number;
  onDay: number;
  onOrAfter: number;
  within: number;
  rateOnDay: number;
  rateOnOrAfter: number;
};

export type TruthCohort = {
  cohort: string;
  size: number;
  cells: { offset: number; onDay: number; onOrAfter: number; within: number; complete: boolean }[];
};

export type TruthRetention = {
  params: {
    from: string;
    to: string;
    asOfIso: string;
    unit: string;
    start: string;
    return: string | string[];
    clock: string;
    timezone: string;
  };
  overallWeighted: TruthColumn[];
  cohorts: TruthCohort[];
};

export type TruthFunnel = {
  order: "ordered" | "strict" | "any";
  tie: string | null;
  windowMs: number;
  entryFromIso: string;
  entryToIso: string;
  steps: { eventType: string; where?: Record<string, unknown> }[];
  players: number[];
  conversionFromStart: number[];
  medianSecondsFromPrevious: (number | null)[] | null;
  breakdown?: { property: string; values: Record<string, number[]> };
};

/** What is known about a file of events, computed twice by other programs. */
export type Truth = {
  events: number;
  players: number;
  eventTypes: Record<string, number>;
  dauUtc?: Record<string, number>;
  goalsByTournament?: Record<string, number>;
  goalsByMinuteBand?: Record<string, number>;
  retention?: Record<string, TruthRetention>;
  cohorts?: Record<string, TruthRetention>;
  funnels: Record<string, TruthFunnel>;
};

export const readTruth = (name: string): Truth => JSON.parse(readFileSync(pathOf(name), "utf8")) as Truth;
