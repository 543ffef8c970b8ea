import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Work } from "../../src/domain/kernel/work.ts";
import { revertEvent } from "../../src/domain/revert/revert-events.ts";
import { CPU_SLACK } from "../support/cpu.ts";
import { processAll, rowsOf } from "../support/domain/rule-projects.ts";
import { postgresDomain } from "../support/processes/postgres-domain.ts";
import { blockOfUndone } from "../support/domain/undone.ts";
import { Quest } from "../../src/domain/evaluation/quests/quest.ts";
import type { Domain } from "../support/domain/domain.ts";

/** Publishes quests of many steps, each of which counts every event of type `a`. */
const addWideQuests = async (
  domain: Domain,
  projectId: string,
  { quests, steps }: { quests: number; steps: number },
): Promise<void> => {
  const definitions = Array.from({ length: quests }, (_, i) =>
    Quest.parse({
      key: `wide-${i}`,
      name: `Wide ${i}`,
      stepMode: "PARALLEL",
      steps: Array.from({ length: steps }, (__, n) => ({
        key: `step-${n}`,
        name: `Step ${n}`,
        kind: "EVENT",
        metric: { eventTypes: ["a"], aggregate: "count" },
        target: 10 + n,
      })),
    }),
  );
  await domain.transact(({ db }) =>
    sql`
      with d as (
        insert into definitions (id, project_id, kind, key, name, definition, status, version, created_by,
          created_at, updated_at)
        select gen_random_uuid(), ${projectId}::uuid, 'quest', q->>'key', q->>'name', q, 'ACTIVE', 1, 'test',
          now(), now()
        from jsonb_array_elements(${JSON.stringify(definitions)}::jsonb) as q)
      update projects set config_version = config_version + 1 where id = ${projectId}`.execute(db),
  );
};

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 50 * CPU_SLACK;

describe("CPU of taking back what quests have counted", () => {
  const { domain } = postgresDomain(2);

  const revert = (projectId: string, eventId: string) => (work: Work) =>
    revertEvent(work, projectId, { eventId, reason: "test", onShortfall: "CLAMP", actor: "test" });

  const blockOf = (change: (work: Work) => Promise<unknown>) =>
    blockOfUndone(domain.transact, change, BLOCK_MAX_MS);

  it("is taken in turns while an event is taken back that 250 quests of 50 steps have counted", async () => {
    const projectId = await domain.addProject();
    await addWideQuests(domain, projectId, { quests: 250, steps: 50 });
    const ids = await domain.track(
      projectId,
      Array.from({ length: 20 }, () => ({ user: "ada", type: "a" })),
    );
    await processAll(domain);
    const [counted] = await rowsOf(
      domain,
      sql<{ n: number }>`select count(*)::int as n from player_quests where project_id = ${projectId}`,
    );
    assert.equal(counted!.n, 250);
    const blockMs = await blockOf(revert(projectId, ids[3]!));
    assert(blockMs < BLOCK_MAX_MS, `${blockMs} ms`);
    const { reversed } = await domain.transact(revert(projectId, ids[3]!));
    assert.equal(reversed.quests.length, 250);
  });
});
