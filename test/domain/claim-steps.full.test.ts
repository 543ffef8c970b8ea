import assert from "node:assert/strict";
import { sql } from "kysely";
import { SHARED_KEYS_MAX } from "../../src/domain/progression/batch.ts";
import { type Processed, processPartitions } from "../../src/domain/progression/claim.ts";
import { ClaimShares } from "../../src/domain/progression/claim-shares.ts";
import type { StepsHit } from "../../src/domain/evaluation/turn.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type PartitionCursor } from "../../src/domain/progression/queue.ts";
import { processAll, publish, rowsOf, xpOf } from "../support/domain/rule-projects.ts";
import { usersIn } from "../support/domain/process-parts.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const PART = 3;
const TEXT = `${"a".repeat(1_000)}b`;
const QUEUED = 5_000;

describe("a claim of dear events", () => {
  const { domain } = memoryDomain();
  const onError = (error: unknown): never => assert.fail(String(error));

  /** Gives 1 XP for everything, and then tries globs at what is called `text`, if anything is. */
  const aDearProject = async (): Promise<string> => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "first", priority: 9, stopOnMatch: false });
    for (let i = 0; i < 4; i++) {
      const globs = Array.from({ length: 50 }, (_, n) => ({
        type: "event_property",
        path: "text",
        op: "glob",
        value: `*${"a".repeat(180)}${i}-${n}`,
      }));
      await publish(domain, projectId, {
        key: `dear${i}`,
        conditions: { all: [{ none: globs }] },
        actions: [{ type: "grant_xp", amount: 100 }],
      });
    }
    return projectId;
  };
  const waiting = async (projectId: string): Promise<number> => {
    const [row] = await rowsOf(
      domain,
      sql<{ n: string }>`select count(*) as n from event_q where project_id = ${projectId}`,
    );
    return Number(row!.n);
  };

  it("ends when its steps are spent: a neighbour's event does not wait for 5,000 others", async () => {
    const dear = await aDearProject();
    const neighbour = await domain.addProject();
    await publish(domain, neighbour, { key: "plain" });
    const users = usersIn(dear, PART, 40);
    await domain.track(
      dear,
      Array.from({ length: QUEUED }, (_, i) => ({ user: users[i % 40]!, properties: { text: TEXT } })),
    );
    const [other] = usersIn(neighbour, PART, 1);
    await domain.track(neighbour, [{ user: other!, properties: {} }]);
    let places: PartitionCursor[] = [{ part: PART, afterProject: FIRST_PROJECT }];
    const hits: StepsHit[] = [];
    const plans = createPlanCache();
    const onSteps = (hit: StepsHit): void => void hits.push(hit);
    const options = { transact: domain.transact, plans, claimLimit: 500, onError, onSteps };
    let claims = 0;
    let taken = 0;
    while ((await waiting(neighbour)) > 0) {
      const done = await processPartitions({ ...options, onLeft: () => assert.fail("left") }, places);
      places = [...done.again];
      taken += done.events;
      claims++;
      assert(claims <= 3, "the neighbour has had its turn");
    }
    assert(taken > 1 && taken < 50, `${taken} events before the neighbour's`);
    assert.deepEqual(await xpOf(domain, neighbour), { [other!]: 1 });
    // Whoever was made for an event that is left waits with it: nobody knows of a player without a beginning.
    const [silent] = await rowsOf(
      domain,
      sql<{ n: string }>`select count(*) as n from players where project_id = ${dear} and seq = 0`,
    );
    assert.equal(Number(silent!.n), 0);
    await rowsOf(domain, sql`delete from event_q where project_id = ${dear}`);
    assert(hits.length > 0 && hits.every(({ spender }) => spender.kind === "rule"));
  });

  it("counts what explaining takes: a claim of traced events ends like one of dear events", async () => {
    const projectId = await domain.addProject();
    await rowsOf(
      domain,
      sql`update projects set settings = '{"traceSampling": {"live": 1}}'::jsonb where id = ${projectId}`,
    );
    const any = Array.from({ length: 50 }, () => ({
      type: "event_property",
      path: "n",
      op: "eq",
      value: "n",
    }));
    for (let i = 0; i < 12; i++) await publish(domain, projectId, { key: `r${i}`, conditions: { any } });
    const [user] = usersIn(projectId, PART, 1);
    await domain.track(
      projectId,
      Array.from({ length: 150 }, () => ({ user: user!, properties: { n: 1 } })),
    );
    const options = { transact: domain.transact, plans: createPlanCache(), claimLimit: 500, onError };
    const { events } = await processPartitions({ ...options, onLeft: () => assert.fail("left") }, [
      { part: PART, afterProject: FIRST_PROJECT },
    ]);
    assert(events > 1 && events < 70, `${events} events in one claim`);
    await processAll(domain);
    const traces = sql<{ n: number; shown: boolean }>`
      select count(*)::int as n, bool_and(trace #> '{rules,0,conditions}' is not null) as shown
      from event_traces where project_id = ${projectId}`;
    assert.equal((await rowsOf(domain, traces))[0]!.n, 150);
  });

  it("ends when it has taken too long, whatever its steps: each event takes 300 ms", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "plain" });
    const user = usersIn(projectId, PART, 1)[0]!;
    await domain.track(
      projectId,
      Array.from({ length: 5 }, () => ({ user })),
    );
    const shares = new ClaimShares();
    let readings = 0;
    // Read before and after each event.
    const cpuMs = (): number => 300 * Math.floor(++readings / 2);
    const options = { transact: domain.transact, plans: createPlanCache(), claimLimit: 500, onError, shares };
    const claim = (): Promise<Processed> =>
      processPartitions({ ...options, cpuMs, onLeft: () => assert.fail("left") }, [
        { part: PART, afterProject: FIRST_PROJECT },
      ]);
    const first = await claim();
    assert.deepEqual([first.events, first.again.length], [2, 1]);
    // It is dear by its time: with a neighbour, one claim has it at once.
    const neighbour = shares.open();
    neighbour.found([{ projectId: "neighbour" }]);
    neighbour.close(new Map());
    const share = shares.open();
    assert.deepEqual(shares.open().closed, [projectId]);
    share.close(new Map());
    assert.deepEqual([(await claim()).events, (await claim()).events], [2, 1]);
    assert.deepEqual(await xpOf(domain, projectId), { [user]: 5 });
  });

  it("ends where a project would lock too many counters at once, and goes on from there", async () => {
    const projectId = await domain.addProject();
    const RULES = 60;
    const DAYS = 100;
    const limits = { global: [{ max: 1, window: "DAY" }] };
    for (let i = 0; i < RULES; i++)
      await publish(domain, projectId, { key: `r${i}`, limits, stopOnMatch: false });
    const user = usersIn(projectId, PART, 1)[0]!;
    await domain.track(
      projectId,
      Array.from({ length: DAYS }, (_, i) => ({ user, at: new Date(Date.now() - i * 86_400_000) })),
    );
    const options = { transact: domain.transact, plans: createPlanCache(), claimLimit: 500, onError };
    const { events } = await processPartitions({ ...options, onLeft: () => assert.fail("left") }, [
      { part: PART, afterProject: FIRST_PROJECT },
    ]);
    assert(events > 1 && events * RULES <= SHARED_KEYS_MAX + RULES, `${events} events in one claim`);
    await processAll(domain);
    const [fired] = await rowsOf(
      domain,
      sql<{ n: number }>`select sum(used)::int as n from shared_counters where project_id = ${projectId}`,
    );
    assert.equal(fired!.n, RULES * DAYS);
  });

  it("has one result, however the events are split into batches", async () => {
    const results: unknown[] = [];
    for (const claimLimit of [1, 7, 1_000]) {
      const projectId = await aDearProject();
      const events = Array.from({ length: 24 }, (_, i) => ({
        user: `p${i % 5}`,
        properties: i % 3 === 0 ? { text: TEXT, n: i } : { n: i },
      }));
      await domain.track(projectId, events);
      await processAll(domain, { claimLimit });
      const fired = await rowsOf(
        domain,
        sql`select r.key, p.external_user_id, count(*)::int as n from rule_executions e
          join rules r on r.id = e.rule_id
          join players p on p.project_id = e.project_id and p.id = e.player_id
          where e.project_id = ${projectId} group by 1, 2 order by 1, 2`,
      );
      const told = await rowsOf(
        domain,
        sql`select count(*)::int as n from outbox
          where project_id = ${projectId} and type = 'event.steps_exhausted'`,
      );
      results.push({ xp: await xpOf(domain, projectId), fired, told });
    }
    assert.deepEqual(results[1], results[0]);
    assert.deepEqual(results[2], results[0]);
    assert.deepEqual((results[0] as { told: unknown }).told, [{ n: 8 }]);
  });
});
