import assert from "node:assert/strict";
import fc from "fast-check";
import { type FunnelTask, judgeFunnel } from "../../src/domain/analytics/funnel-chains.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { naiveFunnel, type NaiveEvent } from "../support/analytics/naive-funnel.ts";
import { cases } from "../support/properties.ts";

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
