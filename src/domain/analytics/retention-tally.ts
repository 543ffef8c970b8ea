import { type Breakdown, CountsByValue } from "./breakdown.ts";
import type { CalendarInterval } from "./calendar.ts";
import type { Periods } from "./periods.ts";
import { rateOf } from "./rates.ts";
import type { Found } from "./returns.ts";

export const RETENTION_TYPES = ["nday", "unbounded", "within", "bracket"] as const;
export const ENTRIES = ["first_time", "recurring"] as const;
export const CLOCKS = ["calendar", "24h"] as const;

/** What is asked of retention. */
export type RetentionQuestion = {
  unit: CalendarInterval;
  type: (typeof RETENTION_TYPES)[number];
  /** Ascending. `until`: of a bracket, which may be longer than one period. */
  offsets: readonly { offset: number; until?: number | undefined }[];
  /** Default: any event. */
  startEvent?: string | undefined;
  returnEvents?: readonly string[] | undefined;
  entry: (typeof ENTRIES)[number];
  clock: (typeof CLOCKS)[number];
  breakdown?: Breakdown | undefined;
};

const DAY_MS = 86_400_000;

type Column = { offset: number; until?: number };
export type RetentionCell = Column & { players: number; rate: number; complete: boolean };
export type RetentionCohort = { period: string; size: number; cells: RetentionCell[] };
/** Over complete cells. */
export type RetentionShare = Column & { eligible: number; players: number; rate: number };
export type RetentionOverall = RetentionShare & { meanRate: number };
export type RetentionGroup = { value: string; size: number; overall: RetentionShare[] };

/** Adds up who returned. */
export class RetentionTally {
  readonly #question: RetentionQuestion;
  readonly #cohorts: number;
  readonly #sizes: Int32Array;
  /** By cohort and column. */
  readonly #players: Int32Array;
  readonly #isComplete: boolean[];
  /** By value: its players; then for each column those old enough, and those of them who returned. */
  readonly #values: CountsByValue;

  constructor(question: RetentionQuestion, periods: Periods, asOfMs: number) {
    const { offsets, clock } = question;
    this.#question = question;
    this.#cohorts = periods.cohorts;
    this.#sizes = new Int32Array(periods.cohorts);
    this.#players = new Int32Array(periods.cohorts * offsets.length);
    this.#values = new CountsByValue(1 + 2 * offsets.length);
    this.#isComplete = Array.from({ length: this.#players.length }, (_, cell) => {
      const cohort = Math.floor(cell / offsets.length);
      const { offset, until = offset } = offsets[cell % offsets.length]!;
      const endMs =
        clock === "calendar"
          ? periods.startsMs[cohort + until + 1]!
          : periods.startsMs[cohort + 1]! + (until + 1) * DAY_MS;
      return endMs <= asOfMs;
    });
  }

  /** Counts what is found of one player. `valueOf`: the breakdown's value of a start. */
  foundOf(valueOf: (start: number) => string | null | undefined): Found {
    const { offsets, breakdown } = this.#question;
    return (cohort, start, isReturned) => {
      this.#sizes[cohort]! += 1;
      const counts = breakdown ? this.#values.of(valueOf(start)) : undefined;
      if (counts) counts[0]! += 1;
      for (let column = 0; column < offsets.length; column++) {
        const cell = cohort * offsets.length + column;
        const returned = isReturned(column) ? 1 : 0;
        this.#players[cell]! += returned;
        if (!counts || !this.#isComplete[cell]) continue;
        counts[1 + 2 * column]! += 1;
        counts[2 + 2 * column]! += returned;
      }
    };
  }

  show(periods: readonly string[]): {
    cohorts: RetentionCohort[];
    overall: RetentionOverall[];
    breakdown?: RetentionGroup[];
  } {
    const { breakdown } = this.#question;
    return {
      cohorts: periods.map((period, cohort) => ({
        period,
        size: this.#sizes[cohort]!,
        cells: this.#columns().map((shown, column) => this.#cell(shown, { cohort, column })),
      })),
      overall: this.#columns().map((shown, column) => this.#overall(shown, column)),
      ...(breakdown && { breakdown: this.#groups(breakdown.limit) }),
    };
  }

  #columns(): Column[] {
    const { type, offsets } = this.#question;
    return offsets.map(({ offset, until = offset }) => (type === "bracket" ? { offset, until } : { offset }));
  }

  #cell(shown: Column, { cohort, column }: { cohort: number; column: number }): RetentionCell {
    const cell = cohort * this.#question.offsets.length + column;
    const players = this.#players[cell]!;
    const rate = rateOf(players, this.#sizes[cohort]!);
    return { ...shown, players, rate, complete: this.#isComplete[cell]! };
  }

  #overall(shown: Column, column: number): RetentionOverall {
    let [eligible, players, rates, counted] = [0, 0, 0, 0];
    for (let cohort = 0; cohort < this.#cohorts; cohort++) {
      const cell = cohort * this.#question.offsets.length + column;
      const size = this.#sizes[cohort]!;
      if (!this.#isComplete[cell] || size === 0) continue;
      eligible += size;
      players += this.#players[cell]!;
      rates += this.#players[cell]! / size;
      counted++;
    }
    return { ...shown, eligible, players, rate: rateOf(players, eligible), meanRate: rateOf(rates, counted) };
  }

  #groups(limit: number): RetentionGroup[] {
    return this.#values.ranked(limit).map(({ value, counts }) => ({
      value,
      size: counts[0]!,
      overall: this.#columns().map((shown, column) => {
        const [eligible, players] = [counts[1 + 2 * column]!, counts[2 + 2 * column]!];
        return { ...shown, eligible, players, rate: rateOf(players, eligible) };
      }),
    }));
  }
}
