import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { Quest } from "../../src/domain/evaluation/quests/quest.ts";
import { awardBadges, settleAdventures, settleQuests, settleStreaks } from "../../src/jobs/jobs.ts";
import { define, memoryDomain } from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";
import { pluck } from "../support/pluck.ts";

const PLAYERS = ["a", "b", "c"];
/** What a player gets for each step, and for the whole. */
const STEP_XP = 10;
const WHOLE_XP = 1_000;
const TIER_XP = 100_000;
const BADGE_XP = 10_000_000;
const MILESTONE_XP = 100_000_000;

type Act =
  | { edit: [first: number, second: number, tier: number, badge: number, length: number] }
  | { who: string; type: "one" | "two" };

describe("goals that are edited while players are in the middle of them", () => {
  const { domain } = memoryDomain();
  const app = () => ({ transact: domain.transact, limits: {}, log: console }) as unknown as App;

  const step = (key: string, target: number) => ({
    key,
    name: key,
    kind: "EVENT",
    metric: { eventTypes: [key], aggregate: "count" },
    target,
    countFrom: "QUEST_START",
    rewards: { xp: STEP_XP },
  });
  const questOf = (first: number, second: number) =>
    Quest.parse({
      key: "goal",
      name: "Goal",
      stepMode: "PARALLEL",
      steps: [step("one", first), step("two", second)],
      rewards: { xp: WHOLE_XP },
      onVersionChange: "CARRY_OVER",
    });
  const badgeOf = (threshold: number) => [{ tier: 1, threshold, rewards: { xp: BADGE_XP } }];
  const milestonesOf = (length: number) => [{ length, rewards: { xp: MILESTONE_XP } }];
  const tiersOf = (points: number) => [{ tier: 1, points, free: { xp: TIER_XP } }];

  const begin = async (): Promise<string> => {
    const projectId = await domain.addProject();
    for (const one of PLAYERS) await domain.addPlayer(projectId, one);
    await define(domain, projectId, "quest", questOf(3, 3));
    await define(domain, projectId, "adventure", {
      key: "season",
      name: "Season",
      startsAt: "2020-01-01T00:00:00Z",
      endsAt: "2099-01-01T00:00:00Z",
      items: [{ questKey: "goal", order: 1 }],
      claim: "AUTO",
      pointsFrom: [{ metric: { eventTypes: ["one"], aggregate: "count" }, pointsPerUnit: 1 }],
      tiers: tiersOf(4),
    });
    await define(domain, projectId, "badge", {
      key: "medal",
      name: "Medal",
      progressMetric: { eventTypes: ["one"], aggregate: "count" },
      tiers: badgeOf(4),
    });
    await define(domain, projectId, "streak", {
      key: "row",
      name: "Row",
      mode: "CONSECUTIVE",
      qualify: { parts: [{ metric: { eventTypes: ["two"], aggregate: "count" } }] },
      breakOn: { eventTypes: ["never"] },
      milestones: milestonesOf(4),
    });
    return projectId;
  };

  const publish = (projectId: string, kind: string, change: object) =>
    domain.sql`
    with raised as (update projects set config_version = config_version + 1 where id = ${projectId})
    update definitions set version = version + 1, definition = definition || ${JSON.stringify(change)}::jsonb
    where project_id = ${projectId} and kind = ${kind} returning 1`;
  const settle = async (): Promise<void> => {
    await settleQuests.run(app(), "*");
    await settleAdventures.run(app(), "*");
    await awardBadges.run(app(), "*");
    await settleStreaks.run(app(), "*");
    await domain.process();
  };

  const idOf = async (projectId: string, user: string): Promise<string> => {
    const [row] = await domain.sql<{ id: string }>`
      select id from players where project_id = ${projectId} and external_user_id = ${user}`;
    return row!.id;
  };

  type Found = {
    user: string;
    xp: string;
    state: string;
    steps: Record<string, { value: number; doneMs?: number }>;
  };
  const read = (projectId: string) =>
    domain.sql<Found>`select p.external_user_id as user, p.xp, q.state, q.doc->'steps' as steps
      from players p join player_quests q on q.project_id = p.project_id and q.player_id = p.id
      where p.project_id = ${projectId}`;

  it("keep the progress of a streak's period, which is complete once it asks no more than that", async () => {
    const projectId = await domain.addProject();
    await domain.addPlayer(projectId, "ada");
    const qualify = (threshold: number) => ({
      parts: [{ metric: { eventTypes: ["one"], aggregate: "count" }, threshold }],
      mode: "ALL",
    });
    const length = async () => {
      const [row] = await domain.sql<{
        current: number;
        longest: number;
      }>`select current from player_streaks where project_id = ${projectId} and streak_key = 'day'`;
      return row?.current;
    };
    const play = async () => {
      await domain.track(projectId, [{ user: "ada", type: "one" }]);
      await domain.process();
    };
    await define(domain, projectId, "streak", { key: "day", name: "Day", qualify: qualify(3) });
    for (const _ of [1, 2]) await play();
    await publish(projectId, "streak", { qualify: qualify(4) });
    await settle();
    await play();
    assert.equal(await length(), 0);
    await publish(projectId, "streak", { qualify: qualify(3) });
    await settle();
    assert.equal(await length(), 1);
  });

  it("are followed for all others though one player cannot be saved", async () => {
    const projectId = await begin();
    await domain.track(
      projectId,
      PLAYERS.flatMap((user) => Array.from({ length: 2 }, () => ({ user, type: "one" }))),
    );
    await domain.process();
    await domain.sql`alter table player_badges add constraint no_poison check (tier = 0 or player_id not in
      (${sql.lit(await idOf(projectId, "b"))}))`;
    try {
      await publish(projectId, "badge", { tiers: badgeOf(2) });
      await settle();
    } finally {
      await domain.sql`alter table player_badges drop constraint no_poison`;
    }
    const rows = await domain.sql<{
      user: string;
      tier: number;
    }>`select p.external_user_id as user, b.tier from player_badges b
      join players p on p.project_id = b.project_id and p.id = b.player_id
      where b.project_id = ${projectId} order by 1`;
    assert.deepEqual(pluck(rows, "user", "tier"), [
      ["a", 1],
      ["b", 0],
      ["c", 1],
    ]);
  });

  it("are done by who has done what they ask now, and what is done is paid once and stays", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.record({
              who: fc.constantFrom(...PLAYERS),
              type: fc.constantFrom("one" as const, "two" as const),
            }),
            fc.record({
              edit: fc.tuple(
                fc.integer({ min: 1, max: 5 }),
                fc.integer({ min: 1, max: 5 }),
                fc.integer({ min: 1, max: 8 }),
                fc.integer({ min: 1, max: 8 }),
                fc.integer({ min: 1, max: 8 }),
              ),
            }),
          ) as fc.Arbitrary<Act>,
          { minLength: 4, maxLength: 25 },
        ),
        async (acts) => {
          const projectId = await begin();
          let [targets, tier]: [Record<"one" | "two", number>, number] = [{ one: 3, two: 3 }, 4];
          let [badge, milestone] = [4, 4];
          const model = new Map(
            PLAYERS.map((who) => [
              who,
              { one: 0, two: 0, points: 0, run: 0, won: [0], hasBegun: false, done: new Set<string>() },
            ]),
          );
          const follow = (): void => {
            for (const player of model.values()) {
              if (!player.hasBegun) continue;
              for (const key of ["one", "two"] as const)
                if (!player.done.has("whole") && player[key] >= targets[key]) player.done.add(key);
              if (["one", "two"].every((key) => player.done.has(key))) player.done.add("whole");
              const reached = Object.entries({ tier, badge }).filter(([, points]) => player.points >= points);
              for (const [what] of reached) player.done.add(what);
              if (player.run >= milestone && milestone > player.won.at(-1)!) player.won.push(milestone);
            }
          };
          for (const act of acts) {
            if ("edit" in act) {
              const [first, second, points, threshold, length] = act.edit;
              targets = { one: first, two: second };
              [tier, badge, milestone] = [points, threshold, length];
              await publish(projectId, "quest", { steps: questOf(first, second).steps });
              await publish(projectId, "adventure", { tiers: tiersOf(points) });
              await publish(projectId, "badge", { tiers: badgeOf(threshold) });
              await publish(projectId, "streak", { milestones: milestonesOf(length) });
              await settle();
            } else {
              await domain.track(projectId, [{ user: act.who, type: act.type }]);
              await domain.process();
              const player = model.get(act.who)!;
              player.hasBegun = true;
              if (act.type === "one") player.points++;
              else player.run++;
              if (!player.done.has(act.type) && !player.done.has("whole")) player[act.type]++;
            }
            follow();
            for (const { user, xp, state, steps } of await read(projectId)) {
              const { done, won } = model.get(user)!;
              const pays = { one: STEP_XP, two: STEP_XP, whole: WHOLE_XP, tier: TIER_XP, badge: BADGE_XP };
              const paid = Object.entries(pays).reduce(
                (sum, [what, pay]) => sum + (done.has(what) ? pay : 0),
                MILESTONE_XP * (won.length - 1),
              );
              const doneSteps = Object.keys(steps).filter((key) => steps[key]!.doneMs !== undefined);
              assert.deepEqual(
                { user, xp: Number(xp), state, doneSteps: doneSteps.toSorted() },
                {
                  user,
                  xp: paid,
                  state: done.has("whole") ? "CLAIMED" : "IN_PROGRESS",
                  doneSteps: ["one", "two"].filter((key) => done.has(key)),
                },
              );
            }
          }
        },
      ),
      { numRuns: cases(40) },
    ));
});
