import assert from "node:assert/strict";
import fc from "fast-check";
import { settleDue } from "../../src/domain/evaluation/adventures/advance.ts";
import { evaluateEvent, settleTurn } from "../../src/domain/evaluation/evaluate.ts";
import type { PlayerState } from "../../src/domain/evaluation/player-state.ts";
import { Adventure } from "../../src/domain/evaluation/adventures/adventure.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2026, 2, 20);
const [FROM_MS, END_MS] = [START_MS + 3 * DAY_MS, START_MS + 16 * DAY_MS];
const ZONE = "Europe/Berlin";

const quest = (key: string, target: number, more: object = {}) => ({
  key,
  name: key,
  steps: [
    {
      key: "do",
      name: "Do",
      kind: "EVENT",
      metric: { eventTypes: [key], aggregate: "count" },
      target,
    },
  ],
  ...more,
});

const TIERS = [
  { tier: 1, points: 10, free: { xp: 1 } },
  { tier: 2, points: 20, free: { xp: 10 } },
  { tier: 3, points: 40, free: { xp: 100 } },
];

const season = Adventure.parse({
  key: "season",
  name: "Season",
  startsAt: new Date(FROM_MS).toISOString(),
  endsAt: new Date(END_MS).toISOString(),
  items: [
    { questKey: "a", order: 1, points: 10 },
    { questKey: "b", order: 2, points: 3, optional: true, unlock: { mode: "AFTER_PREVIOUS" } },
    { questKey: "c", order: 3, points: 7, unlock: { mode: "POINTS", points: 15 } },
    { questKey: "e", order: 4, points: 5, optional: true, unlock: { mode: "DAY_OFFSET", days: 3 } },
  ],
  pointsFrom: [{ metric: { eventTypes: ["d"], aggregate: "count" }, pointsPerUnit: 0.5 }],
  tiers: TIERS,
  rewards: { xp: 1_000 },
});

const plan = aPlan({
  define: {
    quest: [quest("a", 2), quest("b", 1, { repeat: { mode: "UNLIMITED" } }), quest("c", 1), quest("e", 1)],
    adventure: [season],
  },
});

type Sent = { type: string; at: number };

const histories = fc
  .array(
    fc.record({
      type: fc.constantFrom("a", "b", "c", "d", "e", "z"),
      gap: fc.integer({ min: 0, max: DAY_MS }),
    }),
    { maxLength: 80, size: "max" },
  )
  .map((events) => {
    let at = START_MS;
    return events.map(({ type, gap }): Sent => ({ type, at: (at += gap) }));
  });

const NOW_MS = START_MS + 90 * DAY_MS;

/** What the job does about a player of whom something is due, at a time long after the events. */
const sweep = (player: PlayerState): void => {
  const { turn } = aPass({ plan, player, event: { type: "system.change", at: NOW_MS }, nowMs: NOW_MS });
  settleDue(turn);
  settleTurn(turn, player.xp);
};

type Interruption = { cuts?: ReadonlySet<number>; sweeps?: ReadonlySet<number> };

/** Evaluates events; before those in `cuts` the player is read anew, as a batch does. */
const play = (events: readonly Sent[], { cuts, sweeps }: Interruption = {}) => {
  let player: PlayerState = aPlayerState({ timezone: ZONE });
  const told: string[] = [];
  events.forEach(({ type, at }, i) => {
    if (cuts?.has(i)) player = structuredClone(player);
    if (sweeps?.has(i)) sweep(player);
    const { turn, effects } = aPass({ plan, player, event: { type, at }, nowMs: NOW_MS });
    evaluateEvent(turn);
    told.push(...effects.outbox.map((row) => `${i} ${row.type}`));
  });
  const row = player.adventures.get("season");
  const { id: _id, isChanged: _flag, items = {}, ...rest } = row ?? {};
  const done = Object.entries(items).map(([key, { doneMs, times }]) => [key, doneMs, times]);
  return { xp: player.xp, row: row && { ...rest, done }, told };
};

const dayOf = (ms: number): number =>
  Date.parse(new Intl.DateTimeFormat("en-CA", { timeZone: ZONE }).format(ms)) / DAY_MS;

type Sim = {
  joined: number | undefined;
  points: number;
  begunA: number;
  times: Record<string, number>;
  tiers: Set<number>;
  xp: number;
  isComplete: boolean;
  isOver: boolean;
};

const gain = (sim: Sim, at: number, { key, points }: { key: string; points: number }): void => {
  sim.joined ??= at;
  sim.times[key] = (sim.times[key] ?? 0) + 1;
  sim.points += points;
};

const isLongEnough = ({ joined }: Sim, at: number): boolean =>
  joined !== undefined && dayOf(at) >= dayOf(joined) + 3;

/** What an event of each type does while the season runs. */
const WHILE_IT_RUNS: Record<string, (sim: Sim, at: number) => void> = {
  a: (sim, at) => {
    if (sim.begunA === 2) return;
    sim.joined ??= at;
    if (++sim.begunA === 2) gain(sim, at, { key: "a", points: 10 });
  },
  b: (sim, at) => {
    if (sim.times["a"]) gain(sim, at, { key: "b", points: 3 });
  },
  c: (sim, at) => {
    if (sim.points >= 15 && !sim.times["c"]) gain(sim, at, { key: "c", points: 7 });
  },
  d: (sim, at) => {
    sim.joined ??= at;
    sim.points += 0.5;
  },
  e: (sim, at) => {
    if (!sim.times["e"] && isLongEnough(sim, at)) gain(sim, at, { key: "e", points: 5 });
  },
};

const reward = (sim: Sim): void => {
  for (const { tier, points, free } of TIERS) {
    if (sim.points < points || sim.tiers.has(tier)) continue;
    sim.tiers.add(tier);
    sim.xp += free.xp;
  }
  if (!sim.times["a"] || !sim.times["c"] || sim.isComplete) return;
  sim.isComplete = true;
  sim.xp += 1_000;
};

const outside = (sim: Sim, { type, at }: Sent): void => {
  // A quest that was started before the end goes on after it.
  if (type === "a" && sim.begunA === 1) sim.begunA = 2;
  if (at >= END_MS && sim.joined !== undefined && !sim.isComplete) sim.isOver = true;
};

const stateOf = ({ joined, isComplete, isOver }: Sim): string | undefined => {
  if (joined === undefined) return undefined;
  if (isComplete) return "CLAIMED";
  return isOver ? "EXPIRED" : "IN_PROGRESS";
};

/** What plain loops over the events say, with nothing of the service. */
const expected = (events: readonly Sent[]) => {
  const flags = { isComplete: false, isOver: false };
  const sim: Sim = { joined: undefined, points: 0, begunA: 0, times: {}, tiers: new Set(), xp: 0, ...flags };
  for (const { type, at } of events) {
    const runs = at >= FROM_MS && at < END_MS;
    if (!runs) {
      outside(sim, { type, at });
      continue;
    }
    WHILE_IT_RUNS[type]?.(sim, at);
    reward(sim);
  }
  const { xp, points, times, tiers } = sim;
  return { state: stateOf(sim), xp, points, times, tiers: [...tiers] };
};

describe("adventures, however events arrive", () => {
  it("come to the same rows, rewards and events with any split into batches", () => {
    fc.assert(
      fc.property(histories, fc.array(fc.nat(80)), (events, cuts) => {
        assert.deepEqual(play(events, { cuts: new Set(cuts) }), play(events));
      }),
      { numRuns: cases(100) },
    );
  });

  it("give what plain loops over the events say", () => {
    const states = new Set<string | undefined>();
    fc.assert(
      fc.property(histories, (events) => {
        const { row, xp } = play(events);
        const found = {
          state: row?.state,
          xp,
          points: row?.points ?? 0,
          times: Object.fromEntries((row?.done ?? []).map(([key, , times]) => [key, times])),
          tiers: Object.keys(row?.tiers ?? {}).map(Number),
        };
        states.add(found.state);
        assert.deepEqual(found, expected(events));
      }),
      { numRuns: cases(300) },
    );
    for (const state of ["IN_PROGRESS", "EXPIRED", "CLAIMED"])
      assert.ok(states.has(state), `none is ${state}`);
  });
});
