import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import { newId } from "../kernel/ids.ts";
import { Pace } from "../kernel/slices.ts";
import { announcePlayer, changeEvent, noEffects, openTurn } from "../evaluation/evaluate.ts";
import { ChangeCost } from "../evaluation/event-cost.ts";
import { insertPlayers, lockPlayers } from "../progression/load.ts";
import { loadPlans, projectPlans } from "../progression/plan.ts";
import { saveBatch } from "../progression/save.ts";
import { noSharedCounters } from "../evaluation/shared-counters.ts";
import { refreshSegments } from "../evaluation/segments/membership.ts";
import type { Work } from "../kernel/work.ts";

/** A player's data on creation. */
export type NewPlayer = {
  externalUserId: string;
  displayName: string;
  country: string;
  timezone: string;
  attributes: Json;
};

/**
 * Creates those of `players` that do not exist yet, with their profiles, and emits their events as one batch;
 * the others stay unchanged.
 * @returns the number of created players
 */
export const identifyPlayers = async (
  work: Work,
  projectId: string,
  players: readonly NewPlayer[],
): Promise<number> => {
  const plan = (await loadPlans(work, [projectId], projectPlans)).get(projectId)!;
  const rows = players.map((player) => ({ ...player, projectId, id: newId() }));
  const made = await insertPlayers(work, rows);
  const fresh = rows.filter(({ id }) => made.has(id));
  if (fresh.length === 0) return 0;
  await writeProfiles(work, projectId, fresh);
  const attributes = new Map(fresh.map((player) => [player.id, player.attributes]));
  const states = [...(await lockPlayers(work, fresh)).values()];
  const effects = noEffects();
  const shared = noSharedCounters();
  const nowMs = work.now.getTime();
  const [costs, pace] = [new ChangeCost(), new Pace()];
  for (const player of states) {
    player.attributes = attributes.get(player.id)!;
    player.dirty.profile = true;
    const cost = costs.open();
    const event = changeEvent(newId(), nowMs);
    const turn = openTurn({ plan, player, event, nowMs, effects, shared, cost });
    announcePlayer(turn, "IDENTIFY");
    refreshSegments(plan.segmentIndex, turn);
    costs.close(cost);
    await pace.pause();
  }
  await saveBatch(work, { players: states, effects, shared, verdicts: [], done: [] });
  return fresh.length;
};

const writeProfiles = async (
  { db }: Work,
  projectId: string,
  players: readonly (NewPlayer & { id: string })[],
): Promise<void> => {
  const rows = players.map(({ id, displayName, country, timezone }) => ({
    i: id,
    n: displayName,
    c: country,
    z: timezone,
  }));
  await sql`
    update players t set display_name = x.n, country = x.c, timezone = x.z
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(i uuid, n text, c text, z text)
    where t.project_id = ${projectId} and t.id = x.i`.execute(db);
};
