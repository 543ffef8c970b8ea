import assert from "node:assert/strict";
import fc from "fast-check";
import { evaluateEvent } from "../../src/domain/evaluation/evaluate.ts";
import type { PlayerState } from "../../src/domain/evaluation/player-state.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { cases } from "../support/properties.ts";

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2026, 2, 25);
const ZONE = "Europe/Berlin";

const count = (key: string, eventTypes: string[], target: number, more: object = {}) => ({
  key,
  name: key,
  kind: "EVENT",
  metric: { eventTypes, aggregate: "count" },
  target,
  rewards: { xp: 1 },
  ...more,
});

const plan = aPlan({
  define: {
    quest: [
      {
        key: "daily",
        name: "Daily",
        steps: [count("do", ["a"], 3)],
        repeat: { mode: "DAILY" },
        rewards: { xp: 10 },
      },
      {
        key: "often",
        name: "Often",
        steps: [count("b", ["b"], 2), count("a", ["a"], 1)],
        repeat: { mode: "UNLIMITED" },
        rewards: { xp: 100 },
      },
      {
        key: "story",
        name: "Story",
        steps: [
          count("first", ["b"], 1),
          count("ever", ["a"], 5, { countFrom: "LIFETIME" }),
          {
            key: "rich",
            name: "Rich",
            kind: "STATE",
            condition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 150 }] },
          },
        ],
        rewards: { xp: 1_000 },
      },
      {
        key: "after",
        name: "After",
        prerequisites: {
          all: [{ type: "progress_state", entity: "quest", key: "story", states: ["CLAIMED"] }],
        },
        steps: [count("days", ["quest.completed"], 2, { countFrom: "QUEST_START" })],
        rewards: { xp: 10_000 },
      },
    ],
  },
});

type Sent = { type: string; at: number };

const histories = fc
  .array(fc.record({ type: fc.constantFrom("a", "b", "c"), gap: fc.integer({ min: 0, max: DAY_MS / 4 }) }), {
    maxLength: 60,
  })
  .map((events) => {
    let at = START_MS;
    return events.map(({ type, gap }): Sent => ({ type, at: (at += gap) }));
  });

/** Evaluates events; before those in `cuts` the player is read anew, as a batch does. */
const play = (events: readonly Sent[], cuts: ReadonlySet<number> = new Set()) => {
  let player: PlayerState = aPlayerState({ timezone: ZONE });
  const told: string[] = [];
  events.forEach(({ type, at }, i) => {
    if (cuts.has(i)) player = structuredClone(player);
    const { turn, effects } = aPass({ plan, player, event: { type, at }, nowMs: START_MS + 60 * DAY_MS });
    evaluateEvent(turn);
    told.push(...effects.outbox.map((row) => `${i} ${row.type}`));
  });
  const rows = [...player.quests].map(([key, { latest }]) => {
    const { id: _id, eventId: _event, isChanged: _flag, ...row } = latest;
    return [key, row] as const;
  });
  return { xp: player.xp, rows, told };
};

const localDate = (ms: number): string => new Intl.DateTimeFormat("en-CA", { timeZone: ZONE }).format(ms);

describe("quests, however events arrive", () => {
  it("come to the same rows, rewards and events with any split into batches", () => {
    fc.assert(
      fc.property(histories, fc.array(fc.nat(60)), (events, cuts) => {
        assert.deepEqual(play(events, new Set(cuts)), play(events));
      }),
      { numRuns: cases(60) },
    );
  });

  it("give what plain loops over the events say", () => {
    fc.assert(
      fc.property(histories, (events) => {
        const days = Map.groupBy(
          events.filter(({ type }) => type === "a"),
          ({ at }) => localDate(at),
        );
        const dailies = [...days.values()].filter(({ length }) => length >= 3).length;
        // Two b, and an a after the second of them; again and again.
        let [often, seconds, bs] = [0, 0, 0];
        for (const { type } of events) {
          if (type === "b" && bs < 2) seconds += ++bs === 2 ? 1 : 0;
          else if (type === "a" && bs === 2) [often, bs] = [often + 1, 0];
        }
        const told = play(events).told;
        const heard = (type: string) => told.filter((one) => one.endsWith(` ${type}`)).length;
        const done = new Map(play(events).rows);
        const claimed = (key: string) => (done.get(key)?.state === "CLAIMED" ? 1 : 0);
        assert.equal(heard("quest.completed"), dailies + often + claimed("story") + claimed("after"));
        assert.ok(heard("quest.step_completed") >= dailies + often + seconds);
      }),
      { numRuns: cases(60) },
    );
  });
});
