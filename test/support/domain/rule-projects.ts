import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import { createDefinition } from "../../../src/domain/economy/definitions/definitions.ts";
import { DEFINITION_KINDS } from "../../../src/domain/registries/definition-kinds.ts";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { ProcessOptions } from "../../../src/domain/progression/claim.ts";
import { createPlanCache } from "../../../src/domain/progression/plan.ts";
import type { LoopHit } from "../../../src/domain/evaluation/rule-event.ts";
import { RuleDocument } from "../../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../../src/domain/rules/rules.ts";
import type { Domain } from "./domain.ts";
import { ALL_PARTS, processParts } from "./process-parts.ts";

/** Makes a definition of a project, as designers write it. */
export const define = async (
  domain: Domain,
  projectId: string,
  kind: string,
  document: Json,
): Promise<void> => {
  const found = DEFINITION_KINDS.find((one) => one.kind === kind)!;
  const definition = found.schema.parse(document);
  await domain.transact((work) =>
    createDefinition(work, projectId, found, { definition, createdBy: "test" }),
  );
};

/** Creates and publishes a rule; answers its id. */
export const publish = async (
  domain: Domain,
  projectId: string,
  document: Json,
  mode: "ACTIVE" | "SHADOW" = "ACTIVE",
): Promise<string> => {
  const rule = RuleDocument.parse({
    name: "A rule",
    triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
    actions: [{ type: "grant_xp", amount: 1 }],
    ...document,
  });
  await domain.transact((work) => createRule(work, projectId, rule, "test"));
  const { id } = await domain.transact((work) =>
    publishRule(work, projectId, rule.key, { publishedBy: "test", mode }),
  );
  return id;
};

/** Processes until the queue is empty. */
export const processAll = async (
  { transact }: Domain,
  options: Partial<ProcessOptions> & { onLoop?: (hit: LoopHit) => void } = {},
  parts: readonly number[] = ALL_PARTS,
): Promise<void> => {
  const onError = (error: unknown): never => assert.fail(String(error));
  const all = { transact, plans: createPlanCache(), claimLimit: 100, onError, ...options };
  // One player's event may send another to a partition that was done before.
  while ((await processParts(all, parts)) > 0);
};

/** Rows of a query. */
export const rowsOf = async <T>({ transact }: Domain, query: RawBuilder<T>): Promise<T[]> =>
  transact(async ({ db }) => (await query.execute(db)).rows);

/** XP by external id. */
export const xpOf = async (domain: Domain, projectId: string): Promise<Record<string, number>> => {
  const rows = await rowsOf(
    domain,
    sql<{ u: string; xp: string | number }>`
      select external_user_id as u, xp from players where project_id = ${projectId} order by 1`,
  );
  return Object.fromEntries(rows.map(({ u, xp }) => [u, Number(xp)]));
};
