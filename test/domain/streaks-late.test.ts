import assert from "node:assert/strict";
import fc from "fast-check";
import { periodName } from "../../src/domain/evaluation/streaks/periods.ts";
import {
  missedPeriods,
  repair,
  repairable,
  repairableUntil,
  reset,
} from "../../src/domain/evaluation/streaks/advance.ts";
import type { Streak } from "../../src/domain/evaluation/streaks/compile.ts";
import { aPlayedStreak, aStreak, DAY_MS, HOUR_MS, T } from "../support/streaks/streaks.ts";
import { cases } from "../support/properties.ts";

const noon = (day: number): number => T("2026-01-01T12:00Z") + (day - 1) * DAY_MS;
const frozen = ({ doc }: Streak) => (doc.run?.frozen ?? []).map((one) => periodName("DAY", one));
/** Without the time at which the sweeper comes, which depends on when something was written. */
const bare = (state: Streak): Streak => JSON.parse(JSON.stringify(state)) as Streak;

describe("events that come late to a streak", () => {
  it("take up the run that was lost after they happened", () => {
    const played = aPlayedStreak(aStreak());
    played.hit(noon(1));
    played.settle("2026-01-03T01:00Z");
    assert.equal(played.state.current, 0);
    assert.ok(played.hit("2026-01-02T20:00Z"));
    assert.equal(played.state.current, 2);
    assert.deepEqual(
      played.kinds().filter((kind) => kind !== "REACHED"),
      ["EXTENDED", "BROKEN", "REPAIRED", "EXTENDED"],
    );
  });

  it("give the same in any order, whole or with one gap", () => {
    const days = fc
      .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 2, max: 5 }), fc.integer({ min: 0, max: 6 }))
      .chain(([first, gap, second]) => {
        const all = [
          ...Array.from({ length: first }, (_, i) => i + 1),
          ...Array.from({ length: second }, (_, i) => first + gap + i),
        ];
        return fc.record({
          order: fc.shuffledSubarray(all, { minLength: all.length }),
          all: fc.constant(all),
        });
      });
    fc.assert(
      fc.property(days, ({ order, all }) => {
        const [live, late] = [aPlayedStreak(aStreak()), aPlayedStreak(aStreak())];
        for (const day of all) live.hit(noon(day));
        for (const day of order) late.hit(noon(day));
        for (const one of [live, late]) one.settle(noon(all.at(-1)!));
        const { current, longest, deadlineMs } = late.state;
        assert.deepEqual(
          [current, longest, deadlineMs],
          [live.state.current, live.state.longest, live.state.deadlineMs],
        );
      }),
      { numRuns: cases(2_000) },
    );
  });

  it("keep nothing by a freeze in the end where every day is done, in any order", () => {
    const order = fc.integer({ min: 1, max: 9 }).chain((n) =>
      fc.shuffledSubarray(
        Array.from({ length: n }, (_, i) => i + 1),
        { minLength: n },
      ),
    );
    fc.assert(
      fc.property(order, fc.integer({ min: 1, max: 3 }), (all, initial) => {
        const played = aPlayedStreak(aStreak({ freeze: { initial, max: 3 } }));
        for (const day of all) played.hit(noon(day));
        const { current, freezes } = played.state;
        assert.deepEqual([current, frozen(played.state)], [all.length, []]);
        // Of runs before the last two, what freezes had kept is not known any more.
        assert.ok(freezes === initial || (all.length > 5 && freezes < initial));
      }),
      { numRuns: cases(2_000) },
    );
  });

  const kinds = fc.record({
    period: fc.constantFrom("DAY", "WEEK", "MONTH"),
    graceSeconds: fc.constantFrom(0, 0, 3_600, 43_200),
    dayStartsAtMinutes: fc.constantFrom(0, 0, 240),
    freeze: fc.constantFrom(
      undefined,
      { initial: 2, max: 3, autoEarnEvery: 2 },
      { initial: 1, autoUse: false },
    ),
    threshold: fc.constantFrom(1, 1, 2),
    zone: fc.constantFrom("UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia"),
  });
  type Kind = typeof kinds extends fc.Arbitrary<infer K> ? K : never;
  const streakOf = ({ zone: _zone, threshold, freeze, ...more }: Kind) => {
    const qualify = { parts: [{ metric: { eventTypes: ["done"], aggregate: "count" }, threshold }] };
    return aStreak({ ...more, qualify, ...(freeze ? { freeze } : {}) });
  };
  const gaps = (period: string) => {
    const unit = { DAY: 1, WEEK: 7, MONTH: 30 }[period]! * DAY_MS;
    return fc.array(fc.integer({ min: 0, max: Math.floor(unit * 1.7) }), { minLength: 1, maxLength: 40 });
  };
  const histories = kinds.chain((kind) => fc.tuple(fc.constant(kind), gaps(kind.period)));
  const timesOf = (steps: readonly number[]): number[] => {
    let at = T("2025-09-20T08:00Z");
    return steps.map((step) => (at += step));
  };

  it("do not exist where everything comes in order: settling in between changes nothing", () => {
    fc.assert(
      fc.property(
        histories,
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 40, maxLength: 40 }),
        ([kind, steps], looks) => {
          const lazy = aPlayedStreak(streakOf(kind), kind.zone);
          const eager = aPlayedStreak(streakOf(kind), kind.zone);
          const times = timesOf(steps);
          times.forEach((at, i) => {
            lazy.hit(at);
            eager.hit(at);
            const next = times[i + 1] ?? at + 90 * DAY_MS;
            eager.settle(at + Math.floor((next - at) * looks[i]!));
            eager.settle(next);
          });
          lazy.settle(times.at(-1)! + 90 * DAY_MS);
          assert.deepEqual(bare(eager.state), bare(lazy.state));
          assert.deepEqual(eager.steps, lazy.steps);
        },
      ),
      { numRuns: cases(300) },
    );
  });

  it("give what they would have given live when a sweep came in the middle of their import", () => {
    fc.assert(
      fc.property(
        histories,
        fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }),
        ([kind, steps], sweeps) => {
          const live = aPlayedStreak(streakOf(kind), kind.zone);
          const imported = aPlayedStreak(streakOf(kind), kind.zone);
          timesOf(steps).forEach((at, i) => {
            live.hit(at);
            imported.hit(at);
            if (sweeps[i]) imported.settle(T("2036-01-01T00:00Z"));
          });
          for (const one of [live, imported]) one.settle(T("2036-01-01T00:00Z"));
          assert.deepEqual(bare(imported.state), bare(live.state));
        },
      ),
      { numRuns: cases(300) },
    );
  });
});

describe("a lost run", () => {
  const lose = (more: object = {}) => {
    const played = aPlayedStreak(aStreak({ repairWindowHours: 48, ...more }));
    for (const day of [1, 2, 3]) played.hit(noon(day));
    return played;
  };

  it("can be repaired so long after it broke", () => {
    const played = lose();
    played.settle(noon(5));
    const streak = aStreak({ repairWindowHours: 48 });
    const brokenMs = T("2026-01-05T00:00Z");
    assert.equal(repairableUntil(streak, played.state.doc.lost!), brokenMs + 48 * HOUR_MS);
    assert.ok(repairable(streak, played.state, brokenMs + 48 * HOUR_MS - 1));
    assert.equal(repairable(streak, played.state, brokenMs + 48 * HOUR_MS), undefined);
    assert.equal(repairable(aStreak(), played.state, brokenMs), undefined);
  });

  it("goes on when it is repaired: what was missed counts as frozen, and today is still open", () => {
    const streak = aStreak({ repairWindowHours: 48 });
    const played = lose();
    played.settle(noon(6));
    const lost = played.state.doc.lost!;
    assert.equal(missedPeriods(streak, played.state, { lost, atMs: noon(6) }).length, 2);
    const { state, steps } = repair(streak, played.state, { lost, atMs: noon(6), by: "ADMIN" });
    assert.deepEqual([state.current, state.deadlineMs], [3, T("2026-01-07T00:00Z")]);
    assert.deepEqual(frozen(state), ["2026-01-04", "2026-01-05"]);
    assert.deepEqual(steps, [{ kind: "REPAIRED", current: 3, by: "ADMIN" }]);
    const later = aPlayedStreak(streak, "UTC", state);
    assert.ok(later.hit(noon(6)));
    assert.equal(later.state.current, 4);
  });

  it("is joined with the run in hand when it is repaired", () => {
    const streak = aStreak({ repairWindowHours: 48 });
    const played = lose();
    for (const day of [5, 6]) played.hit(noon(day));
    const lost = played.state.doc.lost!;
    const { state, steps } = repair(streak, played.state, { lost, atMs: noon(6), by: "PURCHASE" });
    assert.deepEqual([state.current, state.longest, state.doc.lost], [5, 5, undefined]);
    assert.deepEqual(frozen(state), ["2026-01-04"]);
    assert.equal(state.deadlineMs, played.state.deadlineMs);
    assert.deepEqual(steps.at(-1), { kind: "REACHED", name: "2026-01-01", from: 4, to: 5 });
  });

  it("takes nothing from the longest run before it when it is repaired", () => {
    const streak = aStreak({ repairWindowHours: 48 });
    const played = aPlayedStreak(streak);
    for (const day of [1, 2, 3, 4, 5, 8]) played.hit(noon(day));
    played.settle(noon(10));
    const lost = played.state.doc.lost!;
    const { state } = repair(streak, played.state, { lost, atMs: noon(10), by: "ADMIN" });
    assert.deepEqual([state.current, state.longest], [1, 5]);
  });

  it("is kept until the next one is lost, then archived", () => {
    const played = lose();
    for (const day of [6, 9]) played.hit(noon(day));
    const archived = played.steps.filter((step) => step.kind === "ARCHIVED");
    assert.deepEqual(
      archived.map(({ run, by }) => [run.name, run.length, by]),
      [["2026-01-01", 3, "MISSED"]],
    );
    assert.equal(played.state.doc.lost?.length, 1);
  });

  it("is over with a reset, as is the run in hand; longest, freezes and rewards that were given stay", () => {
    const streak = aStreak({ repairWindowHours: 48, freeze: { initial: 1, autoUse: false } });
    const played = aPlayedStreak(streak);
    for (const day of [1, 2, 5]) played.hit(noon(day));
    const { state, steps } = reset(streak, played.state, noon(5));
    assert.deepEqual([state.current, state.longest, state.freezes, state.deadlineMs], [0, 2, 1, null]);
    assert.deepEqual([state.doc.run, state.doc.lost], [undefined, undefined]);
    assert.deepEqual(
      steps.map((step) => (step.kind === "ARCHIVED" ? [step.run.length, step.by] : step.kind)),
      [
        [2, "MISSED"],
        [1, "RESET"],
      ],
    );
    const after = aPlayedStreak(streak, "UTC", state);
    assert.ok(!after.hit(noon(4)), "nothing from before it counts");
    assert.ok(after.hit(noon(5)), "the same day may begin anew");
    assert.equal(after.state.current, 1);
  });
});

describe("days off of a streak", () => {
  it("need nothing on days off, which neither break a run nor use a freeze, and count if they are done", () => {
    // 2 January 2026 is a Friday.
    const off = { weekdays: [6, 7], dates: ["2026-01-06"] };
    const played = aPlayedStreak(aStreak({ daysOff: off, freeze: { initial: 1 } }));
    played.hit("2026-01-02T12:00Z");
    assert.equal(new Date(played.state.deadlineMs!).toISOString(), "2026-01-06T00:00:00.000Z");
    played.hit("2026-01-04T12:00Z");
    assert.equal(played.state.current, 2);
    played.hit("2026-01-05T12:00Z");
    // Monday the 5th was done, Tuesday is off, Wednesday uses the freeze, Thursday breaks.
    played.settle("2026-01-08T12:00Z");
    assert.deepEqual([played.state.current, played.state.freezes], [3, 0]);
    played.hit("2026-01-07T12:00Z");
    assert.deepEqual([played.state.current, played.state.freezes], [4, 1]);
    played.hit("2026-01-06T12:00Z");
    assert.deepEqual([played.state.current, played.state.freezes], [5, 1]);
    played.settle("2026-01-12T00:00Z");
    assert.equal(played.state.current, 0);
  });

  it("keep the days off between two runs that late events join", () => {
    const late = aPlayedStreak(aStreak({ daysOff: { weekdays: [6, 7] } }));
    for (const day of [6, 7, 12, 8, 9]) late.hit(noon(day));
    assert.equal(late.state.current, 5);
    assert.deepEqual(frozen(late.state), ["2026-01-10", "2026-01-11"]);
  });

  it("are kept as they were when they are changed: no freeze is given back for one, nor lost", () => {
    const freeze = { initial: 1, max: 3 };
    const off = { weekdays: [6, 7] };
    const before = aPlayedStreak(aStreak({ daysOff: off, freeze }));
    for (const day of [1, 2]) before.hit(noon(day));
    const removed = aPlayedStreak(aStreak({ freeze }), "UTC", before.state);
    removed.hit(noon(5));
    assert.deepEqual(frozen(removed.state), ["2026-01-03", "2026-01-04"]);
    removed.hit(noon(3));
    assert.deepEqual([removed.state.current, removed.state.freezes], [4, 1]);

    const used = aPlayedStreak(aStreak({ freeze }));
    for (const day of [1, 2, 4]) used.hit(noon(day));
    assert.deepEqual([used.state.current, used.state.freezes], [3, 0]);
    const added = aPlayedStreak(aStreak({ daysOff: off, freeze }), "UTC", used.state);
    added.hit(noon(3));
    assert.deepEqual([added.state.current, added.state.freezes], [4, 1]);
  });

  it("with days off, run as long as somebody who counts by hand says, in order and late", () => {
    const weekdays = fc.uniqueArray(fc.integer({ min: 1, max: 7 }), { maxLength: 3 });
    const start = T("2026-01-05T12:00Z");
    fc.assert(
      fc.property(
        weekdays,
        fc.array(fc.boolean(), { minLength: 21, maxLength: 21 }),
        fc.integer({ min: 0, max: 2 }),
        (off, done, initial) => {
          const played = aPlayedStreak(aStreak({ daysOff: { weekdays: off }, freeze: { initial } }));
          let [current, longest, freezes] = [0, 0, initial];
          done.forEach((isDone, i) => {
            if (isDone) played.hit(start + i * DAY_MS);
            if (isDone) longest = Math.max(longest, ++current);
            else if (current > 0 && !off.includes((i % 7) + 1)) {
              if (freezes > 0) freezes--;
              else current = 0;
            }
          });
          played.settle(start + 21 * DAY_MS);
          const { state } = played;
          assert.deepEqual([state.current, state.longest, state.freezes], [current, longest, freezes]);
        },
      ),
      { numRuns: cases(2_000) },
    );
    fc.assert(
      fc.property(weekdays, fc.nat({ max: 6 }), (off, shift) => {
        const days = Array.from({ length: 12 }, (_, i) => i).filter((i) => !off.includes((i % 7) + 1));
        const shuffled = [...days.slice(shift), ...days.slice(0, shift).toReversed()];
        const played = aPlayedStreak(aStreak({ daysOff: { weekdays: off } }));
        for (const day of shuffled) played.hit(start + day * DAY_MS);
        assert.equal(played.state.current, days.length);
      }),
      { numRuns: cases(500) },
    );
  });
});
