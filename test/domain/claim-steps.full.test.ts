import assert from "node:assert/strict";
import { sql } from "kysely";
import { processPartitions } from "../../src/domain/progression/claim.ts";
import type { StepsHit } from "../../src/domain/evaluation/turn.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type PartitionCursor } from "../../src/domain/progression/queue.ts";
import { publish, rowsOf, xpOf } from "../support/domain/rule-projects.ts";
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
});
