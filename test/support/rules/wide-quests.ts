import { sql } from "kysely";
import { Quest } from "../../../src/domain/evaluation/quests/quest.ts";
import type { Domain } from "../domain/domain.ts";

/** Publishes quests of many steps, each of which counts every event of type `a`. */
export const addWideQuests = async (
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
