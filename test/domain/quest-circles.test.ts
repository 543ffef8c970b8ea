import assert from "node:assert/strict";
import fc from "fast-check";
import { Adventure } from "../../src/domain/evaluation/adventures/adventure.ts";
import { Quest } from "../../src/domain/evaluation/quests/quest.ts";
import { circleThrough, type Goal } from "../../src/domain/economy/quests/circles.ts";
import { counting } from "../support/quests/quest-game.ts";

const NOW_MS = Date.parse("2026-06-01T00:00:00Z");
const leaf = (key: string, states = ["CLAIMED"], entity = "quest") => ({
  type: "progress_state",
  entity,
  key,
  states,
});
const quest = (key: string, more: object = {}): Goal => ({
  kind: "quest",
  definition: Quest.parse({ key, name: key, steps: [counting("a", "x", 1)], ...more }),
});
const adventure = (key: string, items: readonly object[], more: object = {}): Goal => ({
  kind: "adventure",
  definition: Adventure.parse({
    key,
    name: key,
    startsAt: "2026-01-01T00:00:00Z",
    endsAt: "2027-01-01T00:00:00Z",
    items,
    ...more,
  }),
});
const waiting = (key: string, condition: object) => ({
  steps: [{ key: "wait", name: key, kind: "STATE", condition }],
});
const ring = async (goals: readonly Goal[], changed: Goal): Promise<string | undefined> =>
  (await circleThrough(goals, changed, NOW_MS))?.join(" ");

describe("circles of quests and adventures", () => {
  it("go through prerequisites, STATE steps, items and unlocks", async () => {
    const ab = [quest("a", waiting("a", { all: [leaf("b")] }))];
    assert.equal(await ring(ab, quest("b", waiting("b", { all: [leaf("a")] }))), "quest b quest a quest b");
    assert.equal(
      await ring(ab, quest("b", { prerequisites: { all: [leaf("a", ["IN_PROGRESS"])] } })),
      undefined,
    );
    assert.equal(await ring([], quest("a", { prerequisites: { all: [leaf("a")] } })), "quest a quest a");
    const season = adventure("s", [{ questKey: "a", order: 1 }]);
    const after = quest("a", waiting("a", { all: [leaf("s", ["COMPLETED"], "adventure")] }));
    assert.match((await ring([season], after)) ?? "", /quest a adventure s quest a/);
    assert.match((await ring([after], season)) ?? "", /adventure s quest a adventure s/);
    const other = adventure("t", [
      { questKey: "c", order: 1 },
      { questKey: "d", order: 2, unlock: { mode: "AFTER_PREVIOUS" } },
    ]);
    const c = quest("c", { prerequisites: { all: [leaf("d")] } });
    assert.match((await ring([other, quest("d")], c)) ?? "", /quest c quest d quest c/);
  });

  it("go through points, where nothing else gives them", async () => {
    const items = [
      { questKey: "a", order: 1, points: 10 },
      { questKey: "b", order: 2, points: 10, unlock: { mode: "POINTS", points: 10 } },
    ];
    const a = quest("a", { prerequisites: { all: [leaf("b")] } });
    assert.match((await ring([adventure("s", items), quest("b")], a)) ?? "", /quest a quest b quest a/);
    const more = [...items, { questKey: "c", order: 3, points: 10 }];
    assert.equal(await ring([adventure("s", more), quest("b"), quest("c")], a), undefined);
  });

  it("are not closed by what must not have happened, nor where there is another way", async () => {
    const none = quest("b", { prerequisites: { none: [leaf("a")] } });
    assert.equal(await ring([none], quest("a", { prerequisites: { none: [leaf("b")] } })), undefined);
    assert.equal(await ring([none], quest("a", { prerequisites: { all: [leaf("b")] } })), undefined);
    const locked = quest("b", { prerequisites: { all: [leaf("a", ["LOCKED"])] } });
    assert.equal(await ring([locked], quest("a", { prerequisites: { all: [leaf("b")] } })), undefined);
    const b = quest("b", { prerequisites: { all: [leaf("a")] } });
    assert.equal(await ring([b], quest("a", { prerequisites: { any: [leaf("b"), leaf("c")] } })), undefined);
    const twice = { none: [{ none: [leaf("b")] }] };
    assert.match((await ring([b], quest("a", { prerequisites: twice }))) ?? "", /quest a quest b quest a/);
    const dag = [
      counting("x", "x", 1),
      { key: "y", name: "y", kind: "STATE", condition: { all: [leaf("b")] } },
    ];
    assert.equal(await ring([b], quest("a", { stepMode: "ANY", steps: dag })), undefined);
  });

  it("are not closed by adventures that are over, or that run one after another", async () => {
    const items = [
      { questKey: "a", order: 1, unlock: { mode: "AFTER_QUESTS", questKeys: ["b"] } },
      { questKey: "b", order: 2 },
    ];
    const b = quest("b", { prerequisites: { all: [leaf("a")] } });
    assert.match((await ring([adventure("s", items), quest("a")], b)) ?? "", /quest b quest a quest b/);
    const over = { startsAt: "2025-01-01T00:00:00Z", endsAt: "2025-02-01T00:00:00Z" };
    assert.equal(await ring([adventure("s", items, over), quest("a")], b), undefined);
    const next = { startsAt: "2027-01-01T00:00:00Z", endsAt: "2027-02-01T00:00:00Z" };
    const open = adventure("t", [{ questKey: "a", order: 1 }], next);
    assert.equal(await ring([adventure("s", items), open, quest("a")], b), undefined);
  });

  it("are found exactly where a quest can never be done, whatever waits for what", async () => {
    const KEYS = ["a", "b", "c", "d", "e", "f"];
    const group = fc.record({
      mode: fc.constantFrom("all", "any"),
      needs: fc.uniqueArray(fc.constantFrom(...KEYS), { maxLength: 3 }),
    });
    const wait = fc.array(group, { minLength: KEYS.length, maxLength: KEYS.length });
    await fc.assert(
      fc.asyncProperty(wait, async (groups) => {
        const done = new Set<string>();
        const isReady = (i: number): boolean => {
          const { mode, needs } = groups[i]!;
          if (needs.length === 0) return true;
          return mode === "all" ? needs.every((key) => done.has(key)) : needs.some((key) => done.has(key));
        };
        for (let round = 0; round < KEYS.length; round++)
          KEYS.forEach((key, i) => isReady(i) && done.add(key));
        const goals = KEYS.map((key, i) => {
          const { mode, needs } = groups[i]!;
          const prerequisites = { [mode]: needs.map((one) => leaf(one)) };
          return quest(key, needs.length === 0 ? {} : { prerequisites });
        });
        for (const goal of goals)
          assert.equal((await ring(goals, goal)) === undefined, done.has(goal.definition.key));
      }),
    );
  });
});
