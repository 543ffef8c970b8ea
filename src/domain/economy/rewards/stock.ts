import { sql } from "kysely";
import { getDefinition } from "../definitions/definitions.ts";
import type { Work } from "../../kernel/work.ts";
import { countFree } from "./codes.ts";
import type { Reward } from "../../evaluation/rewards/reward.ts";
import { limitedKey } from "../../evaluation/rewards/shared-keys.ts";

/** Remaining stock of a reward; null where it is unlimited. */
export type RewardStock = {
  stock: number | null;
  given: number | null;
  left: number | null;
  freeCodes: number | null;
};

/** @throws DomainError NOT_FOUND */
export const readStock = async (work: Work, projectId: string, ref: string): Promise<RewardStock> => {
  const { key, definition } = await getDefinition(work, projectId, { kind: "reward" }, ref);
  const { stock, fulfilment } = definition as unknown as Reward;
  const freeCodes = fulfilment === "CODE" ? await countFree(work, projectId, key) : null;
  if (stock === undefined) return { stock: null, given: null, left: null, freeCodes };
  const { scope, windowNo } = limitedKey(projectId, "reward", key);
  const found = await sql<{ used: string | number }>`
    select used from shared_counters
    where project_id = ${projectId} and scope = ${scope} and window_no = ${windowNo}`.execute(work.db);
  const given = Number(found.rows[0]?.used ?? 0);
  return { stock, given, left: Math.max(0, stock - given), freeCodes };
};
