import { sql } from "kysely";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { fnv1a, NIL_ID } from "../../../src/domain/kernel/ids.ts";
import { StepBudget } from "../../../src/domain/kernel/step-budget.ts";
import { compileRules } from "../../../src/domain/evaluation/running/compile.ts";
import { readPlayersPage } from "../../../src/domain/progression/load.ts";
import { loadStates } from "../../../src/domain/progression/load-states.ts";
import { loadPlan } from "../../../src/domain/progression/plan.ts";
import type { backtestParams } from "../../../src/domain/rules/insight/backtest.ts";
import { replay, resultOf, startOf } from "../../../src/domain/rules/insight/replay.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";

type Params = Awaited<ReturnType<typeof backtestParams>>;
type Row = { id: string; event_type: string; properties: Json; at: Date | string };

/** A player's processed events within the span, as a plain query by the player's names. */
const historyOf = async (work: Work, projectId: string, playerId: string, { from, to }: Params) => {
  const { rows } = await sql<Row>`
    select id, event_type, properties, least(occurred_at, received_at) as at from tracked_events e
    where project_id = ${projectId}
      and occurred_at >= ${from}::timestamptz and occurred_at < ${to}::timestamptz
      and external_user_id in (select external_user_id from players
        where project_id = ${projectId} and (id = ${playerId} or merged_into = ${playerId}))
      and id not in (select event_id from event_q where project_id = ${projectId})
      and id not in (select event_id from event_results where project_id = ${projectId})
    order by id`.execute(work.db);
  return rows;
};

/** What a backtest comes to, by reading and replaying one player after the other in one go. */
export const referenceBacktest = async (work: Work, projectId: string, params: Params): Promise<Json> => {
  const { ruleId: id, ruleKey: key, version, definition, sampleRate, from, to } = params;
  const rules = compileRules([{ id, key, version, createdAt: work.now, definition }]);
  const plan = (await loadPlan(work, projectId, rules))!;
  const run = startOf(plan, undefined);
  for (const player of await readPlayersPage(work, projectId, { after: NIL_ID }, 10_000)) {
    if (fnv1a(`backtest${player.id}`) % 10_000 >= sampleRate * 10_000) continue;
    await loadStates(work, [player], [plan]);
    const one = run.player(player);
    const steps = new StepBudget(Infinity);
    for (const row of await historyOf(work, projectId, player.id, params)) {
      const { event_type: type, properties } = row;
      replay(run, one, { event: { id: row.id, type, at: new Date(row.at).getTime(), properties }, steps });
    }
    one.end();
  }
  return { ruleId: id, ruleKey: key, version, from, to, sampleRate, ...resultOf(run) };
};
