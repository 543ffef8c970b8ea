import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { idFor, isId, newId } from "../../src/domain/kernel/ids.ts";
import { archiveRule, pauseRule, resumeRule } from "../../src/domain/rules/lifecycle/publishing.ts";
import {
  SCHEDULE_PAGE,
  type ScheduleCursor,
  type ScheduleStep,
  stepSchedules,
} from "../../src/domain/rules/schedules.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { define, memoryDomain, processAll, publish, rowsOf, xpOf } from "../support/domain/domain.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;
const daily = { kind: "SCHEDULE", cron: "0 9 * * *", timezone: "Europe/Berlin" };

describe("scheduled rules", () => {
  const { domain } = memoryDomain();
  afterEach(() => domain.sql`delete from rule_schedules returning 1`);

  type Planned = { due: string; after_player: string | null; trigger_no: number };
  const planned = (projectId: string): Promise<Planned[]> =>
    domain.sql<Planned>`select to_char(due_at at time zone 'Europe/Berlin', 'HH24:MI') as due,
        after_player, trigger_no
      from rule_schedules where project_id = ${projectId} order by trigger_no`;
  const addPlayers = (projectId: string, count: number, prefix = "p"): Promise<unknown> =>
    domain.sql`insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${projectId}::uuid, i, u, now(), now()
      from json_to_recordset(${JSON.stringify(
        Array.from({ length: count }, (_, n) => ({ i: newId(), u: `${prefix}${n}` })),
      )}::json) as x(i uuid, u text) returning 1`;
  const eventCount = async (projectId: string): Promise<number> => {
    const query = sql<{ n: string }>`
      select count(*) as n from tracked_events where project_id = ${projectId}`;
    return Number((await rowsOf(domain, query))[0]!.n);
  };
  const makeDue = (projectId: string, at = new Date(Date.now() - 1_000)): Promise<unknown> =>
    domain.sql`update rule_schedules set due_at = ${at.toISOString()}::timestamptz where project_id = ${projectId}
      returning 1`;
  const step = (cursor?: ScheduleCursor): Promise<ScheduleStep | undefined> =>
    domain.transact((work: Work) => stepSchedules(work, cursor));
  const runAll = async (): Promise<number> => {
    let players = 0;
    for (let done = await step(); done; done = await step()) players += done.players;
    return players;
  };

  it("are planned while they run, by the wall clock of their zone, and then forgotten", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "r", triggers: [daily, { ...daily, cron: "30 18 * * *" }] });
    const both = ["09:00", "18:30"];
    const dues = async () => (await planned(projectId)).map(({ due }) => due);
    assert.deepEqual(await dues(), both);
    await domain.transact((work) => pauseRule(work, projectId, "r"));
    assert.deepEqual(await dues(), []);
    await domain.transact((work) => resumeRule(work, projectId, "r"));
    assert.deepEqual(await dues(), both);
    await domain.transact((work) => archiveRule(work, projectId, "r"));
    assert.deepEqual(await dues(), []);
    await publish(domain, projectId, { key: "s", triggers: [daily] }, "SHADOW");
    assert.deepEqual(await dues(), ["09:00"]);
  });

  it("come to every active player once, as that rule alone, and then wait for the next time", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, {
      key: "r",
      triggers: [daily],
      actions: [{ type: "grant_xp", amount: 5 }],
    });
    await publish(domain, projectId, { key: "other", triggers: [{ kind: "EVENT", eventTypes: ["*"] }] });
    await addPlayers(projectId, 3);
    await domain.sql`update players set status = 'BANNED' where project_id = ${projectId} and external_user_id = 'p2'
      returning 1`;
    assert.equal(await runAll(), 0, "not due yet");
    await makeDue(projectId);
    assert.equal(await runAll(), 2);
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { p0: 5, p1: 5, p2: 0 });
    assert.deepEqual(pluck(await planned(projectId), "due"), ["09:00"]);
    const seen =
      await domain.sql`select 1 from players where project_id = ${projectId} and last_seen_at is not null`;
    assert.equal(seen.length, 0, "nobody was seen by it");
  });

  it("come to the members of a segment only", async () => {
    const projectId = await domain.addProject();
    await define(domain, projectId, "segment", { key: "vip", name: "VIP", kind: "STATIC" });
    await publish(domain, projectId, { key: "r", triggers: [{ ...daily, segmentKey: "vip" }] });
    await addPlayers(projectId, 3);
    await domain.sql`insert into player_segments (project_id, player_id, segment_key, entered_at)
      select project_id, id, 'vip', now() from players
      where project_id = ${projectId} and external_user_id = 'p1' returning 1`;
    await makeDue(projectId);
    await runAll();
    await processAll(domain);
    assert.deepEqual(await xpOf(domain, projectId), { p0: 0, p1: 1, p2: 0 });
  });

  it("go through many players in pages, and a page that comes twice gives nobody two", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "r", triggers: [daily] });
    const players = SCHEDULE_PAGE + 7;
    await addPlayers(projectId, players);
    await makeDue(projectId);
    assert.equal((await step())!.players, SCHEDULE_PAGE);
    const [half] = await planned(projectId);
    assert.ok(isId(half!.after_player!));
    await domain.sql`update rule_schedules set after_player = null where project_id = ${projectId} returning 1`;
    assert.equal((await step())!.players, SCHEDULE_PAGE);
    assert.equal(await eventCount(projectId), SCHEDULE_PAGE);
    await runAll();
    assert.equal(await eventCount(projectId), players);
    await processAll(domain);
    const xp = Object.values(await xpOf(domain, projectId));
    assert.deepEqual([xp.length, new Set(xp)], [players, new Set([1])]);
  });

  it("that were missed for days run once, by the latest of the times they were due", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "r", triggers: [daily] });
    await addPlayers(projectId, 2);
    await makeDue(projectId, new Date(Date.now() - 40 * DAY_MS));
    assert.equal(await runAll(), 2);
    assert.equal(await eventCount(projectId), 2);
    const [event] = await domain.sql<{ at: Date }>`
      select occurred_at as at from tracked_events where project_id = ${projectId}`;
    assert.ok(Date.now() - event!.at.getTime() < DAY_MS);
  });

  it("make ids that follow from rule, time and player, and sort by time", () => {
    const [a, b] = [randomUUID(), randomUUID()];
    assert.equal(idFor(1_000, a), idFor(1_000, a));
    assert.notEqual(idFor(1_000, a), idFor(1_000, b));
    assert.ok(idFor(1_000, b) < idFor(1_001, a));
    for (let i = 0; i < 100; i++) {
      const id = idFor(Date.now(), randomUUID());
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      assert.ok(isId(id));
    }
  });
});
