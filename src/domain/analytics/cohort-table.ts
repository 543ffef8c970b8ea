import type { Breakdown } from "./breakdown.ts";
import type { CalendarInterval } from "./calendar.ts";
import type { Periods } from "./periods.ts";
import { rateOf } from "./rates.ts";

export const COHORT_METRICS = ["players", "rate", "events", "eventsPerPlayer", "xp", "sum"] as const;

/** What is asked of cohorts. */
export type CohortQuestion = {
  unit: CalendarInterval;
  /** Columns behind the first one. */
  periods: number;
  metric: (typeof COHORT_METRICS)[number];
  /** What is added up by the metric `sum`: numbers of events of a type. */
  sum?: { eventType: string; path: readonly string[] } | undefined;
  isCumulative: boolean;
  /** A property of each player's first event divides players, in place of when it was. */
  segmentBy?: Breakdown | undefined;
};

/** What some players did in the `k`-th period after their own. */
export type CohortCell = {
  k: number;
  players: number;
  /** Of those, players who did nothing in any later one. */
  last: number;
  events: number;
  amount: number;
};

/** By period from 0 on, as far as there are columns. */
type Series = { players: number[]; events: number[]; amount: number[] };

/** A number that is not one of six decimals by the nature of its metric. */
const rounded = (value: number): number => Math.round(value * 1e6) / 1e6;

/** Turns cells into the rows of a table of cohorts. */
export class CohortTable {
  readonly #question: CohortQuestion;
  readonly #periods: Periods;
  readonly #asOfMs: number;
  readonly #columns: number;

  constructor(question: CohortQuestion, periods: Periods, asOfMs: number) {
    this.#question = question;
    this.#periods = periods;
    this.#asOfMs = asOfMs;
    this.#columns = question.periods + 1;
  }

  /**
   * Returns one row.
   * @param newest the latest cohort of its players: where that is old enough, all are
   */
  row(cells: readonly CohortCell[], newest: number): { size: number; values: number[]; complete: boolean[] } {
    const series = this.#seriesOf(cells);
    const size = cells.find(({ k }) => k === 0)?.players ?? 0;
    return {
      size,
      values: this.#each((k) => this.#value(series, k, size)),
      complete: this.#each((k) => this.#isComplete(newest, k)),
    };
  }

  /** Returns the sums over all cohorts that are old enough for each column. */
  overall(byCohort: readonly (readonly CohortCell[])[]) {
    const series = byCohort.map((cells) => this.#seriesOf(cells));
    const sizes = byCohort.map((cells) => cells.find(({ k }) => k === 0)?.players ?? 0);
    return this.#each((k) => {
      const old = series.flatMap((one, cohort) => (this.#isComplete(cohort, k) ? [{ one, cohort }] : []));
      const sum = (pick: (one: Series) => number): number => old.reduce((all, { one }) => all + pick(one), 0);
      const eligible = old.reduce((all, { cohort }) => all + sizes[cohort]!, 0);
      const players = sum((one) => one.players[k]!);
      const added: Series = { players: [], events: [], amount: [] };
      added.players[k] = players;
      added.events[k] = sum((one) => one.events[k]!);
      added.amount[k] = sum((one) => one.amount[k]!);
      return { k, eligible, players, value: this.#value(added, k, eligible) };
    });
  }

  #each<T>(make: (k: number) => T): T[] {
    return Array.from({ length: this.#columns }, (_, k) => make(k));
  }

  #isComplete(cohort: number, k: number): boolean {
    return this.#periods.startsMs[cohort + k + 1]! <= this.#asOfMs;
  }

  #value({ players, events, amount }: Series, k: number, size: number): number {
    switch (this.#question.metric) {
      case "players":
        return players[k]!;
      case "rate":
        return rateOf(players[k]!, size);
      case "events":
        return events[k]!;
      case "eventsPerPlayer":
        return size === 0 ? 0 : rounded(events[k]! / size);
      case "xp":
      case "sum":
        return rounded(amount[k]!);
    }
  }

  /** Cumulative: players of a period or any later one; events and amounts up to a period. */
  #seriesOf(cells: readonly CohortCell[]): Series {
    const { isCumulative } = this.#question;
    const of = (pick: (cell: CohortCell) => number): number[] => {
      const values = this.#each(() => 0);
      for (const cell of cells) if (cell.k < this.#columns) values[cell.k]! += pick(cell);
      return values;
    };
    const [events, amount] = [of(({ events: count }) => count), of((cell) => cell.amount)];
    if (!isCumulative) return { players: of(({ players }) => players), events, amount };
    const upTo = (values: readonly number[]): number[] => {
      let all = 0;
      return values.map((value) => (all += value));
    };
    const players = this.#each((k) => cells.reduce((all, cell) => all + (cell.k >= k ? cell.last : 0), 0));
    return { players, events: upTo(events), amount: upTo(amount) };
  }
}
