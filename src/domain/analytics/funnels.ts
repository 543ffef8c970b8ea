import { type RawBuilder, sql } from "kysely";
import type { Asked } from "./ask.ts";
import { eventsOf } from "./events.ts";
import { type Chain, type FunnelTask, judgeFunnel } from "./funnel-chains.ts";
import { eachPlayer, type PlayerEvents } from "./packed.ts";
import {
  type Breakdown,
  checkFilter,
  CountsByValue,
  filterCondition,
  NONE,
  Numbers,
  OTHER,
  propertyText,
  rateOf,
} from "./properties.ts";
import { eachRolledTimes } from "./rollups/each-player.ts";
import { FoundPlayers, openRolled, type Who } from "./rollups/rolled.ts";
import { parseDuration } from "../evaluation/language/operators.ts";
import type { Filter } from "../evaluation/metrics/compile.ts";
import { invalid } from "../kernel/errors.ts";
import type { Steps } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** Returns the ms of a duration such as `30m`, `24h`, `7d`, `2w`, `P7D` or `PT12H`; undefined otherwise. */
export const readDuration = (text: string): number | undefined => {
  const short = /^(\d{1,7})([mhdw])$/.exec(text);
  if (!short) return parseDuration(text);
  return Number(short[1]) * UNITS_MS[short[2] as keyof typeof UNITS_MS];
};

/** Returns an ISO 8601 duration of at least a second. */
export const showDuration = (ms: number): string => {
  const seconds = Math.floor(ms / 1_000);
  if (seconds % 86_400 === 0) return `P${seconds / 86_400}D`;
  const parts = [
    [Math.floor(seconds / 3_600), "H"],
    [Math.floor((seconds % 3_600) / 60), "M"],
    [seconds % 60, "S"],
  ] as const;
  return `PT${parts.map(([count, unit]) => (count === 0 ? "" : `${count}${unit}`)).join("")}`;
};

export const FUNNEL_ORDERS = ["ordered", "strict", "any"] as const;
export const STEPS_MAX = 10;
/** With a mark for each step, as many as an event has marks. */
export const EXCLUSIONS_MAX = 4;

/** Events that count: of a type, where a filter matches. */
type Selector = { eventType: string; where?: Filter | undefined };

export type FunnelQuestion = {
  steps: readonly (Selector & { label?: string | undefined })[];
  windowMs: number;
  order: (typeof FUNNEL_ORDERS)[number];
  /** Steps count from 1; default: the first and the last. */
  exclude: readonly (Selector & { fromStep?: number | undefined; toStep?: number | undefined })[];
  breakdown?: Breakdown | undefined;
};

const checkExclusions = ({ steps, order, exclude }: FunnelQuestion): void => {
  if (exclude.length > 0 && order !== "ordered")
    throw invalid("exclude", "is only for steps that are ordered: others have nothing between them");
  for (const [i, { fromStep = 1, toStep = steps.length }] of exclude.entries()) {
    if (toStep > steps.length) throw invalid(`exclude.${i}.toStep`, `there are ${steps.length} steps`);
    if (fromStep >= toStep) throw invalid(`exclude.${i}.toStep`, "must be after fromStep");
  }
};

const taskOf = (question: FunnelQuestion, { startMs, endMs }: Asked["range"]): FunnelTask => {
  const { steps, windowMs, order } = question;
  const exclude = question.exclude.map(({ fromStep = 1, toStep = steps.length }, i) => ({
    bit: steps.length + i,
    from: fromStep - 1,
    to: toStep - 1,
  }));
  return { order, steps: steps.length, windowMs, startMs, endMs, exclude };
};

const isSelected = ({ eventType, where }: Selector): RawBuilder<unknown> =>
  where === undefined
    ? sql`e.event_type = ${eventType}`
    : sql`(e.event_type = ${eventType} and ${filterCondition(where)})`;

/** A query of the events that a funnel needs, each with its marks. */
const markedEvents = (
  { frame, range }: Asked,
  { steps, windowMs, order, exclude, breakdown }: FunnelQuestion,
): RawBuilder<unknown> => {
  const selectors = [...steps, ...exclude];
  const marks = selectors.map((one, bit) => sql`((${isSelected(one)})::int << ${sql.lit(bit)})`);
  // In strict order, events of any type come between.
  const types = order === "strict" ? undefined : [...new Set(selectors.map(({ eventType }) => eventType))];
  const events = eventsOf(frame, { fromMs: range.startMs, untilMs: range.endMs + windowMs + 1, types });
  const value = breakdown ? sql`, ${propertyText(breakdown.path)} as value` : sql``;
  const marked = sql`select e.player_id, e.at, e.id, ${sql.join(marks, sql` | `)} as marks${value}
    from (${events}) e`;
  return order === "strict" ? marked : sql`select * from (${marked}) m where m.marks <> 0`;
};

/** Adds up what players did. */
class FunnelTally {
  readonly #question: FunnelQuestion;
  readonly #openFromMs: number;
  readonly #players: Int32Array;
  readonly #gaps: Numbers[];
  readonly #values: CountsByValue;
  #openEntries = 0;

  constructor(question: FunnelQuestion, asOfMs: number) {
    this.#question = question;
    this.#openFromMs = asOfMs - question.windowMs;
    this.#players = new Int32Array(question.steps.length);
    this.#gaps = question.steps.map(() => new Numbers());
    this.#values = new CountsByValue(question.steps.length);
  }

  add({ at, values }: PlayerEvents, { level, entry, entryNo, times }: Chain): void {
    if (level === 0) return;
    for (let step = 0; step < level; step++) this.#players[step]! += 1;
    for (let step = 1; step < times.length; step++) this.#gaps[step]!.add(times[step]! - times[step - 1]!);
    if (at[entry]! >= this.#openFromMs) this.#openEntries++;
    if (!this.#question.breakdown) return;
    const counts = this.#values.of(values[entryNo]);
    for (let step = 0; step < level; step++) counts[step]! += 1;
  }

  show() {
    const { order, windowMs, breakdown } = this.#question;
    const [entered, converted] = [this.#players[0]!, this.#players.at(-1)!];
    return {
      order,
      window: showDuration(windowMs),
      steps: this.#steps(),
      entered,
      converted,
      rate: rateOf(converted, entered),
      openEntries: this.#openEntries,
      ...(breakdown && {
        breakdown: this.#values
          .ranked(breakdown.limit)
          .map(({ value, counts }) => ({ value, players: [...counts] })),
      }),
    };
  }

  #steps() {
    const { steps, order } = this.#question;
    const isAny = order === "any";
    return steps.map(({ eventType, label }, i) => {
      const players = this.#players[i]!;
      const median = this.#gaps[i]!.median();
      return {
        index: i + 1,
        eventType: isAny ? null : eventType,
        label: isAny ? `${i + 1} of ${steps.length}` : (label ?? null),
        players,
        fromStart: rateOf(players, this.#players[0]!),
        fromPrevious: rateOf(players, this.#players[Math.max(0, i - 1)]!),
        dropOff: i + 1 === steps.length ? 0 : players - this.#players[i + 1]!,
        medianSecondsFromPrevious: median === null ? null : Math.round(median) / 1_000,
      };
    });
  }
}

/**
 * Reads the events of a funnel from rollups, which know neither properties nor the order of equal times.
 * @returns whether they could tell
 */
const judgeFromRollups = async (
  work: Work,
  { frame, range }: Asked,
  { steps, exclude, order, windowMs, breakdown }: FunnelQuestion,
  judge: (player: PlayerEvents, who: Who) => Steps<void>,
): Promise<boolean> => {
  const selectors = [...steps, ...exclude];
  if (order === "strict" || breakdown || selectors.some(({ where }) => where)) return false;
  const rolled = await openRolled(work, frame);
  if (!rolled) return false;
  const marks = new Map<string, number>();
  for (const [bit, { eventType }] of selectors.entries())
    marks.set(eventType, (marks.get(eventType) ?? 0) | (1 << bit));
  const untilMs = Math.min(frame.asOfMs, range.endMs + windowMs + 1);
  const mayBegin = (at: number, mark: number): boolean =>
    at < range.endMs && (order === "any" || (mark & 1) === 1);
  await eachRolledTimes(work, rolled, { fromMs: range.startMs, untilMs, marks }, (player) => {
    let begins = false;
    for (let i = 0; i < player.size && !begins; i++) begins = mayBegin(player.at[i]!, player.marks[i]!);
    return begins ? judge({ ...player, values: [] }, player.who) : undefined;
  });
  return true;
};

/** What is made of the players of a funnel: a count, or a list. `isNamed`: it needs to know who they are. */
type Taking = { isNamed: boolean; take: (events: PlayerEvents, chain: Chain, who: Who | null) => void };

/** Finds how far each player comes who may have begun. */
const judgeAll = async (
  work: Work,
  asked: Asked,
  question: FunnelQuestion,
  { isNamed, take }: Taking,
): Promise<void> => {
  checkExclusions(question);
  for (const [i, { where }] of question.steps.entries()) if (where) checkFilter(`steps.${i}.where`, where);
  for (const [i, { where }] of question.exclude.entries())
    if (where) checkFilter(`exclude.${i}.where`, where);
  const task = taskOf(question, asked.range);
  const mayBegin = sql`r.at < ${new Date(task.endMs).toISOString()}::timestamptz
    ${task.order === "any" ? sql`` : sql`and (r.marks & 1) = 1`}`;
  const query = {
    events: markedEvents(asked, question),
    fromMs: task.startMs,
    having: sql`bool_or(${mayBegin})`,
    values: question.breakdown && { where: mayBegin, isFirstOnly: false },
    isInOrder: task.order === "strict" || question.breakdown !== undefined,
    isNamed,
  };
  const judge = function* (player: PlayerEvents, who: Who | null): Steps<void> {
    take(player, yield* judgeFunnel(player, task), who);
  };
  if (!(await judgeFromRollups(work, asked, question, judge))) await eachPlayer(work, query, judge);
};

/**
 * Returns how far players come through steps. The first step is in the range, and the last one within the
 * window after it.
 * @throws DomainError VALIDATION_ERROR for operators and exclusions that funnels do not have
 */
export const readFunnel = async (work: Work, asked: Asked, question: FunnelQuestion) => {
  const tally = new FunnelTally(question, asked.frame.asOfMs);
  await judgeAll(work, asked, question, {
    isNamed: false,
    take: (events, chain) => tally.add(events, chain),
  });
  return tally.show();
};

/** A number of `readFunnel`. `value`: one of its breakdown. */
export type FunnelNumber = {
  /** Counts from 1. */
  step: number;
  /** completed: who did the step; dropped: who did no step after it, none where it is the last. */
  state: "completed" | "dropped";
  value?: string | undefined;
};

/**
 * Finds the players whom `readFunnel` counts at a step.
 * @throws DomainError VALIDATION_ERROR as that, and for a step or a value that the question does not have
 */
export const findFunnelPlayers = async (
  work: Work,
  asked: Asked,
  question: FunnelQuestion,
  { step, state, value }: FunnelNumber,
): Promise<FoundPlayers> => {
  const { steps, breakdown } = question;
  if (step > steps.length) throw invalid("step", `there are ${steps.length} steps`);
  if (value !== undefined && !breakdown) throw invalid("value", "is for a question with a breakdown");
  if (value === OTHER) throw invalid("value", `${OTHER} is several values: raise the limit, or list each`);
  const players = new FoundPlayers();
  const isWanted = ({ level }: Chain): boolean =>
    state === "completed" ? level >= step : level === step && step < steps.length;
  await judgeAll(work, asked, question, {
    isNamed: true,
    take: ({ values }, chain, who) => {
      if (!isWanted(chain)) return;
      if (value === undefined || (values[chain.entryNo] ?? NONE) === value) players.add(who!);
    },
  });
  return players;
};
