import assert from "node:assert/strict";
import fc from "fast-check";
import { type Exclusion, type FunnelTask, judgeFunnel } from "../../src/domain/analytics/funnel-chains.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { cases } from "../support/properties.ts";

/** An event of one player: its time, and which steps and exclusions it may be. */
type NaiveEvent = { at: number; marks: number };
type NaiveChain = { level: number; entry: number; times: number[] };

const may = ({ marks }: NaiveEvent, bit: number): boolean => Math.floor(marks / 2 ** bit) % 2 === 1;

const isEarlier = (a: readonly number[], b: readonly number[]): boolean => {
  const place = a.findIndex((time, i) => time !== b[i]);
  return place >= 0 && a[place]! < b[place]!;
};

/** Tries every choice of events for the steps: the most steps, of equals the earliest times. */
const bestAfter = (
  events: readonly NaiveEvent[],
  { steps, windowMs }: FunnelTask,
  entry: number,
): number[] => {
  const lastMs = events[entry]!.at + windowMs;
  let best: number[] = [];
  const extend = (used: readonly number[]): void => {
    const times = used.map((i) => events[i]!.at);
    if (times.length > best.length || (times.length === best.length && isEarlier(times, best))) best = times;
    if (used.length === steps) return;
    for (const [i, event] of events.entries())
      if (!used.includes(i) && may(event, used.length) && event.at >= times.at(-1)! && event.at <= lastMs)
        extend([...used, i]);
  };
  extend([entry]);
  return best;
};

const isVoid = (events: readonly NaiveEvent[], times: readonly number[], { bit, from, to }: Exclusion) =>
  times.length > to && events.some((one) => may(one, bit) && one.at > times[from]! && one.at < times[to]!);

const strictAfter = (
  events: readonly NaiveEvent[],
  { steps, windowMs }: FunnelTask,
  entry: number,
): number[] => {
  const taken = events.slice(entry, entry + steps);
  const end = taken.findIndex((event, step) => !may(event, step) || event.at > events[entry]!.at + windowMs);
  return (end < 0 ? taken : taken.slice(0, end)).map(({ at }) => at);
};

/** Gives events to steps in every way, and returns the most steps that got one. */
const mostAtOnce = (events: readonly NaiveEvent[], steps: number, from = 0): number => {
  if (from === events.length) return 0;
  let most = mostAtOnce(events, steps, from + 1);
  for (let step = 0; step < 10; step++) {
    if (!may(events[from]!, step) || Math.floor(steps / 2 ** step) % 2 === 0) continue;
    most = Math.max(most, 1 + mostAtOnce(events, steps - 2 ** step, from + 1));
  }
  return most;
};

/** The most steps within the window that begins with an event. */
const levelOfAny = (events: readonly NaiveEvent[], task: FunnelTask, entry: number): number => {
  const { at, marks } = events[entry]!;
  if (marks % 2 ** task.steps === 0) return 0;
  const within = events.filter((one) => one.at >= at && one.at <= at + task.windowMs);
  return mostAtOnce(within, 2 ** task.steps - 1);
};

const chainAfter = (events: readonly NaiveEvent[], task: FunnelTask, entry: number): NaiveChain => {
  if (task.order === "any") return { level: levelOfAny(events, task, entry), entry, times: [] };
  if (!may(events[entry]!, 0)) return { level: 0, entry, times: [] };
  const times = task.order === "strict" ? strictAfter(events, task, entry) : bestAfter(events, task, entry);
  return { level: task.exclude.some((one) => isVoid(events, times, one)) ? 0 : times.length, entry, times };
};

/** What `judgeFunnel` returns, by trying everything. Events are in the order of time, then of arrival. */
const naiveFunnel = (events: readonly NaiveEvent[], task: FunnelTask): NaiveChain => {
  let best: NaiveChain = { level: 0, entry: -1, times: [] };
  for (const [entry, { at }] of events.entries()) {
    if (at < task.startMs || at >= task.endMs) continue;
    const chain = chainAfter(events, task, entry);
    const isTie = task.order === "ordered" && chain.level > 0 && chain.level === best.level;
    const isFirst = isTie && at === best.times[0] && isEarlier(chain.times, best.times);
    if (chain.level > best.level || isFirst) best = chain;
  }
  return best;
};

const judge = (events: readonly NaiveEvent[], task: FunnelTask) =>
  atOnce(
    judgeFunnel(
      {
        size: events.length,
        at: Float64Array.from(events, ({ at }) => at),
        marks: Uint16Array.from(events, ({ marks }) => marks),
        values: [],
      },
      task,
    ),
  );

const task = (more: Partial<FunnelTask> = {}): FunnelTask => ({
  order: "ordered",
  steps: 3,
  windowMs: 10,
  startMs: 0,
  endMs: 100,
  exclude: [],
  ...more,
});

const Events = (bits: number) =>
  fc
    .array(
      fc.record({ at: fc.integer({ min: 0, max: 12 }), marks: fc.integer({ min: 0, max: 2 ** bits - 1 }) }),
      {
        maxLength: 8,
      },
    )
    .map((events) => events.toSorted((a, b) => a.at - b.at));

const Task = fc.record({
  order: fc.constantFrom("ordered" as const, "strict" as const, "any" as const),
  steps: fc.integer({ min: 2, max: 4 }),
  windowMs: fc.integer({ min: 0, max: 12 }),
  startMs: fc.integer({ min: 0, max: 4 }),
  endMs: fc.integer({ min: 5, max: 13 }),
});

describe("a funnel of one player", () => {
  it("is what trying every choice of events finds, in any order, also at equal times", () => {
    fc.assert(
      fc.property(Events(4), Task, (events, given) => {
        const asked = task(given);
        const { level, entry, times } = judge(events, asked);
        const naive = naiveFunnel(events, asked);
        assert.deepEqual([level, times], [naive.level, naive.times]);
        if (asked.order !== "any") assert.equal(entry, naive.entry);
      }),
      { numRuns: cases(3_000) },
    );
  });

  it("is void by excluded events as trying every choice finds", () => {
    const exclude = [
      { bit: 3, from: 0, to: 1 },
      { bit: 4, from: 1, to: 2 },
    ];
    fc.assert(
      fc.property(Events(5), fc.integer({ min: 0, max: 12 }), (events, windowMs) => {
        const asked = task({ windowMs, exclude });
        const { level, entry, times } = judge(events, asked);
        assert.deepEqual({ level, entry, times }, naiveFunnel(events, asked));
      }),
      { numRuns: cases(2_000) },
    );
  });

  it("does not depend on the order of arrival where the order is not strict", () => {
    fc.assert(
      fc.property(Events(4), fc.constantFrom("ordered" as const, "any" as const), (events, order) => {
        const reversed = events.toReversed().toSorted((a, b) => a.at - b.at);
        const asked = task({ order, steps: 4 });
        const [one, other] = [judge(events, asked), judge(reversed, asked)];
        assert.deepEqual([one.level, one.times], [other.level, other.times]);
      }),
    );
  });
});
