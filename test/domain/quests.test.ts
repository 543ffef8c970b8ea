import assert from "node:assert/strict";
import fc from "fast-check";
import { plainCalendar } from "../../src/domain/kernel/zones.ts";
import { compileQuest } from "../../src/domain/evaluation/quests/compile.ts";
import { cycleAt } from "../../src/domain/evaluation/quests/context.ts";
import { Quest } from "../../src/domain/evaluation/quests/quest.ts";
import {
  activeSteps,
  isComplete,
  requiredOf,
  stepProblems,
} from "../../src/domain/evaluation/quests/step.ts";
import { cases } from "../support/properties.ts";

const ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"];

/** The local date of a moment, as the platform formats it. */
const localDate = (zone: string, ms: number): string =>
  new Intl.DateTimeFormat("en-CA", {
    timeZone: zone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
  }).format(ms);

/** Monday of the local week of a date. */
const mondayOf = (date: string): string => {
  const ms = Date.parse(date);
  return new Date(ms - ((new Date(ms).getUTCDay() + 6) % 7) * 86_400_000).toISOString().slice(0, 10);
};

const repeat = (mode: "DAILY" | "WEEKLY" | "MONTHLY") => ({ mode, timezone: "PLAYER" as const });
const moments = fc.integer({ min: Date.UTC(2010, 0, 1), max: Date.UTC(2030, 0, 1) });

describe("cycles of quests", () => {
  it("are local dates, whatever daylight saving does", () => {
    fc.assert(
      fc.property(fc.constantFrom(...ZONES), moments, (zone, ms) => {
        const date = localDate(zone, ms);
        assert.equal(cycleAt(repeat("DAILY"), plainCalendar(zone), ms).key, date);
        assert.equal(cycleAt(repeat("MONTHLY"), plainCalendar(zone), ms).key, date.slice(0, 7));
        const week = cycleAt(repeat("WEEKLY"), plainCalendar(zone), ms);
        assert.equal(mondayOf(localDate(zone, week.startMs)), mondayOf(date));
      }),
      { numRuns: cases(300) },
    );
  });

  it("begin where the one before ends, and contain their moment", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...ZONES),
        moments,
        fc.constantFrom("DAILY", "WEEKLY", "MONTHLY"),
        (zone, ms, mode) => {
          const { key, startMs, endMs } = cycleAt(repeat(mode), plainCalendar(zone), ms);
          assert(startMs <= ms && ms < endMs);
          assert.equal(cycleAt(repeat(mode), plainCalendar(zone), startMs).key, key);
          assert.equal(cycleAt(repeat(mode), plainCalendar(zone), endMs - 1).key, key);
          const next = cycleAt(repeat(mode), plainCalendar(zone), endMs);
          assert(next.key > key && next.startMs === endMs);
        },
      ),
      { numRuns: cases(300) },
    );
  });

  it("of a schedule are its times in the zone", () => {
    const cron = { mode: "CRON" as const, cron: "0 6 * * *", timezone: "PLAYER" as const };
    const { key, endMs } = cycleAt(cron, plainCalendar("Europe/Berlin"), Date.parse("2026-03-29T03:59:00Z"));
    // Clocks go forward that night: 6 o'clock is at 4 UTC instead of 5.
    assert.equal(key, "2026-03-28T05:00:00.000Z");
    assert.equal(endMs, Date.parse("2026-03-29T04:00:00Z"));
  });
});

type Shape = { key: string; optional: boolean; dependsOn: string[] };

/** Steps that depend on earlier ones alone, required ones on required ones; at least one is required. */
const dags = fc
  .array(fc.record({ optional: fc.boolean(), picks: fc.array(fc.nat(), { maxLength: 4 }) }), {
    minLength: 1,
    maxLength: 30,
  })
  .map((given) => {
    const steps: Shape[] = [];
    given.forEach(({ optional, picks }, i) => {
      const isOptional = optional && i > 0;
      const earlier = steps.filter((step) => isOptional || !step.optional);
      const dependsOn =
        earlier.length === 0 ? [] : [...new Set(picks.map((n) => earlier[n % earlier.length]!.key))];
      steps.push({ key: `s${i}`, optional: isOptional, dependsOn });
    });
    return steps;
  });

describe("steps of quests", () => {
  it("of any DAG become active in an order; the quest is complete exactly with the last required one", () => {
    fc.assert(
      fc.property(dags, fc.infiniteStream(fc.nat()), (steps, choices) => {
        const plan = { stepMode: "PARALLEL" as const, steps };
        assert.deepEqual(stepProblems(plan), []);
        const done = new Set<string>();
        const isDone = (key: string): boolean => done.has(key);
        for (;;) {
          const required = steps.filter(({ optional }) => !optional);
          assert.equal(
            isComplete(plan, isDone),
            required.every(({ key }) => done.has(key)),
          );
          const active = activeSteps(plan, isDone);
          steps.forEach(({ key, dependsOn }, i) =>
            assert.equal(active[i], !done.has(key) && dependsOn.every((one) => done.has(one))),
          );
          const open = steps.filter((_step, i) => active[i]);
          if (open.length === 0) break;
          done.add(open[choices.next().value! % open.length]!.key);
        }
        assert.equal(done.size, steps.length);
        assert.equal(requiredOf(plan), steps.filter(({ optional }) => !optional).length);
      }),
      { numRuns: cases(200) },
    );
  });

  it("that depend on one another in a circle are named", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 20 }), (n) => {
        const steps = Array.from({ length: n }, (_, i) => ({
          key: `s${i}`,
          optional: false,
          dependsOn: [`s${(i + 1) % n}`],
        }));
        const [problem] = stepProblems({ stepMode: "PARALLEL", steps });
        assert.match(problem!.message, /in a circle/);
      }),
    );
  });
});

describe("a quest that is compiled", () => {
  it("touches only the events that its steps count", () => {
    const step = (key: string, type: string) => ({
      key,
      name: key,
      kind: "EVENT",
      metric: { eventTypes: [type], aggregate: "count" },
      target: 1,
    });
    const definition = Quest.parse({
      key: "q",
      name: "Q",
      steps: [step("a", "a.*"), step("b", "b"), step("c", "a.x")],
    });
    const quest = compileQuest({ id: "q", definition });
    assert.deepEqual(quest.stepsFor("a.x"), [0, 2]);
    assert.deepEqual(quest.stepsFor("b"), [1]);
    assert.deepEqual(quest.stepsFor("c"), []);
  });
});
