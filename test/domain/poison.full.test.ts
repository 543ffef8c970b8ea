import assert from "node:assert/strict";
import { sql } from "kysely";
import { newId, partitionOf } from "../../src/domain/kernel/ids.ts";
import { requeueDueEvents } from "../../src/domain/progression/queue.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { getTrace } from "../../src/domain/rules/insight/simulate.ts";
import { getEvent } from "../../src/domain/tracking/events.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { ALL_PARTS, memoryDomain, processParts, usersIn } from "../support/domain/domain.ts";

const SECOND = 1_000;

describe("an event whose evaluation throws", () => {
  let transact: Transact;
  let now: number;
  let projectId: string;
  let told: { error: unknown; eventId: string }[];

  const { database, domain } = memoryDomain();
  before(async () => {
    transact = createTransact({
      em: database.em,
      clock: () => new Date(now),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    });
  });
  beforeEach(async () => {
    now = Date.now() + 60_000;
    told = [];
    projectId = await aProject();
  });

  const addRule = async (project: string, key: string, eventType: string): Promise<void> => {
    const rule = RuleDocument.parse({
      key,
      name: key,
      triggers: [{ kind: "EVENT", eventTypes: [eventType] }],
      actions: [{ type: "grant_xp", amount: 10 }],
    });
    await transact((work) => createRule(work, project, rule, "test"));
    await transact((work) => publishRule(work, project, key, { publishedBy: "test" }));
  };
  /** Good events give 10 XP; so do bad ones until the rule is damaged. */
  const aProject = async (): Promise<string> => {
    const project = await domain.addProject();
    await addRule(project, "good", "good");
    await addRule(project, "bad", "bad");
    return project;
  };
  /** What no request can bring about: what runs is another definition than the one that was checked. */
  const damage = (action: object, project = projectId): Promise<unknown> =>
    transact(async ({ db }) => {
      await sql`
        update rule_versions v
        set definition = jsonb_set(definition, '{actions,0}', ${JSON.stringify(action)}::jsonb),
          version = v.version + 1
        from rules r where r.id = v.rule_id and r.project_id = ${project} and r.key = 'bad'`.execute(db);
      await sql`
        update rules set published_version = published_version + 1
        where project_id = ${project} and key = 'bad'`.execute(db);
      await sql`update projects set config_version = config_version + 1 where id = ${project}`.execute(db);
    });
  /** Compiles, and throws for every event. */
  const THROWS = { id: "a1", type: "grant_xp", amount: 10, rounding: "SIDEWAYS" };
  const SOUND = { id: "a1", type: "grant_xp", amount: 10, rounding: "FLOOR" };
  const aCountOf = (event: object): object => ({ source: "EVENT", event, aggregate: "count" });
  /** As `damage`, of what leaderboards count: without it no plan can be made. */
  const damageBoard = (metric: object): Promise<unknown> =>
    transact(async ({ db }) => {
      await sql`
        update leaderboards
        set definition = jsonb_set(definition, '{metric}', ${JSON.stringify(metric)}::jsonb)
        where project_id = ${projectId}`.execute(db);
      await sql`update projects set config_version = config_version + 1 where id = ${projectId}`.execute(db);
    });

  const processAll = async (): Promise<void> => {
    const onError = (error: unknown, { eventId }: { eventId: string }) => void told.push({ error, eventId });
    const options = { transact, plans: createPlanCache(), claimLimit: 100, onError };
    await processParts(options, ALL_PARTS);
  };
  const timesTold = (id: string): number => told.filter(({ eventId }) => eventId === id).length;
  /** What the sweep does, at a later time. */
  const later = async (ms: number): Promise<void> => {
    now += ms;
    await transact(requeueDueEvents);
    await processAll();
  };
  const statusOf = async (eventId: string, project = projectId): Promise<string> =>
    (await transact((work) => getEvent(work, project, eventId))).status;
  const xpOf = async (user: string, project = projectId): Promise<number> =>
    transact(async ({ db }) => {
      const found = await sql<{ xp: number }>`
        select xp from players where project_id = ${project} and external_user_id = ${user}`.execute(db);
      return found.rows[0]?.xp ?? 0;
    });
  const dueInMs = (eventId: string): Promise<number | undefined> =>
    transact(async ({ db }) => {
      const found = await sql<{ due: string }>`
        select due_at as due from event_due where event_id = ${eventId}`.execute(db);
      return found.rows[0] && new Date(found.rows[0].due).getTime() - now;
    });

  it("is tried again after 1, 10 and 60 seconds, then FAILED, and event.failed says so", async () => {
    await damage(THROWS);
    const [bad] = (await domain.track(projectId, [{ user: "u", type: "bad" }])) as [string];
    await processAll();
    for (const waitMs of [SECOND, 10 * SECOND, 60 * SECOND]) {
      assert.equal(await statusOf(bad), "PENDING");
      assert.equal(await dueInMs(bad), waitMs);
      await later(waitMs - 1);
      assert.equal(await dueInMs(bad), 1, "not before its time");
      await later(1);
    }
    assert.equal(await dueInMs(bad), undefined);
    const kept = await transact((work) => getTrace(work, projectId, bad));
    assert.match(kept.error!, /round is not a function/);
    assert.deepEqual([kept.eventType, kept.player.externalUserId], ["bad", "u"]);
    const shown = await transact((work) => getEvent(work, projectId, bad));
    assert.equal(shown.status, "FAILED");
    assert.match(shown.error!, /round is not a function/);
    assert.deepEqual(shown.effects, []);
    assert.equal(timesTold(bad), 4);

    const rows = await transact(async ({ db }) => {
      const found = await sql<{ type: string; player_seq: unknown; data: unknown }>`
        select type, player_seq, data from outbox where project_id = ${projectId}`.execute(db);
      return found.rows.map((row) => ({ ...row }));
    });
    const data = { eventId: bad, eventType: "bad", externalUserId: "u", error: shown.error, attempts: 4 };
    assert.deepEqual(rows, [{ type: "event.failed", player_seq: null, data }]);
    await later(3_600 * SECOND);
    assert.equal(timesTold(bad), 4, "and it is never tried again");
  });

  it("delays no other event, of its player or of others, before it or behind it", async () => {
    await damage(THROWS);
    const types = ["good", "bad", "good", "bad", "good"];
    const ids = await domain.track(
      projectId,
      types.map((type) => ({ user: "u", type })),
    );
    const neighbours = neighboursOf("u", 20);
    await domain.track(
      projectId,
      neighbours.map((user) => ({ user, type: "good" })),
    );
    await processAll();
    assert.deepEqual(await Promise.all(ids.map((id) => statusOf(id))), [
      "PROCESSED",
      "PENDING",
      "PROCESSED",
      "PENDING",
      "PROCESSED",
    ]);
    assert.equal(await xpOf("u"), 30);
    for (const user of neighbours) assert.equal(await xpOf(user), 10);
    await later(80 * SECOND);
    const [fresh] = (await domain.track(projectId, [{ user: "u", type: "good" }])) as [string];
    await processAll();
    assert.equal(await statusOf(fresh), "PROCESSED");
    assert.equal(await xpOf("u"), 40);
  });

  it("has its effects once, when it can be evaluated after all", async () => {
    await damage(THROWS);
    const [bad] = (await domain.track(projectId, [{ user: "u", type: "bad" }])) as [string];
    await processAll();
    await later(SECOND);
    await damage(SOUND);
    await later(10 * SECOND);
    assert.equal(await statusOf(bad), "PROCESSED");
    assert.equal(await xpOf("u"), 10);
    await later(3_600 * SECOND);
    assert.equal(await xpOf("u"), 10);
    assert.equal(timesTold(bad), 2);
  });

  it("leaves no half of itself behind: its other rules, its player, its limits", async () => {
    await addRule(projectId, "also", "bad");
    await damage(THROWS);
    await domain.track(projectId, [{ user: "new", type: "bad" }]);
    await processAll();
    assert.equal(await xpOf("new"), 0);
    const rows = await transact(async ({ db }) => {
      const found = await sql<{ n: number }>`
        select (select count(*) from players where project_id = ${projectId})
          + (select count(*) from ledger_entries where project_id = ${projectId})
          + (select count(*) from outbox where project_id = ${projectId}) as n`.execute(db);
      return found.rows[0]!.n;
    });
    assert.equal(rows, 0);
  });

  it("harms its own project alone when not even the definitions can be read", async () => {
    const others = [await aProject(), await aProject()];
    const event = { eventTypes: ["good"] };
    await domain.addBoard(projectId, { key: "count", name: "Count", metric: aCountOf(event) });
    await damageBoard({ source: "EVENT" });
    const user = "u";
    const ids = await domain.track(projectId, [
      { user, type: "good" },
      { user, type: "bad" },
    ]);
    for (const other of others) {
      const same = neighbourIn(other, partitionOf(projectId, user));
      await domain.track(other, [{ user: same, type: "good" }]);
      await processAll();
      assert.equal(await xpOf(same, other), 10);
    }
    assert.deepEqual(await Promise.all(ids.map((id) => statusOf(id))), ["PENDING", "PENDING"]);
    await damageBoard(aCountOf(event));
    await later(SECOND);
    assert.deepEqual(await Promise.all(ids.map((id) => statusOf(id))), ["PROCESSED", "PROCESSED"]);
    assert.equal(await xpOf(user), 20);
  });

  /** Other users of the project whose events share the user's partition. */
  const neighboursOf = (user: string, count: number): string[] => {
    const part = partitionOf(projectId, user);
    return usersIn(projectId, part, count, "n");
  };
  const neighbourIn = (project: string, part: number): string => {
    for (;;) {
      const user = newId();
      if (partitionOf(project, user) === part) return user;
    }
  };
});
